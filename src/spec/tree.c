// SPDX-License-Identifier: Apache-2.0
// Token trees as plain arrays. Invariant of a valid tree: parent[i] < i, siblings differ in token.
// Owned by whoever holds it; nothing here draws tokens or touches a model.
#include "spec/tree.h"

#include <assert.h>
#include <math.h>

void ft_tree_clear(ft_tree *tree)
{
    tree->n = 0;
}

uint32_t ft_tree_add(ft_tree *tree, int32_t parent, int32_t token, float logp)
{
    uint32_t i = tree->n++;
    assert(i < FT_TREE_MAX && parent >= -1 && parent < (int32_t)i);
    tree->token[i] = token;
    tree->parent[i] = parent;
    tree->logp[i] = logp;
    tree->cum_logp[i] = parent < 0 ? logp : tree->cum_logp[parent] + logp;
    tree->depth[i] = (uint16_t)(parent < 0 ? 0 : tree->depth[parent] + 1);
    return i;
}

int32_t ft_tree_find_child(const ft_tree *tree, int32_t parent, int32_t token)
{
    for (uint32_t i = (uint32_t)(parent + 1); i < tree->n; i++)
        if (tree->parent[i] == parent && tree->token[i] == token)
            return (int32_t)i;
    return -1;
}

double ft_tree_tokens(const ft_tree *tree)
{
    double tokens = 1;
    for (uint32_t i = 0; i < tree->n; i++)
        tokens += (double)expf(tree->cum_logp[i]);
    return tokens;
}

uint32_t ft_tree_levels(const ft_tree *tree)
{
    uint32_t levels = 0;
    for (uint32_t i = 0; i < tree->n; i++)
        levels = tree->depth[i] + 1u > levels ? tree->depth[i] + 1u : levels;
    return levels;
}

ft_status ft_tree_check(const ft_tree *tree, uint32_t n_vocab, ft_error *err)
{
    if (tree->n > FT_TREE_MAX)
        return ft_error_set(err, FT_INVALID, "tree of %u nodes: at most %d are allowed", tree->n,
                            FT_TREE_MAX);
    for (uint32_t i = 0; i < tree->n; i++) {
        int32_t parent = tree->parent[i], token = tree->token[i];
        if (parent < -1 || parent >= (int32_t)i)
            return ft_error_set(err, FT_INVALID,
                                "tree node %u has parent %d: it must be -1 or an earlier node", i,
                                parent);
        if (token < 0 || (uint32_t)token >= n_vocab)
            return ft_error_set(err, FT_INVALID, "tree node %u has token %d outside 0..%u", i,
                                token, n_vocab - 1);
        int32_t twin = ft_tree_find_child(tree, parent, token);
        if (twin < (int32_t)i)
            return ft_error_set(err, FT_INVALID, "tree nodes %d and %u are equal siblings", twin,
                                i);
    }
    return FT_OK;
}
