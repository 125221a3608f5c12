// SPDX-License-Identifier: Apache-2.0
// Packs float weights into tiles of 16 rows, and back: a transposition of 4-byte units (F32, pairs of
// BF16) or 2-byte ones (F16). Stateless; any thread. It does not compute with weights
// (engine/gemm_f_*.c do).
#include <stddef.h>
#include <string.h>

#include "model/pack.h"
#include "model/pack_layout.h"

enum { ROWS = FT_PACK_ROWS };

/* n units of `bytes`, a constant where this is inlined, of each row; plain [16][n], tile [n][16]. */
static inline __attribute__((always_inline)) void
transpose(size_t bytes, size_t n, const uint8_t *from, uint8_t *to, bool pack)
{
    for (size_t i = 0; i < n; i++)
        for (size_t row = 0; row < ROWS; row++) {
            size_t plain = (row * n + i) * bytes, tile = (i * ROWS + row) * bytes;
            memcpy(to + (pack ? tile : plain), from + (pack ? plain : tile), bytes);
        }
}

static void move(enum ggml_type type, int64_t n_in, const uint8_t *from, uint8_t *to, bool pack)
{
    if (type == GGML_TYPE_F16)
        transpose(2, (size_t)n_in, from, to, pack);
    else
        transpose(4, (size_t)n_in / (type == GGML_TYPE_BF16 ? 2 : 1), from, to, pack);
}

static void pack_floats(enum ggml_type type, int64_t n_in, const uint8_t *plain, uint8_t *tile)
{
    move(type, n_in, plain, tile, true);
}

static void unpack_floats(enum ggml_type type, int64_t n_in, const uint8_t *tile, uint8_t *plain)
{
    move(type, n_in, tile, plain, false);
}

const ft_pack_layout *ft_pack_f_layout(enum ggml_type type)
{
    static const ft_pack_layout layout = {pack_floats, unpack_floats};
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ? &layout
                                                                                    : NULL;
}
