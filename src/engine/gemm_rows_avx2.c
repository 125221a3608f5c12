// SPDX-License-Identifier: Apache-2.0
// Converts values to 8-bit rows by AVX2, for all x86 kernels. Each block needs a long chain of
// dependent steps: largest magnitude, division, sums. Eight blocks are converted at a time, so that
// their chains overlap (14 cycles a block; one block at a time takes 48). Stateless.
#include "engine/gemm_types.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

enum { BATCH = 8 };

FT_GEMM_INLINE __m256 abs8(__m256 x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

FT_GEMM_INLINE __m256 to_half(__m256 x)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Lane i is the largest of m[i]. */
FT_GEMM_INLINE __m256 max_of_each(const __m256 m[BATCH])
{
    __m256 pair[4], four[2];
    for (int i = 0; i < 4; i++)
        pair[i] = _mm256_max_ps(_mm256_unpacklo_ps(m[2 * i], m[2 * i + 1]),
                                _mm256_unpackhi_ps(m[2 * i], m[2 * i + 1]));
    for (int i = 0; i < 2; i++) {
        __m256d a = _mm256_castps_pd(pair[2 * i]), b = _mm256_castps_pd(pair[2 * i + 1]);
        four[i] = _mm256_max_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                                _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return _mm256_max_ps(_mm256_permute2f128_ps(four[0], four[1], 0x20),
                         _mm256_permute2f128_ps(four[0], four[1], 0x31));
}

FT_GEMM_INLINE __m256 magnitudes(const float *x)
{
    __m256 a = _mm256_max_ps(abs8(_mm256_loadu_ps(x)), abs8(_mm256_loadu_ps(x + 8)));
    __m256 b = _mm256_max_ps(abs8(_mm256_loadu_ps(x + 16)), abs8(_mm256_loadu_ps(x + 24)));
    return _mm256_max_ps(a, b);
}

FT_GEMM_INLINE __m256i rounded(const float *x, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

/* The 32 values of a block; returns sums of four neighbours. */
FT_GEMM_INLINE __m256i put_quants(const float *x, __m256 inverse, ft_gemm_block *out)
{
    __m256i a = _mm256_packs_epi32(rounded(x, inverse), rounded(x + 8, inverse));
    __m256i b = _mm256_packs_epi32(rounded(x + 16, inverse), rounded(x + 24, inverse));
    __m256i q = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b),
                                            _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)out->q, q);
    __m256i two = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    return _mm256_madd_epi16(two, _mm256_set1_epi16(1));
}

/* The numbers that a block holds beside its values; lane i belongs to block i. */
FT_GEMM_INLINE void put_numbers(__m256 exact_scale, __m256 scale, const __m256i sums[BATCH],
                                uint32_t n, ft_gemm_block *out, size_t stride)
{
    __m256i low =
        _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    __m256i high =
        _mm256_hadd_epi32(_mm256_hadd_epi32(sums[4], sums[5]), _mm256_hadd_epi32(sums[6], sums[7]));
    __m256i half[2] = {_mm256_permute2x128_si256(low, high, 0x20),
                       _mm256_permute2x128_si256(low, high, 0x31)};
    __m256i sum = _mm256_add_epi32(half[0], half[1]);
    float scales[BATCH], scaled_sums[BATCH];
    int32_t whole[BATCH], halves[2][BATCH];
    _mm256_storeu_ps(scales, scale);
    _mm256_storeu_ps(scaled_sums, to_half(_mm256_mul_ps(exact_scale, _mm256_cvtepi32_ps(sum))));
    _mm256_storeu_si256((__m256i *)whole, sum);
    _mm256_storeu_si256((__m256i *)halves[0], half[0]);
    _mm256_storeu_si256((__m256i *)halves[1], half[1]);
    for (uint32_t i = 0; i < n; i++, out += stride) {
        out->scale = scales[i];
        out->sum = scaled_sums[i];
        out->start8 = -8 * whole[i];
        out->start128 = -128 * whole[i];
        out->start32[0] = -32 * halves[0][i];
        out->start32[1] = -32 * halves[1][i];
    }
}

/* n blocks of a batch; values behind the end are read as zero. */
FT_GEMM_INLINE void quantize_some(const float *x, uint32_t n, ft_gemm_block *out, size_t stride)
{
    __m256 m[BATCH];
    __m256i sums[BATCH];
    float inverses[BATCH];
    for (uint32_t i = 0; i < BATCH; i++)
        m[i] = i < n ? magnitudes(x + 32 * i) : _mm256_setzero_ps();
    __m256 max = max_of_each(m), exact = _mm256_div_ps(max, _mm256_set1_ps(127.0f));
    __m256 scale = to_half(exact);
    __m256 some = _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_GT_OQ);
    _mm256_storeu_ps(inverses, _mm256_and_ps(some, _mm256_div_ps(_mm256_set1_ps(127.0f), max)));
    for (uint32_t i = 0; i < BATCH; i++)
        sums[i] = i < n ? put_quants(x + 32 * i, _mm256_set1_ps(inverses[i]), out + i * stride)
                        : _mm256_setzero_si256();
    put_numbers(exact, scale, sums, n, out, stride);
}

void ft_gemm_quantize_avx2(const float *x, uint32_t n_blocks, ft_gemm_block *out, size_t stride)
{
    uint32_t b = 0;
    for (; b + BATCH <= n_blocks; b += BATCH)
        quantize_some(x + 32 * b, BATCH, out + b * stride, stride);
    if (b < n_blocks)
        quantize_some(x + 32 * b, n_blocks - b, out + b * stride, stride);
}

#endif
