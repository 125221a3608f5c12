// SPDX-License-Identifier: Apache-2.0
// What an early draft must be, and what is left of it behind a verdict. No state, no threads. Does
// not know which round it is for (serve/drafts.c, edge/early.c).
#include "wire/early.h"

/* Whether nodes i and k, both with a parent of -1 or neither, are children of the same node. at:
 * which of those with parent -1 each is. */
static bool siblings(const ft_msg_draft *d, const uint8_t *at, uint32_t i, uint32_t k)
{
    if (d->parent[i] != d->parent[k])
        return false;
    return d->parent[i] >= 0 || d->under[at[i]] == d->under[at[k]];
}

ft_status ft_early_check(const ft_msg_draft *early, uint32_t n_nodes, ft_error *err)
{
    const ft_msg_draft *d = early;
    uint8_t at[FT_WIRE_TREE_MAX] = {0};
    uint32_t n_top = 0;
    for (uint32_t i = 0; i < d->n; i++)
        if (d->parent[i] < 0)
            at[i] = (uint8_t)n_top++;
    if (d->n == 0 || n_top != d->n_under)
        return ft_error_set(
            err, FT_INVALID,
            "Draft.under: %u entries, but %u of %u nodes have no parent in the draft", d->n_under,
            n_top, d->n);
    for (uint32_t i = 0; i < n_top; i++)
        if (d->under[i] >= n_nodes)
            return ft_error_set(err, FT_INVALID,
                                "Draft.under[%u]: node %u, the tree that it extends has %u", i,
                                d->under[i], n_nodes);
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (d->token[i] == d->token[k] && siblings(d, at, i, k))
                return ft_error_set(err, FT_INVALID,
                                    "Draft.tree: nodes %u and %u are equal siblings", k, i);
    return FT_OK;
}

void ft_early_behind(const ft_msg_draft *early, uint32_t node, int32_t token, ft_msg_draft *out)
{
    int32_t moved[FT_WIRE_TREE_MAX]; /* the number in *out, -1: the cut, -2: not below it */
    uint32_t n_top = 0, n = 0;
    for (uint32_t i = 0; i < early->n; i++) {
        const int32_t parent = early->parent[i];
        moved[i] = -2;
        if (parent < 0) {
            if (early->under[n_top++] == node && early->token[i] == token)
                moved[i] = -1;
        } else if (moved[parent] >= -1) {
            out->token[n] = early->token[i];
            out->parent[n] = moved[parent];
            moved[i] = (int32_t)n++;
        }
    }
    out->n = n;
}
