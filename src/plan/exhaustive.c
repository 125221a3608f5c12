// SPDX-License-Identifier: Apache-2.0
// All plans of a small problem. A set of tasks is the bits of a number. The caller owns the state.
#include "plan/exhaustive.h"

#include <math.h>
#include <stdlib.h>

#include "plan/memory.h"
#include "plan/pipeline.h"
#include "plan/search.h"

typedef struct set {
    bool fits;
    uint32_t rounds;
    ft_plan_time draft, verify;
} set;

typedef struct all {
    const ft_plan_problem *p;
    bool by_rounds; /* eq. (20) holds */
    uint32_t length;
    ft_plan_space space;
    uint32_t order[FT_PLAN_EXHAUSTIVE_MAX]; /* by input; bit i is order[i] */
    uint32_t rounds;                        /* of the longest output */
    set *sets;                              /* [2^n] for one length */
    double *ends; /* [n + 1][2][rounds] when both stages end, by batches so far and round */
    uint32_t chosen[FT_PLAN_EXHAUSTIVE_MAX]; /* the batches so far, as sets */
    double least;
} all;

/* The tasks of a set. */
static uint32_t list(const all *a, uint32_t bits, uint32_t tasks[FT_PLAN_EXHAUSTIVE_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->p->n; i++)
        if (bits >> i & 1)
            tasks[n++] = a->order[i];
    return n;
}

static void make_sets(all *a)
{
    const ft_plan_problem *p = a->p;
    const double tokens = ft_plan_tokens(p->acceptance, a->length);
    for (uint32_t bits = 1; bits < 1u << p->n; bits++) {
        uint32_t tasks[FT_PLAN_EXHAUSTIVE_MAX];
        const uint32_t n = list(a, bits, tasks);
        uint64_t kv_sum;
        set *s = &a->sets[bits];
        const ft_plan_shape shape = ft_plan_shape_of(p, tasks, n, &kv_sum);
        s->fits = ft_plan_fits(p, a->length, &shape, kv_sum);
        s->rounds = ft_plan_rounds(shape.out_max, tokens);
        p->times(p->times_ctx, &shape, a->length, tokens, &s->draft, &s->verify);
    }
}

/* Eq. (20) for one more batch, in each round. */
static void add(const all *a, uint32_t depth, const set *s)
{
    const double *draft = a->ends + (size_t)2 * depth * a->rounds, *both = draft + a->rounds;
    double *next = a->ends + (size_t)2 * (depth + 1) * a->rounds;
    for (uint32_t i = 0; i < a->rounds; i++) {
        const bool active = i < s->rounds;
        const double d = active ? ft_plan_time_at(&s->draft, i + 1) : 0;
        const double v = active ? ft_plan_time_at(&s->verify, i + 1) : 0;
        next[i] = draft[i] + d;
        next[a->rounds + i] = fmax(next[i], both[i]) + v;
    }
}

/* The sum of (22) of the batches so far. */
static double sum_of(const all *a, uint32_t depth)
{
    const double *both = a->ends + ((size_t)2 * depth + 1) * a->rounds;
    double sum = 0;
    for (uint32_t i = 0; i < a->rounds; i++)
        sum += both[i];
    return sum;
}

static double walk(const all *a, uint32_t depth)
{
    ft_plan_piece pieces[FT_PLAN_EXHAUSTIVE_MAX];
    ft_plan_lane lanes[FT_PLAN_EXHAUSTIVE_MAX];
    ft_plan_place places[FT_PLAN_EXHAUSTIVE_MAX];
    uint32_t tasks[FT_PLAN_EXHAUSTIVE_MAX], at = 0;
    for (uint32_t i = 0; i < depth; i++) {
        const uint32_t n = list(a, a->chosen[i], tasks);
        ft_plan_list_sort(a->p, tasks, n);
        lanes[i] = ft_plan_lane_make(a->p, a->length, tasks, n, pieces + at);
        at += n;
    }
    return ft_plan_walk(a->p->flow, lanes, depth, places, NULL, NULL);
}

/* Tries all ways to go on with the tasks `left`. */
static void try_all(all *a, uint32_t depth, uint32_t left)
{
    const uint32_t lowest = left & (~left + 1);
    if (left == 0) {
        a->least = fmin(a->least, a->by_rounds ? sum_of(a, depth) : walk(a, depth));
        return;
    }
    for (uint32_t bits = left; bits > 0; bits = (bits - 1) & left) {
        const uint32_t above = bits + lowest; /* one bit, if `bits` is the first tasks of `left` */
        const bool whole = a->space == FT_PLAN_ALL_ORDERS || (above & (above - 1)) == 0;
        if (!whole || !a->sets[bits].fits)
            continue;
        a->chosen[depth] = bits;
        if (a->by_rounds)
            add(a, depth, &a->sets[bits]);
        try_all(a, depth + 1, left & ~bits);
    }
}

ft_status ft_plan_exhaustive(const ft_plan_problem *p, ft_plan_space space, ft_error *err,
                             double *inf_s)
{
    all a = {.p = p,
             .by_rounds = p->flow == FT_PLAN_ROUNDS && !p->leave,
             .space = space,
             .least = INFINITY};
    uint32_t longest = 0;
    if (p->n < 1 || p->n > FT_PLAN_EXHAUSTIVE_MAX)
        return ft_error_set(err, FT_INVALID, "plan: too many tasks for an exhaustive search");
    for (uint32_t k = 0; k < p->n; k++)
        longest = p->tasks[k].out_tok > longest ? p->tasks[k].out_tok : longest;
    a.sets = calloc((size_t)1 << p->n, sizeof *a.sets);
    a.ends = calloc((size_t)2 * (p->n + 1) * longest, sizeof *a.ends);
    ft_status status =
        a.sets && a.ends ? FT_OK : ft_error_set(err, FT_NOMEM, "plan: out of memory");
    ft_plan_sort(p, FT_PLAN_BY_INPUT, a.order);
    for (uint32_t l = p->length_least; l <= p->length_most && status == FT_OK; l++) {
        a.length = l;
        a.rounds = ft_plan_rounds(longest, ft_plan_tokens(p->acceptance, l));
        make_sets(&a);
        for (uint32_t i = 0; i < 2 * a.rounds; i++)
            a.ends[i] = 0;
        try_all(&a, 0, (1u << p->n) - 1);
    }
    free(a.sets);
    free(a.ends);
    *inf_s = a.least;
    return status;
}
