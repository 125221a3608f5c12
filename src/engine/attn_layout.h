/* SPDX-License-Identifier: Apache-2.0
 *
 * How K and V of one KV head lie in one block of the pool (a *page*), by type. The same for every
 * instruction set. Sixteen tokens side by side for scores (a vector of 16 scores is summed over
 * dimensions), dimensions side by side for values; where an instruction sums two or four products at
 * once, those two or four are neighbours.
 *
 *          K                                            V
 *   f16    [dim][16]                                    [16][dim]
 *   bf16   [dim / 2][16][2]                             [16 / 2][dim][2 tokens]
 *   q8_0   f16 scales [dim / 32][16], [dim / 4][16][4]  f16 scales [dim / 32][16], [16][dim]
 *
 * A page takes exactly what its 16 tokens take in that type.
 */
#ifndef FT_ENGINE_ATTN_LAYOUT_H
#define FT_ENGINE_ATTN_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/engine.h"

#define FT_Q8_GROUP 32 /* dimensions that share a scale */

/* Head sizes that a type can hold are multiples of this. */
static inline uint32_t ft_attn_type_multiple(ft_kv_type type)
{
    return type == FT_KV_Q8_0 ? FT_Q8_GROUP : type == FT_KV_BF16 ? 2 : 1;
}

/* Bytes of K (or of V) of one token and KV head. */
static inline size_t ft_attn_token_bytes(ft_kv_type type, uint32_t dim)
{
    return type == FT_KV_Q8_0 ? dim + dim / FT_Q8_GROUP * sizeof(uint16_t) : dim * sizeof(uint16_t);
}

static inline size_t ft_attn_page_bytes(ft_kv_type type, uint32_t dim)
{
    return FT_KV_BLOCK_TOK * ft_attn_token_bytes(type, dim);
}

/* Scales of a q8_0 page, before its values. */
static inline size_t ft_attn_scale_bytes(uint32_t dim)
{
    return dim / FT_Q8_GROUP * FT_KV_BLOCK_TOK * sizeof(uint16_t);
}

/* A token's part of a page: n units of `unit` bytes, `stride` bytes apart. */
typedef struct ft_attn_units {
    size_t offset, unit, n, stride;
} ft_attn_units;

/* The parts, at most two, of the token in that lane of a page of V, or of K. Returns how many. */
static inline unsigned ft_attn_token_units(ft_kv_type type, uint32_t dim, bool value, uint32_t lane,
                                           ft_attn_units runs[2])
{
    const size_t tok = FT_KV_BLOCK_TOK, half = sizeof(uint16_t);
    size_t scales = ft_attn_scale_bytes(dim);
    switch (type) {
    case FT_KV_BF16:
        runs[0] = value
                      ? (ft_attn_units){(lane / 2 * dim * 2 + lane % 2) * half, half, dim, 2 * half}
                      : (ft_attn_units){lane * 2 * half, 2 * half, dim / 2, tok * 2 * half};
        return 1;
    case FT_KV_Q8_0:
        runs[0] = (ft_attn_units){lane * half, half, dim / FT_Q8_GROUP, tok * half};
        runs[1] = value ? (ft_attn_units){scales + (size_t)lane * dim, dim, 1, 0}
                        : (ft_attn_units){scales + lane * (size_t)4, 4, dim / 4, tok * 4};
        return 2;
    case FT_KV_F16:
        break;
    }
    runs[0] = value ? (ft_attn_units){lane * dim * half, dim * half, 1, 0}
                    : (ft_attn_units){lane * half, half, dim, tok * half};
    return 1;
}

/* Copies units of one size, which is known where it is called. */
static inline void ft_attn_units_copy(char *to, const char *from, const ft_attn_units *dst,
                                      const ft_attn_units *src, size_t unit)
{
    for (size_t i = 0; i < dst->n; i++)
        memcpy(to + dst->offset + i * dst->stride, from + src->offset + i * src->stride, unit);
}

/* A token's place in a page. */
typedef struct ft_attn_token {
    void *page;
    uint32_t lane;
} ft_attn_token;

/* Copies a token of V, or of K, to another place or the same one. */
static inline void ft_attn_token_copy(ft_kv_type type, uint32_t dim, bool value, ft_attn_token to,
                                      ft_attn_token from)
{
    ft_attn_units dst[2], src[2];
    unsigned n = ft_attn_token_units(type, dim, value, to.lane, dst);
    ft_attn_token_units(type, dim, value, from.lane, src);
    for (unsigned i = 0; i < n; i++) {
        if (dst[i].unit == 2)
            ft_attn_units_copy(to.page, from.page, &dst[i], &src[i], 2);
        else if (dst[i].unit == 4)
            ft_attn_units_copy(to.page, from.page, &dst[i], &src[i], 4);
        else
            ft_attn_units_copy(to.page, from.page, &dst[i], &src[i], dst[i].unit);
    }
}

#endif
