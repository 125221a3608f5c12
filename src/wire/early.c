// SPDX-License-Identifier: Apache-2.0
// The check of an early draft, and the part of it that follows a verdict. Pure functions. Does not
// know which round it is for (serve/drafts.c, edge/early.c).
#include "wire/early.h"

ft_status ft_early_check(const ft_msg_draft *early, uint32_t n_nodes, ft_error *err)
{
    const ft_msg_draft *d = early;
    uint32_t n_top = 0;
    /* what node i is a child of: a node of the extended tree, or FT_WIRE_TREE_MAX + a node of d */
    uint32_t above[FT_WIRE_TREE_MAX];
    for (uint32_t i = 0; i < d->n; i++)
        if (d->parent[i] >= 0)
            above[i] = FT_WIRE_TREE_MAX + (uint32_t)d->parent[i];
        else
            above[i] = d->under[n_top++];
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
            if (d->token[i] == d->token[k] && above[i] == above[k])
                return ft_error_set(err, FT_INVALID,
                                    "Draft.tree: nodes %u and %u are equal siblings", k, i);
    return FT_OK;
}

void ft_early_behind(const ft_msg_draft *early, uint32_t node, int32_t token, ft_msg_draft *out)
{
    int32_t moved[FT_WIRE_TREE_MAX]; /* in *out; -1: the node cut at; -2: not below it */
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
