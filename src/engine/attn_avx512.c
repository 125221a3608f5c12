// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops on AVX-512. Stateless.
#include "base/cpu.h"
#include "engine/attn_kernel.h"

#if defined(__x86_64__)
#include "engine/attn_avx512.h"

#define KERNEL_NAME "avx512"
#define KERNEL_GET  ft_attn_kernel_avx512
#define KERNEL_CPU  (ft_cpu_get()->avx512)
#define KERNEL_F16  1
#define KERNEL_BF16 1
#define KERNEL_Q8   1
#define KERNEL_DOT  0
#include "engine/attn_tile.h"
#else
const ft_attn_kernel *ft_attn_kernel_avx512(ft_kv_type type)
{
    (void)type;
    return NULL;
}
#endif
