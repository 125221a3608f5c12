// SPDX-License-Identifier: Apache-2.0
// Chooses the rows of a run of the output head. A choice is a number j: this run computes the rows
// that are needed with likelihood 2^-j or more, and each later run does the same, seen from where
// the walks stand then. j = 0 goes down level by level.
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
#include <stdbool.h>

#include "sched/tuning.h"

#define TUNE       (ft_sched_tune->heads)
#define LEAST_EVER FLT_MIN

void ft_heads_init(ft_heads *heads)
{
    *heads = (ft_heads){
        .goes_on = {TUNE.first_child, TUNE.second_child, TUNE.third_child, TUNE.later_child},
        .share = 1};
}

void ft_heads_saw_pass(ft_heads *heads, uint32_t n_walks, uint32_t n_nodes, uint32_t rows)
{
    if (n_nodes > 0)
        heads->share += TUNE.share * ((double)(rows - n_walks) / n_nodes - heads->share);
}

uint32_t ft_heads_expect(const ft_heads *heads, uint32_t n_nodes)
{
    return 1 + (uint32_t)(heads->share * n_nodes + 0.5);
}

/* ---- what a run takes ---- */

static uint32_t size_class(uint32_t rows)
{
    uint32_t size = 0;
    while (rows > 1 && size < FT_HEADS_SIZES - 1) {
        rows /= 2;
        size++;
    }
    return size;
}

void ft_heads_observe(ft_heads *heads, uint32_t rows, int64_t us)
{
    if (rows == 0 || us <= 0)
        return;
    uint32_t size = size_class(rows);
    double old = heads->seen[size].us, now = (double)us;
    if (old == 0) {
        heads->seen[size].us = now;
        heads->seen[size].rows = rows;
        return;
    }
    now = fmin(now, TUNE.jump * old);
    heads->seen[size].rows += TUNE.smooth * (rows - heads->seen[size].rows);
    heads->seen[size].us += TUNE.smooth * (now - old);
    double change = heads->seen[size].us / old - 1;
    for (uint32_t i = 0; i < FT_HEADS_SIZES; i++)
        if (i != size)
            heads->seen[i].us *= 1 + TUNE.alike * change;
}

/* Straight lines between what was seen, and on beyond it; fewer rows never take longer. */
double ft_heads_us(const ft_heads *heads, double rows)
{
    double first_x = 0, first_y = 0, x0 = 0, y0 = 0, us = 0;
    for (uint32_t i = 0; i < FT_HEADS_SIZES; i++) {
        double x = heads->seen[i].rows, y = fmax(heads->seen[i].us, y0);
        if (heads->seen[i].us == 0)
            continue;
        if (us == 0 && rows <= x)
            us = x0 == 0 ? y : y0 + (y - y0) * (rows - x0) / (x - x0);
        if (x0 == 0) {
            first_x = x;
            first_y = y;
        }
        x0 = x;
        y0 = y;
    }
    if (x0 == 0 || x0 < TUNE.spread * first_x)
        return 0; /* known sizes are too much alike */
    return us > 0 ? us : y0 + (y0 - first_y) * (rows - x0) / (x0 - first_x);
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
            *rate += TUNE.learn * ((step < n_path && path[step] == i) - *rate);
        }
    }
}

/* 0 for a likelihood of 1, j for one of at least 2^-j. */
static uint32_t level_of(float reach)
{
    int j = -ilogbf(reach);
    return j < FT_HEADS_LEVELS ? (uint32_t)j : FT_HEADS_LEVELS;
}

static void add_node(ft_heads_plan *plan, float up, float reach, uint32_t depth)
{
    plan->rows[level_of(reach)]++;
    plan->deep[depth < FT_HEADS_DEPTH ? depth : FT_HEADS_DEPTH - 1] += (double)reach;
    /* a walk that goes there leaves each run that has its parent but not this node */
    for (uint32_t j = level_of(up); j < level_of(reach); j++)
        plan->leave[j] += (double)reach;
}

void ft_heads_add(ft_heads_plan *plan, const ft_heads *heads, const int32_t *parent, uint32_t n,
                  int32_t at, float *reach)
{
    uint8_t n_child[FT_HEADS_NODES + 1] = {0}; /* of node - 1, up to FT_HEADS_RANKS */
    uint16_t depth[FT_HEADS_NODES + 1];
    assert(n <= FT_HEADS_NODES);
    for (uint32_t i = 0; i <= n; i++)
        reach[i] = 0;
    plan->n_walks++;
    add_node(plan, 1, reach[at + 1] = 1, depth[at + 1] = 0);
    for (uint32_t i = (uint32_t)(at + 1); i < n; i++) {
        uint32_t up = (uint32_t)(parent[i] + 1), rank = n_child[up];
        if (reach[up] == 0)
            continue;
        n_child[up] = (uint8_t)(rank + (rank < FT_HEADS_RANKS));
        reach[i + 1] = fmaxf(reach[up] * (float)heads->goes_on[rank_class(rank)], LEAST_EVER);
        depth[i + 1] = (uint16_t)(depth[up] + 1);
        add_node(plan, reach[up], reach[i + 1], depth[i + 1]);
    }
}

/* ---- the choice ---- */

/* Expected time of a run that on average so many of the walks come to, and that has so many rows on
 * average. It takes place unless no walk comes to it. */
static double run_us(const ft_heads *heads, uint32_t walks, double there, double rows)
{
    double happens = 1 - pow(1 - fmin(there / walks, 1), walks);
    if (happens < TUNE.unlikely)
        return 0;
    return happens * ft_heads_us(heads, fmax(fmax(rows, there) / happens, 1));
}

static double cost_of(const ft_heads *heads, const ft_heads_plan *plan, uint32_t j)
{
    double us = 0, there = plan->n_walks;
    for (uint32_t d = 0; j == 0 && d < FT_HEADS_DEPTH; d++)
        us += run_us(heads, plan->n_walks, plan->deep[d], plan->deep[d]);
    for (uint32_t from = 0; j > 0 && from < FT_HEADS_LEVELS; from += j) {
        double rows = from == 0 ? plan->rows[0] : 0;
        for (uint32_t l = from + 1; l <= from + j && l <= FT_HEADS_LEVELS; l++)
            rows += plan->rows[l];
        us += run_us(heads, plan->n_walks, there, ldexp(rows, -(int)from));
        there = from + j < FT_HEADS_LEVELS ? plan->leave[from + j] : 0;
    }
    return us;
}

/* Whether runs of far more rows are known than this one would have as the smallest. */
static bool large_known(const ft_heads *heads, uint32_t rows)
{
    for (uint32_t i = 0; i < FT_HEADS_SIZES; i++)
        if (heads->seen[i].us > 0 && heads->seen[i].rows >= TUNE.spread * rows)
            return true;
    return false;
}

float ft_heads_least(const ft_heads_plan *plan, const ft_heads *heads)
{
    float least = LEAST_EVER;
    double best = 0;
    if (plan->n_walks == 0)
        return LEAST_EVER;
    if (ft_heads_us(heads, 1) == 0) /* learn: a large run first, then a small one */
        return large_known(heads, plan->n_walks) ? 1 : LEAST_EVER;
    for (uint32_t j = 0; j <= FT_HEADS_LEVELS; j++) {
        double us = cost_of(heads, plan, j);
        if (j == 0 || us <= best) {
            best = us;
            least = j < FT_HEADS_LEVELS ? ldexpf(1, -(int)j) : LEAST_EVER;
        }
    }
    return least;
}
