/* SPDX-License-Identifier: Apache-2.0
 *
 * How the types of pack.h are packed, and what their packing shares. For the model room only.
 */
#ifndef FT_MODEL_PACK_LAYOUT_H
#define FT_MODEL_PACK_LAYOUT_H

#include <stdint.h>
#include <string.h>

#include "ggml.h"

/* Packs 16 plain rows, one behind the other, to a tile of the same size. n_in is a multiple of the
 * type's block. */
typedef void ft_pack_tile(enum ggml_type type, int64_t n_in, const uint8_t *plain, uint8_t *tile);
ft_pack_tile ft_pack_k_tile; /* pack_k.c: K-quants */
ft_pack_tile ft_pack_f_tile; /* pack_f.c: floats */

/* Four bytes at once, because every start of a program packs weights. */
static inline uint32_t ft_load4(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

static inline void ft_store4(uint8_t *p, uint32_t x)
{
    memcpy(p, &x, 4);
}

/* Eight 4-bit values, which lie in plain[0..8) at bit `shift`: the first four in the low nibbles of
 * the result, the others in the high ones. */
static inline uint32_t ft_pack_nibbles(const uint8_t *plain, int shift)
{
    return (ft_load4(plain) >> shift & 0x0f0f0f0fu) | (ft_load4(plain + 4) >> shift & 0x0f0f0f0fu)
                                                          << 4;
}

#endif
