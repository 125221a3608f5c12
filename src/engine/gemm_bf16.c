// SPDX-License-Identifier: Apache-2.0
// Products with packed BF16 weights by AVX-512's dot product of 2 bf16 for each of 16 outputs. It
// adds the second product first, each with one rounding, as the other kernels do; but it takes
// numbers below 2^-126 for 0. Stateless.
#if defined(__x86_64__)
#define LANES 16
#include "engine/gemm_vector.h"

FT_GEMM_INLINE floats pair_dot(floats sum, words w, words x)
{
    return (floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}

#define KERNEL          ft_gemm_kernel_bf16
#define KERNEL_NAME     "avx512 bf16"
#define KERNEL_QUANTIZE ft_gemm_quantize_avx2
#define KERNEL_TYPES(F) F(BF16)
#define INT_ROWS        0
#define FLOAT_ROWS      8
#define PREFETCH        3
#define PAIR_DOT        1
#include "engine/gemm_tile.h"
#endif
