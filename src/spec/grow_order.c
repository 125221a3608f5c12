// SPDX-License-Identifier: Apache-2.0
// Which node joins a tree next. An *end* is a node whose parent is in the tree, or that has none: a
// branch of the tree may go on with it. The end with the highest rank joins. Of siblings only the
// best one that has not joined is looked at: they are equally deep and stand in falling order of
// chance, so no other one has a higher rank. Nothing here allocates; no state.
#include "spec/grow_order.h"

#include <math.h>
#include <string.h>

/* The pool's nodes by parent; -1: none. */
typedef struct links {
    int16_t first[1 + FT_GROWTH_MAX]; /* child of node i - 1; of 0: the best first token */
    int16_t next[FT_GROWTH_MAX];      /* sibling */
} links;

typedef struct end {
    uint16_t node;
    float chance; /* of the whole branch */
} end;

typedef struct ends {
    uint32_t n;
    end at[FT_TREE_MAX + 1]; /* a node that joins makes room for one, and brings two at most */
} ends;

static void link_nodes(const ft_growth *g, links *l)
{
    memset(l->first, -1, (1 + g->n) * sizeof *l->first);
    for (uint32_t i = g->n; i-- > 0;) {
        int16_t *first = &l->first[1 + g->node[i].parent];
        l->next[i] = *first;
        *first = (int16_t)i;
    }
}

/* The rank of a branch whose last token is at this depth, in a tree of m tokens with that one.
 *
 * EdgeLLM eq. (1): branch i should have C_i * M tokens, where C_i is the chance of the branch and M
 * is the number of tokens of the tree. Eq. (2): a tree's distance from that is D, the maximum over
 * all branches of M * C_i - T_i, where T_i is the length of branch i. Giving a token to a branch
 * lowers its own term only. So D gets smallest if the branch with the largest term gets it. */
static float rank_of(float chance, uint32_t depth, uint32_t m)
{
    return (float)m * chance - (float)(depth + 1);
}

/* Adds the first of a node and its later siblings that may join, if there is one. */
static void add_end(const ft_growth *g, const links *l, int32_t node, const bool *may, ends *e)
{
    while (node >= 0 && !may[node])
        node = l->next[node];
    if (node >= 0)
        e->at[e->n++] = (end){.node = (uint16_t)node, .chance = expf(g->node[node].cum)};
}

/* The end of the highest rank; of equals the one that the pool got first. */
static uint32_t best_end(const ft_growth *g, const ends *e, uint32_t m, float *rank)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        const float r = rank_of(e->at[i].chance, g->node[e->at[i].node].depth, m);
        if (i == 0 || r > *rank || (r == *rank && e->at[i].node < e->at[best].node)) {
            *rank = r;
            best = i;
        }
    }
    return best;
}

void ft_grow_order_make(const ft_growth *g, uint32_t budget, const bool *may, ft_grow_order *out)
{
    links l;
    ends e = {0};
    link_nodes(g, &l);
    out->n = 0;
    add_end(g, &l, l.first[0], may, &e);
    while (out->n < budget && e.n > 0) {
        const uint32_t best = best_end(g, &e, out->n + 1, &out->rank[out->n]);
        const uint16_t node = e.at[best].node;
        out->node[out->n++] = node;
        e.at[best] = e.at[--e.n];
        add_end(g, &l, l.next[node], may, &e);
        add_end(g, &l, l.first[1 + node], may, &e);
    }
}

bool ft_grow_order_wants(const ft_growth *g, uint32_t budget, const ft_grow_order *order,
                         uint32_t at)
{
    const ft_growth_node *node = &g->node[order->node[at]];
    const float chance = expf(node->cum);
    bool wanted = order->n < budget;
    for (uint32_t i = at + 1; i < order->n && !wanted; i++)
        wanted = rank_of(chance, node->depth + 1u, i + 1) > order->rank[i];
    return wanted;
}
