// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops on AArch64's NEON. Stateless.
#include "engine/attn_kernel.h"

#if defined(__aarch64__)
#include "engine/f16.h"

#include <arm_neon.h>

typedef struct x16 {
    float32x4_t v[4];
} x16;
#define TILE_REGS   6 /* 24 of the 32 registers hold sums */
#define PREFETCH(p) __builtin_prefetch(p)
#define EACH        for (int e = 0; e < 4; e++)

static inline x16 x16_set1(float a)
{
    float32x4_t v = vdupq_n_f32(a);
    return (x16){{v, v, v, v}};
}
static inline x16 x16_zero(void)
{
    return x16_set1(0);
}
static inline x16 x16_load(const float *p)
{
    return (x16){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
static inline void x16_store(float *p, x16 a)
{
    EACH vst1q_f32(p + 4 * e, a.v[e]);
}
static inline x16 x16_load_f16(const ft_f16 *p)
{
    x16 r;
    EACH r.v[e] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * e)));
    return r;
}
static inline x16 x16_fma(x16 a, x16 b, x16 c)
{
    EACH c.v[e] = vfmaq_f32(c.v[e], a.v[e], b.v[e]);
    return c;
}
static inline x16 x16_mul(x16 a, x16 b)
{
    EACH a.v[e] = vmulq_f32(a.v[e], b.v[e]);
    return a;
}
static inline x16 x16_add(x16 a, x16 b)
{
    EACH a.v[e] = vaddq_f32(a.v[e], b.v[e]);
    return a;
}
static inline x16 x16_sub(x16 a, x16 b)
{
    EACH a.v[e] = vsubq_f32(a.v[e], b.v[e]);
    return a;
}
static inline x16 x16_max(x16 a, x16 b)
{
    EACH a.v[e] = vmaxq_f32(a.v[e], b.v[e]);
    return a;
}
static inline x16 x16_round(x16 a)
{
    EACH a.v[e] = vrndnq_f32(a.v[e]);
    return a;
}
static inline x16 x16_from(x16 x, x16 lowest)
{
    return x16_max(x, lowest);
}
static inline x16 x16_scale(x16 x, x16 lowest, x16 p, x16 n)
{
    EACH
    {
        int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n.v[e]), vdupq_n_s32(127));
        float32x4_t pow2 = vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
        uint32x4_t bits = vreinterpretq_u32_f32(vmulq_f32(p.v[e], pow2));
        p.v[e] = vreinterpretq_f32_u32(vbicq_u32(bits, vcltq_f32(x.v[e], lowest.v[e])));
    }
    return p;
}
static inline x16 x16_keep(x16 a, uint32_t n, x16 other)
{
    static const uint32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    EACH a.v[e] =
        vbslq_f32(vcltq_u32(vld1q_u32(lanes + 4 * e), vdupq_n_u32(n)), a.v[e], other.v[e]);
    return a;
}
static inline float x16_hmax(x16 a)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
}
static inline x16 x16_load_i8(const int8_t *p)
{
    x16 r;
    int8x16_t bytes = vld1q_s8(p);
    int16x8_t lo = vmovl_s8(vget_low_s8(bytes)), hi = vmovl_s8(vget_high_s8(bytes));
    r.v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo)));
    r.v[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo)));
    r.v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi)));
    r.v[3] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)));
    return r;
}
static inline uint32x4_t ints_4(const void *p, int which)
{
    return vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p + 16 * which));
}
static inline x16 x16_byte(const void *p, const unsigned j)
{
    x16 r;
    int32x4_t left = vdupq_n_s32(24 - 8 * (int)j);
    EACH r.v[e] =
        vcvtq_f32_s32(vshrq_n_s32(vshlq_s32(vreinterpretq_s32_u32(ints_4(p, e)), left), 24));
    return r;
}
static inline x16 x16_pair_lo(const void *p)
{
    x16 r;
    EACH r.v[e] = vreinterpretq_f32_u32(vshlq_n_u32(ints_4(p, e), 16));
    return r;
}
static inline x16 x16_pair_hi(const void *p)
{
    x16 r;
    EACH r.v[e] = vreinterpretq_f32_u32(vandq_u32(ints_4(p, e), vdupq_n_u32(0xffff0000)));
    return r;
}
static inline x16 x16_round_bf16(x16 a)
{
    EACH
    {
        uint32x4_t bits = vreinterpretq_u32_f32(a.v[e]);
        uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
        bits = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        a.v[e] = vreinterpretq_f32_u32(vandq_u32(bits, vdupq_n_u32(0xffff0000)));
    }
    return a;
}

#define KERNEL_NAME  "neon"
#define KERNEL_TABLE ft_attn_neon
#define KERNEL_F16   1
#define KERNEL_BF16  1
#define KERNEL_Q8    1
#define KERNEL_DOT   0
#include "engine/attn_tile.h"
#endif
