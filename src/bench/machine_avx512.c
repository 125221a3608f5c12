// SPDX-License-Identifier: Apache-2.0
// f32 multiply-adds at the full rate of AVX-512: enough accumulators to hide their latency.
#include "bench/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>

static int run(uint64_t n)
{
    __m512 x = _mm512_set1_ps(0.5f), acc[16];
    for (int i = 0; i < 16; i++)
        acc[i] = _mm512_set1_ps((float)i);
    for (uint64_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+v"(x)); /* not to be folded */
        for (int i = 0; i < 16; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], x, x);
    }
    for (int i = 1; i < 16; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    return (int)_mm512_cvtss_f32(acc[0]);
}

static const ft_bench_mac_kernel kernel = {run, 16 * 16};

const ft_bench_mac_kernel *ft_bench_mac_f32_avx512(void)
{
    return &kernel;
}
#else
const ft_bench_mac_kernel *ft_bench_mac_f32_avx512(void)
{
    return NULL;
}
#endif
