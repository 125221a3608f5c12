/* SPDX-License-Identifier: Apache-2.0
 *
 * The packed layout (pack.h) of K-quants. A tile is again 16 output rows and holds the superblocks
 * of 256 inputs in their order. A superblock is 8 blocks of 32 inputs. Byte [v][4 row + j] of its
 * quants holds value 8 v + j of the row's block in the low nibble and value 8 v + 4 + j in the high
 * nibble, as in 4-bit types. Further bits of the values are stored in front of their nibbles.
 *
 * A Q4_K or Q5_K value is d scale q - dmin min; scale and min are 6-bit numbers of the block. A
 * Q6_K value is d scale (q - 32), with one scale for 16 inputs.
 */
#ifndef FT_MODEL_PACK_K_H
#define FT_MODEL_PACK_K_H

#include <stddef.h>
#include <stdint.h>

#include "ggml.h"

#define FT_PACK_SUPER 256 /* inputs of a superblock */

/* d and dmin (f16), and the 6-bit numbers of 16 rows, [block][row] unless noted. */
typedef struct ft_pack_scales {
    uint16_t d[16], dmin[16];
    uint8_t low[8][16]; /* lowest 4 bits of scale; << 4: of min */
    uint8_t
        high[4]
            [16]; /* highest 2 bits of block b's scale; << 2: min; << 4: b + 4's scale; << 6: min */
} ft_pack_scales;

typedef struct ft_pack_q4_k {
    ft_pack_scales scales;
    uint8_t quants[8][4][64]; /* [block] */
} ft_pack_q4_k;

typedef struct ft_pack_q5_k {
    ft_pack_scales scales;
    struct {
        uint8_t bits[64]; /* bit i of [4 row + j]: the fifth of value 4 i + j */
        uint8_t quants[4][64];
    } block[8];
} ft_pack_q5_k;

/* Its d is stored separately. A tile is pairs of superblocks (the last one alone if their number is
 * odd). A pair is d [2][16] and two of these structs, so that they fill whole cache lines. */
typedef struct ft_pack_q6_k {
    int8_t scales[16][16]; /* [half block][row] */
    struct {
        uint8_t bits
            [2]
            [64]; /* bits 2 i, 2 i + 1 of [g][4 row + j]: the upper two of value 16 g + 4 i + j */
        uint8_t quants[4][64];
    } block[8];
} ft_pack_q6_k;

/* Where the d's and the rest of superblock s of n lie in a Q6_K tile. */
typedef struct ft_pack_q6_k_place {
    size_t d, super;
} ft_pack_q6_k_place;

static inline ft_pack_q6_k_place ft_pack_q6_k_at(size_t s, size_t n)
{
    const size_t d_bytes = 2 * 16, bytes = sizeof(ft_pack_q6_k);
    size_t pair = s / 2 * 2 * (d_bytes + bytes), in_pair = s + 1 == n && s % 2 == 0 ? 1 : 2;
    return (ft_pack_q6_k_place){pair + s % 2 * d_bytes, pair + in_pair * d_bytes + s % 2 * bytes};
}

#endif
