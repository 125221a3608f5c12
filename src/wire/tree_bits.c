// SPDX-License-Identifier: Apache-2.0
// The packed form of a Draft's tree. Bits are read one field at a time and never past the end, so
// any bytes are safe to read. Pure functions. Knows no vocabulary.
#include "wire/tree_bits.h"

#include <string.h>

/* The fewest bits that hold a number; none for 0. */
static uint32_t bits_of(uint32_t number)
{
    uint32_t n = 0;
    while (number >> n)
        n++;
    return n;
}

static void put(uint8_t *out, size_t *at, uint32_t value, uint32_t n_bits)
{
    for (uint32_t i = 0; i < n_bits; i++, (*at)++)
        out[*at / 8] |= (uint8_t)((value >> i & 1) << (*at % 8));
}

size_t ft_tree_bits_write(const ft_msg_draft *draft, uint8_t *out, uint32_t *token_bits)
{
    uint32_t all = 0, parent = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < draft->n; i++)
        all |= (uint32_t)draft->token[i];
    /* also a tree that has token 0 alone needs bits */
    *token_bits = draft->n == 0 ? 0 : all == 0 ? 1 : bits_of(all);
    memset(out, 0, FT_TREE_BITS_MAX_BYTES);
    for (uint32_t i = 0; i < draft->n; i++) {
        uint32_t own = (uint32_t)(draft->parent[i] + 1);
        put(out, &at, own != parent, 1);
        if (own != parent)
            put(out, &at, own, bits_of(i));
        put(out, &at, (uint32_t)draft->token[i], *token_bits);
        parent = own;
    }
    return (at + 7) / 8;
}

/* Reading past the end gives 0 and sets `over`. */
typedef struct reader {
    const uint8_t *data;
    size_t n_bits, at;
    bool over;
} reader;

static uint32_t take(reader *r, uint32_t n_bits)
{
    uint32_t value = 0;
    if (n_bits > r->n_bits - r->at) {
        r->over = true;
        return 0;
    }
    for (uint32_t i = 0; i < n_bits; i++, r->at++)
        value |= (uint32_t)(r->data[r->at / 8] >> (r->at % 8) & 1) << i;
    return value;
}

ft_status ft_tree_bits_read(const uint8_t *data, size_t n_bytes, uint32_t token_bits,
                            ft_msg_draft *draft, ft_error *err)
{
    uint32_t parent = 0;
    if (n_bytes > FT_TREE_BITS_MAX_BYTES)
        return ft_error_set(err, FT_INVALID, "Draft.tree: %zu bytes, at most %d", n_bytes,
                            FT_TREE_BITS_MAX_BYTES);
    reader r = {.data = data, .n_bits = 8 * n_bytes};
    for (uint32_t i = 0; i < draft->n; i++) {
        if (take(&r, 1))
            parent = take(&r, bits_of(i));
        draft->token[i] = (int32_t)take(&r, token_bits);
        draft->parent[i] = (int32_t)parent - 1;
        if (r.over)
            return ft_error_set(err, FT_INVALID, "Draft.tree: %zu bytes end in node %u of %u",
                                n_bytes, i, draft->n);
        if (parent > i)
            return ft_error_set(err, FT_INVALID,
                                "Draft.tree: parent %u of node %u points forward: parents come "
                                "first",
                                parent, i);
    }
    uint32_t left = (uint32_t)(r.n_bits - r.at);
    if (left >= 8 || take(&r, left) != 0)
        return ft_error_set(err, FT_INVALID, "Draft.tree: bits behind node %u of %u", draft->n,
                            draft->n);
    return FT_OK;
}
