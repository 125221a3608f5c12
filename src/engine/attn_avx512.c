// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops on AVX-512. Stateless.
#include "engine/attn_kernel.h"

#if defined(__x86_64__)
#include "engine/attn_avx512.h"

#define KERNEL_NAME  "avx512"
#define KERNEL_TABLE ft_attn_avx512
#define KERNEL_F16   1
#define KERNEL_BF16  1
#define KERNEL_Q8    1
#define KERNEL_DOT   0
#include "engine/attn_tile.h"
#endif
