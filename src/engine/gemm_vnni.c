// SPDX-License-Identifier: Apache-2.0
// Products with packed quantized weights by AVX-512's 8-bit dot product (VNNI). Stateless.
#if defined(__x86_64__)
#define LANES 16
#include "engine/gemm_vector.h"

FT_GEMM_INLINE bytes lookup(bytes table, bytes i)
{
    return (bytes)_mm512_shuffle_epi8((__m512i)table, (__m512i)i);
}

FT_GEMM_INLINE ints dot_step(enum ggml_type type, ints dot, const bytes *w, const int8_t *x)
{
    __m512i four = _mm512_set1_epi32((int)four_at(x));
    return (ints)_mm512_dpbusd_epi32((__m512i)dot, (__m512i)*w, four);
}

#define KERNEL               ft_gemm_kernel_vnni
#define KERNEL_NAME          "avx512 vnni"
#define KERNEL_QUANTIZE      ft_gemm_quantize_avx2
#define KERNEL_TYPES(F)      FT_GEMM_BLOCK_TYPES(F) FT_GEMM_K_TYPES(F)
#define INT_ROWS             12
#define FLOAT_ROWS           0
#define PREFETCH             3
#define STEP_MOST            1
#define STEP(type)           STEP_MOST
#define STORED_SUMS(type, n) false
#define NARROW(type)         false
#define widen(dot)           dot
#define OFFSET               128
#include "engine/gemm_tile.h"
#endif
