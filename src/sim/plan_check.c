// SPDX-License-Identifier: Apache-2.0
// Random instances and what is checked of each. The seed decides them all. Stateless.
#include "sim/plan_check.h"

#include <math.h>

#include "base/num.h"
#include "base/rng.h"
#include "plan/exhaustive.h"
#include "plan/memory.h"
#include "plan/runtime.h"
#include "sim/plan_events.h"

#define SAME      1e-9 /* two latencies are equal up to rounding errors */
#define OUT_MOST  60   /* tokens: an exhaustive search goes through all rounds */
#define BISECTION 200  /* halvings */

/* LLaMA-68M, 1.1B, 7B and 13B of table I; c1 and c2 of table II. */
static const ft_plan_model draft_models[] = {{2, 768, 3072, 4.11e-13, 0.56e-3},
                                             {22, 2048, 5632, 4.11e-13, 0.56e-3}},
                           verify_models[] = {{32, 4096, 11008, 2.08e-14, 1.28e-2},
                                              {40, 5120, 13824, 2.08e-14, 1.28e-2}};

typedef struct instance {
    ft_plan_task tasks[FT_PLAN_CHECK_TASKS];
    ft_plan_pair pair;
    ft_plan_problem p;
    bool same_outputs;
} instance;

static double between(ft_rng *rng, double least, double most)
{
    return least + (most - least) * ft_rng_unit(rng);
}

static void make_tasks(instance *in, uint32_t n, ft_rng *rng)
{
    static const uint32_t in_most[] = {64, 512, 1792};
    const uint32_t most = in_most[ft_rng_below(rng, FT_COUNT(in_most))];
    const uint32_t out = 1 + ft_rng_below(rng, OUT_MOST);
    const bool releases = ft_rng_below(rng, 2);
    for (uint32_t k = 0; k < n; k++)
        in->tasks[k] =
            (ft_plan_task){.in_tok = 1 + ft_rng_below(rng, most),
                           .out_tok = in->same_outputs ? out : 1 + ft_rng_below(rng, OUT_MOST),
                           .release_s = releases ? between(rng, 0, 10) : 0,
                           .payload_bits = between(rng, 1e3, 1e8),
                           .rate_bits_s = exp(between(rng, log(1e4), log(1e9)))};
}

/* Memory for 1 to n of the longest tasks, which is what Algorithm 1 counts with. */
static ft_plan_memory make_memory(const instance *in, uint32_t n, ft_rng *rng)
{
    const ft_plan_model *m = &in->pair.draft;
    uint32_t in_max = 0, out_max = 0;
    for (uint32_t k = 0; k < n; k++) {
        in_max = in->tasks[k].in_tok > in_max ? in->tasks[k].in_tok : in_max;
        out_max = in->tasks[k].out_tok > out_max ? in->tasks[k].out_tok : out_max;
    }
    ft_plan_memory memory = {.model_bytes = ft_plan_weight_bytes(m->layers, m->hidden, m->ffn),
                             .token_bytes = ft_plan_token_bytes(m->layers, m->hidden),
                             .padded = true};
    memory.most_bytes = memory.model_bytes +
                        memory.token_bytes * ((double)in_max + out_max) * between(rng, 1, n + 0.5);
    return memory;
}

static void make_instance(instance *in, ft_rng *rng)
{
    const uint32_t n = 1 + ft_rng_below(rng, FT_PLAN_CHECK_TASKS);
    *in = (instance){.same_outputs = ft_rng_below(rng, 2)};
    in->pair = (ft_plan_pair){draft_models[ft_rng_below(rng, FT_COUNT(draft_models))],
                              verify_models[ft_rng_below(rng, FT_COUNT(verify_models))]};
    in->pair.draft.c1 *= exp(between(rng, -2, 1));
    in->pair.draft.c2 *= exp(between(rng, -1, 3));
    in->pair.verify.c1 *= exp(between(rng, -1, 2));
    in->pair.verify.c2 *= exp(between(rng, -2, 1));
    make_tasks(in, n, rng);
    const uint32_t least = ft_rng_below(rng, 2);
    in->p = (ft_plan_problem){.tasks = in->tasks,
                              .n = n,
                              .acceptance = between(rng, 0.3, 0.95),
                              .length_least = least,
                              .length_most = least + ft_rng_below(rng, 4),
                              .times = ft_plan_pair_times,
                              .times_ctx = &in->pair,
                              .draft = make_memory(in, n, rng)};
}

/* ---- what is checked ---- */

static void match(ft_plan_match *m, double s, double best_s)
{
    m->n++;
    m->equal += s <= best_s * (1 + SAME);
    m->worst_gap = fmax(m->worst_gap, s / best_s - 1);
}

static ft_status check_search(const instance *in, const double s[FT_PLAN_ALGORITHMS], ft_error *err,
                              ft_plan_check *out)
{
    double contiguous, any = 0;
    ft_status status = ft_plan_exhaustive(&in->p, FT_PLAN_CONTIGUOUS, err, &contiguous);
    if (status != FT_OK)
        return status;
    match(&out->contiguous, s[FT_PLAN_BEST], contiguous);
    match(&out->paper[in->same_outputs], s[FT_PLAN_PAPER], contiguous);
    out->worse_than_paper += s[FT_PLAN_BEST] > s[FT_PLAN_PAPER] * (1 + SAME);
    /* Contiguous batches are what Algorithm 1 chooses from. */
    out->too_cheap += s[FT_PLAN_PAPER] < contiguous * (1 - SAME);
    if (in->p.n > FT_PLAN_CHECK_ALL_ORDERS)
        return FT_OK;
    status = ft_plan_exhaustive(&in->p, FT_PLAN_ALL_ORDERS, err, &any);
    match(&out->all_orders[in->same_outputs], s[FT_PLAN_BEST], any);
    for (int i = 0; i < FT_PLAN_ALGORITHMS; i++)
        out->too_cheap += s[i] < any * (1 - SAME);
    return status;
}

/* (10) and (24b), worked out from the tasks. */
static void check_memory(const instance *in, const ft_batch_plan *plan, ft_plan_check *out)
{
    const ft_plan_memory *m = &in->p.draft;
    for (uint32_t i = 0; i < plan->n_batches && plan->length > 0; i++) {
        const ft_plan_batch *b = &plan->batches[i];
        uint32_t in_max = 0, out_max = 0;
        for (uint32_t k = b->first; k < b->first + b->shape.n; k++) {
            const ft_plan_task *t = &in->p.tasks[plan->order[k]];
            in_max = t->in_tok > in_max ? t->in_tok : in_max;
            out_max = t->out_tok > out_max ? t->out_tok : out_max;
        }
        out->memory_broken +=
            m->model_bytes + b->shape.n * m->token_bytes * ((double)in_max + out_max) >
            m->most_bytes;
    }
}

/* The soonest time at which all inputs can be there, by bisection: the shares that this needs grow
 * as it comes closer, and their sum must be 1 at most. */
static void check_bandwidth(const instance *in, const ft_batch_plan *plan, ft_plan_check *out)
{
    const ft_plan_task *t = in->p.tasks;
    double low = 0, high = 0;
    for (uint32_t k = 0; k < in->p.n; k++) {
        low = fmax(low, t[k].release_s);
        high += t[k].payload_bits / t[k].rate_bits_s;
    }
    high += low;
    for (int i = 0; i < BISECTION; i++) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for (uint32_t k = 0; k < in->p.n; k++)
            sum += t[k].payload_bits / (t[k].rate_bits_s * (middle - t[k].release_s));
        *(sum > 1 ? &low : &high) = middle;
    }
    out->bandwidth_error = fmax(out->bandwidth_error, fabs(plan->com_s / high - 1));
    for (uint32_t k = 0; k < in->p.n; k++) {
        const double share = t[k].payload_bits / (t[k].rate_bits_s * (high - t[k].release_s));
        out->bandwidth_error = fmax(out->bandwidth_error, fabs(plan->share[k] / share - 1));
    }
}

/* Stage times in whole microseconds, as the events have them. */
static void whole_times(const void *ctx, const ft_plan_shape *batch, uint32_t length, double tokens,
                        ft_plan_time *draft, ft_plan_time *verify)
{
    ft_plan_pair_times(ctx, batch, length, tokens, draft, verify);
    double *all[] = {&draft->first_s,  &draft->second_s,  &draft->more_s,
                     &verify->first_s, &verify->second_s, &verify->more_s};
    for (size_t i = 0; i < FT_COUNT(all); i++)
        *all[i] = round(*all[i] * 1e6) * 1e-6;
}

static ft_status check_pipeline(const instance *in, ft_plan_flow flow, ft_error *err,
                                ft_plan_check *out)
{
    ft_plan_problem p = in->p;
    ft_batch_plan plan;
    int64_t us;
    p.times = whole_times;
    p.flow = flow;
    ft_status status = ft_batch_plan_make(&p, FT_PLAN_PAPER, NULL, err, &plan);
    if (status == FT_OK)
        status = ft_sim_plan_us(&p, &plan, err, &us);
    out->pipeline_unequal += status == FT_OK && fabs(plan.inf_s * 1e6 - (double)us) > 0.1;
    ft_batch_plan_deinit(&plan);
    return status;
}

/* As `foretoken batch` works. */
static ft_status check_rolling(const instance *in, ft_error *err, ft_plan_check *out)
{
    ft_plan_problem p = in->p;
    ft_batch_plan plan;
    double any = 0;
    if (p.n > FT_PLAN_CHECK_ROLLING)
        return FT_OK;
    p.flow = FT_PLAN_ROLLING;
    p.leave = true;
    ft_status status = ft_batch_plan_make(&p, FT_PLAN_BEST, NULL, err, &plan);
    if (status == FT_OK)
        status = ft_plan_exhaustive(&p, FT_PLAN_ALL_ORDERS, err, &any);
    if (status == FT_OK) {
        match(&out->rolling, plan.inf_s, any);
        out->too_cheap += plan.inf_s < any * (1 - SAME);
    }
    ft_batch_plan_deinit(&plan);
    return status;
}

static ft_status check_instance(const instance *in, ft_error *err, ft_plan_check *out)
{
    double s[FT_PLAN_ALGORITHMS];
    ft_status status = FT_OK;
    for (int i = 0; i < FT_PLAN_ALGORITHMS && status == FT_OK; i++) {
        ft_batch_plan plan;
        status = ft_batch_plan_make(&in->p, (ft_plan_algorithm)i, NULL, err, &plan);
        if (status != FT_OK)
            return status;
        s[i] = plan.inf_s;
        check_memory(in, &plan, out);
        check_bandwidth(in, &plan, out);
        ft_batch_plan_deinit(&plan);
    }
    status = check_search(in, s, err, out);
    if (status == FT_OK)
        status = check_pipeline(in, FT_PLAN_ROUNDS, err, out);
    if (status == FT_OK)
        status = check_pipeline(in, FT_PLAN_ROLLING, err, out);
    return status == FT_OK ? check_rolling(in, err, out) : status;
}

ft_status ft_plan_check_run(const ft_plan_check_opts *opts, ft_error *err, ft_plan_check *out)
{
    ft_rng rng;
    ft_status status = FT_OK;
    ft_rng_init(&rng, opts->seed);
    *out = (ft_plan_check){0};
    for (; out->instances < opts->instances && status == FT_OK; out->instances++) {
        instance in;
        if (opts->watch.stop && opts->watch.stop())
            return ft_error_set(err, FT_CANCELLED, "plan: stopped");
        make_instance(&in, &rng);
        status = check_instance(&in, err, out);
        ft_progress_report(&opts->watch.progress, out->instances + 1, opts->instances);
    }
    return status;
}

bool ft_plan_check_holds(const ft_plan_check *c)
{
    return c->contiguous.equal >= 0.99 * c->contiguous.n && c->contiguous.worst_gap <= 0.01 &&
           c->worse_than_paper == 0 && c->too_cheap == 0 && c->memory_broken == 0 &&
           c->pipeline_unequal == 0 && c->bandwidth_error <= 1e-9;
}
