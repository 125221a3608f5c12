// SPDX-License-Identifier: Apache-2.0
// 8-bit multiply-adds at the full rate of AVX-512 VNNI: enough accumulators to hide their latency.
#include "bench/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>

static int run(uint64_t n)
{
    __m512i x = _mm512_set1_epi8(3), acc[16];
    for (int i = 0; i < 16; i++)
        acc[i] = _mm512_set1_epi32(i);
    for (uint64_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+v"(x)); /* not to be folded */
        for (int i = 0; i < 16; i++)
            acc[i] = _mm512_dpbusd_epi32(acc[i], x, x);
    }
    /* Sums may have wrapped: any use of them will do. */
    for (int i = 1; i < 16; i++)
        acc[0] = _mm512_xor_si512(acc[0], acc[i]);
    return _mm_cvtsi128_si32(_mm512_castsi512_si128(acc[0]));
}

static const ft_bench_mac_kernel kernel = {run, 16 * 64};

const ft_bench_mac_kernel *ft_bench_mac_int8_vnni(void)
{
    return &kernel;
}
#else
const ft_bench_mac_kernel *ft_bench_mac_int8_vnni(void)
{
    return NULL;
}
#endif
