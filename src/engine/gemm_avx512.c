// SPDX-License-Identifier: Apache-2.0
// Products with packed float weights by AVX-512. Stateless.
#if defined(__x86_64__)
#define LANES 16
#include "engine/gemm_vector.h"

#define KERNEL          ft_gemm_kernel_avx512
#define KERNEL_NAME     "avx512"
#define KERNEL_QUANTIZE ft_gemm_quantize_avx2
#define KERNEL_TYPES    FT_GEMM_FLOAT_TYPES
#define INT_ROWS        0
#define FLOAT_ROWS      8
#define PREFETCH        3
#define PAIR_DOT        0
#include "engine/gemm_tile.h"
#endif
