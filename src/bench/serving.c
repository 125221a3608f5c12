// SPDX-License-Identifier: Apache-2.0
// The serving comparison: what a server does with its core when it decodes, drafts and verifies,
// or only verifies what edges draft (SpecEdge, section 5). One run has all modes of all settings at
// all round-trip times, interleaved. Servers are children of this process (load_server.c), edges
// are threads of it (load_drive.c). The main thread does the rest.
#include "bench/serving.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/load_report.h"
#include "bench/serving_figures.h"
#include "bench/serving_record.h"
#include "bench/serving_schema.h"
#include "bench/serving_spec.h"

const char *const ft_bench_depth_name[] = {"latency", "fixed", NULL};

#define KEPT_TOK_MOST 32768 /* of a model of 135 million parameters: 750 MB */

/* ---- what is needed ---- */

/* Of the draft model's pool, so that texts are there still when they are drafted for again. */
static uint32_t kept_tok(const ft_serving *x)
{
    uint64_t tok = 0;
    for (uint32_t i = 0; i < x->set.n; i++)
        tok += x->set.prompts[i].tokens.n + (uint64_t)x->o->n;
    return tok < KEPT_TOK_MOST ? (uint32_t)tok : KEPT_TOK_MOST;
}

static ft_status load_models(ft_serving *x, ft_error *err)
{
    const ft_bench_serving_opts *f = x->o;
    const uint32_t batch = ft_bench_serving_most_batch(&f->sweep);
    const ft_model_opts draft = {.path = f->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = ft_model_load(&draft, err, &x->draft);
    if (status == FT_OK && f->drafts.predictor)
        status = ft_predictor_check_draft(f->drafts.predictor, ft_model_fingerprint(x->draft), err);
    if (status != FT_OK)
        return status;
    uint32_t text = x->set.longest + (uint32_t)f->n + 8 * FT_TREE_MAX;
    const ft_bench_load_drafts_opts drafts = {.model = x->draft,
                                              .kv_tok = (2 * batch + 1) * text + kept_tok(x),
                                              .branch = ft_draft_params_tree(1, 1, 1).branch,
                                              .n_threads = 1};
    return ft_bench_load_drafts_init(&x->drafts, &drafts, err);
}

static ft_status load(ft_serving *x, ft_error *err)
{
    const ft_bench_serving_opts *f = x->o;
    ft_status status = ft_vocab_load(f->model, err, &x->vocab);
    if (status != FT_OK)
        return status;
    const ft_bench_load_set_opts set = {.path = f->prompts,
                                        .vocab = x->vocab,
                                        .limit = (uint32_t)f->set.limit,
                                        .each = (uint32_t)f->set.each,
                                        .longest = (uint32_t)f->set.longest,
                                        .multiple = ft_bench_serving_multiple(&f->sweep)};
    status = ft_bench_load_set_read(&set, err, &x->set);
    if (status == FT_OK && x->set.n < 2 && f->mode[FT_BENCH_LOAD_MISLED])
        status = ft_error_set(err, FT_INVALID,
                              "bench serving: edge+misled predicts the answer to another prompt: "
                              "pass two prompts or more");
    return status == FT_OK ? load_models(x, err) : status;
}

/* An empty report for each setting: every cell and round, so it is large. */
static ft_status make_reports(ft_serving *x, ft_error *err)
{
    const ft_bench_serving_opts *f = x->o;
    ft_status status = ft_bench_serving_settings(&f->sweep, err, x->setting, &x->n);
    for (uint32_t i = 0; i < x->n && status == FT_OK; i++) {
        ft_bench_load_report *r = x->report[i] = calloc(1, sizeof *r);
        if (!r)
            return ft_error_set(err, FT_NOMEM, "out of memory");
        r->set = &x->set;
        r->batch = x->setting[i].batch;
        r->price = f->price;
        r->driver_cores = x->driver_cores;
        r->by_category = f->set.each > 0;
        r->n_rtt = f->n_rtt;
        memcpy(r->rtt_us, f->rtt_us, sizeof r->rtt_us);
        memcpy(r->mode, f->mode, sizeof r->mode);
    }
    return status;
}

static ft_status prepare(ft_serving *x, ft_error *err)
{
    ft_status status = ft_serving_start(x, NULL, err, &x->plain);
    if (status == FT_OK && x->o->mode[FT_BENCH_LOAD_LAYER_SPLIT])
        status = ft_serving_start_split(x, err);
    if (status == FT_OK)
        status = ft_serving_learn(x, err);
    if (status == FT_OK && x->o->mode[FT_BENCH_LOAD_SERVER_SPEC])
        status = ft_serving_start_spec(x, err);
    return status == FT_OK ? ft_serving_record(x, err) : status;
}

/* ---- the run ---- */

/* What a server does that is more than a verifier is the same in settings with one leader. */
static void keep(ft_serving *x, uint32_t setting, ft_bench_load_mode mode, uint32_t rtt,
                 const ft_bench_load_sample *sample)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (i == setting || (ft_serving_is_server_mode(mode) && x->setting[i].leader == setting))
            ft_bench_load_report_count(x->report[i], mode, rtt, sample);
}

/* With a ratio a device's time follows the latest verifications: the machine's speed changes with
 * its other work, and the time of server-spec's own drafts changes with it. Those of the first
 * setting count, because devices do not become slower as batches grow. */
static bool sets_forward(uint32_t setting, ft_bench_load_mode mode)
{
    return setting == 0 && !ft_serving_is_server_mode(mode) &&
           mode != FT_BENCH_LOAD_EARLY && /* whose trees are small where they fitted... */
           !ft_serving_looks_up(mode);    /* ...or nothing is found */
}

/* Layer splitting: the line to the edge's layers is as slow as a device's link. */
static ft_status drive(ft_serving *x, ft_bench_load_mode mode, const ft_bench_load_drive_opts *o,
                       ft_error *err, ft_bench_load_sample *sample)
{
    ft_bench_load_relay *line = mode == FT_BENCH_LOAD_LAYER_SPLIT ? x->split.relay : NULL;
    ft_bench_load_relay_stats a = {0}, b = {0};
    if (line) {
        ft_bench_load_relay_slow_down(line, o->rtt_us / 2, &o->down, &o->up);
        a = ft_bench_load_relay_count(line);
    }
    ft_status status = ft_bench_load_drive(o, err, sample);
    if (line)
        b = ft_bench_load_relay_count(line);
    sample->line_answers = b.answers - a.answers;
    sample->line_bytes = b.to_bytes - a.to_bytes + b.back_bytes - a.back_bytes;
    return status;
}

/* counts: it is no warm-up. */
static ft_status run_cell(ft_serving *x, uint32_t setting, ft_bench_load_mode mode, uint32_t rtt,
                          bool counts, ft_error *err)
{
    ft_bench_load_sample sample;
    ft_bench_load_drive_opts o = ft_serving_drive_opts(x, setting, mode);
    ft_serving_slow_down(x, x->o->rtt_us[rtt], &o);
    const bool first = counts && x->report[setting]->cell[mode][rtt].n == 0;
    o.edge.timeline = first ? x->timeline.to : NULL;
    const int64_t from_us = ft_monotonic_us();
    ft_status status = drive(x, mode, &o, err, &sample);
    if (first)
        ft_bench_timeline_mode(&x->timeline, ft_bench_load_mode_name(mode), x->o->rtt_us[rtt],
                               from_us, ft_monotonic_us());
    double verify_ms = ft_bench_load_values_quantile(&sample.verify_ms, 0.5);
    if (status == FT_OK && counts)
        keep(x, setting, mode, rtt, &sample);
    if (status == FT_OK && sets_forward(setting, mode))
        ft_serving_saw_verify(x, verify_ms);
    ft_bench_load_sample_deinit(&sample);
    return status;
}

/* Whether a mode is measured in a setting, and not taken over from its leader. */
static bool is_run(const ft_serving *x, uint32_t setting, ft_bench_load_mode mode)
{
    return x->o->mode[mode] &&
           (!ft_serving_is_server_mode(mode) || x->setting[setting].leader == setting);
}

/* All modes of all settings at each round-trip time; every other round in reverse order. Round 0
 * warms up: prompts are in the servers' prefix caches afterwards, and the recording has the drafts
 * that it lacked, whose computing would stop a device. */
static ft_status run_round(ft_serving *x, uint32_t round, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("modes");
    const uint32_t n = FT_BENCH_LOAD_MODES * x->n, all = n * x->o->n_rtt;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < all && status == FT_OK; i++) {
        const uint32_t k = i % n, at = round % 2 ? n - 1 - k : k;
        const uint32_t setting = at / FT_BENCH_LOAD_MODES;
        const ft_bench_load_mode mode = (ft_bench_load_mode)(at % FT_BENCH_LOAD_MODES);
        ft_progress_report(&progress, all * round + i, all * (uint64_t)(x->o->rounds + 1));
        if (is_run(x, setting, mode))
            status = run_cell(x, setting, mode, i / n, round > 0, err);
    }
    return status;
}

/* What the servers did is added to the timeline. */
static ft_status add_servers(ft_serving *x, ft_error *err)
{
    ft_status status = ft_bench_timeline_server(&x->timeline, &x->plain, err);
    if (status == FT_OK)
        status = ft_bench_timeline_server(&x->timeline, &x->split_server, err);
    for (uint32_t i = 0; i < x->n && status == FT_OK; i++)
        status = ft_bench_timeline_server(&x->timeline, &x->spec[i], err);
    return status;
}

static ft_status measure(ft_serving *x, ft_error *err)
{
    x->driver_cores = ft_bench_load_split_cores(&x->core); /* threads inherit it */
    ft_status status = make_reports(x, err);
    if (status != FT_OK)
        return status;
    ft_serving_saw_verify(x, 0); /* devices whose time was asked for have it from now on */
    status = load(x, err);
    if (status == FT_OK && x->o->schema)
        return ft_serving_start(x, NULL, err, &x->plain);
    if (status == FT_OK)
        status = prepare(x, err);
    for (int64_t i = 0; i <= x->o->rounds && status == FT_OK; i++)
        status = run_round(x, (uint32_t)i, err);
    return status == FT_OK ? add_servers(x, err) : status;
}

static void stop(ft_serving *x)
{
    ft_bench_load_server_stop(&x->plain);
    ft_bench_load_server_stop(&x->split_server);
    ft_bench_load_split_stop(&x->split);
    ft_bench_timeline_close(&x->timeline);
    for (uint32_t i = 0; i < x->n; i++) {
        ft_bench_load_server_stop(&x->spec[i]);
        if (x->report[i])
            ft_bench_load_report_deinit(x->report[i]);
        free(x->report[i]);
    }
    ft_bench_load_set_deinit(&x->set);
    ft_bench_load_drafts_deinit(&x->drafts);
    ft_model_destroy(x->draft);
    ft_vocab_destroy(x->vocab);
    free(x);
}

ft_status ft_bench_serving(const ft_bench_serving_opts *opts, ft_error *err, json_t **report)
{
    ft_serving *x = calloc(1, sizeof *x);
    *report = NULL;
    if (!x)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    x->o = opts;
    prctl(PR_SET_TIMERSLACK, 1); /* of links and devices, whose threads inherit it: 50 us else */
    ft_status status = ft_bench_timeline_open(&x->timeline, opts->timeline, err);
    if (status == FT_OK)
        status = measure(x, err);
    if (status == FT_OK && opts->schema) {
        status = ft_bench_serving_schema(x, err, report);
    } else if (status == FT_OK) {
        *report = ft_serving_figures(x);
        if (opts->text)
            ft_serving_print(x, *report, opts->text);
    }
    stop(x);
    return status;
}
