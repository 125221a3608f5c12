// SPDX-License-Identifier: Apache-2.0
// Packs K-quants into tiles of 16 rows. Bits change places, nothing is rounded. Stateless; any
// thread. It does not compute with weights (engine/gemm_*.c do).
#include "model/pack_k.h"

#include <string.h>

#include "model/pack.h"
#include "model/pack_layout.h"

enum { ROWS = FT_PACK_ROWS, BLOCK = FT_PACK_BLOCK, N_BLOCKS = FT_PACK_SUPER / BLOCK, VECTOR = 64 };

/* Superblocks of a row as a file has them. */
typedef struct plain_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t nibbles[128]; /* [4][32]: block 2 i in the low ones of [i], 2 i + 1 in the high ones */
} plain_q4_k;

typedef struct plain_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t bits[32]; /* bit b of [k]: the fifth of block b's value k */
    uint8_t nibbles[128];
} plain_q5_k;

typedef struct plain_q6_k {
    uint8_t nibbles[128]; /* [2][2][32]: block 4 i + j in the low ones of [i][j], + 2 in the high */
    uint8_t bits[64];     /* [2][32]: bits 2 j, 2 j + 1 of [i][k]: of block 4 i + j's value k */
    int8_t scales[16];
    uint16_t d;
} plain_q6_k;

_Static_assert(sizeof(plain_q4_k) * ROWS == sizeof(ft_pack_q4_k), "as many bytes");
_Static_assert(sizeof(plain_q5_k) * ROWS == sizeof(ft_pack_q5_k), "as many bytes");
_Static_assert(sizeof(plain_q6_k) * ROWS == sizeof(ft_pack_q6_k) + 2 * ROWS, "as many bytes");

/* ---- quants of a block: 32 plain bytes ---- */

/* shift: of the nibbles in the plain bytes. quants: of the row, its groups of 4 bytes VECTOR
 * apart. */
static void put_nibbles(const uint8_t *plain, int shift, uint8_t *quants)
{
    for (int v = 0; v < 4; v++)
        ft_store4(quants + v * VECTOR, ft_pack_nibbles(plain + 8 * v, shift));
}

/* The fifth bits. */
static uint32_t put_bits5(const uint8_t *plain, int block)
{
    uint32_t out = 0;
    for (int i = 0; i < 8; i++)
        out |= (ft_load4(plain + 4 * i) >> block & 0x01010101u) << i;
    return out;
}

/* The upper two of six bits, of 16 values; shift: where they are in the plain bytes. */
static uint32_t put_bits6(const uint8_t *plain, int shift)
{
    uint32_t out = 0;
    for (int i = 0; i < 4; i++)
        out |= (ft_load4(plain + 4 * i) >> shift & 0x03030303u) << 2 * i;
    return out;
}

/* ---- 6-bit scales and minima ----
 * Plain, byte i < 4 has block i's scale, byte 4 + i its min, both with 2 bits of block i + 4's on
 * top, and byte 8 + i the lower 4 bits of block i + 4's scale and min. */

static void put_scales(uint16_t d, uint16_t dmin, const uint8_t *plain, size_t row,
                       ft_pack_scales *to)
{
    to->d[row] = d;
    to->dmin[row] = dmin;
    for (int i = 0; i < 4; i++) {
        unsigned scale = plain[i], min = plain[4 + i];
        to->low[i][row] = (uint8_t)((scale & 15) | (min & 15) << 4);
        to->low[4 + i][row] = plain[8 + i];
        to->high[i][row] =
            (uint8_t)((scale >> 4 & 3) | (min >> 4 & 3) << 2 | (scale >> 6) << 4 | (min >> 6) << 6);
    }
}

/* ---- superblocks of a row ---- */

static void put_q4_k(const plain_q4_k *from, size_t row, ft_pack_q4_k *to)
{
    put_scales(from->d, from->dmin, from->scales, row, &to->scales);
    for (int b = 0; b < N_BLOCKS; b++)
        put_nibbles(from->nibbles + b / 2 * BLOCK, b % 2 * 4, to->quants[b][0] + 4 * row);
}

static void put_q5_k(const plain_q5_k *from, size_t row, ft_pack_q5_k *to)
{
    put_scales(from->d, from->dmin, from->scales, row, &to->scales);
    for (int b = 0; b < N_BLOCKS; b++) {
        put_nibbles(from->nibbles + b / 2 * BLOCK, b % 2 * 4, to->block[b].quants[0] + 4 * row);
        ft_store4(to->block[b].bits + 4 * row, put_bits5(from->bits, b));
    }
}

/* Where block b's nibbles start in the plain superblock. */
static size_t nibbles6(int b)
{
    return (size_t)(b / 4 * 2 + b % 2) * BLOCK;
}

static void put_q6_k(const plain_q6_k *from, size_t row, ft_pack_q6_k *to)
{
    for (int h = 0; h < 2 * N_BLOCKS; h++)
        to->scales[h][row] = from->scales[h];
    for (int b = 0; b < N_BLOCKS; b++) {
        put_nibbles(from->nibbles + nibbles6(b), b % 4 / 2 * 4, to->block[b].quants[0] + 4 * row);
        for (int g = 0; g < 2; g++)
            ft_store4(to->block[b].bits[g] + 4 * row,
                      put_bits6(from->bits + b / 4 * BLOCK + 16 * g, b % 4 * 2));
    }
}

/* ---- tiles ---- */

void ft_pack_k_tile(enum ggml_type type, int64_t n_in, const uint8_t *plain, uint8_t *tile)
{
    size_t n = (size_t)n_in / FT_PACK_SUPER;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t s = 0; s < n; s++) {
            size_t i = row * n + s;
            if (type == GGML_TYPE_Q4_K) {
                put_q4_k((const plain_q4_k *)plain + i, row, (ft_pack_q4_k *)tile + s);
            } else if (type == GGML_TYPE_Q5_K) {
                put_q5_k((const plain_q5_k *)plain + i, row, (ft_pack_q5_k *)tile + s);
            } else {
                const plain_q6_k *from = (const plain_q6_k *)plain + i;
                ft_pack_q6_k_place at = ft_pack_q6_k_at(s, n);
                memcpy(tile + at.d + 2 * row, &from->d, 2);
                put_q6_k(from, row, (ft_pack_q6_k *)(tile + at.super));
            }
        }
}
