// SPDX-License-Identifier: Apache-2.0
// 8-bit multiply-adds at the full rate of NEON's dot product: enough accumulators to hide latency.
#include "bench/machine.h"

#if defined(__aarch64__)
#include <arm_neon.h>

static int run(uint64_t n)
{
    int8x16_t x = vdupq_n_s8(3);
    int32x4_t acc[16];
    for (int i = 0; i < 16; i++)
        acc[i] = vdupq_n_s32(i);
    for (uint64_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+w"(x)); /* not to be folded */
        for (int i = 0; i < 16; i++)
            acc[i] = vdotq_s32(acc[i], x, x);
    }
    for (int i = 1; i < 16; i++)
        acc[0] = vaddq_s32(acc[0], acc[i]);
    return vaddvq_s32(acc[0]);
}

static const ft_bench_mac_kernel kernel = {run, 16 * 16};

const ft_bench_mac_kernel *ft_bench_mac_int8_dotprod(void)
{
    return &kernel;
}
#else
const ft_bench_mac_kernel *ft_bench_mac_int8_dotprod(void)
{
    return NULL;
}
#endif
