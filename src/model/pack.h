/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own layout of matrices, for the engine's matrix multiplication (engine/gemm.h): as many bytes
 * as the plain layout, but in tiles of 16 output rows, so that one 64-byte load brings 4 values
 * (8-bit), 8 (4-bit), 1 (F32) or 2 (BF16) of each of the 16 rows.
 *
 * A tile of floats is [n_in][16], BF16 in pairs: [n_in / 2][16][2]. A tile of blocks of 32 is its
 * blocks in pairs (the last alone if their number is odd), each pair being
 *   scales  [2][16]     f16; Q4_1, Q5_1: [2][2][16], a block's scales, then its minima
 *   quants  [2][8][64]  8-bit: byte [v][4 row + j] is value 4 v + j of the row, plus 128
 *           [2][4][64]  4-bit: the low nibble of [v][4 row + j] is value 8 v + j, the high one
 *                       value 8 v + 4 + j
 *           [2][5][64]  5-bit: bit i of [0][4 row + j] is the fifth of value 4 i + j, then as 4-bit
 * So a product reads memory from front to back, in whole cache lines, at 26 GB/s. An earlier layout
 * had all scales of a tile in front. A product then read two streams, of which the processor's
 * prefetcher saw neither: 12 GB/s.
 *
 * A packed weight keeps its tensor's type and shape, but no ggml operator may read it.
 */
#ifndef FT_MODEL_PACK_H
#define FT_MODEL_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml-backend.h"
#include "ggml.h"

#define FT_PACK_ROWS  16 /* output rows of a tile */
#define FT_PACK_BLOCK 32 /* inputs that share a scale */

/* Whether there is a packed layout for the type (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL; F32, F16,
 * BF16; those of pack_k.c) and shape. */
bool ft_pack_fits(enum ggml_type type, int64_t n_in, int64_t n_out);
/* Says whether such a matrix is to be packed. Any thread. */
typedef bool ft_pack_choice(enum ggml_type type, int64_t n_in, int64_t n_out);

/* For types with blocks of 32: whether a block has a minimum besides its scale, and whether its
 * values have a fifth bit. */
static inline bool ft_pack_has_min(enum ggml_type type)
{
    return type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q5_1;
}
static inline bool ft_pack_has_fifth(enum ggml_type type)
{
    return type == GGML_TYPE_Q5_0 || type == GGML_TYPE_Q5_1;
}

/* For these types: bytes of the scales (and minima), and of the quants, of one block of 16 rows.
 * Inline, so that kernels see constants. */
static inline size_t ft_pack_scale_bytes(enum ggml_type type)
{
    return (ft_pack_has_min(type) ? 2 : 1) * sizeof(uint16_t) * FT_PACK_ROWS;
}
static inline size_t ft_pack_quant_bytes(enum ggml_type type)
{
    size_t bits = type == GGML_TYPE_Q8_0 ? 8 : ft_pack_has_fifth(type) ? 5 : 4;
    return bits * FT_PACK_BLOCK / 8 * FT_PACK_ROWS;
}
/* Bytes of a tile of any type: as many as its 16 plain rows have. */
static inline size_t ft_pack_tile_bytes(enum ggml_type type, int64_t n_in)
{
    return FT_PACK_ROWS * ggml_row_size(type, n_in);
}

/* Plain [n_out, n_in] to packed; both ft_pack_tile_bytes x n_out / 16. The shape fits. */
void ft_pack(enum ggml_type type, int64_t n_in, int64_t n_out, const void *plain, void *packed);

/* Whether single rows can be read out of the packed layout (F32, F16, BF16); row `row` as F32. */
bool ft_pack_has_rows(enum ggml_type type);
void ft_pack_get_row(enum ggml_type type, int64_t n_in, const void *packed, size_t row, float *out);

/* Marks a tensor's data as packed; asks whether they are. */
void ft_pack_mark(struct ggml_tensor *weight);
bool ft_is_packed(const struct ggml_tensor *weight);

#endif
