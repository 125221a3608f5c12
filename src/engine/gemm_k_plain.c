// SPDX-License-Identifier: Apache-2.0
// Products with packed K-quants in plain C. None is packed so far (model/pack_k.c).
#include "engine/gemm_kernel.h"

ft_gemm_tile_fn *ft_gemm_k_plain(enum ggml_type type)
{
    return NULL;
}
