// SPDX-License-Identifier: Apache-2.0
// Packs weights into tiles of 16 rows. Bytes change places, nothing is rounded. Stateless; any
// thread. It does not compute with weights (engine/gemm.c does) and does not choose which are
// packed (placement.c does).
#include "model/pack.h"

#include <string.h>

#include "model/pack_layout.h"

enum { ROWS = FT_PACK_ROWS, BLOCK = FT_PACK_BLOCK, VECTOR = 64 };

/* The parts of a plain block: halves (scale, then minimum) first, then fifth bits, then quants. */
static size_t n_halves(enum ggml_type type)
{
    return ft_pack_has_min(type) ? 2 : 1;
}

static size_t block_bytes(enum ggml_type type)
{
    return (ft_pack_scale_bytes(type) + ft_pack_quant_bytes(type)) / ROWS;
}

/* quants: groups of 4 bytes, VECTOR apart. */
static void put_quants8(const uint8_t *plain, uint8_t *quants)
{
    for (int v = 0; v < BLOCK / 4; v++)
        ft_store4(quants + v * VECTOR, ft_load4(plain + 4 * v) ^ 0x80808080u);
}

/* A plain 4-bit block has values 0..15 in its low nibbles and 16..31 in its high ones. */
static void put_quants4(const uint8_t *plain, uint8_t *quants)
{
    for (int v = 0; v < BLOCK / 8; v++)
        ft_store4(quants + v * VECTOR, ft_pack_nibbles(plain + v % 2 * 8, v < 2 ? 0 : 4));
}

/* In the plain layout bit k belongs to value k; in the packed one, bit i of byte j to value 4 i +
 * j. */
static void put_fifth(const uint8_t *plain, uint8_t *bits)
{
    uint32_t in = ft_load4(plain), out = 0;
    for (int i = 0; i < BLOCK / 4; i++) /* four bits to a byte each */
        out |= ((in >> 4 * i & 15) * 0x00204081u & 0x01010101u) << i;
    ft_store4(bits, out);
}

static void put_quants(enum ggml_type type, const uint8_t *plain, uint8_t *quants)
{
    if (type == GGML_TYPE_Q8_0) {
        put_quants8(plain, quants);
    } else if (ft_pack_has_fifth(type)) {
        put_fifth(plain, quants);
        put_quants4(plain + BLOCK / 8, quants + VECTOR);
    } else {
        put_quants4(plain, quants);
    }
}

/* Where block b of a row starts in the tile: its scale, and its quants. */
typedef struct place {
    size_t scale, quants;
} place;

static place place_of(enum ggml_type type, size_t n_blocks, size_t b, size_t row)
{
    size_t scales = ft_pack_scale_bytes(type), quants = ft_pack_quant_bytes(type);
    size_t pair = b / 2 * 2 * (scales + quants), in_pair = b + 1 == n_blocks && b % 2 == 0 ? 1 : 2;
    return (place){pair + b % 2 * scales + 2 * row,
                   pair + in_pair * scales + b % 2 * quants + 4 * row};
}

static void pack(enum ggml_type type, int64_t n_in, const uint8_t *plain, uint8_t *tile)
{
    size_t n_blocks = (size_t)n_in / BLOCK, halves = n_halves(type), bytes = block_bytes(type);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t b = 0; b < n_blocks; b++, plain += bytes) {
            place to = place_of(type, n_blocks, b, row);
            for (size_t h = 0; h < halves; h++)
                memcpy(tile + to.scale + h * 2 * ROWS, plain + 2 * h, 2);
            put_quants(type, plain + 2 * halves, tile + to.quants);
        }
}

/* ---- all types ---- */

/* NULL: there is no layout for the type. */
static ft_pack_tile *tile_of(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_IQ4_NL:
        return pack;
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K:
        return ft_pack_k_tile;
    default:
        return ft_pack_has_rows(type) ? ft_pack_f_tile : NULL;
    }
}

bool ft_pack_fits(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    int64_t block = type == GGML_TYPE_BF16 ? 2 : ggml_blck_size(type);
    return tile_of(type) && n_in > 0 && n_out > 0 && n_in % block == 0 && n_out % ROWS == 0;
}

void ft_pack(enum ggml_type type, int64_t n_in, int64_t n_out, const void *plain, void *packed)
{
    size_t bytes = ft_pack_tile_bytes(type, n_in);
    for (size_t tile = 0; tile < (size_t)n_out / ROWS; tile++)
        tile_of(type)(type, n_in, (const uint8_t *)plain + tile * bytes,
                      (uint8_t *)packed + tile * bytes);
}

static char packed_mark;

void ft_pack_mark(struct ggml_tensor *weight)
{
    weight->extra = &packed_mark;
}

bool ft_is_packed(const struct ggml_tensor *weight)
{
    return weight->extra == &packed_mark;
}
