// SPDX-License-Identifier: Apache-2.0
// Products with packed K-quants by AArch64's 8-bit dot product. Stateless.
#include "engine/gemm_kernel.h"

#if defined(__aarch64__)
#include "base/cpu.h"

#define dot_lane(sum, w, x, lane) vdotq_laneq_s32(sum, w, x, lane)
#include "engine/gemm_k_neon.h"

ft_gemm_tile_fn *ft_gemm_k_dotprod(enum ggml_type type)
{
    return ft_cpu_get()->dotprod ? tile_k(type) : NULL;
}

#else

ft_gemm_tile_fn *ft_gemm_k_dotprod(enum ggml_type type)
{
    return NULL;
}

#endif
