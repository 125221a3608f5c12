// SPDX-License-Identifier: Apache-2.0
// Converts values to 8-bit rows by NEON, for all AArch64 kernels. Stateless.
#include "engine/gemm_types.h"

#if defined(__aarch64__)
#include <arm_neon.h>

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

void ft_gemm_quantize_neon(const float *x, uint32_t n_blocks, ft_gemm_block *out, size_t stride)
{
    for (uint32_t b = 0; b < n_blocks; b++, x += 32, out += stride) {
        values y;
        for (int i = 0; i < 8; i++)
            y.v[i] = vld1q_f32(x + 4 * i);
        quantize_block(&y, out);
    }
}

#endif
