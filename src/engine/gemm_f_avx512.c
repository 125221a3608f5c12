// SPDX-License-Identifier: Apache-2.0
// Products with packed float weights by AVX-512: 16 outputs are one register. Stateless.
#include "engine/gemm_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/cpu.h"

typedef __m512 x16;
#define x16_zero()       _mm512_setzero_ps()
#define x16_load(p)      _mm512_loadu_ps(p)
#define x16_load_f16(p)  _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define x16_store(p, v)  _mm512_storeu_ps(p, v)
#define x16_add(a, b)    _mm512_add_ps(a, b)
#define x16_fma(a, b, c) _mm512_fmadd_ps(a, b, c)

static inline x16 x16_set1(const char *x)
{
    float value;
    __builtin_memcpy(&value, x, 4);
    return _mm512_set1_ps(value);
}

typedef struct pair16 {
    __m512 first, second;
} pair16;

/* A bf16 is the upper half of a float. */
static inline pair16 pair16_split(__m512i both)
{
    return (pair16){_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)),
                    _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(-65536)))};
}

static inline pair16 pair16_load(const char *w)
{
    return pair16_split(_mm512_loadu_si512(w));
}

static inline x16 pair16_dot(pair16 w, const char *x, x16 c)
{
    int both;
    __builtin_memcpy(&both, x, 4);
    pair16 by = pair16_split(_mm512_set1_epi32(both));
    return _mm512_fmadd_ps(w.first, by.first, _mm512_fmadd_ps(w.second, by.second, c));
}

#define AT_ONCE       8
#define KERNEL_SYMBOL ft_gemm_f_avx512
#define KERNEL_SCOPE  static
#include "engine/gemm_f_tile.h"

const ft_gemm_kernel *ft_gemm_kernel_avx512(void)
{
    static const ft_gemm_kernel kernel = {"avx512", &ft_gemm_rounding_avx2, ft_gemm_f_avx512};
    return ft_cpu_get()->avx512 ? &kernel : NULL;
}

#else

const ft_gemm_kernel *ft_gemm_kernel_avx512(void)
{
    return NULL;
}

#endif
