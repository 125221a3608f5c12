// SPDX-License-Identifier: Apache-2.0
// `foretoken bench serving`: what a server does with its core when it decodes, drafts and verifies, or only
// verifies what edges draft (SpecEdge, section 5). One run: all modes at all round-trip times take turns.
// Servers are children of this process (bench_load_server.c), edges are threads of it
// (bench_load_drive.c). The main thread does the rest.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cmd/bench.h"
#include "cmd/bench_load_report.h"
#include "cmd/cmd.h"
#include "cmd/gen_flags.h"
#include "cmd/lists.h"

#define RECORDINGS_MAX 4    /* of a mode */
#define MISSED_MOST    0.01 /* nodes a forward that a recording may lack */
#define CONTEXT_MARGIN 64   /* beyond prompt, text and tree */

typedef struct serving_flags {
    const char *model, *draft, *server_draft, *prompts, *modes, *rtts, *ratio, *ahead, *rule,
        *predictor;
    int64_t limit, each, longest, n, batch, depth, budget, width, rounds, seed, top_k;
    double temp, top_p, min_p, draft_ms;
    bool chain, json;
} serving_flags;

typedef struct serving {
    serving_flags f;
    ft_vocab *vocab;
    ft_model *draft;
    ft_load_drafts drafts;
    ft_load_set set;
    ft_sampling sampling;
    ft_ahead ahead;
    ft_predictor predictor;
    ft_draft_params judged;     /* only its predictor: of edge+predictor */
    ft_depth_rule rule;         /* of edges that fill no pipeline */
    ft_load_server plain, spec; /* spec: drafts too; runs where the mode is asked for */
    int core;
    ft_load_report report;
} serving;

/* A run that does not count. */
typedef struct trial {
    double verify_ms;
    double missed; /* nodes that the recording lacked, a draft forward */
} trial;

/* ---- what is asked for ---- */

static ft_status parse_modes(serving *x, ft_error *err)
{
    const char *names[FT_LOAD_MODES];
    for (int m = 0; m < FT_LOAD_MODES; m++)
        names[m] = ft_load_mode_name((ft_load_mode)m);
    return ft_list_names("--modes", x->f.modes, names, FT_LOAD_MODES, err, x->report.mode);
}

static ft_status parse_rtts(serving *x, ft_error *err)
{
    const ft_list_rule rule = {.flag = "--rtt",
                               .what = "times in ms",
                               .like = "0,15,40",
                               .most = 10000,
                               .n_max = FT_LOAD_RTTS_MAX};
    ft_load_report *r = &x->report;
    double ms[FT_LOAD_RTTS_MAX];
    ft_status status = ft_list_numbers(&rule, x->f.rtts, err, ms, &r->n_rtt);
    for (uint32_t i = 0; i < r->n_rtt && status == FT_OK; i++)
        r->rtt_us[i] = (uint32_t)(ms[i] * 1e3);
    return status;
}

static ft_status parse_rule(serving *x, ft_error *err)
{
    bool fixed = strcmp(x->f.rule, "fixed") == 0;
    x->rule = fixed ? FT_DEPTH_AUTO : FT_DEPTH_LATENCY;
    if (fixed || strcmp(x->f.rule, "latency") == 0)
        return FT_OK;
    return ft_error_set(err, FT_INVALID, "--depth %s: pass latency or fixed", x->f.rule);
}

static ft_status parse_ratio(serving *x, ft_error *err)
{
    double draft = 0, verify = 0;
    if (x->f.draft_ms > 0)
        return FT_OK;
    if (sscanf(x->f.ratio, "%lf:%lf", &draft, &verify) != 2 || !(draft > 0) || !(verify > 0))
        return ft_error_set(err, FT_INVALID, "--ratio: '%s': write DRAFT:VERIFY, as in 11:94",
                            x->f.ratio);
    x->report.ratio = draft / verify;
    return FT_OK;
}

static ft_status check(serving *x, ft_error *err)
{
    const serving_flags *f = &x->f;
    if (!f->model || !f->draft || !f->prompts)
        return ft_error_set(err, FT_INVALID, "bench serving needs -m, -md and --prompts");
    x->sampling = (ft_sampling){.temperature = (float)f->temp,
                                .top_k = (int32_t)f->top_k,
                                .top_p = (float)f->top_p,
                                .min_p = (float)f->min_p,
                                .seed = (uint64_t)f->seed};
    ft_status status = ft_sampling_check(&x->sampling, err);
    if (status == FT_OK)
        status = ft_cmd_ahead(f->ahead, err, &x->ahead);
    if (status == FT_OK)
        status = parse_rule(x, err);
    if (status == FT_OK)
        status = parse_modes(x, err);
    if (status == FT_OK)
        status = ft_cmd_predictor(f->predictor, err, &x->predictor, &x->judged);
    if (status == FT_OK && x->report.mode[FT_LOAD_PREDICTOR] && !x->judged.predictor)
        status = ft_error_set(err, FT_INVALID, "bench serving: edge+predictor needs --predictor");
    if (status == FT_OK)
        status = parse_rtts(x, err);
    return status == FT_OK ? parse_ratio(x, err) : status;
}

/* ---- what is needed ---- */

static ft_status load(serving *x, ft_error *err)
{
    const serving_flags *f = &x->f;
    const ft_model_opts draft = {.path = f->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = ft_vocab_load(f->model, err, &x->vocab);
    if (status != FT_OK)
        return status;
    const ft_load_set_opts set = {.path = f->prompts,
                                  .vocab = x->vocab,
                                  .limit = (uint32_t)f->limit,
                                  .each = (uint32_t)f->each,
                                  .longest = (uint32_t)f->longest,
                                  .multiple = 2 * (uint32_t)f->batch};
    status = ft_load_set_read(&set, err, &x->set);
    x->report.set = &x->set;
    x->report.by_category = f->each > 0;
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &x->draft);
    if (status == FT_OK)
        status = ft_cmd_check_predictor(&x->judged, x->draft, err);
    if (status != FT_OK)
        return status;
    uint32_t text = x->set.longest + (uint32_t)f->n + 8 * FT_TREE_MAX;
    const ft_load_drafts_opts drafts = {.model = x->draft,
                                        .kv_tok = (2 * (uint32_t)f->batch + 1) * text,
                                        .branch = ft_draft_params_tree(1, 1, 1).branch,
                                        .n_threads = 1};
    return ft_load_drafts_init(&x->drafts, &drafts, err);
}

static ft_status start_server(serving *x, bool drafts, ft_error *err, ft_load_server *out)
{
    const serving_flags *f = &x->f;
    ft_load_server_opts opts = {.model = f->model,
                                .draft = !drafts           ? NULL
                                         : f->server_draft ? f->server_draft
                                                           : f->draft,
                                .depth = (uint32_t)f->depth,
                                .budget = (uint32_t)f->budget,
                                .width = (uint32_t)f->width,
                                .max_sessions = 8 * (uint32_t)f->batch + 8,
                                .threads = 1,
                                .core = x->core};
    uint32_t text = (uint32_t)f->n + (uint32_t)f->budget + CONTEXT_MARGIN;
    ft_load_server_fit(&opts, &x->set, text, 2 * (uint32_t)f->batch);
    return ft_load_server_start(&opts, err, out);
}

static ft_load_drive_opts drive_opts(serving *x, ft_load_mode mode)
{
    const serving_flags *f = &x->f;
    bool drafts = mode >= FT_LOAD_EDGE;
    uint32_t batch = (uint32_t)f->batch;
    ft_draft_params params =
        ft_draft_params_tree((uint32_t)f->budget, (uint32_t)f->depth, (uint32_t)f->width);
    if (f->chain)
        params = ft_draft_params_chain((uint32_t)f->depth);
    params.ahead = x->ahead;
    params.predictor = mode == FT_LOAD_PREDICTOR ? x->judged.predictor : NULL;
    return (ft_load_drive_opts){
        .server = mode == FT_LOAD_SERVER_SPEC ? &x->spec : &x->plain,
        .set = &x->set,
        .vocab = x->vocab,
        .sampling = x->sampling,
        .n_tokens = (uint32_t)f->n,
        .n_slots = mode == FT_LOAD_PIPELINE ? 2 * batch : batch,
        .edge = {.draft = drafts ? params : (ft_draft_params){0},
                 .depth_rule = mode == FT_LOAD_PIPELINE ? FT_DEPTH_PIPELINE : x->rule,
                 .proactive = mode >= FT_LOAD_PROACTIVE,
                 .early = mode >= FT_LOAD_EARLY},
        .drafts = drafts ? &x->drafts : NULL,
        .forward_us = (int64_t)(f->draft_ms * 1e3)};
}

/* ---- the run ---- */

/* The texts, by the server alone; also fills its prefix cache. */
static ft_status learn(serving *x, ft_error *err)
{
    ft_load_sample sample;
    ft_load_drive_opts o = drive_opts(x, FT_LOAD_PLAIN);
    o.n_slots = 2 * (uint32_t)x->f.batch;
    o.learn = true;
    o.progress = ft_progress_terminal("texts");
    ft_status status = ft_load_drive(&o, err, &sample);
    ft_load_sample_deinit(&sample);
    return status;
}

static ft_status try_mode(serving *x, ft_load_mode mode, uint32_t rtt_us, trial *out, ft_error *err)
{
    ft_load_sample sample;
    ft_load_drive_opts o = drive_opts(x, mode);
    o.rtt_us = rtt_us;
    o.progress = ft_progress_terminal("drafts");
    ft_status status = ft_load_drive(&o, err, &sample);
    out->verify_ms = ft_load_values_quantile(&sample.verify_ms, 0.5);
    out->missed = (double)sample.misses / (double)(sample.device_forwards + 1);
    ft_load_sample_deinit(&sample);
    return status;
}

/* With --ratio: a device's time, from the latest verifications, because a machine that does other things
 * too is now faster, now slower, and the server's own drafts are so with it. */
static void set_forward(serving *x, double verify_ms)
{
    if (x->report.ratio > 0 && verify_ms > 0) {
        x->f.draft_ms = x->report.ratio * verify_ms;
        x->report.verify_ms = verify_ms;
    }
    x->report.forward_ms = x->f.draft_ms;
}

/* Until hardly anything is missing. */
static ft_status record_mode(serving *x, ft_load_mode mode, uint32_t rtt_us, ft_error *err)
{
    trial t = {.missed = 1};
    ft_status status = FT_OK;
    if (!x->report.mode[mode])
        return FT_OK;
    for (int i = 0; i < RECORDINGS_MAX && t.missed > MISSED_MOST && status == FT_OK; i++)
        status = try_mode(x, mode, rtt_us, &t, err);
    return status;
}

/* What the draft model says of these texts, wherever drafts may begin. */
static ft_status record_texts(serving *x, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("drafts");
    const ft_load_drive_opts o = drive_opts(x, FT_LOAD_PIPELINE);
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < x->set.n && status == FT_OK; i++) {
        const ft_load_drafts_text text = {.prompt = &x->set.prompts[i].tokens,
                                          .text = &x->set.prompts[i].text,
                                          .sampling = x->sampling,
                                          .params = o.edge.draft};
        ft_progress_report(&progress, i, x->set.n);
        status = ft_load_drafts_record(&x->drafts, &text, err);
        if (status == FT_OK && ft_cmd_stopped())
            status = ft_error_set(err, FT_CANCELLED, "stopped");
    }
    ft_progress_report(&progress, x->set.n, x->set.n);
    return status;
}

/* Records drafts as far as the modes will ask, and measures how long the server verifies a batch of trees:
 * T_verify of --ratio. */
static ft_status record(serving *x, ft_error *err)
{
    const double draft_ms = x->f.draft_ms;
    trial plain = {0};
    uint32_t longest = 0; /* more time to draft ahead */
    for (uint32_t i = 0; i < x->report.n_rtt; i++)
        longest = x->report.rtt_us[i] > longest ? x->report.rtt_us[i] : longest;
    ft_status status = record_texts(x, err);
    x->f.draft_ms = 0;
    if (status == FT_OK)
        status = try_mode(x, FT_LOAD_EDGE, 0, &plain, err);
    x->f.draft_ms = draft_ms;
    set_forward(x, plain.verify_ms);
    for (int mode = FT_LOAD_EDGE; mode < FT_LOAD_MODES && status == FT_OK; mode++)
        status = record_mode(x, (ft_load_mode)mode, longest, err);
    return status;
}

static ft_status prepare(serving *x, ft_error *err)
{
    ft_status status = start_server(x, false, err, &x->plain);
    if (status == FT_OK && x->report.mode[FT_LOAD_SERVER_SPEC])
        status = start_server(x, true, err, &x->spec);
    if (status == FT_OK)
        status = learn(x, err);
    return status == FT_OK ? record(x, err) : status;
}

static ft_status run_cell(serving *x, ft_load_mode mode, uint32_t rtt, ft_error *err)
{
    ft_load_sample sample;
    ft_load_drive_opts o = drive_opts(x, mode);
    o.rtt_us = x->report.rtt_us[rtt];
    ft_status status = ft_load_drive(&o, err, &sample);
    double verify_ms = ft_load_values_quantile(&sample.verify_ms, 0.5);
    if (status == FT_OK)
        ft_load_report_add(&x->report, mode, rtt, &sample);
    if (mode >= FT_LOAD_EDGE && mode != FT_LOAD_EARLY) /* whose trees are small where they fitted */
        set_forward(x, verify_ms);
    ft_load_sample_deinit(&sample);
    return status;
}

/* Modes take turns at each round-trip time, in the other order every other round. */
static ft_status run_round(serving *x, uint32_t round, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("modes");
    uint32_t n = FT_LOAD_MODES * x->report.n_rtt;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        uint32_t m = i % FT_LOAD_MODES, mode = round % 2 ? FT_LOAD_MODES - 1 - m : m;
        ft_progress_report(&progress, n * round + i, n * (uint64_t)x->f.rounds);
        if (x->report.mode[mode])
            status = run_cell(x, (ft_load_mode)mode, i / FT_LOAD_MODES, err);
    }
    return status;
}

static json_t *to_json(serving *x)
{
    const serving_flags *f = &x->f;
    json_t *out = json_pack("{s:s, s:s, s:s, s:s}", "command", "bench serving", "model", f->model,
                            "draft_model", f->draft, "prompts", f->prompts);
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"n_prompts", x->set.n},
                  {"skipped_too_long", x->set.skipped},
                  {"n", f->n},
                  {"batch", f->batch},
                  {"depth", f->depth},
                  {"budget", f->budget},
                  {"rounds", f->rounds},
                  {"seed", f->seed},
                  {"server_core", x->core},
                  {"driver_cores", x->report.driver_cores}};
    for (size_t i = 0; i < FT_COUNT(counts); i++)
        json_object_set_new(out, counts[i].key, json_integer(counts[i].value));
    json_object_set_new(out, "depth_rule", json_string(f->rule));
    json_object_set_new(out, "temperature", json_real(f->temp));
    json_object_set_new(out, "interleaved", json_true());
    ft_load_report_json(&x->report, out);
    return out;
}

static void print_text(serving *x, const json_t *figures)
{
    const serving_flags *f = &x->f;
    printf("%s, drafts by %s: %u prompts of at most %lld tokens, %lld tokens each, temperature %g, "
           "batch %lld, %lld round(s)\n",
           f->model, f->draft, x->set.n, (long long)f->longest, (long long)f->n, f->temp,
           (long long)f->batch, (long long)f->rounds);
    if (x->core < 0)
        printf("there is no second core: server and edges share one, and these are no figures of "
               "a server\n");
    else
        printf("server: core %d, one thread; edges: %d other core(s)\n\n", x->core,
               x->report.driver_cores);
    ft_load_report_print(&x->report, figures);
}

static ft_status measure(serving *x, ft_error *err)
{
    int cores = ft_load_leave_core(-1, &x->core); /* first: threads inherit where they may run */
    x->report.driver_cores = cores ? cores : 1;
    if (!cores)
        x->core = -1;
    ft_status status = load(x, err);
    if (status == FT_OK)
        status = prepare(x, err);
    for (int64_t i = 0; i < x->f.rounds && status == FT_OK; i++)
        status = run_round(x, (uint32_t)i, err);
    return status;
}

static void stop(serving *x)
{
    ft_load_server_stop(&x->plain);
    ft_load_server_stop(&x->spec);
    ft_load_report_deinit(&x->report);
    ft_load_set_deinit(&x->set);
    ft_load_drafts_deinit(&x->drafts);
    ft_model_destroy(x->draft);
    ft_predictor_deinit(&x->predictor);
    ft_vocab_destroy(x->vocab);
    free(x);
}

static int parse(serving_flags *f, int argc, char **argv)
{
    const ft_flag flags[] = {
        {"--model", "-m", FT_FLAG_STRING, &f->model, "FILE", "target model", 0, 0},
        {"--model-draft", "-md", FT_FLAG_STRING, &f->draft, "FILE", "draft model", 0, 0},
        {"--server-draft", NULL, FT_FLAG_STRING, &f->server_draft, "FILE",
         "the draft that server-spec runs, where its cost is to be another: -md inflated (-md)", 0,
         0},
        {"--prompts", NULL, FT_FLAG_STRING, &f->prompts, "FILE",
         "JSON lines with `turns` or `prompt`, and `category`", 0, 0},
        {"--limit", NULL, FT_FLAG_INT, &f->limit, "N",
         "so many prompts, spread over the file; 0: all", 0, 1e6},
        {"--per-category", NULL, FT_FLAG_INT, &f->each, "N",
         "instead of --limit: so many prompts of each category, whose ratios are then told apart; "
         "0: --limit",
         0, 1e6},
        {"--max-prompt", NULL, FT_FLAG_INT, &f->longest, "N", "prompts of more tokens are left out",
         8, 1 << 20},
        {"--predict", "-n", FT_FLAG_INT, &f->n, "N", "tokens a text", 2, 65536},
        {"--modes", NULL, FT_FLAG_STRING, &f->modes, "LIST", "what to compare", 0, 0},
        {"--rtt", NULL, FT_FLAG_STRING, &f->rtts, "LIST", "round-trip times of the link in ms", 0,
         0},
        {"--batch", NULL, FT_FLAG_INT, &f->batch, "B",
         "sessions at once; edge+pipeline has twice as many", 1, FT_LOAD_SLOTS_MAX / 2},
        {"--draft-depth", NULL, FT_FLAG_INT, &f->depth, "N",
         "draft forwards a tree (of edges: at most)", 1, 64},
        {"--depth", NULL, FT_FLAG_STRING, &f->rule, "HOW",
         "edge, edge+proactive: latency: draft until one more forward would bring less than its "
         "time costs; fixed: --draft-depth forwards",
         0, 0},
        {"--spec-draft-n-max", NULL, FT_FLAG_INT, &f->budget, "N", "nodes a tree", 1, 64},
        {"--ahead", NULL, FT_FLAG_STRING, &f->ahead, "WHERE",
         "drafting ahead: where the text likeliest goes on, or below the best leaf (head)", 0, 0},
        {"--draft-width", NULL, FT_FLAG_INT, &f->width, "N", "leaves that one forward continues", 1,
         64},
        {"--chain", NULL, FT_FLAG_BOOL, &f->chain, NULL,
         "edges draft chains of --draft-depth tokens instead of trees", 0, 0},
        {"--predictor", NULL, FT_FLAG_STRING, &f->predictor, "FILE",
         "of edge+predictor: a file of train predictor; none", 0, 0},
        {"--ratio", NULL, FT_FLAG_STRING, &f->ratio, "D:V",
         "a device's draft forward takes D/V of what the server takes to verify a batch", 0, 0},
        {"--draft-ms", NULL, FT_FLAG_FLOAT, &f->draft_ms, "MS",
         "a device's draft forward takes so long, instead of --ratio", 0, 10000},
        {"--rounds", NULL, FT_FLAG_INT, &f->rounds, "R", "times that everything is measured", 1,
         FT_BENCH_ROUNDS_MAX},
        {"--temp", NULL, FT_FLAG_FLOAT, &f->temp, "T", "temperature; 0: greedy", 0, 100},
        {"--top-k", NULL, FT_FLAG_INT, &f->top_k, "K", "the K likeliest only; 0: all", 0, 1e6},
        {"--top-p", NULL, FT_FLAG_FLOAT, &f->top_p, "P", "1: off", 0.01, 1},
        {"--min-p", NULL, FT_FLAG_FLOAT, &f->min_p, "P", "0: off", 0, 1},
        {"--seed", "-s", FT_FLAG_INT, &f->seed, "N", "of the draws", 0, 1e18},
        {"--json", NULL, FT_FLAG_BOOL, &f->json, NULL, "one JSON object", 0, 0},
    };
    const ft_cmd_usage usage = {
        .usage = "bench serving -m TARGET -md DRAFT --prompts FILE [flags]",
        .about =
            "Serves the same prompts in several ways and compares what the server's core does "
            "with its time:\n"
            "plain (the server decodes), server-spec (it drafts, too), edge (devices draft and "
            "wait), edge+predictor\n"
            "(their drafts end at the first predicted rejection), edge+proactive (they draft "
            "ahead), edge+early (and send\n"
            "some of that before the verdict), edge+pipeline "
            "(twice as many sessions take turns). Links are delayed, and devices take the time they "
            "are said to take; the\n"
            "server's work is real, on a core of its own.",
        .flags = flags,
        .n_flags = FT_COUNT(flags)};
    int words;
    return ft_cmd_parse(&usage, argc, argv, &words);
}

int ft_cmd_bench_serving(int argc, char **argv)
{
    ft_error err = {0};
    serving *x =
        calloc(1, sizeof *x); /* every cell and round of the report: too much for a stack */
    if (!x)
        return ft_error_set(&err, FT_NOMEM, "out of memory"), ft_cmd_fail(&err);
    x->f =
        (serving_flags){.modes = "plain,server-spec,edge,edge+proactive,edge+early,edge+pipeline",
                        .rtts = "0,15,40,50",
                        .ratio = "11:94",
                        .limit = 6,
                        .longest = 256,
                        .n = 64,
                        .batch = 1,
                        .depth = 7,
                        .budget = 32,
                        .ahead = "likeliest",
                        .predictor = "none",
                        .rule = "latency",
                        .width = 4,
                        .rounds = 3,
                        .top_p = 1};
    int code = parse(&x->f, argc, argv);
    if (code >= 0) {
        free(x);
        return code;
    }
    if (check(x, &err) != FT_OK) {
        ft_cmd_fail(&err);
        free(x);
        return 2;
    }
    ft_cmd_catch_signals();
    prctl(PR_SET_TIMERSLACK, 1); /* of links and devices, whose threads inherit it: 50 us else */
    if (measure(x, &err) == FT_OK) {
        json_t *figures = to_json(x);
        if (x->f.json) {
            code = ft_cmd_print_json(figures);
        } else {
            print_text(x, figures);
            json_decref(figures);
            code = 0;
        }
    } else {
        code = ft_cmd_fail(&err);
    }
    stop(x);
    return code;
}
