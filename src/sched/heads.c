// SPDX-License-Identifier: Apache-2.0
// Chooses the rows of a run of the output head. A choice is a number j: this run computes the rows
// that are needed with likelihood 2^-j or more, and each later run does the same, seen from where
// the walks stand then. As long as nothing is known, one run computes all rows.
//
// The cost of a choice is the expected time of all its runs. A later run is needed if some walk
// goes beyond the rows of the runs before it. Its expected rows are those of the next j halvings,
// each weighted by the likelihood that a walk comes so far.
//
// Pure; the caller owns the state.
#include "sched/heads.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "sched/tuning.h"

#define LEAST_EVER FLT_MIN

void ft_heads_init(ft_heads *heads)
{
    *heads = (ft_heads){.share = 1};
    for (uint32_t rank = 0; rank < FT_HEADS_RANKS; rank++)
        heads->goes_on[rank] = ldexp(1, -1 - (int)rank);
}

void ft_heads_saw_pass(ft_heads *heads, uint32_t n_walks, uint32_t n_nodes, uint32_t rows)
{
    if (n_nodes > 0)
        heads->share = (double)(rows - n_walks) / n_nodes;
}

uint32_t ft_heads_expect(const ft_heads *heads, uint32_t n_nodes)
{
    return 1 + (uint32_t)(heads->share * n_nodes + 0.5);
}

/* ---- what a run takes ---- */

/* Each part of the expected time changes as if it alone were off, but weighted by its share. A run
 * moves the expected time by at most its double, so that one that was held up says little. */
void ft_heads_observe(ft_heads *heads, uint32_t rows, int64_t us)
{
    if (rows == 0 || us <= 0)
        return;
    const double now = (double)us, rows_us = heads->row_us * rows, old = heads->run_us + rows_us;
    if (old == 0) {
        heads->run_us = now / 2;
        heads->row_us = now / 2 / rows;
        return;
    }
    const double off = (now - old) / (now + old);
    heads->run_us *= 1 + off * heads->run_us / old;
    heads->row_us *= 1 + off * rows_us / old;
}

/* ---- where walks go ---- */

static uint32_t rank_class(uint32_t rank)
{
    return rank < FT_HEADS_RANKS ? rank : FT_HEADS_RANKS - 1;
}

void ft_heads_learn(ft_heads *heads, const int32_t *parent, uint32_t n, const uint32_t *path,
                    uint32_t n_path)
{
    for (uint32_t step = 0; step <= n_path; step++) {
        int32_t at = step ? (int32_t)path[step - 1] : -1;
        uint32_t rank = 0;
        for (uint32_t i = (uint32_t)(at + 1); i < n; i++) {
            if (parent[i] != at)
                continue;
            double *rate = &heads->goes_on[rank_class(rank++)];
            *rate += ft_sched_tune->heads.learn * ((step < n_path && path[step] == i) - *rate);
        }
    }
}

/* 0 for a likelihood of 1, j for one of at least 2^-j. */
static uint32_t level_of(float reach)
{
    int j = -ilogbf(reach);
    return j < FT_HEADS_LEVELS ? (uint32_t)j : FT_HEADS_LEVELS;
}

static void add_node(ft_heads_plan *plan, float up, float reach)
{
    plan->rows[level_of(reach)]++;
    /* a walk that goes there leaves each run that has its parent but not this node */
    for (uint32_t j = level_of(up); j < level_of(reach); j++)
        plan->leave[j] += (double)reach;
}

void ft_heads_add(ft_heads_plan *plan, const ft_heads *heads, const int32_t *parent, uint32_t n,
                  int32_t at, float *reach)
{
    uint8_t n_child[FT_HEADS_NODES + 1] = {0}; /* of node - 1, up to FT_HEADS_RANKS */
    assert(n <= FT_HEADS_NODES);
    for (uint32_t i = 0; i <= n; i++)
        reach[i] = 0;
    plan->n_walks++;
    add_node(plan, 1, reach[at + 1] = 1);
    for (uint32_t i = (uint32_t)(at + 1); i < n; i++) {
        uint32_t up = (uint32_t)(parent[i] + 1), rank = n_child[up];
        if (reach[up] == 0)
            continue;
        n_child[up] = (uint8_t)(rank + (rank < FT_HEADS_RANKS));
        reach[i + 1] = fmaxf(reach[up] * (float)heads->goes_on[rank_class(rank)], LEAST_EVER);
        add_node(plan, reach[up], reach[i + 1]);
    }
}

/* ---- the choice ---- */

/* Of the runs of choice j. A run takes place unless no walk comes to it. */
static double cost_of(const ft_heads *heads, const ft_heads_plan *plan, uint32_t j)
{
    double us = 0, there = plan->n_walks; /* walks that come to the run, as expected */
    for (uint32_t from = 0; from < FT_HEADS_LEVELS; from += j) {
        double rows = from == 0 ? plan->rows[0] : 0;
        for (uint32_t l = from + 1; l <= from + j && l <= FT_HEADS_LEVELS; l++)
            rows += plan->rows[l];
        rows = fmax(ldexp(rows, -(int)from), there);
        const double happens = 1 - pow(1 - fmin(there / plan->n_walks, 1), plan->n_walks);
        us += happens * heads->run_us + rows * heads->row_us;
        there = from + j < FT_HEADS_LEVELS ? plan->leave[from + j] : 0;
    }
    return us;
}

float ft_heads_least(const ft_heads_plan *plan, const ft_heads *heads)
{
    uint32_t best = FT_HEADS_LEVELS;
    if (plan->n_walks == 0)
        return LEAST_EVER;
    double best_us = cost_of(heads, plan, best);
    for (uint32_t j = best - 1; j > 0; j--) {
        const double us = cost_of(heads, plan, j);
        if (us < best_us) {
            best_us = us;
            best = j;
        }
    }
    return best < FT_HEADS_LEVELS ? ldexpf(1, -(int)best) : LEAST_EVER;
}
