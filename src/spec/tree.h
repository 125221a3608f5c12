/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft as a token tree: nodes in an order in which parents come before children. Plain data,
 * filled in by drafters and by the wire's decoder.
 */
#ifndef FT_SPEC_TREE_H
#define FT_SPEC_TREE_H

#include <stdint.h>

#include "base/status.h"

#define FT_TREE_MAX 256 /* nodes; the wire and the engine's limits follow it */

typedef struct ft_tree {
    uint32_t n;
    int32_t token[FT_TREE_MAX];
    int32_t parent[FT_TREE_MAX]; /* -1: hangs on the text's last token; else < own index */
    float logp[FT_TREE_MAX]; /* the drafter's estimate of log P(this node is accepted | parent) */
    float cum_logp[FT_TREE_MAX]; /* summed along the path */
    uint16_t depth[FT_TREE_MAX]; /* 0 for roots */
} ft_tree;

/* An empty tree. */
void ft_tree_clear(ft_tree *tree);
/* Appends a node; sets depth and cum_logp from the parent. Returns its index; the tree must have
 * room (n < FT_TREE_MAX). */
uint32_t ft_tree_add(ft_tree *tree, int32_t parent, int32_t token, float logp);
/* The child of `parent` with this token, or -1. */
int32_t ft_tree_find_child(const ft_tree *tree, int32_t parent, int32_t token);
/* Tokens that it should bring, the target's own included. */
double ft_tree_tokens(const ft_tree *tree);
/* Nodes on its longest path; 0 for an empty tree. */
uint32_t ft_tree_levels(const ft_tree *tree);
/* FT_INVALID: a parent that points forward, two equal siblings, an id outside [0, n_vocab). */
FT_WARN_UNUSED ft_status ft_tree_check(const ft_tree *tree, uint32_t n_vocab, ft_error *err);

#endif
