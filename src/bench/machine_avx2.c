// SPDX-License-Identifier: Apache-2.0
// f32 multiply-adds at the full rate of AVX2: enough accumulators to hide their latency.
#include "bench/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>

static int run(uint64_t n)
{
    __m256 x = _mm256_set1_ps(0.5f), acc[12];
    for (int i = 0; i < 12; i++)
        acc[i] = _mm256_set1_ps((float)i);
    for (uint64_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+x"(x)); /* not to be folded */
        for (int i = 0; i < 12; i++)
            acc[i] = _mm256_fmadd_ps(acc[i], x, x);
    }
    for (int i = 1; i < 12; i++)
        acc[0] = _mm256_add_ps(acc[0], acc[i]);
    return (int)_mm256_cvtss_f32(acc[0]);
}

static const ft_bench_mac_kernel kernel = {run, 12 * 8};

const ft_bench_mac_kernel *ft_bench_mac_f32_avx2(void)
{
    return &kernel;
}
#else
const ft_bench_mac_kernel *ft_bench_mac_f32_avx2(void)
{
    return NULL;
}
#endif
