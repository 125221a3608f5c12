// SPDX-License-Identifier: Apache-2.0
// Products with packed weights by AVX2's byte products, which add two neighbours in 16 bits and
// saturate. 4-bit weights leave room for the sum of a whole block: 8 x 2 x 15 x 127 = 30480. Signed
// bytes leave room for one pair (2 x 128 x 127), if the weight's sign is moved to the value. 5-bit
// weights are summed in 32 bits, too. So no sum ever saturates, and all sums are exact. A tile is
// multiplied with up to 4 rows at a time. Stateless.
#include "engine/gemm_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "base/cpu.h"
#include "model/pack.h"

enum { ROWS_AT_ONCE = 4 };

/* Numbers of 8 output rows. */
typedef struct half_tile {
    __m256 scale, min;
} half_tile;

FT_GEMM_INLINE bool is_signed(enum ggml_type type)
{
    return type == GGML_TYPE_Q8_0 || type == GGML_TYPE_IQ4_NL;
}

/* Bit i of `fifths` above the 4 bits of w. */
FT_GEMM_INLINE __m256i with_fifth(__m256i w, __m256i fifths, int i)
{
    __m256i bit = _mm256_slli_epi16(_mm256_srli_epi16(fifths, i), 4);
    return _mm256_or_si256(w, _mm256_and_si256(bit, _mm256_set1_epi8(16)));
}

/* Inputs 8 i .. 8 i + 7 of 8 rows: w[0] has the first four of each. */
FT_GEMM_INLINE void load_weights(enum ggml_type type, const uint8_t *quants, int i, __m256i w[2])
{
    if (type == GGML_TYPE_Q8_0) {
        const __m256i offset = _mm256_set1_epi8(-128);
        w[0] = _mm256_loadu_si256((const __m256i *)(quants + 128 * i));
        w[1] = _mm256_loadu_si256((const __m256i *)(quants + 128 * i + 64));
        w[0] = _mm256_xor_si256(w[0], offset);
        w[1] = _mm256_xor_si256(w[1], offset);
        return;
    }
    const __m256i low = _mm256_set1_epi8(15);
    __m256i fifths = _mm256_loadu_si256((const __m256i *)quants);
    quants += ft_pack_has_fifth(type) ? 64 : 0;
    __m256i both = _mm256_loadu_si256((const __m256i *)(quants + 64 * i));
    w[0] = _mm256_and_si256(both, low);
    w[1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
    if (type == GGML_TYPE_IQ4_NL) {
        const __m256i table = _mm256_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25,
                                               38, 53, 69, 89, 113, -127, -104, -83, -65, -49, -35,
                                               -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
        w[0] = _mm256_shuffle_epi8(table, w[0]);
        w[1] = _mm256_shuffle_epi8(table, w[1]);
    }
    if (ft_pack_has_fifth(type)) {
        w[0] = with_fifth(w[0], fifths, 2 * i);
        w[1] = with_fifth(w[1], fifths, 2 * i + 1);
    }
}

FT_GEMM_INLINE bool in_16_bits(enum ggml_type type)
{
    return !is_signed(type) && !ft_pack_has_fifth(type);
}

/* Adds four products for each row: sums of two in 16 bits, or, for larger numbers, of all four in
 * 32. */
FT_GEMM_INLINE __m256i add_products(enum ggml_type type, __m256i sum, __m256i w, __m256i x)
{
    __m256i two = is_signed(type) ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                                  : _mm256_maddubs_epi16(w, x);
    if (in_16_bits(type))
        return _mm256_add_epi16(sum, two);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(two, _mm256_set1_epi16(1)));
}

FT_GEMM_INLINE __m256 finish_dot(enum ggml_type type, __m256i dot, const ft_gemm_block *x)
{
    if (in_16_bits(type))
        dot = _mm256_madd_epi16(dot, _mm256_set1_epi16(1));
    if (type == GGML_TYPE_Q4_0)
        dot = _mm256_add_epi32(dot, _mm256_set1_epi32(x->start8));
    if (type == GGML_TYPE_Q5_0)
        dot = _mm256_add_epi32(dot, _mm256_set1_epi32(2 * x->start8));
    return _mm256_cvtepi32_ps(dot);
}

FT_GEMM_INLINE void load_numbers(enum ggml_type type, const uint8_t *scales, half_tile half[2])
{
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __m128i *at = (const __m128i *)(scales + 16 * h);
        half[h].scale = _mm256_cvtph_ps(_mm_loadu_si128(at));
        half[h].min =
            ft_pack_has_min(type) ? _mm256_cvtph_ps(_mm_loadu_si128(at + 2)) : _mm256_setzero_ps();
    }
}

/* One block of weights times n rows of values. */
FT_GEMM_INLINE void multiply_block(enum ggml_type type, uint32_t n, const uint8_t *scales,
                                   const uint8_t *quants, const ft_gemm_block *x, __m256 sum[][2])
{
    __m256i dot[ROWS_AT_ONCE][2];
    half_tile half[2];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++)
        dot[r][0] = dot[r][1] = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        __m256i w[2][2];
        load_weights(type, quants, i, w[0]);
        load_weights(type, quants + 32, i, w[1]);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < n; r++) {
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                int32_t four;
                memcpy(&four, x[r].q + 8 * i + 4 * j, 4);
                __m256i v = _mm256_set1_epi32(four);
                dot[r][0] = add_products(type, dot[r][0], w[0][j], v);
                dot[r][1] = add_products(type, dot[r][1], w[1][j], v);
            }
        }
    }
    load_numbers(type, scales, half);
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++) {
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            __m256 by = _mm256_mul_ps(half[h].scale, _mm256_set1_ps(x[r].scale));
            sum[r][h] = _mm256_fmadd_ps(finish_dot(type, dot[r][h], &x[r]), by, sum[r][h]);
            if (ft_pack_has_min(type))
                sum[r][h] = _mm256_fmadd_ps(half[h].min, _mm256_set1_ps(x[r].sum), sum[r][h]);
        }
    }
}

/* Rows [first, first + n). type and n are constants after inlining. */
FT_GEMM_INLINE void multiply_rows(enum ggml_type type, uint32_t first, uint32_t n,
                                  const ft_gemm_tile *t)
{
    const size_t s = ft_pack_scale_bytes(type), q = ft_pack_quant_bytes(type);
    const uint8_t *w = t->weights;
    const ft_gemm_block *x = t->rows + first;
    __m256 sum[ROWS_AT_ONCE][2];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < t->n_blocks; b += 2, w += 2 * (s + q), x += 2 * t->row_blocks) {
        bool alone = b + 1 == t->n_blocks;
        multiply_block(type, n, w, w + (alone ? s : 2 * s), x, sum);
        if (!alone)
            multiply_block(type, n, w + s, w + 2 * s + q, x + t->row_blocks, sum);
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++) {
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            size_t row = first + r;
            if (t->residual)
                sum[r][h] = _mm256_add_ps(
                    sum[r][h], _mm256_loadu_ps(t->residual + row * t->residual_stride + 8 * h));
            _mm256_storeu_ps(t->out + row * t->out_stride + 8 * h, sum[r][h]);
        }
    }
}

FT_GEMM_TILE_BY_FOURS
FT_GEMM_BLOCK_TYPES(FT_GEMM_FUNCTION)

static ft_gemm_tile_fn *tile(enum ggml_type type)
{
    switch (type) {
        FT_GEMM_BLOCK_TYPES(FT_GEMM_CASE)
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return ft_gemm_f_avx2(type);
    default:
        return ft_gemm_k_avx2(type);
    }
}

const ft_gemm_kernel *ft_gemm_kernel_avx2(void)
{
    static const ft_gemm_kernel kernel = {"avx2", &ft_gemm_rounding_avx2, tile};
    return ft_cpu_get()->avx2 ? &kernel : NULL;
}

#else

const ft_gemm_kernel *ft_gemm_kernel_avx2(void)
{
    return NULL;
}

#endif
