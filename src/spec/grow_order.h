/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which nodes of a pool join a tree, for ways to grow other than best-first
 * (ft_grow). A tree begins empty, and nodes join it one at a time, each behind its parent, up to
 * params->budget nodes. Pure functions of the pool, any thread. Inside the room only. Not for
 * FT_GROW_BEST.
 */
#ifndef FT_SPEC_GROW_ORDER_H
#define FT_SPEC_GROW_ORDER_H

#include "spec/growth.h"

/* The nodes of a tree, in the order in which they joined it. */
typedef struct ft_grow_order {
    uint32_t n;
    uint16_t node[FT_TREE_MAX];
    float rank[FT_TREE_MAX]; /* of each when it joined: the highest that there was */
} ft_grow_order;

/* may [g->n]: false: the node does not join, nor do nodes behind it. */
void ft_grow_order_make(const ft_growth *g, const ft_draft_params *params, const bool *may,
                        ft_grow_order *out);

/* Whether a child of node number `at` of the order might join, too, once the node is computed. A
 * child's chance is its parent's at most. */
bool ft_grow_order_wants(const ft_growth *g, const ft_draft_params *params,
                         const ft_grow_order *order, uint32_t at);

#endif
