// SPDX-License-Identifier: Apache-2.0
// The paper's benchmarks. Lengths are enumerated for each, as for the plan itself. Stateless.
#include "plan/baselines.h"

#include <math.h>
#include <string.h>

#include "plan/finish.h"
#include "plan/memory.h"
#include "plan/problem.h"
#include "plan/search.h"

#define X(id, name) [FT_PLAN_##id] = name,
const char *const ft_plan_baseline_name[FT_PLAN_BASELINES] = {FT_PLAN_BASELINE_LIST(X)};
#undef X

/* Batches of `size` tasks in order of arrival; the last may be smaller. False: one does not fit. */
static bool chop(ft_plan_cost *c, uint32_t length, uint32_t size, ft_plan_split *s)
{
    const ft_plan_problem *p = c->p;
    s->length = length;
    s->n_batches = 0;
    ft_plan_sort(p, FT_PLAN_BY_ARRIVAL, s->order);
    for (uint32_t first = 0; first < p->n; first += size) {
        uint64_t kv_sum;
        const uint32_t n = p->n - first < size ? p->n - first : size;
        const ft_plan_shape shape = ft_plan_shape_of(p, s->order + first, n, &kv_sum);
        if (!ft_plan_fits(p, length, &shape, kv_sum))
            return false;
        s->sizes[s->n_batches++] = n;
    }
    ft_plan_cost_split(c, s);
    return true;
}

static void keep_better(const ft_plan_problem *p, const ft_plan_split *s, ft_plan_split *best)
{
    if (s->inf_s < best->inf_s)
        ft_plan_split_copy(best, s, p->n);
}

/* "Begins with two ..., progressively increases the batch size while computing latency, and selects
 * the optimal batch configuration when latency performance starts to degrade" (section IV-A). */
static void grow(ft_plan_cost *c, uint32_t length, ft_plan_split *s, ft_plan_split *best)
{
    double last = INFINITY;
    if (c->p->n == 1 || !chop(c, length, 2, s)) {
        if (chop(c, length, 1, s))
            keep_better(c->p, s, best);
        return;
    }
    for (uint32_t size = 2; size <= c->p->n && chop(c, length, size, s) && s->inf_s <= last;
         size++) {
        last = s->inf_s;
        keep_better(c->p, s, best);
    }
}

/* How many tasks fit if each has the longest input and the longest output of all. */
static uint32_t most_tasks(const ft_plan_problem *p, uint32_t length)
{
    ft_plan_shape shape = {0};
    uint32_t low = 0, high = p->n;
    for (uint32_t k = 0; k < p->n; k++) {
        shape.in_max = p->tasks[k].in_tok > shape.in_max ? p->tasks[k].in_tok : shape.in_max;
        shape.out_max = p->tasks[k].out_tok > shape.out_max ? p->tasks[k].out_tok : shape.out_max;
    }
    while (low < high) {
        const uint32_t n = low + (high - low + 1) / 2;
        shape.n = n;
        shape.in_sum = (uint64_t)n * shape.in_max;
        if (ft_plan_fits(p, length, &shape, shape.in_sum + (uint64_t)n * shape.out_max))
            low = n;
        else
            high = n - 1;
    }
    return low;
}

static void try_length(ft_plan_cost *c, ft_plan_baseline which, uint32_t length,
                       uint32_t static_size, ft_plan_split *s, ft_plan_split *best)
{
    uint32_t size = most_tasks(c->p, length);
    size = size > 0 ? size : 1;
    if (which == FT_PLAN_STATIC && static_size < size)
        size = static_size;
    if (which == FT_PLAN_NO_BATCHING)
        size = 1;
    if (which == FT_PLAN_HEURISTIC || which == FT_PLAN_AUTOREGRESSIVE)
        grow(c, length, s, best);
    else if (chop(c, length, size, s))
        keep_better(c->p, s, best);
}

/* The batches of a plan again. */
static void split_of(const ft_batch_plan *plan, uint32_t n, ft_plan_split *s)
{
    memcpy(s->order, plan->order, n * sizeof *s->order);
    s->length = plan->length;
    s->n_batches = plan->n_batches;
    for (uint32_t i = 0; i < plan->n_batches; i++)
        s->sizes[i] = plan->batches[i].shape.n;
    s->inf_s = plan->inf_s;
}

/* The split of a baseline in `best`; *p: the problem as it is for the baseline. */
static void search(ft_plan_cost *c, ft_plan_baseline which, const ft_plan_baseline_opts *opts,
                   ft_plan_split *s, ft_plan_split *best)
{
    const ft_plan_problem *p = c->p;
    const uint32_t least = which == FT_PLAN_AUTOREGRESSIVE ? 0 : p->length_least;
    const uint32_t most = which == FT_PLAN_AUTOREGRESSIVE ? 0 : p->length_most;
    if (which == FT_PLAN_NO_PIPELINE || which == FT_PLAN_UNIFORM)
        split_of(opts->plan, p->n, best);
    else
        for (uint32_t length = least; length <= most; length++)
            try_length(c, which, length, opts->static_size, s, best);
}

ft_status ft_plan_baseline_make(const ft_plan_problem *p, ft_plan_baseline which,
                                const ft_plan_baseline_opts *opts, ft_error *err,
                                ft_batch_plan *out)
{
    ft_plan_problem changed = *p;
    ft_plan_cost cost = {0};
    ft_plan_split s = {0}, best = {0};
    *out = (ft_batch_plan){0};
    if (which == FT_PLAN_FIXED_LENGTH) {
        changed.length_least = changed.length_most = FT_PLAN_FIXED_TOK;
        return ft_batch_plan_make(&changed, opts->algorithm, NULL, err, out);
    }
    if (which == FT_PLAN_NO_PIPELINE)
        changed.flow = FT_PLAN_SEQUENCE;
    ft_status status = ft_plan_check(p, err);
    if (status == FT_OK)
        status = ft_plan_cost_init(&cost, &changed, err);
    if (status == FT_OK)
        status = ft_plan_split_init(&s, p->n, err);
    if (status == FT_OK)
        status = ft_plan_split_init(&best, p->n, err);
    if (status == FT_OK)
        search(&cost, which, opts, &s, &best);
    if (status == FT_OK && cost.no_memory)
        status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    if (status == FT_OK && !isfinite(best.inf_s))
        status = ft_error_set(err, FT_INVALID, "plan: no batches of baseline %s fit",
                              ft_plan_baseline_name[which]);
    if (status == FT_OK)
        status = ft_plan_finish(&cost, &best, which == FT_PLAN_UNIFORM, err, out);
    ft_plan_split_deinit(&s);
    ft_plan_split_deinit(&best);
    ft_plan_cost_deinit(&cost);
    return status;
}
