// SPDX-License-Identifier: Apache-2.0
// Products with packed weights by AVX2. Its byte products add two neighbours in 16 bits and
// saturate. With |x| <= 127, a pair is at most 3810 in magnitude for weights of 4 bits, 7874 for 5
// and 16002 for 6. So 8, 4 and 2 pairs can be summed before widening, and nothing saturates. Signed
// bytes leave room for one pair (2 x 128 x 127), if the weight's sign is moved to the value.
//
// There are 16 registers. Ten of them hold the sums of five rows, for two vectors of outputs each.
// The others hold two vectors of weights, a value, a product and a mask. Left alone, GCC unpacks
// many vectors of weights before it adds their products, and stores them meanwhile. So where a step
// has one vector, its sums are hidden from GCC after each step. With 4 bits this makes a product of
// 4 rows 1.35 times as fast; with 5 and 6 bits it gains nothing.
// Stateless.
#if defined(__x86_64__)
#define LANES 8
#include "engine/gemm_vector.h"

FT_GEMM_INLINE bytes lookup(bytes table, bytes i)
{
    return (bytes)_mm256_shuffle_epi8((__m256i)table, (__m256i)i);
}

#define STEP_MOST            2
#define STEP(type)           (high_bits(type) > 0 ? 2 : 1)
#define NARROW(type)         (!is_signed(type) && high_bits(type) == 0)
#define STORED_SUMS(type, n) (STEP(type) == 1 && n > 2)

FT_GEMM_INLINE ints widen(ints dot)
{
    return (ints)_mm256_madd_epi16((__m256i)dot, _mm256_set1_epi16(1));
}

FT_GEMM_INLINE __m256i pairs(enum ggml_type type, bytes w, const int8_t *x)
{
    __m256i v = (__m256i)w, four = _mm256_set1_epi32((int)four_at(x));
    return is_signed(type) ? _mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(four, v))
                           : _mm256_maddubs_epi16(v, four);
}

FT_GEMM_INLINE ints dot_step(enum ggml_type type, ints dot, const bytes *w, const int8_t *x)
{
    __m256i first = pairs(type, w[0], x);
    if (STEP(type) == 2)
        return dot + widen((ints)_mm256_add_epi16(first, pairs(type, w[1], x + 4)));
    dot = NARROW(type) ? (ints)_mm256_add_epi16((__m256i)dot, first) : dot + widen((ints)first);
    __asm__("" : "+x"(dot));
    return dot;
}

#define KERNEL          ft_gemm_kernel_avx2
#define KERNEL_NAME     "avx2"
#define KERNEL_QUANTIZE ft_gemm_quantize_avx2
#define KERNEL_TYPES(F) FT_GEMM_BLOCK_TYPES(F) FT_GEMM_K_TYPES(F) FT_GEMM_FLOAT_TYPES(F)
#define INT_ROWS        5
#define FLOAT_ROWS      3
#define PREFETCH        2
#define OFFSET          0
#define PAIR_DOT        0
#include "engine/gemm_tile.h"
#endif
