/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of K and V of one KV head in one block of the pool (a *page*), for each type. It is
 * the same for every instruction set. K has sixteen tokens side by side: a vector of 16 scores is
 * summed over dimensions. V has dimensions side by side. Where an instruction sums two or four
 * products at once, those two or four values are neighbours.
 *
 *          K                                            V
 *   f16    [dim][16]                                    [16][dim]
 *   bf16   [dim / 2][16][2]                             [16 / 2][dim][2 tokens]
 *   q8_0   f16 scales [dim / 32][16], [dim / 4][16][4]  f16 scales [dim / 32][16], [16][dim]
 *
 * A page is exactly as large as its 16 tokens in that type.
 */
#ifndef FT_ENGINE_ATTN_LAYOUT_H
#define FT_ENGINE_ATTN_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/engine.h"

#define FT_Q8_GROUP 32 /* dimensions that share a scale */

/* head_dim must be a multiple of this. */
static inline uint32_t ft_attn_type_multiple(ft_kv_type type)
{
    return type == FT_KV_Q8_0 ? FT_Q8_GROUP : type == FT_KV_BF16 ? 2 : 1;
}

/* Bytes of one token's K (or V) in one KV head. */
static inline size_t ft_attn_token_bytes(ft_kv_type type, uint32_t dim)
{
    return type == FT_KV_Q8_0 ? dim + dim / FT_Q8_GROUP * sizeof(uint16_t) : dim * sizeof(uint16_t);
}

static inline size_t ft_attn_page_bytes(ft_kv_type type, uint32_t dim)
{
    return FT_KV_BLOCK_TOK * ft_attn_token_bytes(type, dim);
}

/* Bytes of the scales of a q8_0 page; they precede its values. */
static inline size_t ft_attn_scale_bytes(uint32_t dim)
{
    return dim / FT_Q8_GROUP * FT_KV_BLOCK_TOK * sizeof(uint16_t);
}

/* A part of a token in a page: n units of `unit` bytes, `stride` bytes apart. */
typedef struct ft_attn_units {
    size_t offset, unit, n, stride;
} ft_attn_units;

/* Writes the parts (at most two) of the token in `lane` of a page of V, or of K. Returns their
 * number. */
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

/* Copies units of one size; the size is a constant at the call. */
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

/* Copies a token's V, or K, to another place or onto itself. */
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
