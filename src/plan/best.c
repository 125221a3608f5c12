// SPDX-License-Identifier: Apache-2.0
// Enumerates lengths (III-B, problem P3). `paper` runs Algorithm 1 for each. `best` begins with the
// same splits, adds those of labels, and makes all of them better, the best ones first, as long as
// its allowance of steps lasts. The caller owns the state.
#include "plan/best.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/sort.h"

/* Labels of each prefix: about LABELS_WORK pairs of tasks and labels a length, so that the time
 * grows with the square of the tasks, as Algorithm 1's does. 128 are all that 8 tasks can have. */
#define LABELS_WORK  40000
#define LABELS_LEAST 4
#define LABELS_MOST  128
/* What moves may compute: a step takes 20 to 30 ns. With twice as many, a plan of 1,000 tasks with
 * random outputs became 1 % shorter (819 to 811 s), one of 100 tasks stayed the same. */
#define STEPS_LEAST 1000000
#define STEPS_PAIR  600

enum { STARTS = 3 }; /* of a length: Algorithm 1, labels by input and by output */

typedef struct starts {
    ft_plan_split *splits; /* [n] */
    uint32_t n;
} starts;

static void starts_deinit(starts *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        ft_plan_split_deinit(&s->splits[i]);
    free(s->splits);
}

static ft_status starts_init(starts *s, const ft_plan_problem *p, uint32_t n, ft_error *err)
{
    ft_status status = FT_OK;
    *s = (starts){.splits = calloc(n, sizeof *s->splits)};
    if (!s->splits)
        return ft_error_set(err, FT_NOMEM, "plan: out of memory");
    for (; s->n < n && status == FT_OK; s->n++)
        status = ft_plan_split_init(&s->splits[s->n], p->n, err);
    return status;
}

static uint32_t labels_of(const ft_plan_problem *p)
{
    const double pairs = (double)p->n * (p->n + 1) / 2;
    return (uint32_t)fmin(fmax(LABELS_WORK / pairs, LABELS_LEAST), LABELS_MOST);
}

static ft_status make_starts(ft_plan_cost *c, bool paper_only, const ft_plan_watch *watch,
                             ft_error *err, starts *all)
{
    const ft_plan_problem *p = c->p;
    const uint32_t lengths = p->length_most - p->length_least + 1, most = labels_of(p);
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < lengths && status == FT_OK; i++) {
        ft_plan_split *s = &all->splits[i * (paper_only ? 1 : STARTS)];
        for (uint32_t k = 0; k < (paper_only ? 1 : STARTS); k++)
            s[k].length = p->length_least + i;
        status = ft_plan_paper(c, watch, err, &s[0]);
        if (status == FT_OK && !paper_only)
            status = ft_plan_labels(c, FT_PLAN_BY_INPUT, most, watch, err, &s[1]);
        if (status == FT_OK && !paper_only)
            status = ft_plan_labels(c, FT_PLAN_BY_OUTPUT, most, watch, err, &s[2]);
        if (watch)
            ft_progress_report(&watch->progress, i + 1, lengths + !paper_only);
    }
    return status;
}

static bool sooner(const void *ctx, const void *a, const void *b)
{
    const ft_plan_split *x = a, *y = b;
    if (x->inf_s != y->inf_s)
        return x->inf_s < y->inf_s;
    return x->length < y->length;
}

static ft_status improve(ft_plan_cost *c, const ft_plan_watch *watch, ft_error *err, starts *all)
{
    const uint64_t pairs = (uint64_t)c->p->n * c->p->n;
    const uint64_t steps = c->steps + STEPS_LEAST + STEPS_PAIR * pairs;
    ft_status status = FT_OK;
    ft_sort(all->splits, all->n, sizeof *all->splits, sooner, NULL);
    for (uint32_t i = 0; i < all->n && status == FT_OK; i++)
        if (isfinite(all->splits[i].inf_s) && c->steps < steps)
            status = ft_plan_moves(c, steps, watch, err, &all->splits[i]);
    if (watch && status == FT_OK)
        ft_progress_report(&watch->progress, 1, 1);
    return status;
}

ft_status ft_plan_search(ft_plan_cost *c, ft_plan_algorithm algorithm, const ft_plan_watch *watch,
                         ft_error *err, ft_plan_split *s)
{
    const ft_plan_problem *p = c->p;
    const bool paper_only = algorithm == FT_PLAN_PAPER;
    const uint32_t lengths = p->length_most - p->length_least + 1;
    starts all;
    ft_status status = starts_init(&all, p, lengths * (paper_only ? 1 : STARTS), err);
    if (status == FT_OK)
        status = make_starts(c, paper_only, watch, err, &all);
    if (status == FT_OK && !paper_only)
        status = improve(c, watch, err, &all);
    if (status == FT_OK && c->no_memory)
        status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    s->inf_s = INFINITY;
    for (uint32_t i = 0; i < all.n && status == FT_OK; i++)
        if (sooner(NULL, &all.splits[i], s))
            ft_plan_split_copy(s, &all.splits[i], p->n);
    starts_deinit(&all);
    return status;
}
