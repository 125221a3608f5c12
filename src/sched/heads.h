/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides for which rows of a pass logits are computed, and when. A walk down a tree needs one row
 * a level, and knows the next row only after a token was drawn from the last. But each run of the
 * output head reads all its weights, even for few rows. So a run of the head computes the rows at
 * which walks stand, and also rows that they will probably need, if one more run would cost more.
 * The time of a run by its rows, and how far walks go, are learnt from earlier rounds. Pure; no
 * clock.
 */
#ifndef FT_SCHED_HEADS_H
#define FT_SCHED_HEADS_H

#include <stdint.h>

#define FT_HEADS_NODES  256 /* of a tree at most */
#define FT_HEADS_RANKS  4   /* of children: a node's first, second, third, any later one */
#define FT_HEADS_LEVELS 12  /* a run may take in rows of likelihood 1, 1/2, 1/4, ..., or all */

typedef struct ft_heads {
    double run_us, row_us;          /* what a run takes and each of its rows; both 0: unknown */
    double goes_on[FT_HEADS_RANKS]; /* how often a walk at a node with such a child went there */
    double share;                   /* of trees' nodes that got logits in the last pass */
} ft_heads;

/* Times are not known. Walks are taken to go to a node's first child with chance 1/2, and to each
 * further one half as often. */
void ft_heads_init(ft_heads *heads);

/* A run for so many rows took `us`; ignored unless both are positive. */
void ft_heads_observe(ft_heads *heads, uint32_t rows, int64_t us);

/* A walk in a tree (parent[n], each an earlier node or -1, siblings the likeliest first) went down
 * path[n_path] and ended there. */
void ft_heads_learn(ft_heads *heads, const int32_t *parent, uint32_t n, const uint32_t *path,
                    uint32_t n_path);

/* The walks of a pass, in trees of so many nodes in all, took logits of so many rows, roots
 * included. */
void ft_heads_saw_pass(ft_heads *heads, uint32_t n_walks, uint32_t n_nodes, uint32_t rows);
/* Rows that will get logits for a tree of so many nodes. */
uint32_t ft_heads_expect(const ft_heads *heads, uint32_t n_nodes);

/* Walks that need logits now. All-zero: none. */
typedef struct ft_heads_plan {
    uint32_t n_walks;
    uint32_t rows[FT_HEADS_LEVELS + 1]; /* of each likelihood */
    double leave[FT_HEADS_LEVELS + 1];  /* walks that will go from it to a lower one, as expected */
} ft_heads_plan;

/* Adds a walk that stands at node `at` (-1: the root) of a tree of n nodes. reach[n + 1]: out, for
 * the root and each node how likely its logits will be needed: 1 for `at`, 0 for what is not below
 * it. */
void ft_heads_add(ft_heads_plan *plan, const ft_heads *heads, const int32_t *parent, uint32_t n,
                  int32_t at, float *reach);

/* The least likelihood of rows that should be in this run, > 0. While times are not known, it is
 * the lowest (all rows) until a large run was measured, then 1, to measure a small run. */
float ft_heads_least(const ft_heads_plan *plan, const ft_heads *heads);

#endif
