// SPDX-License-Identifier: Apache-2.0
// Products with packed quantized weights by AArch64's 8-bit dot product. Stateless.
#if defined(__aarch64__)
#define LANES 4
#include "engine/gemm_vector.h"

#define dot_lane(sum, w, x, lane) vdotq_laneq_s32(sum, w, x, lane)
#define KERNEL                    ft_gemm_kernel_dotprod
#define KERNEL_NAME               "neon dotprod"
#define KERNEL_TYPES(F)           FT_GEMM_BLOCK_TYPES(F) FT_GEMM_K_TYPES(F)
#include "engine/gemm_neon.h"
#endif
