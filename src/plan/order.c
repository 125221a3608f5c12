// SPDX-License-Identifier: Apache-2.0
// Orders of tasks, and whether planning is to stop. Stateless.
#include "base/sort.h"
#include "plan/search.h"

typedef struct by {
    const ft_plan_task *tasks;
    ft_plan_sorting sorting;
} by;

static bool before(const void *ctx, const void *a, const void *b)
{
    const by *o = ctx;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const ft_plan_task *x = &o->tasks[i], *y = &o->tasks[k];
    if (o->sorting == FT_PLAN_BY_INPUT && x->in_tok != y->in_tok)
        return x->in_tok < y->in_tok;
    if (o->sorting != FT_PLAN_BY_ARRIVAL && x->out_tok != y->out_tok)
        return x->out_tok < y->out_tok;
    if (o->sorting == FT_PLAN_BY_OUTPUT && x->in_tok != y->in_tok)
        return x->in_tok < y->in_tok;
    return i < k;
}

void ft_plan_sort(const ft_plan_problem *p, ft_plan_sorting sorting, uint32_t *order)
{
    const by how = {p->tasks, sorting};
    for (uint32_t i = 0; i < p->n; i++)
        order[i] = i;
    ft_sort(order, p->n, sizeof *order, before, &how);
}

ft_status ft_plan_watch_check(const ft_plan_watch *watch, ft_error *err)
{
    return watch && watch->stop && watch->stop() ? ft_error_set(err, FT_CANCELLED, "plan: stopped")
                                                 : FT_OK;
}
