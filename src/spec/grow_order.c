// SPDX-License-Identifier: Apache-2.0
// Which node joins a tree next. An *end* is a node whose parent is in the tree, or that has none: a
// branch of the tree may go on with it. The end with the highest rank joins. Of siblings only the
// best one that has not joined is looked at: they are equally deep and stand in falling order of
// chance, so no other one has a higher rank. Nothing here allocates; no state.
#include "spec/grow_order.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

/* The pool's nodes by parent; -1: none. */
typedef struct links {
    int16_t first[1 + FT_GROWTH_MAX]; /* child of node i - 1; of 0: the best first token */
    int16_t next[FT_GROWTH_MAX];      /* sibling */
} links;

typedef struct end {
    uint16_t node, nth; /* nth: siblings that stand before it */
    float chance;       /* of the whole branch */
} end;

typedef struct ends {
    uint32_t n;
    end at[FT_TREE_MAX + 1]; /* a node that joins makes room for one, and brings two at most */
} ends;

typedef struct order_ask {
    const ft_growth *g;
    const ft_draft_params *params;
    const bool *may;
    links links;
} order_ask;

static void link_nodes(const ft_growth *g, links *l)
{
    memset(l->first, -1, (1 + g->n) * sizeof *l->first);
    for (uint32_t i = g->n; i-- > 0;) {
        int16_t *first = &l->first[1 + g->node[i].parent];
        l->next[i] = *first;
        *first = (int16_t)i;
    }
}

/* EdgeLLM eq. (1): branch i should have C_i * M tokens, where C_i is the chance of the branch and M
 * is the number of tokens of the tree. Eq. (2): a tree's distance from that is D, the maximum over
 * all branches of M * C_i - T_i, where T_i is the length of branch i. Giving a token to a branch
 * lowers its own term only. So D gets smallest if the branch with the largest term gets it.
 *
 * chance: of the branch; depth: of its last token; m: tokens of the tree with that one. */
static float term(float chance, uint32_t depth, uint32_t m)
{
    return (float)m * chance - (float)(depth + 1);
}

/* Fixed widths go level by level, and best first in a level. The factor is larger than any
 * difference between two chances. */
static float level_first(float chance, uint32_t depth)
{
    return chance - 2 * (float)depth;
}

static float rank_of(ft_grow grow, float chance, uint32_t depth, uint32_t m)
{
    return grow == FT_GROW_PACER ? term(chance, depth, m) : level_first(chance, depth);
}

/* Children that a node of the tree may have there, if they are at this depth. */
static uint32_t most_children(const ft_draft_params *params, uint32_t depth)
{
    if (params->grow == FT_GROW_PACER)
        return FT_DRAFT_RANKED;
    return depth < FT_GROW_LEVELS ? params->children[depth] : 0;
}

/* Adds the first of a node and its later siblings that may join, if there is one. nth: how many
 * siblings stand before the node. */
static void add_end(const order_ask *ask, int32_t node, uint32_t nth, ends *e)
{
    for (; node >= 0 && !ask->may[node]; nth++)
        node = ask->links.next[node];
    if (node < 0 || nth >= most_children(ask->params, ask->g->node[node].depth))
        return;
    e->at[e->n++] =
        (end){.node = (uint16_t)node, .nth = (uint16_t)nth, .chance = expf(ask->g->node[node].cum)};
}

/* The end of the highest rank, in a tree of m nodes with it; of equals the one that the pool got
 * first. */
static uint32_t best_end(const order_ask *ask, const ends *e, uint32_t m, float *rank)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        const end *at = &e->at[i];
        const float r = rank_of(ask->params->grow, at->chance, ask->g->node[at->node].depth, m);
        if (i == 0 || r > *rank || (r == *rank && at->node < e->at[best].node)) {
            *rank = r;
            best = i;
        }
    }
    return best;
}

void ft_grow_order_make(const ft_growth *g, const ft_draft_params *params, const bool *may,
                        ft_grow_order *out)
{
    order_ask ask = {.g = g, .params = params, .may = may};
    const uint32_t budget = ft_min_u32(params->budget, FT_TREE_MAX);
    ends e = {0};
    link_nodes(g, &ask.links);
    out->n = 0;
    add_end(&ask, ask.links.first[0], 0, &e);
    while (out->n < budget && e.n > 0) {
        const uint32_t best = best_end(&ask, &e, out->n + 1, &out->rank[out->n]);
        const end joins = e.at[best];
        out->node[out->n++] = joins.node;
        e.at[best] = e.at[--e.n];
        add_end(&ask, ask.links.next[joins.node], joins.nth + 1u, &e);
        add_end(&ask, ask.links.first[1 + joins.node], 0, &e);
    }
}

bool ft_grow_order_wants(const ft_growth *g, const ft_draft_params *params,
                         const ft_grow_order *order, uint32_t at)
{
    const ft_growth_node *node = &g->node[order->node[at]];
    const uint32_t depth = node->depth + 1u;
    const float chance = expf(node->cum);
    if (most_children(params, depth) == 0)
        return false;
    bool wanted = order->n < ft_min_u32(params->budget, FT_TREE_MAX);
    for (uint32_t i = at + 1; i < order->n && !wanted; i++)
        wanted = rank_of(params->grow, chance, depth, i + 1) > order->rank[i];
    return wanted;
}
