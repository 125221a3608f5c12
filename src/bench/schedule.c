// SPDX-License-Identifier: Apache-2.0
// How long a policy takes to choose the next pass from a long queue. Queues are random and the same
// for every policy: prompts, and verifications of several classes that are late, must start now or
// can wait. Costs are those of a file or typical ones. Only the call is timed, each once, with
// other work of the machine. One thread; no model, no server.
#include "bench/schedule.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/sort.h"
#include "bench/bench.h"
#include "sched/cost_file.h"
#include "sched/sched.h"

#define NOW_US    1000000000 /* of the queues' clock */
#define BLOCK_TOK 16

/* Microseconds: a pass of 6 ms, rows of 0.3 ms and texts of 0.5 us a token. */
static const ft_costs typical = {.us = {[FT_COST_PASS] = 6000,
                                        [FT_COST_ROW] = 300,
                                        [FT_COST_LOGITS_ROW] = 50,
                                        [FT_COST_INTERACTION] = 0.01,
                                        [FT_COST_CACHED_TOK] = 0.5,
                                        [FT_COST_HEAD] = 1000},
                                 .error = 0.05};

typedef struct outcome {
    double mean_us, median_us, p99_us, worst_us, picked;
} outcome;

typedef struct workplace {
    ft_work *work;  /* [pending] */
    ft_pick *picks; /* [pending] */
    double *us;     /* [queues] */
} workplace;

/* tight: deadlines are spread over the next two seconds, and the nearest ones make a batch short.
 * Else they are over, or leave time for any batch. */
static ft_work random_work(ft_rng *rng, bool tight)
{
    static const float speeds[] = {2, 4, 6, 8};
    const bool prompt = ft_rng_below(rng, 20) == 0;
    ft_work w = {.kind = prompt ? FT_WORK_PREFILL : FT_WORK_VERIFY,
                 .arrival_us = NOW_US - ft_rng_below(rng, 1000000),
                 .n_tok = prompt ? 1 + ft_rng_below(rng, 1000) : 1 + ft_rng_below(rng, 16),
                 .n_past = ft_rng_below(rng, 2000)};
    w.kv_blocks = (w.n_past % BLOCK_TOK + w.n_tok) / BLOCK_TOK;
    if (prompt)
        return w;
    w.n_out = w.n_tok;
    w.tokens_per_s = speeds[ft_rng_below(rng, 4)];
    w.gain_tok = 1 + 4 * (float)ft_rng_unit(rng);
    w.share = (float)ft_rng_unit(rng) / 4;
    w.edge_drafts = ft_rng_below(rng, 4) > 0;
    w.deadline = ft_known(w.arrival_us + 1 + ft_rng_below(rng, 2000000));
    if (!tight && w.deadline.us > NOW_US)
        w.deadline.us += 10000000;
    w.owed_us = w.deadline.us + ft_rng_below(rng, 2000000);
    w.even_us = w.arrival_us + (int64_t)(w.gain_tok / w.tokens_per_s * 8e5f);
    return w;
}

static bool less(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return *(const double *)a < *(const double *)b;
}

static outcome measure(const ft_bench_schedule_opts *set, const ft_sched_policy *policy,
                       const ft_cost *cost, workplace *at)
{
    const size_t n = (size_t)set->pending, queues = (size_t)set->queues;
    const ft_sched_limits limits = {.max_rows = (uint32_t)set->rows,
                                    .prefill_us = 20000,
                                    .cost = cost,
                                    .kv_blocks_free = UINT32_MAX / 2,
                                    .kv_block_tok = BLOCK_TOK,
                                    .guard_us = 5000,
                                    .static_batch = 16};
    outcome out = {0};
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)set->seed);
    for (size_t q = 0; q < queues; q++) {
        for (size_t i = 0; i < n; i++)
            at->work[i] = random_work(&rng, q % 2);
        int64_t begun_us = ft_bench_now_us();
        size_t picked = policy->pick(at->work, n, &limits, NOW_US, at->picks);
        at->us[q] = (double)(ft_bench_now_us() - begun_us);
        out.mean_us += at->us[q] / (double)queues;
        out.picked += (double)picked / (double)queues;
    }
    ft_sort(at->us, queues, sizeof *at->us, less, NULL);
    out.median_us = at->us[(queues - 1) / 2];
    out.p99_us = at->us[(queues - 1) * 99 / 100];
    out.worst_us = at->us[queues - 1];
    return out;
}

static json_t *measure_all(const ft_bench_schedule_opts *set, const ft_cost *cost, workplace *at)
{
    static const char *const names[] = {"wisp", "edf", "fcfs"};
    json_t *policies = json_object();
    for (size_t i = 0; i < FT_COUNT(names); i++) {
        const outcome o = measure(set, ft_sched_find(names[i]), cost, at);
        json_object_set_new(policies, names[i],
                            json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean_us", o.mean_us,
                                      "median_us", o.median_us, "p99_us", o.p99_us, "worst_us",
                                      o.worst_us, "picked", o.picked));
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "pending", (json_int_t)set->pending, "queues",
                     (json_int_t)set->queues, "rows", (json_int_t)set->rows, "policies", policies);
}

ft_status ft_bench_schedule(const ft_bench_schedule_opts *set, ft_error *err, json_t **report)
{
    ft_costs costs = typical;
    ft_cost cost;
    *report = NULL;
    ft_status status = set->costs ? ft_costs_load(set->costs, err, &costs) : FT_OK;
    workplace at = {.work = calloc((size_t)set->pending, sizeof *at.work),
                    .picks = calloc((size_t)set->pending, sizeof *at.picks),
                    .us = calloc((size_t)set->queues, sizeof *at.us)};
    if (status == FT_OK && (!at.work || !at.picks || !at.us))
        status = ft_error_set(err, FT_NOMEM, "bench schedule: out of memory");
    ft_cost_init(&cost);
    ft_cost_prime(&cost, costs.us, costs.error);
    if (status == FT_OK)
        *report = measure_all(set, &cost, &at);
    free(at.work);
    free(at.picks);
    free(at.us);
    return status;
}
