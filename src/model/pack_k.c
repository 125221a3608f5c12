// SPDX-License-Identifier: Apache-2.0
// Packs weights of K-quants. None has a layout of its own so far: ggml's stays.
#include "model/pack_layout.h"

#include <stddef.h>

const ft_pack_layout *ft_pack_k_layout(enum ggml_type type)
{
    return NULL;
}
