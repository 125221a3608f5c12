// SPDX-License-Identifier: Apache-2.0
// Checks a problem, and makes its plan. Stateless.
#include "plan/problem.h"

#include <math.h>
#include <string.h>

#include "plan/best.h"
#include "plan/finish.h"
#include "plan/memory.h"

static bool in_range(double x, double least, double most)
{
    return x >= least && x <= most; /* false for NaN */
}

static ft_status check_task(const ft_plan_problem *p, uint32_t k, ft_error *err)
{
    const ft_plan_task *t = &p->tasks[k];
    if (t->in_tok < 1 || t->in_tok > FT_PLAN_TOK_MAX || t->out_tok < 1 ||
        t->out_tok > FT_PLAN_TOK_MAX)
        return ft_error_set(err, FT_INVALID, "plan: task %u: %u tokens in and %u out: 1 to %d each",
                            k + 1, t->in_tok, t->out_tok, FT_PLAN_TOK_MAX);
    if (!in_range(t->release_s, 0, 1e9) || !in_range(t->payload_bits, 0, 1e18) ||
        !in_range(t->rate_bits_s, 1e-9, INFINITY))
        return ft_error_set(err, FT_INVALID,
                            "plan: task %u: its release (%g s), payload (%g bits) or rate (%g "
                            "bit/s) is out of range",
                            k + 1, t->release_s, t->payload_bits, t->rate_bits_s);
    return FT_OK;
}

ft_status ft_plan_check(const ft_plan_problem *p, ft_error *err)
{
    ft_status status = FT_OK;
    if (p->n < 1 || p->n > FT_PLAN_TASKS_MAX)
        return ft_error_set(err, FT_INVALID, "plan: %u tasks: 1 to %d", p->n, FT_PLAN_TASKS_MAX);
    if (!in_range(p->acceptance, 0, 1))
        return ft_error_set(err, FT_INVALID, "plan: acceptance %g: 0 to 1", p->acceptance);
    if (p->length_least > p->length_most || p->length_most > FT_PLAN_LENGTH_MAX)
        return ft_error_set(err, FT_INVALID, "plan: lengths %u to %u: rising, at most %d",
                            p->length_least, p->length_most, FT_PLAN_LENGTH_MAX);
    if (!in_range(p->delay_s, 0, 1e6))
        return ft_error_set(err, FT_INVALID, "plan: a delay of %g s: 0 to 1e6", p->delay_s);
    for (uint32_t k = 0; k < p->n && status == FT_OK; k++)
        status = check_task(p, k, err);
    return status == FT_OK ? ft_plan_memory_check(p, err) : status;
}

/* Checks the problem; makes its costs, and a split without batches. Both owe a deinit, on failure
 * as well. */
static ft_status begin(const ft_plan_problem *problem, ft_error *err, ft_plan_cost *cost,
                       ft_plan_split *split)
{
    *cost = (ft_plan_cost){0};
    *split = (ft_plan_split){0};
    ft_status status = ft_plan_check(problem, err);
    if (status == FT_OK)
        status = ft_plan_cost_init(cost, problem, err);
    return status == FT_OK ? ft_plan_split_init(split, problem->n, err) : status;
}

ft_status ft_batch_plan_make(const ft_plan_problem *problem, ft_plan_algorithm algorithm,
                             const ft_plan_watch *watch, ft_error *err, ft_batch_plan *out)
{
    ft_plan_cost cost;
    ft_plan_split s;
    *out = (ft_batch_plan){0};
    ft_status status = begin(problem, err, &cost, &s);
    if (status == FT_OK)
        status = ft_plan_search(&cost, algorithm, watch, err, &s);
    if (status == FT_OK && !isfinite(s.inf_s))
        status = ft_error_set(err, FT_INVALID,
                              "plan: algorithm paper takes each output to be as long as the "
                              "longest one, and then a task exceeds a station's memory: algorithm "
                              "best does not");
    if (status == FT_OK)
        status = ft_plan_finish(&cost, &s, false, err, out);
    ft_plan_split_deinit(&s);
    ft_plan_cost_deinit(&cost);
    return status;
}

ft_status ft_batch_plan_given(const ft_plan_problem *problem, const ft_plan_given *given,
                              ft_error *err, ft_batch_plan *out)
{
    ft_plan_cost cost;
    ft_plan_split s;
    *out = (ft_batch_plan){0};
    ft_status status = begin(problem, err, &cost, &s);
    if (status == FT_OK) {
        s.length = given->length;
        s.n_batches = given->n_batches;
        memcpy(s.order, given->order, problem->n * sizeof *s.order);
        memcpy(s.sizes, given->sizes, given->n_batches * sizeof *s.sizes);
        status = ft_plan_finish(&cost, &s, false, err, out);
    }
    ft_plan_split_deinit(&s);
    ft_plan_cost_deinit(&cost);
    return status;
}
