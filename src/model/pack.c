// SPDX-License-Identifier: Apache-2.0
// Packs weights into tiles of 16 rows, and back. A bijection of bytes: nothing is rounded.
// Stateless; any thread. It does not compute with weights (engine/gemm.c does) and does not choose
// which are packed (placement.c does).
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

static uint32_t load4(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* quants: groups of 4 bytes, VECTOR apart. Packs four values at a time, because every start of a
 * program packs weights. */
static void put_quants8(const uint8_t *plain, uint8_t *quants)
{
    for (int v = 0; v < BLOCK / 4; v++) {
        uint32_t four = load4(plain + 4 * v) ^ 0x80808080u;
        memcpy(quants + v * VECTOR, &four, 4);
    }
}

static void get_quants8(const uint8_t *quants, uint8_t *plain)
{
    for (int k = 0; k < BLOCK; k++)
        plain[k] = quants[k / 4 * VECTOR + k % 4] ^ 0x80;
}

/* A plain 4-bit block has values 0..15 in its low nibbles and 16..31 in its high ones. */
static void put_quants4(const uint8_t *plain, uint8_t *quants)
{
    for (int v = 0; v < BLOCK / 8; v++) {
        const uint8_t *from = plain + v % 2 * 8;
        int shift = v < 2 ? 0 : 4;
        uint32_t low = load4(from) >> shift & 0x0f0f0f0fu;
        uint32_t high = load4(from + 4) >> shift & 0x0f0f0f0fu;
        uint32_t both = low | high << 4;
        memcpy(quants + v * VECTOR, &both, 4);
    }
}

static void get_quants4(const uint8_t *quants, uint8_t *plain)
{
    memset(plain, 0, BLOCK / 2);
    for (int k = 0; k < BLOCK; k++) {
        unsigned q = quants[k / 8 * VECTOR + k % 4] >> (k / 4 % 2 * 4) & 15;
        plain[k % 16] |= (uint8_t)(q << (k < 16 ? 0 : 4));
    }
}

/* In the plain layout bit k belongs to value k; in the packed one, bit i of byte j to value 4 i +
 * j. */
static void put_fifth(const uint8_t *plain, uint8_t *bits)
{
    uint32_t in = load4(plain), out = 0;
    for (int i = 0; i < BLOCK / 4; i++) /* four bits to a byte each */
        out |= ((in >> 4 * i & 15) * 0x00204081u & 0x01010101u) << i;
    memcpy(bits, &out, 4);
}

static void get_fifth(const uint8_t *bits, uint8_t *plain)
{
    memset(plain, 0, BLOCK / 8);
    for (int k = 0; k < BLOCK; k++)
        plain[k / 8] |= (uint8_t)((bits[k % 4] >> k / 4 & 1) << k % 8);
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

static void get_quants(enum ggml_type type, const uint8_t *quants, uint8_t *plain)
{
    if (type == GGML_TYPE_Q8_0) {
        get_quants8(quants, plain);
    } else if (ft_pack_has_fifth(type)) {
        get_fifth(quants, plain);
        get_quants4(quants + VECTOR, plain + BLOCK / 8);
    } else {
        get_quants4(quants, plain);
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

static void unpack(enum ggml_type type, int64_t n_in, const uint8_t *tile, uint8_t *plain)
{
    size_t n_blocks = (size_t)n_in / BLOCK, halves = n_halves(type), bytes = block_bytes(type);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t b = 0; b < n_blocks; b++, plain += bytes) {
            place from = place_of(type, n_blocks, b, row);
            for (size_t h = 0; h < halves; h++)
                memcpy(plain + 2 * h, tile + from.scale + h * 2 * ROWS, 2);
            get_quants(type, tile + from.quants, plain + 2 * halves);
        }
}

/* ---- all types ---- */

static const ft_pack_layout *layout_of(enum ggml_type type)
{
    static const ft_pack_layout layout = {pack, unpack};
    switch (type) {
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_IQ4_NL:
        return &layout;
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return ft_pack_f_layout(type);
    default:
        return ft_pack_k_layout(type);
    }
}

bool ft_pack_fits(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    int64_t block = type == GGML_TYPE_BF16 ? 2 : ggml_blck_size(type);
    return layout_of(type) && n_in > 0 && n_out > 0 && n_in % block == 0 && n_out % ROWS == 0;
}

void ft_pack(enum ggml_type type, int64_t n_in, int64_t n_out, const void *plain, void *packed)
{
    size_t bytes = ft_pack_tile_bytes(type, n_in);
    for (size_t tile = 0; tile < (size_t)n_out / ROWS; tile++)
        layout_of(type)->pack(type, n_in, (const uint8_t *)plain + tile * bytes,
                              (uint8_t *)packed + tile * bytes);
}

void ft_unpack(enum ggml_type type, int64_t n_in, int64_t n_out, const void *packed, void *plain)
{
    size_t bytes = ft_pack_tile_bytes(type, n_in);
    for (size_t tile = 0; tile < (size_t)n_out / ROWS; tile++)
        layout_of(type)->unpack(type, n_in, (const uint8_t *)packed + tile * bytes,
                                (uint8_t *)plain + tile * bytes);
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
