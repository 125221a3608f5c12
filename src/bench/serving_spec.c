// SPDX-License-Identifier: Apache-2.0
// Tunes server-spec. A candidate is a server with its own depth and budget, which is started for
// a lap. In a lap all candidates write the same few texts; the next lap has other texts.
// The score is the headline's figure: tokens a second of the server's core. State is the caller's.
#include "bench/serving_spec.h"

#include <stdlib.h>

#include "base/num.h"

/* Half of it: the race is decided by fewer rounds; twice: it takes twice as long. */
#define LAP_TEXTS  2  /* in a lap, or one wave if a wave has more */
#define LAP_TOKENS 32 /* of a text at most */
#define LAP_TIMES  6  /* that a lap is tried until all its texts are written at the same time */

/* Depths that are tried, with each budget that they may fill. Denser lists take longer, and their
 * neighbours differ less than laps do. */
static const uint32_t depths[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12};
static const uint32_t budgets[] = {1, 2, 4, 8, 16, 32};

/* A tree's level has hardly more nodes than that which are worth a row. */
#define NODES_A_LEVEL 8

static void list_budget(uint32_t budget, uint32_t width, ft_serving_tuned *t)
{
    for (size_t d = 0; d < FT_COUNT(depths); d++)
        if (depths[d] <= budget && budget <= NODES_A_LEVEL * depths[d] &&
            t->race.n < FT_BENCH_RACE_MAX)
            t->tried[t->race.n++] = (ft_serving_spec){depths[d], budget, width};
}

/* With budgets up to that of edges. */
static void list_trees(uint32_t most, uint32_t width, ft_serving_tuned *t)
{
    list_budget(most, width, t);
    for (size_t b = 0; b < FT_COUNT(budgets) && budgets[b] < most; b++)
        list_budget(budgets[b], width, t);
}

static void list_chains(ft_serving_tuned *t)
{
    for (size_t d = 0; d < FT_COUNT(depths); d++)
        t->tried[t->race.n++] = (ft_serving_spec){depths[d], depths[d], 1};
}

/* A few prompts of the set, others in every lap; the prompts are borrowed. */
static ft_status texts_of(const ft_serving *x, uint32_t batch, uint32_t lap, ft_error *err,
                          ft_bench_load_set *out)
{
    const uint32_t waves = batch < LAP_TEXTS ? LAP_TEXTS / batch : 1;
    const uint32_t all = x->set.n / batch, n = waves < all ? waves : all;
    *out = x->set;
    out->n = 0;
    out->prompts = calloc((size_t)n * batch, sizeof *out->prompts);
    if (!out->prompts)
        return ft_error_set(err, FT_NOMEM, "out of memory for prompts");
    for (uint32_t w = 0; w < n; w++) {
        const uint32_t wave = ((uint64_t)w * all / n + lap) % all;
        for (uint32_t i = 0; i < batch; i++) {
            ft_bench_load_prompt *p = &out->prompts[out->n++];
            *p = x->set.prompts[wave * batch + i];
            p->text.n = ft_min_u32((uint32_t)p->text.n, LAP_TOKENS); /* that is how far it goes */
        }
    }
    return FT_OK;
}

/* Speed of a candidate over these texts, in a server of its own. A server that weighs its drafts
 * learns from a first time, which does not count. A batch needs one, too: while prompts are still
 * read, one text often ends before another begins. Then nothing can be compared. */
static ft_status run_lap(ft_serving *x, uint32_t setting, const ft_serving_spec *spec,
                         ft_bench_load_set *texts, ft_error *err, double *speed)
{
    ft_bench_load_server server = {0};
    ft_bench_load_sample sample = {0};
    ft_status status = ft_serving_start(x, spec, err, &server);
    const bool learns = x->o->drafts.rule == FT_BENCH_DEPTH_LATENCY;
    const uint32_t times = learns || x->setting[setting].batch > 1 ? 2 : 1;
    for (uint32_t i = 0; status == FT_OK && i < LAP_TIMES && (i < times || sample.window_s <= 0);
         i++) {
        ft_bench_load_drive_opts o = ft_serving_drive_opts(x, setting, FT_BENCH_LOAD_SERVER_SPEC);
        o.server = &server;
        o.set = texts;
        o.n_tokens = ft_min_u32(o.n_tokens, LAP_TOKENS);
        ft_bench_load_sample_deinit(&sample);
        status = ft_bench_load_drive(&o, err, &sample);
    }
    if (status == FT_OK && sample.mismatches > 0)
        status = ft_error_set(err, FT_INTERNAL,
                              "a server that drafts %u forwards and %u nodes wrote other texts",
                              spec->depth, spec->budget);
    *speed = sample.window_s > 0 ? (double)sample.window_tokens / sample.window_s : 0;
    ft_bench_load_sample_deinit(&sample);
    ft_bench_load_server_stop(&server);
    return status;
}

/* How far the race is: candidates measured, of all. */
static void report(const ft_progress *progress, const ft_bench_race *race)
{
    uint64_t done = 0;
    for (uint32_t i = 0; i < race->n; i++)
        done += race->laps[i];
    ft_progress_report(progress, done, 2 * (uint64_t)race->n + 4);
}

static ft_status tune(ft_serving *x, uint32_t setting, ft_error *err)
{
    ft_serving_tuned *t = &x->tuned[setting];
    const ft_progress progress = ft_progress_terminal("server-spec");
    ft_bench_load_set texts = {0};
    uint32_t i, lap = UINT32_MAX;
    ft_status status = FT_OK;
    if (x->setting[setting].shape == FT_BENCH_SHAPE_CHAIN)
        list_chains(t);
    else
        list_trees((uint32_t)x->o->drafts.budget, (uint32_t)x->o->drafts.width, t);
    ft_bench_race_begin(&t->race, t->race.n);
    while (status == FT_OK && ft_bench_race_next(&t->race, &i)) {
        double speed = 0;
        report(&progress, &t->race);
        if (t->race.lap != lap) {
            lap = t->race.lap;
            free(texts.prompts);
            status = texts_of(x, x->setting[setting].batch, lap, err, &texts);
        }
        if (status == FT_OK)
            status = run_lap(x, setting, &t->tried[i], &texts, err, &speed);
        if (status == FT_OK)
            ft_bench_race_saw(&t->race, speed);
    }
    free(texts.prompts);
    const uint32_t best = t->race.left[0]; /* of one candidate without a lap */
    t->chosen = t->tried[best];
    if (status == FT_OK && t->race.laps[best] > 0 && ft_bench_race_speed(&t->race, best) <= 0)
        status = ft_error_set(err, FT_INVALID,
                              "bench serving: texts of %lld tokens are too short to tune "
                              "server-spec by: pass a larger -n, or --server-depth N",
                              (long long)x->o->n);
    ft_progress_report(&progress, 1, 1);
    return status;
}

/* As it was asked for. */
static ft_serving_spec asked(const ft_serving *x, uint32_t setting)
{
    const ft_bench_serving_drafts *d = &x->o->drafts;
    if (x->setting[setting].shape == FT_BENCH_SHAPE_CHAIN)
        return (ft_serving_spec){d->server_depth, d->server_depth, 1};
    return (ft_serving_spec){d->server_depth, (uint32_t)d->budget, (uint32_t)d->width};
}

ft_status ft_serving_start_spec(ft_serving *x, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < x->n && status == FT_OK; i++) {
        if (x->setting[i].leader != i)
            continue;
        if (x->o->drafts.server_depth > 0)
            x->tuned[i].chosen = asked(x, i);
        else
            status = tune(x, i, err);
        if (status == FT_OK)
            status = ft_serving_start(x, &x->tuned[i].chosen, err, &x->spec[i]);
    }
    return status;
}

static json_t *spec_json(const ft_serving_spec *spec)
{
    return json_pack("{s:I, s:I, s:I}", "depth", (json_int_t)spec->depth, "budget",
                     (json_int_t)spec->budget, "width", (json_int_t)spec->width);
}

json_t *ft_serving_tuned_json(const ft_serving_tuned *t)
{
    json_t *out = spec_json(&t->chosen), *tried = json_array();
    for (uint32_t i = 0; i < t->race.n; i++) {
        json_t *one = spec_json(&t->tried[i]);
        json_object_set_new(one, "laps", json_integer((json_int_t)t->race.laps[i]));
        json_object_set_new(one, "tokens_per_core_s", json_real(ft_bench_race_speed(&t->race, i)));
        json_array_append_new(tried, one);
    }
    json_object_set_new(out, "tuned", json_boolean(t->race.n > 0));
    json_object_set_new(out, "tried", tried);
    return out;
}

void ft_serving_tuned_print(const ft_serving_tuned *t, FILE *out)
{
    fprintf(out, "server-spec drafts %u forwards, %u nodes, %u leaves a forward", t->chosen.depth,
            t->chosen.budget, t->chosen.width);
    if (t->race.n)
        fprintf(out, ": the fastest of %u that were tried", t->race.n);
    fputc('\n', out);
}
