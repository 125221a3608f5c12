/* SPDX-License-Identifier: Apache-2.0
 *
 * The packing functions of a family of types (pack.h). For the model room only.
 */
#ifndef FT_MODEL_PACK_LAYOUT_H
#define FT_MODEL_PACK_LAYOUT_H

#include <stdint.h>

#include "ggml.h"

typedef struct ft_pack_layout {
    /* pack: 16 plain rows, one behind the other, to a tile of the same size. unpack: back. n_in is
     * a multiple of the type's block. */
    void (*pack)(enum ggml_type type, int64_t n_in, const uint8_t *plain, uint8_t *tile);
    void (*unpack)(enum ggml_type type, int64_t n_in, const uint8_t *tile, uint8_t *plain);
} ft_pack_layout;

/* NULL for types without such a layout. */
const ft_pack_layout *ft_pack_k_layout(enum ggml_type type); /* pack_k.c: K-quants */
const ft_pack_layout *ft_pack_f_layout(enum ggml_type type); /* pack_f.c: floats */

#endif
