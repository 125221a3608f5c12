// SPDX-License-Identifier: Apache-2.0
// One cell of users, planned by each scheme. Stateless.
#include "sim/zhu.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/sort.h"
#include "plan/memory.h"
#include "plan/radio.h"

const char *ft_zhu_scheme_name(uint32_t scheme)
{
    return scheme == FT_ZHU_PLANNED  ? "planned"
           : scheme == FT_ZHU_FROM_0 ? "lengths from 0"
                                     : ft_plan_baseline_name[scheme - 1];
}

ft_zhu_point ft_zhu_point_of(const ft_zhu_config *c, uint32_t pair)
{
    return (ft_zhu_point){.pair = pair,
                          .tasks = (uint32_t)c->k[FT_ZHU_TASKS],
                          .in_most = (uint32_t)c->k[FT_ZHU_IN_MOST],
                          .out_most = (uint32_t)c->k[FT_ZHU_OUT_MOST],
                          .length_least = 1,
                          .reading = {c->k[FT_ZHU_G0], c->k[FT_ZHU_OWN_OUTPUTS] != 0},
                          .acceptance = c->k[FT_ZHU_ACCEPTANCE],
                          .bandwidth_mhz = c->k[FT_ZHU_BANDWIDTH]};
}

/* 1 to most, uniformly. The same draw gives a longer text where `most` is larger. */
static uint32_t length_of(double draw, uint32_t most)
{
    return 1 + (uint32_t)(draw * most);
}

/* Users are spread over a disc; fading is exponential (Rayleigh), section IV. Each takes four
 * draws, so that cells of one seed have users in common. */
static void make_tasks(const ft_zhu_config *c, const ft_zhu_point *point, uint64_t seed,
                       ft_plan_task *tasks)
{
    const ft_plan_pair *models = &c->pair[point->pair].models;
    const double bits = ft_plan_embedding_bits(models->draft.hidden, models->verify.hidden);
    const ft_plan_radio radio = {.bandwidth_hz = point->bandwidth_mhz * 1e6,
                                 .power_w = c->k[FT_ZHU_POWER],
                                 .noise_w = ft_plan_dbm_w(c->k[FT_ZHU_NOISE])};
    ft_rng rng;
    ft_rng_init(&rng, seed);
    for (uint32_t k = 0; k < point->tasks; k++) {
        const double fading = -log(ft_rng_unit(&rng));
        const double metres = c->k[FT_ZHU_RADIUS] * sqrt(ft_rng_unit(&rng));
        const uint32_t in_tok = length_of(ft_rng_unit(&rng), point->in_most);
        const uint32_t out_tok = length_of(ft_rng_unit(&rng), point->out_most);
        const double gain =
            ft_plan_gain(point->reading.g0, fading, fmax(metres, c->k[FT_ZHU_NEAREST]));
        tasks[k] = (ft_plan_task){.in_tok = in_tok,
                                  .out_tok = point->reading.own_outputs ? out_tok : point->out_most,
                                  .payload_bits = bits * in_tok,
                                  .rate_bits_s = fmax(ft_plan_radio_rate(&radio, gain), 1e-9)};
    }
}

static ft_plan_problem problem_of(const ft_zhu_config *c, const ft_zhu_point *point,
                                  const ft_plan_task *tasks)
{
    const ft_plan_pair *models = &c->pair[point->pair].models;
    const ft_plan_model *draft = &models->draft;
    return (ft_plan_problem){
        .tasks = tasks,
        .n = point->tasks,
        .acceptance = point->acceptance,
        .length_least = point->length_least,
        .length_most = (uint32_t)c->k[FT_ZHU_LENGTH_MOST],
        .times = ft_plan_pair_times,
        .times_ctx = models,
        .draft = {.most_bytes = c->k[FT_ZHU_MEMORY] * 1e9,
                  .model_bytes = ft_plan_weight_bytes(draft->layers, draft->hidden, draft->ffn),
                  .token_bytes = ft_plan_token_bytes(draft->layers, draft->hidden),
                  .padded = true}};
}

static void keep(ft_zhu_cell *out, uint32_t scheme, const ft_batch_plan *plan)
{
    out->total_s[scheme] = plan->total_s;
    out->inf_s[scheme] = plan->inf_s;
    out->length[scheme] = plan->length;
    out->batches[scheme] = plan->n_batches;
}

/* A benchmark that has no plan here, such as a fixed length that does not fit, stays NAN. */
static ft_status run_baselines(const ft_zhu_config *c, const ft_plan_problem *p,
                               const ft_batch_plan *plan, uint32_t wanted, ft_error *err,
                               ft_zhu_cell *out)
{
    const ft_plan_baseline_opts opts = {.plan = plan,
                                        .algorithm = FT_PLAN_PAPER,
                                        .static_size = (uint32_t)c->k[FT_ZHU_STATIC_SIZE]};
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < FT_PLAN_BASELINES && status == FT_OK; i++) {
        ft_batch_plan other = {0};
        if (!(wanted >> FT_ZHU_BASELINE(i) & 1))
            continue;
        status = ft_plan_baseline_make(p, (ft_plan_baseline)i, &opts, err, &other);
        if (status == FT_OK)
            keep(out, FT_ZHU_BASELINE(i), &other);
        if (status == FT_INVALID)
            status = FT_OK;
        ft_batch_plan_deinit(&other);
    }
    return status;
}

static ft_status run(const ft_zhu_config *c, ft_plan_problem *p, uint32_t wanted, ft_error *err,
                     ft_zhu_cell *out)
{
    ft_batch_plan plan, from_0;
    ft_status status = ft_batch_plan_make(p, FT_PLAN_PAPER, NULL, err, &plan);
    if (status != FT_OK)
        return status;
    keep(out, FT_ZHU_PLANNED, &plan);
    status = run_baselines(c, p, &plan, wanted, err, out);
    ft_batch_plan_deinit(&plan);
    if (status != FT_OK || !(wanted >> FT_ZHU_FROM_0 & 1))
        return status;
    p->length_least = 0;
    status = ft_batch_plan_make(p, FT_PLAN_PAPER, NULL, err, &from_0);
    if (status == FT_OK)
        keep(out, FT_ZHU_FROM_0, &from_0);
    ft_batch_plan_deinit(&from_0);
    return status;
}

ft_status ft_zhu_cell_run(const ft_zhu_config *c, const ft_zhu_point *point, uint64_t seed,
                          uint32_t wanted, ft_error *err, ft_zhu_cell *out)
{
    ft_plan_task *tasks = calloc(point->tasks, sizeof *tasks);
    *out = (ft_zhu_cell){0};
    for (uint32_t i = 0; i < FT_ZHU_SCHEMES; i++)
        out->total_s[i] = out->inf_s[i] = NAN;
    if (!tasks)
        return ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    make_tasks(c, point, seed, tasks);
    ft_plan_problem p = problem_of(c, point, tasks);
    const ft_status status = run(c, &p, wanted, err, out);
    free(tasks);
    return status;
}

static bool smaller(const void *ctx, const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b;
}

ft_zhu_range ft_zhu_range_of(double *values, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(values[i]))
            values[kept++] = values[i];
    if (kept == 0)
        return (ft_zhu_range){NAN, NAN, NAN};
    ft_sort(values, kept, sizeof *values, smaller, NULL);
    return (ft_zhu_range){.median = (values[(kept - 1) / 2] + values[kept / 2]) / 2,
                          .low = values[(uint32_t)(0.1 * (kept - 1) + 0.5)],
                          .high = values[(uint32_t)(0.9 * (kept - 1) + 0.5)]};
}
