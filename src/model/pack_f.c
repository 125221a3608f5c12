// SPDX-License-Identifier: Apache-2.0
// Packs float weights into tiles of 16 rows: a transposition of 4-byte units (F32, pairs of BF16)
// or 2-byte units (F16). Stateless; any thread. It does not compute with weights (engine/gemm_*.c
// do).
//
// A single row can be read without the others. It has a part in every cache line of its tile, so
// reading it costs 16 times its size in memory traffic; that is still nothing compared to the pass
// that follows.
#include <stddef.h>
#include <string.h>

#include "model/pack.h"
#include "model/pack_layout.h"

enum { ROWS = FT_PACK_ROWS, CHUNK = 64 };

/* n units of `bytes`, a constant where this is inlined, of each row: plain [16][n] to tile
 * [n][16]. */
static inline __attribute__((always_inline)) void transpose(size_t bytes, size_t n,
                                                            const uint8_t *plain, uint8_t *tile)
{
    for (size_t i = 0; i < n; i++)
        for (size_t row = 0; row < ROWS; row++)
            memcpy(tile + (i * ROWS + row) * bytes, plain + (row * n + i) * bytes, bytes);
}

void ft_pack_f_tile(enum ggml_type type, int64_t n_in, const uint8_t *plain, uint8_t *tile)
{
    if (type == GGML_TYPE_F16)
        transpose(2, (size_t)n_in, plain, tile);
    else
        transpose(4, (size_t)n_in / (type == GGML_TYPE_BF16 ? 2 : 1), plain, tile);
}

bool ft_pack_has_rows(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

/* Values [begin, begin + n) of a row, n even; tile: of the row. */
static void get_values(enum ggml_type type, const char *tile, size_t row, size_t begin, size_t n,
                       float *out)
{
    uint16_t half[CHUNK];
    size_t at = begin * ROWS + row;
    if (type == GGML_TYPE_F32) {
        for (size_t i = 0; i < n; i++)
            memcpy(out + i, tile + 4 * (at + i * ROWS), 4);
    } else if (type == GGML_TYPE_F16) {
        for (size_t i = 0; i < n; i++)
            memcpy(half + i, tile + 2 * (at + i * ROWS), 2);
        ggml_fp16_to_fp32_row(half, out, (int64_t)n);
    } else {
        for (size_t i = 0; i < n; i += 2)
            memcpy(half + i, tile + 2 * (begin * ROWS + 2 * row + i * ROWS), 4);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)half[i] << 16;
            memcpy(out + i, &bits, 4);
        }
    }
}

void ft_pack_get_row(enum ggml_type type, int64_t n_in, const void *packed, size_t row, float *out)
{
    const char *tile = (const char *)packed + row / ROWS * ft_pack_tile_bytes(type, n_in);
    for (size_t begin = 0, n_values = (size_t)n_in; begin < n_values; begin += CHUNK) {
        size_t n = n_values - begin < CHUNK ? n_values - begin : CHUNK;
        get_values(type, tile, row % ROWS, begin, n, out + begin);
    }
}
