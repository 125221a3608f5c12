// SPDX-License-Identifier: Apache-2.0
// Products with packed float weights by AVX2 and FMA: 16 outputs are two registers. Stateless.
#include "engine/gemm_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef struct x16 {
    __m256 low, high;
} x16;

static inline x16 x16_zero(void)
{
    return (x16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

static inline x16 x16_load(const void *p)
{
    return (x16){_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8)};
}

static inline x16 x16_load_f16(const char *p)
{
    return (x16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16)))};
}

static inline x16 x16_set1(const char *x)
{
    float value;
    __builtin_memcpy(&value, x, 4);
    __m256 all = _mm256_set1_ps(value);
    return (x16){all, all};
}

static inline void x16_store(float *p, x16 v)
{
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
}

static inline x16 x16_add(x16 a, x16 b)
{
    return (x16){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

static inline x16 x16_fma(x16 a, x16 b, x16 c)
{
    return (x16){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

typedef struct pair16 {
    __m256i low, high;
} pair16;

static inline pair16 pair16_load(const char *w)
{
    return (pair16){_mm256_loadu_si256((const __m256i *)w),
                    _mm256_loadu_si256((const __m256i *)(w + 32))};
}

/* A bf16 is the upper half of a float. */
static inline __m256 low_half(__m256i both)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
}

static inline __m256 high_half(__m256i both)
{
    return _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(-65536)));
}

static inline x16 pair16_dot(pair16 w, const char *x, x16 c)
{
    int value;
    __builtin_memcpy(&value, x, 4);
    __m256i both = _mm256_set1_epi32(value);
    c.low = _mm256_fmadd_ps(high_half(w.low), high_half(both), c.low);
    c.high = _mm256_fmadd_ps(high_half(w.high), high_half(both), c.high);
    c.low = _mm256_fmadd_ps(low_half(w.low), low_half(both), c.low);
    c.high = _mm256_fmadd_ps(low_half(w.high), low_half(both), c.high);
    return c;
}

#define AT_ONCE       3
#define KERNEL_SYMBOL ft_gemm_f_avx2
#define KERNEL_SCOPE
#include "engine/gemm_f_tile.h"

#else

ft_gemm_tile_fn *ft_gemm_f_avx2(enum ggml_type type)
{
    return NULL;
}

#endif
