/* SPDX-License-Identifier: Apache-2.0
 * The trees that bench verify verifies, the same for both sides. */
#ifndef FT_BENCH_TREE_H
#define FT_BENCH_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define FT_BENCH_TREE_MAX 256 /* nodes */

typedef struct ft_bench_tree {
    uint32_t n, n_leaves, n_depth;     /* n_depth: nodes of the longest path */
    int32_t parent[FT_BENCH_TREE_MAX]; /* an earlier node, or -1: a child of the context's end */
    uint32_t depth[FT_BENCH_TREE_MAX]; /* children of the context's end have 0 */
    int32_t leaf[FT_BENCH_TREE_MAX];   /* number of the node's leaf, -1: it has children */
    double p[FT_BENCH_TREE_MAX];       /* that the target goes there, as the drafter believes */
} ft_bench_tree;

/* A chain of n nodes, or the tree of a best-first drafter: it grows by the most probable node. A
 * node's best child has 0.6 of its probability, and every further one half of the rest that the one
 * before left (0.2, 0.1, 0.05). 8 nodes are then 4 deep with 4 leaves, 32 nodes 7 deep. A chain's
 * nodes are best children. */
void ft_bench_tree_make(ft_bench_tree *tree, uint32_t n, bool chain);

/* Whether node a is b or an ancestor of b. */
bool ft_bench_tree_above(const ft_bench_tree *tree, uint32_t a, uint32_t b);

/* Where the u-th part (0 < u < 1) of all walks ends, if the target follows the tree's p: the last
 * accepted node, -1: none is. Walks are ordered by their length. */
int32_t ft_bench_tree_end(const ft_bench_tree *tree, double u);

#endif
