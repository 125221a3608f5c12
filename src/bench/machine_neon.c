// SPDX-License-Identifier: Apache-2.0
// f32 multiply-adds at the full rate of NEON: enough accumulators to hide their latency.
#include "bench/machine.h"

#if defined(__aarch64__)
#include <arm_neon.h>

static int run(uint64_t n)
{
    float32x4_t x = vdupq_n_f32(0.5f), acc[16];
    for (int i = 0; i < 16; i++)
        acc[i] = vdupq_n_f32((float)i);
    for (uint64_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+w"(x)); /* not to be folded */
        for (int i = 0; i < 16; i++)
            acc[i] = vfmaq_f32(x, acc[i], x);
    }
    for (int i = 1; i < 16; i++)
        acc[0] = vaddq_f32(acc[0], acc[i]);
    return (int)vgetq_lane_f32(acc[0], 0);
}

static const ft_bench_mac_kernel kernel = {run, 16 * 4};

const ft_bench_mac_kernel *ft_bench_mac_f32_neon(void)
{
    return &kernel;
}
#else
const ft_bench_mac_kernel *ft_bench_mac_f32_neon(void)
{
    return NULL;
}
#endif
