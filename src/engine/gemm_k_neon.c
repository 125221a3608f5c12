// SPDX-License-Identifier: Apache-2.0
// Products with packed K-quants on any AArch64 machine. Stateless.
#include "engine/gemm_kernel.h"

#if defined(__aarch64__)
#include "base/cpu.h"
#include "engine/gemm_dot_neon.h"
#include "engine/gemm_k_neon.h"

ft_gemm_tile_fn *ft_gemm_k_neon(enum ggml_type type)
{
    return ft_cpu_get()->neon ? tile_k(type) : NULL;
}

#else

ft_gemm_tile_fn *ft_gemm_k_neon(enum ggml_type type)
{
    return NULL;
}

#endif
