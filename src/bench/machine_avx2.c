// SPDX-License-Identifier: Apache-2.0
// Multiply-adds at the full rate of AVX2: enough accumulators to hide their latency. AVX2 has no
// 8-bit dot product that adds. The fastest there is adds products of bytes in pairs and sums the
// pairs in 16 bits. Only weights of 4 bits leave room for that (engine/gemm_avx2.c).
#include "bench/machine.h"

#include "engine/inlined.h"

#if defined(__x86_64__)
#include <immintrin.h>

static int run_f32(uint64_t n)
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

static int run_int8(uint64_t n)
{
    __m256i x = _mm256_set1_epi8(3), acc[12];
    for (int i = 0; i < 12; i++)
        acc[i] = _mm256_set1_epi16((short)i);
    for (uint64_t r = 0; r < n; r++)
        FT_UNROLL(12) for (int i = 0; i < 12; i++)
        {
            __m256i sum = _mm256_add_epi16(acc[i], _mm256_maddubs_epi16(x, x));
            /* Not to be folded; nor may GCC do all products first, and store sums meanwhile. */
            __asm__ volatile("" : "+x"(x), "+x"(sum));
            acc[i] = sum;
        }
    for (int i = 1; i < 12; i++)
        acc[0] = _mm256_add_epi16(acc[0], acc[i]);
    return _mm_cvtsi128_si32(_mm256_castsi256_si128(acc[0]));
}

static const ft_bench_mac_kernel f32 = {run_f32, 12 * 8}, int8 = {run_int8, 12 * 32};

const ft_bench_mac_kernel *ft_bench_mac_f32_avx2(void)
{
    return &f32;
}

const ft_bench_mac_kernel *ft_bench_mac_int8_avx2(void)
{
    return &int8;
}
#else
const ft_bench_mac_kernel *ft_bench_mac_f32_avx2(void)
{
    return NULL;
}

const ft_bench_mac_kernel *ft_bench_mac_int8_avx2(void)
{
    return NULL;
}
#endif
