// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 of the paper. The caller owns the state.
//
// Four slips of the print are put right. (1) Eq. (29) and line 15 add T^d to the time of the second
// stage; by (20), (31) and (32) it is added to the first stage's. (2) Lines 16 to 22 begin with the
// latency of j = 1. If that batch does not fit there is none, and all others are compared with 0,
// which stays the minimum. Here the minimum begins at infinity. (3) Lines 24 to 26 go through all
// i; the batches are found if i goes on from S[i] - 1. (4) The fourth is in the bandwidth
// (plan/bandwidth.c).
#include <math.h>
#include <stdlib.h>

#include "plan/memory.h"
#include "plan/search.h"

/* The first i tasks of the list, as far as they are planned: Upsilon[i] and S[i]. */
typedef struct prefix {
    ft_plan_curve curve;
    uint32_t start; /* the last batch is tasks start ... i, counted from 1; 0: no plan */
} prefix;

typedef struct algorithm {
    ft_plan_cost *c;
    ft_plan_split *s;
    prefix *prefixes; /* [n + 1] */
    uint32_t out_max; /* O_max, which all outputs are taken to have (section III-B) */
} algorithm;

/* The batch of tasks j ... i of the list; false: it does not fit. */
static bool batch_of(const algorithm *a, ft_plan_shape *shape, ft_plan_lane *lane,
                     ft_plan_piece *piece)
{
    const ft_plan_problem *p = a->c->p;
    shape->out_max = a->out_max;
    if (!ft_plan_fits(p, a->s->length, shape, shape->in_sum + (uint64_t)shape->n * a->out_max))
        return false;
    *lane = ft_plan_lane_of(p, a->s->length, shape, piece);
    return true;
}

/* Lines 6 to 23 for one i. Line 20 takes the later of two equal boundaries; j falls here, so it is
 * the first. Batches only grow as j falls: when one does not fit, those that follow do not. */
static bool plan_prefix(algorithm *a, uint32_t i)
{
    const ft_plan_task *tasks = a->c->p->tasks;
    ft_plan_shape shape = {0};
    ft_plan_piece piece, best_piece;
    ft_plan_lane lane;
    prefix *out = &a->prefixes[i];
    double least = INFINITY;
    for (uint32_t j = i; j >= 1; j--) {
        ft_plan_shape_add(&shape, &tasks[a->s->order[j - 1]]);
        if (!batch_of(a, &shape, &lane, &piece))
            break;
        if (j > 1 && a->prefixes[j - 1].start == 0)
            continue;
        const double latency = ft_plan_curve_sum_with(&a->prefixes[j - 1].curve, &lane);
        a->c->steps += a->prefixes[j - 1].curve.n + 1;
        if (latency < least) {
            least = latency;
            best_piece = piece;
            out->start = j;
        }
    }
    if (out->start == 0)
        return true;
    lane = (ft_plan_lane){.pieces = &best_piece, .n = 1};
    return ft_plan_curve_add(&a->prefixes[out->start - 1].curve, &lane, &out->curve);
}

/* Lines 24 to 26. */
static void backtrack(algorithm *a)
{
    ft_plan_split *s = a->s;
    s->n_batches = 0;
    for (uint32_t i = a->c->p->n; i > 0; i = a->prefixes[i].start - 1)
        s->sizes[s->n_batches++] = i - a->prefixes[i].start + 1;
    for (uint32_t k = 0; k < s->n_batches / 2; k++) {
        const uint32_t size = s->sizes[k];
        s->sizes[k] = s->sizes[s->n_batches - 1 - k];
        s->sizes[s->n_batches - 1 - k] = size;
    }
}

static ft_status run(algorithm *a, const ft_plan_watch *watch, ft_error *err)
{
    const ft_plan_problem *p = a->c->p;
    const uint32_t rounds = ft_plan_rounds(a->out_max, ft_plan_tokens(p->acceptance, a->s->length));
    ft_status status = FT_OK;
    bool good = ft_plan_curve_clear(&a->prefixes[0].curve, rounds);
    ft_plan_sort(p, FT_PLAN_BY_INPUT, a->s->order); /* line 3 */
    for (uint32_t i = 1; i <= p->n && good && status == FT_OK; i++) {
        good = plan_prefix(a, i);
        status = ft_plan_watch_check(watch, err);
    }
    if (!good)
        status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    return status;
}

ft_status ft_plan_paper(ft_plan_cost *c, const ft_plan_watch *watch, ft_error *err,
                        ft_plan_split *s)
{
    const ft_plan_problem *p = c->p;
    algorithm a = {.c = c, .s = s, .prefixes = calloc(p->n + 1, sizeof *a.prefixes)};
    s->inf_s = INFINITY;
    if (!a.prefixes)
        return ft_error_set(err, FT_NOMEM, "plan: out of memory");
    for (uint32_t k = 0; k < p->n; k++)
        a.out_max = p->tasks[k].out_tok > a.out_max ? p->tasks[k].out_tok : a.out_max;
    ft_status status = run(&a, watch, err);
    if (status == FT_OK && a.prefixes[p->n].start > 0) {
        backtrack(&a);
        ft_plan_cost_split(c, s);
    }
    for (uint32_t i = 0; i <= p->n; i++)
        ft_plan_curve_deinit(&a.prefixes[i].curve);
    free(a.prefixes);
    return status;
}
