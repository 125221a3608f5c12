// SPDX-License-Identifier: Apache-2.0
// Trees as a drafter makes them. Pure.
#include "bench/tree.h"

/* Share of a node's probability that its k-th child takes. */
static double share(uint32_t k)
{
    double p = k == 0 ? 0.6 : 0.2;
    for (; k > 1; k--)
        p /= 2;
    return p;
}

/* Adds the most probable node that is not in the tree yet: the next child of some node or of the
 * end of the context. p[i] and n_child[i] are of node i - 1; 0 is the end of the context. */
static void grow(ft_bench_tree *tree, double *p, uint32_t *n_child)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i <= tree->n; i++)
        if (p[i] * share(n_child[i]) > p[best] * share(n_child[best]))
            best = i;
    uint32_t node = tree->n++;
    p[node + 1] = p[best] * share(n_child[best]++);
    n_child[node + 1] = 0;
    tree->parent[node] = (int32_t)best - 1;
}

void ft_bench_tree_make(ft_bench_tree *tree, uint32_t n, bool chain)
{
    double p[FT_BENCH_TREE_MAX + 1] = {1};
    uint32_t n_child[FT_BENCH_TREE_MAX + 1] = {0};
    tree->n = tree->n_leaves = tree->n_depth = 0;
    while (tree->n < n) {
        if (chain) {
            tree->parent[tree->n] = (int32_t)tree->n - 1;
            p[tree->n + 1] = p[tree->n] * share(0);
            n_child[tree->n] = 1;
            tree->n++;
        } else {
            grow(tree, p, n_child);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        int32_t up = tree->parent[i];
        tree->depth[i] = up < 0 ? 0 : tree->depth[up] + 1;
        tree->p[i] = p[i + 1];
        tree->leaf[i] = n_child[i + 1] ? -1 : (int32_t)tree->n_leaves++;
        if (tree->depth[i] + 1 > tree->n_depth)
            tree->n_depth = tree->depth[i] + 1;
    }
}

bool ft_bench_tree_above(const ft_bench_tree *tree, uint32_t a, uint32_t b)
{
    int32_t at = (int32_t)b;
    while (at > (int32_t)a)
        at = tree->parent[at];
    return at == (int32_t)a;
}

/* Share of all walks that end in a node, -1: the end of the context. */
static double ends_in(const ft_bench_tree *tree, int32_t node)
{
    double p = node < 0 ? 1 : tree->p[node];
    for (uint32_t i = (uint32_t)(node + 1); i < tree->n; i++)
        p -= tree->parent[i] == node ? tree->p[i] : 0;
    return p;
}

int32_t ft_bench_tree_end(const ft_bench_tree *tree, double u)
{
    double sum = ends_in(tree, -1);
    int32_t end = -1;
    for (uint32_t depth = 0; depth < tree->n_depth; depth++)
        for (uint32_t i = 0; i < tree->n && sum < u; i++)
            if (tree->depth[i] == depth) {
                sum += ends_in(tree, (int32_t)i);
                end = (int32_t)i;
            }
    return end;
}
