// SPDX-License-Identifier: Apache-2.0
// Products with packed BF16 weights by AVX-512's dot product of 2 bf16 each of 16 outputs. It adds
// the second product first, each with one rounding, as the other kernels do; but it takes numbers
// below 2^-126 for 0. Stateless.
#include "engine/gemm_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/cpu.h"

typedef __m512 x16;
typedef __m512bh pair16;
#define x16_zero()      _mm512_setzero_ps()
#define x16_load(p)     _mm512_loadu_ps(p)
#define x16_store(p, v) _mm512_storeu_ps(p, v)
#define x16_add(a, b)   _mm512_add_ps(a, b)
#define pair16_load(w)  ((__m512bh)_mm512_loadu_si512(w))

static inline x16 pair16_dot(pair16 w, const char *x, x16 c)
{
    int both;
    __builtin_memcpy(&both, x, 4);
    return _mm512_dpbf16_ps(c, w, (__m512bh)_mm512_set1_epi32(both));
}

#define AT_ONCE 8
#define BF16_ALONE
#define KERNEL_SYMBOL ft_gemm_f_bf16
#define KERNEL_SCOPE  static
#include "engine/gemm_f_tile.h"

const ft_gemm_kernel *ft_gemm_kernel_bf16(void)
{
    static const ft_gemm_kernel kernel = {"avx512 bf16", &ft_gemm_rounding_avx2, ft_gemm_f_bf16};
    return ft_cpu_get()->bf16 ? &kernel : NULL;
}

#else

const ft_gemm_kernel *ft_gemm_kernel_bf16(void)
{
    return NULL;
}

#endif
