// SPDX-License-Identifier: Apache-2.0
// Products with packed weights by AArch64's 8-bit dot product. Stateless.
#include "engine/gemm_kernel.h"

#if defined(__aarch64__)
#include "base/cpu.h"

#define dot_lane(sum, w, x, lane) vdotq_laneq_s32(sum, w, x, lane)
#include "engine/gemm_neon.h"

static ft_gemm_tile_fn *tile(enum ggml_type type)
{
    ft_gemm_tile_fn *fn = tile_32(type);
    return fn ? fn : ft_gemm_k_dotprod(type);
}

const ft_gemm_kernel *ft_gemm_kernel_dotprod(void)
{
    static const ft_gemm_kernel kernel = {"neon dotprod", &ft_gemm_rounding_neon, tile};
    return ft_cpu_get()->dotprod ? &kernel : NULL;
}

#else

const ft_gemm_kernel *ft_gemm_kernel_dotprod(void)
{
    return NULL;
}

#endif
