// SPDX-License-Identifier: Apache-2.0
// Products with packed float weights by NEON: 16 outputs are four registers. Stateless.
#include "engine/gemm_kernel.h"

#if defined(__aarch64__)
#include <arm_neon.h>

typedef float32x4x4_t x16;

static inline x16 x16_zero(void)
{
    float32x4_t zero = vdupq_n_f32(0);
    return (x16){{zero, zero, zero, zero}};
}

static inline x16 x16_load(const void *p)
{
    const float *f = p;
    return (x16){{vld1q_f32(f), vld1q_f32(f + 4), vld1q_f32(f + 8), vld1q_f32(f + 12)}};
}

static inline x16 x16_load_f16(const char *p)
{
    float16x8_t low = vreinterpretq_f16_u8(vld1q_u8((const uint8_t *)p));
    float16x8_t high = vreinterpretq_f16_u8(vld1q_u8((const uint8_t *)p + 16));
    return (x16){{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low),
                  vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)}};
}

static inline x16 x16_set1(const char *x)
{
    float32x4_t all = vreinterpretq_f32_u32(vld1q_dup_u32((const uint32_t *)(const void *)x));
    return (x16){{all, all, all, all}};
}

static inline void x16_store(float *p, x16 v)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, v.val[i]);
}

static inline x16 x16_add(x16 a, x16 b)
{
    for (int i = 0; i < 4; i++)
        a.val[i] = vaddq_f32(a.val[i], b.val[i]);
    return a;
}

static inline x16 x16_fma(x16 a, x16 b, x16 c)
{
    for (int i = 0; i < 4; i++)
        c.val[i] = vfmaq_f32(c.val[i], a.val[i], b.val[i]);
    return c;
}

typedef struct pair16 {
    uint32x4_t of[4];
} pair16;

static inline pair16 pair16_load(const char *w)
{
    pair16 pair;
    for (int i = 0; i < 4; i++)
        pair.of[i] = vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)w + 16 * i));
    return pair;
}

/* A bf16 is the upper half of a float. */
static inline float32x4_t low_half(uint32x4_t both)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
}

static inline float32x4_t high_half(uint32x4_t both)
{
    return vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000u)));
}

static inline x16 pair16_dot(pair16 w, const char *x, x16 c)
{
    uint32x4_t both = vld1q_dup_u32((const uint32_t *)(const void *)x);
    for (int i = 0; i < 4; i++)
        c.val[i] = vfmaq_f32(c.val[i], high_half(w.of[i]), high_half(both));
    for (int i = 0; i < 4; i++)
        c.val[i] = vfmaq_f32(c.val[i], low_half(w.of[i]), low_half(both));
    return c;
}

#define AT_ONCE       3
#define KERNEL_SYMBOL ft_gemm_f_neon
#define KERNEL_SCOPE
#include "engine/gemm_f_tile.h"

#else

ft_gemm_tile_fn *ft_gemm_f_neon(enum ggml_type type)
{
    return NULL;
}

#endif
