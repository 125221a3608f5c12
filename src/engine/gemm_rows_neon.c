// SPDX-License-Identifier: Apache-2.0
// Converts values to 8-bit rows by NEON, for all AArch64 kernels. Stateless.
#include "engine/gemm_types.h"

#if defined(__aarch64__)
#include <arm_neon.h>

/* ---- values to 8 bits ---- */

typedef struct values {
    float32x4_t v[8];
} values;

FT_GEMM_INLINE float to_half(float x)
{
    return (float)(__fp16)x;
}

FT_GEMM_INLINE void quantize_block(const values *x, ft_gemm_block *out)
{
    float32x4_t m = vabsq_f32(x->v[0]);
    int32x4_t half[2] = {vdupq_n_s32(0), vdupq_n_s32(0)}, q[8];
    for (int i = 1; i < 8; i++)
        m = vmaxq_f32(m, vabsq_f32(x->v[i]));
    float max = vmaxvq_f32(m);
    out->scale = to_half(max / 127.0f);
    float inverse = out->scale > 0 ? 127.0f / max : 0.0f;
    for (int i = 0; i < 8; i++) {
        q[i] = vcvtnq_s32_f32(vmulq_n_f32(x->v[i], inverse));
        half[i / 4] = vaddq_s32(half[i / 4], q[i]);
    }
    for (int i = 0; i < 2; i++) {
        int16x8_t a = vcombine_s16(vqmovn_s32(q[4 * i]), vqmovn_s32(q[4 * i + 1]));
        int16x8_t b = vcombine_s16(vqmovn_s32(q[4 * i + 2]), vqmovn_s32(q[4 * i + 3]));
        vst1q_s8(out->q + 16 * i, vcombine_s8(vqmovn_s16(a), vqmovn_s16(b)));
    }
    int32_t first = vaddvq_s32(half[0]), last = vaddvq_s32(half[1]);
    out->sum = to_half(max / 127.0f * (float)(first + last));
    out->start8 = -8 * (first + last);
    out->start128 = -128 * (first + last);
    out->start32[0] = -32 * first;
    out->start32[1] = -32 * last;
}

static void quantize(const float *x, uint32_t n_blocks, ft_gemm_block *out, size_t stride)
{
    for (uint32_t b = 0; b < n_blocks; b++, x += 32, out += stride) {
        values y;
        for (int i = 0; i < 8; i++)
            y.v[i] = vld1q_f32(x + 4 * i);
        quantize_block(&y, out);
    }
}

static void quantize_norm(const float *x, const float *weight, float eps, uint32_t n_blocks,
                          ft_gemm_block *out, size_t stride)
{
    values square, y;
    for (int i = 0; i < 8; i++)
        square.v[i] = vdupq_n_f32(0);
    for (uint32_t b = 0; b < n_blocks; b++)
        for (int i = 0; i < 8; i++) {
            float32x4_t v = vld1q_f32(x + 32 * b + 4 * i);
            square.v[i] = vfmaq_f32(square.v[i], v, v);
        }
    for (int n = 4; n > 0; n /= 2) /* in the order of all kernels: halves, quarters, ... */
        for (int i = 0; i < n; i++)
            square.v[i] = vaddq_f32(square.v[i], square.v[i + n]);
    float32x2_t two = vadd_f32(vget_low_f32(square.v[0]), vget_high_f32(square.v[0]));
    float sum = vget_lane_f32(two, 0) + vget_lane_f32(two, 1), root;
    root = vget_lane_f32(vsqrt_f32(vdup_n_f32(sum / (float)(32 * n_blocks) + eps)), 0);
    float factor = 1.0f / root;
    for (uint32_t b = 0; b < n_blocks; b++, x += 32, weight += 32, out += stride) {
        for (int i = 0; i < 8; i++)
            y.v[i] =
                vmulq_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), factor), vld1q_f32(weight + 4 * i));
        quantize_block(&y, out);
    }
}

/* Like exp_bounded in gemm_plain.c. */
FT_GEMM_INLINE float32x4_t exp4(float32x4_t x)
{
    x = vminnmq_f32(vmaxnmq_f32(x, vdupq_n_f32(-87.0f)), vdupq_n_f32(87.0f));
    float32x4_t n = vrndnq_f32(vmulq_n_f32(x, 0x1.715476p+0f));
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e400p-1f));
    r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
    float32x4_t y = vdupq_n_f32(1.0f / 720);
    y = vfmaq_f32(vdupq_n_f32(1.0f / 120), y, r);
    y = vfmaq_f32(vdupq_n_f32(1.0f / 24), y, r);
    y = vfmaq_f32(vdupq_n_f32(1.0f / 6), y, r);
    y = vfmaq_f32(vdupq_n_f32(0.5f), y, r);
    y = vfmaq_f32(vdupq_n_f32(1.0f), y, r);
    y = vfmaq_f32(vdupq_n_f32(1.0f), y, r);
    int32x4_t power = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(y, vreinterpretq_f32_s32(power));
}

static void quantize_swiglu(const float *gate, const float *up, uint32_t n_blocks,
                            ft_gemm_block *out, size_t stride)
{
    for (uint32_t b = 0; b < n_blocks; b++, gate += 32, up += 32, out += stride) {
        values y;
        for (int i = 0; i < 8; i++) {
            float32x4_t g = vld1q_f32(gate + 4 * i);
            float32x4_t e = exp4(vsubq_f32(vdupq_n_f32(0.0f), g));
            float32x4_t silu = vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), e));
            y.v[i] = vmulq_f32(silu, vld1q_f32(up + 4 * i));
        }
        quantize_block(&y, out);
    }
}

const ft_gemm_rounding ft_gemm_rounding_neon = {quantize, quantize_norm, quantize_swiglu};

#endif
