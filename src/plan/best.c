// SPDX-License-Identifier: Apache-2.0
// Enumerates lengths (III-B, problem P3). `paper` runs Algorithm 1 for each. `best` begins with the
// same splits, adds those of labels, and makes all of them better, the best ones first, as long as
// its allowance of steps lasts. The caller owns the state.
#include "plan/best.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/sort.h"

/* Labels of each prefix: for few tasks about LABELS_WORK pairs of tasks and labels a length; for
 * many, as long as a length takes no more than LABELS_STEPS. 128 are all that 8 tasks can have. */
#define LABELS_WORK  40000
#define LABELS_LEAST 4
#define LABELS_MOST  128
#define LABELS_STEPS 100000000
/* What moves may compute: a step takes 20 to 30 ns. With 600 a pair, a plan of 1,000 tasks with
 * random outputs became 0.3 % shorter (822 to 819 s), plans of 100 tasks stayed the same. */
#define STEPS_LEAST 1000000
#define STEPS_PAIR  400
#define STEPS_MOST  1000000000

#define KICKED 3 /* splits that get kicks: the best ones */

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

/* paper: the split that took Algorithm 1 so many steps. A label takes more, because its curves bend
 * where batches end; Algorithm 1 has all end together. 0: no labels. */
static uint32_t labels_of(const ft_plan_problem *p, const ft_plan_split *paper, uint64_t steps)
{
    const double bends = 1 + paper->n_batches / 8.0;
    const double pairs = (double)p->n * (p->n + 1) / 2;
    const double most = fmin(fmax(LABELS_WORK / pairs, LABELS_LEAST), LABELS_MOST);
    return (uint32_t)fmin(most, LABELS_STEPS / (1 + (double)steps * bends));
}

static bool sooner(const void *ctx, const void *a, const void *b)
{
    const ft_plan_split *x = a, *y = b;
    if (x->inf_s != y->inf_s)
        return x->inf_s < y->inf_s;
    return x->length < y->length;
}

/* Two more splits of the length of s[0]. */
static ft_status add_labels(ft_plan_cost *c, uint32_t most, const ft_plan_watch *watch,
                            ft_error *err, ft_plan_split *s)
{
    ft_status status = ft_plan_labels(c, FT_PLAN_BY_INPUT, most, watch, err, &s[1]);
    return status == FT_OK ? ft_plan_labels(c, FT_PLAN_BY_OUTPUT, most, watch, err, &s[2]) : status;
}

/* The splits of one length. *skipped: there would be too much to do for labels. */
static ft_status make_start(ft_plan_cost *c, const ft_plan_watch *watch, ft_error *err,
                            ft_plan_split *s, bool *skipped)
{
    const uint64_t before = c->steps;
    ft_status status = ft_plan_paper(c, watch, err, &s[0]);
    const uint32_t most = labels_of(c->p, &s[0], c->steps - before);
    *skipped |= most == 0;
    return status == FT_OK && most > 0 ? add_labels(c, most, watch, err, s) : status;
}

static ft_status make_paper_starts(ft_plan_cost *c, const ft_plan_watch *watch, ft_error *err,
                                   starts *all)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < all->n && status == FT_OK; i++) {
        all->splits[i].length = c->p->length_least + i;
        status = ft_plan_paper(c, watch, err, &all->splits[i]);
        if (watch)
            ft_progress_report(&watch->progress, i + 1, all->n);
    }
    return status;
}

/* Where labels were too much for each length, the paper's best length alone gets a few. */
static ft_status make_starts(ft_plan_cost *c, const ft_plan_watch *watch, ft_error *err,
                             starts *all)
{
    uint32_t best = 0;
    bool skipped = false;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < all->n && status == FT_OK; i += STARTS) {
        for (uint32_t k = 0; k < STARTS; k++)
            all->splits[i + k].length = c->p->length_least + i / STARTS;
        status = make_start(c, watch, err, &all->splits[i], &skipped);
        best = sooner(NULL, &all->splits[i], &all->splits[best]) ? i : best;
        if (watch)
            ft_progress_report(&watch->progress, i + STARTS, all->n + 1);
    }
    if (status == FT_OK && skipped && !isfinite(all->splits[best + 1].inf_s))
        status = add_labels(c, 1, watch, err, &all->splits[best]);
    return status;
}

static ft_status improve(ft_plan_cost *c, const ft_plan_watch *watch, ft_error *err, starts *all)
{
    const uint64_t pairs = (uint64_t)c->p->n * c->p->n;
    const uint64_t wanted = STEPS_LEAST + STEPS_PAIR * pairs;
    const uint64_t steps = c->steps + (wanted < STEPS_MOST ? wanted : STEPS_MOST);
    ft_status status = FT_OK;
    ft_sort(all->splits, all->n, sizeof *all->splits, sooner, NULL);
    for (uint32_t i = 0; i < all->n && status == FT_OK; i++)
        if (isfinite(all->splits[i].inf_s) && c->steps < steps)
            status = ft_plan_moves(c, steps, watch, err, &all->splits[i]);
    ft_sort(all->splits, all->n, sizeof *all->splits, sooner, NULL);
    for (uint32_t i = 0; i < all->n && i < KICKED && status == FT_OK; i++)
        if (isfinite(all->splits[i].inf_s) && c->steps < steps)
            status = ft_plan_kicks(c, steps, watch, err, &all->splits[i]);
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
        status =
            paper_only ? make_paper_starts(c, watch, err, &all) : make_starts(c, watch, err, &all);
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
