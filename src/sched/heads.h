/* SPDX-License-Identifier: Apache-2.0
 *
 * For which rows of a pass logits are computed, and when. A walk down a verified tree looks at one row a
 * level, the next one known only after the last has been drawn from; but the output head reads all its
 * weights however few rows it is run for. So each time some walks need logits, one run of the head
 * serves the rows that they stand at and, besides, those that they will so likely need that leaving
 * them to a further run would cost more. What a run takes by number of rows, and how likely walks go
 * on, is learnt from the rounds before. Pure: observations in, decisions out; no clock.
 */
#ifndef FT_SCHED_HEADS_H
#define FT_SCHED_HEADS_H

#include <stdint.h>

#define FT_HEADS_NODES  256 /* of a tree at most */
#define FT_HEADS_SIZES  14  /* classes of runs: 1 row, 2-3, 4-7, ... */
#define FT_HEADS_RANKS  4   /* of children: a node's first, second, third, any later one */
#define FT_HEADS_LEVELS 12  /* a run may take in rows of likelihood 1, 1/2, 1/4, ..., or all */
#define FT_HEADS_DEPTH  32

typedef struct ft_heads {
    struct {
        double rows, us; /* recent means; us 0: none seen */
    } seen[FT_HEADS_SIZES];
    double goes_on[FT_HEADS_RANKS]; /* how often a walk at a node with such a child went there */
} ft_heads;

/* Nothing is known of times; a drafter's children are believed to be right as often as is usual. */
void ft_heads_init(ft_heads *heads);

/* A run for so many rows took `us`; ignored unless both are positive. */
void ft_heads_observe(ft_heads *heads, uint32_t rows, int64_t us);
/* What one would take. 0 until runs of sizes far apart have been seen. */
double ft_heads_us(const ft_heads *heads, double rows);

/* A walk in a tree (parent[n], each an earlier node or -1, siblings the likeliest first) went down
 * path[n_path] and ended there. */
void ft_heads_learn(ft_heads *heads, const int32_t *parent, uint32_t n, const uint32_t *path,
                    uint32_t n_path);

/* Walks that need logits now. All-zero: none. */
typedef struct ft_heads_plan {
    uint32_t n_walks;
    uint32_t rows[FT_HEADS_LEVELS + 1]; /* of each likelihood */
    double leave[FT_HEADS_LEVELS + 1];  /* walks that will go from it to a lower one, as expected */
    double deep[FT_HEADS_DEPTH];        /* walks that will come so many nodes down */
} ft_heads_plan;

/* Adds a walk that stands at node `at` (-1: the root) of a tree of n nodes. reach[n + 1]: out, for the
 * root and each node how likely its logits will be needed: 1 for `at`, 0 for what is not below it. */
void ft_heads_add(ft_heads_plan *plan, const ft_heads *heads, const int32_t *parent, uint32_t n,
                  int32_t at, float *reach);

/* The likelihood from which on rows should be in this run, > 0. While times are not known that is the
 * least of all, everything at once, until a run was large; then 1, for the other side. */
float ft_heads_least(const ft_heads_plan *plan, const ft_heads *heads);

#endif
