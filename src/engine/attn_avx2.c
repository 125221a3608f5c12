// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops on AVX2 with FMA and F16C. Stateless.
#include "engine/attn_kernel.h"

#if defined(__x86_64__)
#include "engine/f16.h"

#include <immintrin.h>

typedef struct x16 {
    __m256 lo, hi;
} x16;
#define TILE_REGS              6 /* 12 of the 16 registers hold sums, the others K or V */
#define PREFETCH(p)            _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define EACH(expr_lo, expr_hi) ((x16){expr_lo, expr_hi})

static inline x16 x16_zero(void)
{
    return EACH(_mm256_setzero_ps(), _mm256_setzero_ps());
}
static inline x16 x16_set1(float a)
{
    return EACH(_mm256_set1_ps(a), _mm256_set1_ps(a));
}
static inline x16 x16_load(const float *p)
{
    return EACH(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
static inline void x16_store(float *p, x16 a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
static inline x16 x16_load_f16(const ft_f16 *p)
{
    return EACH(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
}
static inline x16 x16_fma(x16 a, x16 b, x16 c)
{
    return EACH(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}
static inline x16 x16_mul(x16 a, x16 b)
{
    return EACH(_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi));
}
static inline x16 x16_add(x16 a, x16 b)
{
    return EACH(_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi));
}
static inline x16 x16_sub(x16 a, x16 b)
{
    return EACH(_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi));
}
static inline x16 x16_max(x16 a, x16 b)
{
    return EACH(_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi));
}
static inline __m256 round_8(__m256 a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline x16 x16_round(x16 a)
{
    return EACH(round_8(a.lo), round_8(a.hi));
}
static inline __m256 pow2_8(__m256 n)
{
    __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
static inline x16 x16_from(x16 x, x16 lowest)
{
    return x16_max(x, lowest);
}
static inline __m256 scale_8(__m256 x, __m256 lowest, __m256 p, __m256 n)
{
    return _mm256_and_ps(_mm256_cmp_ps(x, lowest, _CMP_NLT_UQ), _mm256_mul_ps(p, pow2_8(n)));
}
static inline x16 x16_scale(x16 x, x16 lowest, x16 p, x16 n)
{
    return EACH(scale_8(x.lo, lowest.lo, p.lo, n.lo), scale_8(x.hi, lowest.hi, p.hi, n.hi));
}
static inline __m256 keep_8(__m256 a, int n, __m256 other)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
    return _mm256_blendv_ps(other, a, _mm256_castsi256_ps(below));
}
static inline x16 x16_keep(x16 a, uint32_t n, x16 other)
{
    return EACH(keep_8(a.lo, (int)n, other.lo), keep_8(a.hi, (int)n - 8, other.hi));
}
static inline float x16_hmax(x16 a)
{
    __m256 m8 = _mm256_max_ps(a.lo, a.hi);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    return _mm_cvtss_f32(m);
}
static inline x16 x16_load_i8(const int8_t *p)
{
    return EACH(
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p))),
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))));
}
static inline __m256i ints_8(const void *p, unsigned which)
{
    return _mm256_loadu_si256((const __m256i *)p + which);
}
static inline __m256 byte_8(__m256i fours, int left)
{
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(fours, left), 24));
}
static inline __attribute__((always_inline)) x16 x16_byte(const void *p, const unsigned j)
{
    int left = 24 - 8 * (int)j;
    return EACH(byte_8(ints_8(p, 0), left), byte_8(ints_8(p, 1), left));
}
static inline x16 x16_pair_lo(const void *p)
{
    return EACH(_mm256_castsi256_ps(_mm256_slli_epi32(ints_8(p, 0), 16)),
                _mm256_castsi256_ps(_mm256_slli_epi32(ints_8(p, 1), 16)));
}
static inline x16 x16_pair_hi(const void *p)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    return EACH(_mm256_castsi256_ps(_mm256_and_si256(ints_8(p, 0), upper)),
                _mm256_castsi256_ps(_mm256_and_si256(ints_8(p, 1), upper)));
}
static inline __m256 round_bf16_8(__m256 a)
{
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000)));
}
static inline x16 x16_round_bf16(x16 a)
{
    return EACH(round_bf16_8(a.lo), round_bf16_8(a.hi));
}

#define KERNEL_NAME  "avx2"
#define KERNEL_TABLE ft_attn_avx2
#define KERNEL_F16   1
#define KERNEL_BF16  1
#define KERNEL_Q8    1
#define KERNEL_DOT   0
#include "engine/attn_tile.h"
#endif
