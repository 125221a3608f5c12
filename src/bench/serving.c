// SPDX-License-Identifier: Apache-2.0
// The serving comparison: what a server does with its core when it decodes, drafts and verifies,
// or only verifies what edges draft (SpecEdge, section 5). One run has all modes at all round-trip
// times, interleaved. Servers are children of this process (load_server.c), edges are threads of
// it (load_drive.c). The main thread does the rest.
#include "bench/serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/load_report.h"
#include "bench/serving_timeline.h"

#define RECORDINGS_MAX 4    /* of a mode */
#define MISSED_MOST    0.01 /* nodes a forward that a recording may lack */
#define CONTEXT_MARGIN 64   /* beyond prompt, text and tree */

const char *const ft_bench_depth_name[] = {"latency", "fixed", NULL};

typedef struct serving {
    const ft_bench_serving_opts *o;
    double draft_ms; /* a device's draft forward */
    ft_vocab *vocab;
    ft_model *draft;
    ft_bench_load_drafts drafts;
    ft_bench_load_set set;
    ft_bench_load_server plain, spec; /* spec: drafts too; runs where the mode is asked for */
    int core;
    ft_bench_load_report report;
    ft_bench_timeline timeline;
} serving;

/* A run that does not count. */
typedef struct trial {
    double verify_ms;
    double missed; /* nodes that the recording lacked, a draft forward */
} trial;

/* ---- what is needed ---- */

static ft_status load(serving *x, ft_error *err)
{
    const ft_bench_serving_opts *f = x->o;
    const ft_model_opts draft = {.path = f->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = ft_vocab_load(f->model, err, &x->vocab);
    if (status != FT_OK)
        return status;
    const ft_bench_load_set_opts set = {.path = f->prompts,
                                        .vocab = x->vocab,
                                        .limit = (uint32_t)f->set.limit,
                                        .each = (uint32_t)f->set.each,
                                        .longest = (uint32_t)f->set.longest,
                                        .multiple = 2 * (uint32_t)f->batch};
    status = ft_bench_load_set_read(&set, err, &x->set);
    x->report.set = &x->set;
    x->report.by_category = f->set.each > 0;
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &x->draft);
    if (status == FT_OK && f->drafts.predictor)
        status = ft_predictor_check_draft(f->drafts.predictor, ft_model_fingerprint(x->draft), err);
    if (status != FT_OK)
        return status;
    uint32_t text = x->set.longest + (uint32_t)f->n + 8 * FT_TREE_MAX;
    const ft_bench_load_drafts_opts drafts = {.model = x->draft,
                                              .kv_tok = (2 * (uint32_t)f->batch + 1) * text,
                                              .branch = ft_draft_params_tree(1, 1, 1).branch,
                                              .n_threads = 1};
    return ft_bench_load_drafts_init(&x->drafts, &drafts, err);
}

static ft_status start_server(serving *x, bool drafts, ft_error *err, ft_bench_load_server *out)
{
    const ft_bench_serving_opts *f = x->o;
    ft_bench_load_server_opts opts = {.model = f->model,
                                      .draft = !drafts           ? NULL
                                               : f->server_draft ? f->server_draft
                                                                 : f->draft,
                                      .depth = (uint32_t)f->drafts.depth,
                                      .budget = (uint32_t)f->drafts.budget,
                                      .width = (uint32_t)f->drafts.width,
                                      .draft_always = f->drafts.rule == FT_BENCH_DEPTH_FIXED,
                                      .max_sessions = 8 * (uint32_t)f->batch + 8,
                                      .threads = 1,
                                      .core = x->core,
                                      .timeline_mb = x->timeline.to ? FT_BENCH_TIMELINE_MB : 0,
                                      .stop = f->stop};
    uint32_t text = (uint32_t)f->n + (uint32_t)f->drafts.budget + CONTEXT_MARGIN;
    ft_bench_load_server_fit(&opts, &x->set, text, 2 * (uint32_t)f->batch);
    return ft_bench_load_server_start(&opts, err, out);
}

static ft_bench_load_drive_opts drive_opts(serving *x, ft_bench_load_mode mode)
{
    const ft_bench_serving_opts *f = x->o;
    bool drafts = mode >= FT_BENCH_LOAD_EDGE;
    uint32_t batch = (uint32_t)f->batch;
    ft_draft_params params = ft_draft_params_tree(
        (uint32_t)f->drafts.budget, (uint32_t)f->drafts.depth, (uint32_t)f->drafts.width);
    if (f->drafts.chain)
        params = ft_draft_params_chain((uint32_t)f->drafts.depth);
    params.proactive = f->drafts.proactive;
    params.weigh_rows = f->drafts.rule == FT_BENCH_DEPTH_LATENCY;
    params.predictor = mode == FT_BENCH_LOAD_PREDICTOR ? f->drafts.predictor : NULL;
    return (ft_bench_load_drive_opts){
        .server = mode == FT_BENCH_LOAD_SERVER_SPEC ? &x->spec : &x->plain,
        .set = &x->set,
        .vocab = x->vocab,
        .sampling = x->o->sampling,
        .n_tokens = (uint32_t)f->n,
        .n_slots = mode == FT_BENCH_LOAD_PIPELINE ? 2 * batch : batch,
        .edge = {.draft = drafts ? params : (ft_draft_params){0},
                 .depth_rule = mode == FT_BENCH_LOAD_PIPELINE             ? FT_DEPTH_PIPELINE
                               : f->drafts.rule == FT_BENCH_DEPTH_LATENCY ? FT_DEPTH_LATENCY
                                                                          : FT_DEPTH_AUTO,
                 .proactive = mode >= FT_BENCH_LOAD_PROACTIVE,
                 .early = mode >= FT_BENCH_LOAD_EARLY},
        .drafts = drafts ? &x->drafts : NULL,
        .forward_us = (int64_t)(x->draft_ms * 1e3),
        .stop = f->stop};
}

/* The devices' links are slow from now on. */
static void slow_down(const serving *x, uint32_t rtt_us, ft_bench_load_drive_opts *o)
{
    o->rtt_us = rtt_us;
    o->up = x->o->up;
    o->down = x->o->down;
}

/* ---- the run ---- */

/* The texts, by the server alone; also fills its prefix cache. */
static ft_status learn(serving *x, ft_error *err)
{
    ft_bench_load_sample sample;
    ft_bench_load_drive_opts o = drive_opts(x, FT_BENCH_LOAD_PLAIN);
    o.n_slots = 2 * (uint32_t)x->o->batch;
    o.learn = true;
    o.progress = ft_progress_terminal("texts");
    ft_status status = ft_bench_load_drive(&o, err, &sample);
    ft_bench_load_sample_deinit(&sample);
    return status;
}

static ft_status try_mode(serving *x, ft_bench_load_mode mode, uint32_t rtt_us, trial *out,
                          ft_error *err)
{
    ft_bench_load_sample sample;
    ft_bench_load_drive_opts o = drive_opts(x, mode);
    slow_down(x, rtt_us, &o);
    o.progress = ft_progress_terminal("drafts");
    ft_status status = ft_bench_load_drive(&o, err, &sample);
    out->verify_ms = ft_bench_load_values_quantile(&sample.verify_ms, 0.5);
    out->missed = (double)sample.misses / (double)(sample.device_forwards + 1);
    ft_bench_load_sample_deinit(&sample);
    return status;
}

/* With --ratio: a device's time follows the latest verifications. The machine's speed changes with
 * its other work, and the time of server-spec's own drafts changes with it. */
static void set_forward(serving *x, double verify_ms)
{
    if (x->report.ratio > 0 && verify_ms > 0) {
        x->draft_ms = x->report.ratio * verify_ms;
        x->report.verify_ms = verify_ms;
    }
    x->report.forward_ms = x->draft_ms;
}

/* Until hardly anything is missing. */
static ft_status record_mode(serving *x, ft_bench_load_mode mode, uint32_t rtt_us, ft_error *err)
{
    trial t = {.missed = 1};
    ft_status status = FT_OK;
    if (!x->report.mode[mode])
        return FT_OK;
    for (int i = 0; i < RECORDINGS_MAX && t.missed > MISSED_MOST && status == FT_OK; i++)
        status = try_mode(x, mode, rtt_us, &t, err);
    return status;
}

/* Records the draft model's forwards wherever drafts of these texts may begin. */
static ft_status record_texts(serving *x, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("drafts");
    const ft_bench_load_drive_opts o = drive_opts(x, FT_BENCH_LOAD_PIPELINE);
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < x->set.n && status == FT_OK; i++) {
        const ft_bench_load_drafts_text text = {.prompt = &x->set.prompts[i].tokens,
                                                .text = &x->set.prompts[i].text,
                                                .sampling = x->o->sampling,
                                                .params = o.edge.draft};
        ft_progress_report(&progress, i, x->set.n);
        status = ft_bench_load_drafts_record(&x->drafts, &text, err);
        if (status == FT_OK && x->o->stop && x->o->stop())
            status = ft_error_set(err, FT_CANCELLED, "stopped");
    }
    ft_progress_report(&progress, x->set.n, x->set.n);
    return status;
}

/* Records the drafts that the modes will ask for, and measures how long the server takes to verify
 * a batch of trees: T_verify of --ratio. */
static ft_status record(serving *x, ft_error *err)
{
    const double draft_ms = x->draft_ms;
    trial plain = {0};
    uint32_t longest = 0; /* more time to draft ahead */
    for (uint32_t i = 0; i < x->report.n_rtt; i++)
        longest = x->report.rtt_us[i] > longest ? x->report.rtt_us[i] : longest;
    ft_status status = record_texts(x, err);
    x->draft_ms = 0;
    if (status == FT_OK)
        status = try_mode(x, FT_BENCH_LOAD_EDGE, 0, &plain, err);
    x->draft_ms = draft_ms;
    set_forward(x, plain.verify_ms);
    for (int mode = FT_BENCH_LOAD_EDGE; mode < FT_BENCH_LOAD_MODES && status == FT_OK; mode++)
        status = record_mode(x, (ft_bench_load_mode)mode, longest, err);
    return status;
}

static ft_status prepare(serving *x, ft_error *err)
{
    ft_status status = start_server(x, false, err, &x->plain);
    if (status == FT_OK && x->report.mode[FT_BENCH_LOAD_SERVER_SPEC])
        status = start_server(x, true, err, &x->spec);
    if (status == FT_OK)
        status = learn(x, err);
    return status == FT_OK ? record(x, err) : status;
}

static ft_status run_cell(serving *x, ft_bench_load_mode mode, uint32_t rtt, ft_error *err)
{
    ft_bench_load_sample sample;
    ft_bench_load_drive_opts o = drive_opts(x, mode);
    slow_down(x, x->report.rtt_us[rtt], &o);
    const bool first = x->report.cell[mode][rtt].n == 0;
    o.edge.timeline = first ? x->timeline.to : NULL;
    const int64_t from_us = ft_monotonic_us();
    ft_status status = ft_bench_load_drive(&o, err, &sample);
    if (first)
        ft_bench_timeline_mode(&x->timeline, ft_bench_load_mode_name(mode), x->report.rtt_us[rtt],
                               from_us, ft_monotonic_us());
    double verify_ms = ft_bench_load_values_quantile(&sample.verify_ms, 0.5);
    if (status == FT_OK)
        ft_bench_load_report_add(&x->report, mode, rtt, &sample);
    if (mode >= FT_BENCH_LOAD_EDGE &&
        mode != FT_BENCH_LOAD_EARLY) /* whose trees are small where they fitted */
        set_forward(x, verify_ms);
    ft_bench_load_sample_deinit(&sample);
    return status;
}

/* All modes at each round-trip time; every other round in reverse order. */
static ft_status run_round(serving *x, uint32_t round, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("modes");
    uint32_t n = FT_BENCH_LOAD_MODES * x->report.n_rtt;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        uint32_t m = i % FT_BENCH_LOAD_MODES, mode = round % 2 ? FT_BENCH_LOAD_MODES - 1 - m : m;
        ft_progress_report(&progress, n * round + i, n * (uint64_t)x->o->rounds);
        if (x->report.mode[mode])
            status = run_cell(x, (ft_bench_load_mode)mode, i / FT_BENCH_LOAD_MODES, err);
    }
    return status;
}

/* A link's rate as it was asked for; nothing without one. */
static void set_rate(json_t *out, const char *way, const ft_line_rate *rate)
{
    const double mbit = rate->bits_per_s[0] / 1e6, other = rate->bits_per_s[1] / 1e6;
    if (rate->step_ns > 0)
        json_object_set_new(out, way,
                            json_pack("{s:[f, f], s:f, s:f}", "steps_mbit", mbit, other, "step_ms",
                                      (double)rate->step_ns / 1e6, "stay", rate->stay));
    else if (mbit > 0)
        json_object_set_new(out, way, json_pack("{s:f}", "mbit", mbit));
}

static json_t *to_json(serving *x)
{
    const ft_bench_serving_opts *f = x->o;
    json_t *out = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:f, s:b}",
        "command", "bench serving", "model", f->model, "draft_model", f->draft, "prompts",
        f->prompts, "n_prompts", (int)x->set.n, "skipped_too_long", (int)x->set.skipped, "n",
        (json_int_t)f->n, "batch", (json_int_t)f->batch, "depth", (json_int_t)f->drafts.depth,
        "budget", (json_int_t)f->drafts.budget, "rounds", (json_int_t)f->rounds, "seed",
        (json_int_t)f->sampling.seed, "server_core", x->core, "driver_cores",
        x->report.driver_cores, "depth_rule", ft_bench_depth_name[f->drafts.rule], "temperature",
        f->temp, "interleaved", 1);
    set_rate(out, "up", &f->up);
    set_rate(out, "down", &f->down);
    ft_bench_load_report_json(&x->report, out);
    return out;
}

static void print_text(serving *x, const json_t *figures)
{
    const ft_bench_serving_opts *f = x->o;
    fprintf(
        f->text,
        "%s, drafts by %s: %u prompts of at most %lld tokens, %lld tokens each, temperature %g, "
        "batch %lld, %lld round(s)\n",
        f->model, f->draft, x->set.n, (long long)f->set.longest, (long long)f->n, f->temp,
        (long long)f->batch, (long long)f->rounds);
    ft_bench_load_print_cores(x->core, x->report.driver_cores, f->text);
    fprintf(f->text, "\n");
    ft_bench_load_report_print(&x->report, figures, f->text);
}

static ft_status measure(serving *x, ft_error *err)
{
    x->report.driver_cores = ft_bench_load_split_cores(&x->core); /* threads inherit it */
    ft_status status = load(x, err);
    if (status == FT_OK)
        status = prepare(x, err);
    for (int64_t i = 0; i < x->o->rounds && status == FT_OK; i++)
        status = run_round(x, (uint32_t)i, err);
    if (status == FT_OK)
        status = ft_bench_timeline_server(&x->timeline, &x->plain, err);
    return status == FT_OK ? ft_bench_timeline_server(&x->timeline, &x->spec, err) : status;
}

static void stop(serving *x)
{
    ft_bench_load_server_stop(&x->plain);
    ft_bench_load_server_stop(&x->spec);
    ft_bench_timeline_close(&x->timeline);
    ft_bench_load_report_deinit(&x->report);
    ft_bench_load_set_deinit(&x->set);
    ft_bench_load_drafts_deinit(&x->drafts);
    ft_model_destroy(x->draft);
    ft_vocab_destroy(x->vocab);
    free(x);
}

ft_status ft_bench_serving(const ft_bench_serving_opts *opts, ft_error *err, json_t **report)
{
    serving *x = calloc(1, sizeof *x); /* every cell and round: too much for a stack */
    *report = NULL;
    if (!x)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    x->o = opts;
    x->draft_ms = opts->draft_ms;
    x->report.ratio = opts->draft_ms > 0 ? 0 : opts->ratio;
    x->report.n_rtt = opts->n_rtt;
    memcpy(x->report.rtt_us, opts->rtt_us, sizeof x->report.rtt_us);
    memcpy(x->report.mode, opts->mode, sizeof x->report.mode);
    prctl(PR_SET_TIMERSLACK, 1); /* of links and devices, whose threads inherit it: 50 us else */
    ft_status status = ft_bench_timeline_open(&x->timeline, opts->timeline, err);
    if (status == FT_OK)
        status = measure(x, err);
    if (status == FT_OK) {
        *report = to_json(x);
        if (opts->text)
            print_text(x, *report);
    }
    stop(x);
    return status;
}
