// SPDX-License-Identifier: Apache-2.0
// Products with packed weights on any AArch64 machine, by widening byte products: 127 x 128 fits 16
// bits, and pairs are added in 32 bits. Stateless.
#if defined(__aarch64__)
#define LANES 4
#include "engine/gemm_vector.h"

FT_GEMM_INLINE int32x4_t dot_four(int32x4_t sum, int8x16_t w, int8x16_t x)
{
    int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    int32x4_t high = vpaddlq_s16(vmull_high_s8(w, x));
    return vaddq_s32(sum, vpaddq_s32(low, high));
}

#define dot_lane(sum, w, x, lane) \
    dot_four(sum, w, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), lane)))
#define KERNEL          ft_gemm_kernel_neon
#define KERNEL_NAME     "neon"
#define KERNEL_TYPES(F) FT_GEMM_BLOCK_TYPES(F) FT_GEMM_K_TYPES(F) FT_GEMM_FLOAT_TYPES(F)
#include "engine/gemm_neon.h"
#endif
