// SPDX-License-Identifier: Apache-2.0
// `foretoken bench capacity`: how many devices a real server holds at promised token speeds (WISP 5.2.1, eq.
// (20)), by policy. Every way to serve has a server of its own, a child process on the last core; servers
// that are not asked sleep. The searches of all ways take turns, a probe each, so that whatever else the
// machine does meets all alike. One thread, and what bench_load_crowd.h starts.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cmd/bench.h"
#include "cmd/bench_capacity_report.h"
#include "cmd/gen_flags.h"
#include "cmd/lists.h"
#include "sim/capacity_search.h"
#include "sched/sched.h"

#define CONTEXT_MARGIN 64   /* tokens of a text besides prompt, answer and draft */
#define LEARNERS       8    /* devices that write all texts before anything is measured */
#define TEXT_LEAST     8    /* tokens of a text */
#define TEXTS_ENOUGH   20   /* of a probe: one in twenty is what 5 % means */
#define LONGEST        3.0  /* probes get as long, of what --probe-s says, for the sake of that */
#define GUESS          0.8  /* of what the server wrote while it learned: promises cost something */
#define ENOUGH         0.95 /* of a probe's tokens: texts are not all equally fast */
#define DRAFT_TEXTS    64   /* that the draft model's memory holds at once */

typedef struct capacity_flags {
    const char *model, *draft, *prompts, *slo, *policies, *costs, *cache_type, *plot;
    int64_t limit, longest, shortest, n, most, fixed, seed;
    ft_edge_draft_flags how; /* of wisp's and edf's devices */
    double rtt_ms, draft_ms, epsilon, precision, probe_s, temp;
    bool mixed, mixed_only, json;
} capacity_flags;

typedef struct capacity {
    capacity_flags f;
    ft_sampling sampling;
    ft_edge_opts edge; /* what f.how says */
    ft_predictor predictor;
    ft_vocab *vocab;
    ft_model *draft;
    ft_load_set set;
    ft_load_drafts drafts;
    ft_load_server server[FT_CAPACITY_WAYS];
    double tokens_per_busy_s[FT_CAPACITY_WAYS]; /* while it learned */
    ft_crowd_class classes[FT_SLO_CLASSES];
    ft_capacity_report report;
    int core;
    double began_s;
} capacity;

typedef struct way {
    const char *policy; /* of serve */
    bool drafts;        /* devices draft */
    bool fixed;         /* as many tokens as SLED's do */
    bool ask;           /* for a promise */
    bool anew;          /* nothing is kept between rounds */
} way;

static const way ways[FT_CAPACITY_WAYS] = {
    [FT_CAPACITY_WISP] = {"wisp", .drafts = true, .ask = true},
    [FT_CAPACITY_EDF] = {"edf", .drafts = true, .ask = true},
    [FT_CAPACITY_FCFS] = {"fcfs", .drafts = true, .fixed = true, .ask = true},
    [FT_CAPACITY_SLED] = {"fcfs", .drafts = true, .fixed = true, .anew = true},
    [FT_CAPACITY_STATIC] = {"static", .drafts = true, .fixed = true},
    [FT_CAPACITY_CENTRALIZED] = {"centralized"},
};

/* ---- flags ---- */

/* Texts take half of a probe at the promised speed, where that is not too long or too short. */
static ft_status parse_classes(capacity *x, ft_error *err)
{
    float speeds[FT_SLO_CLASSES];
    ft_capacity_report *r = &x->report;
    ft_status status = ft_list_speeds("--slo", x->f.slo, err, speeds, &r->n_classes);
    r->classes = x->classes;
    for (uint32_t i = 0; i < r->n_classes && status == FT_OK; i++) {
        double tokens = fmin(fmax(speeds[i] * x->f.probe_s / 2, TEXT_LEAST), (double)x->f.n);
        x->classes[i] = (ft_crowd_class){speeds[i], (uint32_t)tokens};
    }
    return status;
}

static ft_status check(capacity *x, ft_error *err)
{
    const capacity_flags *f = &x->f;
    if (!f->model || !f->draft || !f->prompts)
        return ft_error_set(err, FT_INVALID, "bench capacity needs -m, -md and --prompts");
    x->sampling =
        (ft_sampling){.temperature = (float)f->temp, .top_p = 1, .seed = (uint64_t)f->seed};
    if (f->mixed_only && f->plot)
        return ft_error_set(err, FT_INVALID,
                            "--plot draws devices over speed: not with --mixed-only");
    x->report.mixed = f->mixed || f->mixed_only;
    x->report.mixed_only = f->mixed_only;
    ft_status status = ft_sampling_check(&x->sampling, err);
    if (status == FT_OK)
        status = ft_edge_draft_from_flags(&f->how, err, &x->edge);
    if (status == FT_OK)
        status = ft_cmd_predictor(f->how.predictor, err, &x->predictor, &x->edge.draft);
    if (status == FT_OK)
        status = ft_list_names("--policies", f->policies, ft_capacity_way_name, FT_CAPACITY_WAYS,
                               err, x->report.way);
    return status == FT_OK ? parse_classes(x, err) : status;
}

/* ---- what is needed ---- */

static uint32_t text_tokens(const capacity *x)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < x->report.n_classes; i++)
        most = x->classes[i].n_tokens > most ? x->classes[i].n_tokens : most;
    return most;
}

static ft_status load(capacity *x, ft_error *err)
{
    const capacity_flags *f = &x->f;
    const ft_model_opts draft = {.path = f->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = ft_vocab_load(f->model, err, &x->vocab);
    if (status != FT_OK)
        return status;
    const ft_load_set_opts set = {.path = f->prompts,
                                  .vocab = x->vocab,
                                  .limit = (uint32_t)f->limit,
                                  .longest = (uint32_t)f->longest,
                                  .shortest = (uint32_t)f->shortest,
                                  .multiple = 1};
    status = ft_load_set_read(&set, err, &x->set);
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &x->draft);
    if (status == FT_OK)
        status = ft_cmd_check_predictor(&x->edge.draft, x->draft, err);
    if (status != FT_OK)
        return status;
    const ft_load_drafts_opts drafts = {
        .model = x->draft,
        .kv_tok = DRAFT_TEXTS * (x->set.longest + text_tokens(x) + CONTEXT_MARGIN),
        .branch = x->edge.draft.branch,
        .n_threads = 1};
    return ft_load_drafts_init(&x->drafts, &drafts, err);
}

static ft_status start_server(capacity *x, int w, ft_error *err)
{
    const capacity_flags *f = &x->f;
    ft_load_server_opts opts = {.model = f->model,
                                .max_sessions = 4 * (uint32_t)f->most + 8,
                                .threads = 1,
                                .policy = ways[w].policy,
                                .slo = f->slo,
                                .costs = f->costs,
                                .cache_type = f->cache_type,
                                .no_prefix_cache = ways[w].anew,
                                .core = x->core};
    uint32_t text = text_tokens(x) + x->edge.draft.budget + CONTEXT_MARGIN;
    ft_load_server_fit(&opts, &x->set, text, (uint32_t)f->most);
    return ft_load_server_start(&opts, err, &x->server[w]);
}

static ft_crowd_opts crowd_opts(capacity *x, int w)
{
    const capacity_flags *f = &x->f;
    return (ft_crowd_opts){.server = &x->server[w],
                           .set = &x->set,
                           .vocab = x->vocab,
                           .sampling = x->sampling,
                           .drafts = ways[w].drafts ? &x->drafts : NULL,
                           .draft = ways[w].fixed ? ft_draft_params_chain((uint32_t)f->fixed)
                                                  : x->edge.draft,
                           .automatic = !ways[w].fixed && x->edge.automatic,
                           .anew = ways[w].anew,
                           .ask = ways[w].ask,
                           .rtt_us = (int64_t)(f->rtt_ms * 1e3),
                           .forward_us = (int64_t)(f->draft_ms * 1e3)};
}

/* The texts and their drafts; then, with prompts in the prefix cache, an idea of how fast the server is. */
static ft_status learn(capacity *x, int w, ft_error *err)
{
    const ft_crowd_class longest = {1, text_tokens(x)};
    ft_crowd_opts o = crowd_opts(x, w);
    ft_crowd_result r;
    o.classes = &longest;
    o.n_classes = 1;
    o.n_devices = LEARNERS;
    ft_status status = ft_crowd_learn(&o, err, &r);
    if (status == FT_OK && !ways[w].anew)
        status = ft_crowd_learn(&o, err, &r);
    double busy_s = r.server.pass_s + r.server.judge_s + r.server.rest_s;
    x->tokens_per_busy_s[w] = busy_s > 0 ? (double)r.tokens / busy_s : 0;
    if (status == FT_OK)
        fprintf(stderr, "%5.0f s  %-11s %u texts, %.0f tokens/s of the server's work\n",
                ft_bench_now_s() - x->began_s, ft_capacity_way_name[w], x->set.n,
                x->tokens_per_busy_s[w]);
    return status;
}

static ft_status prepare(capacity *x, ft_error *err)
{
    ft_status status = FT_OK;
    for (int w = 0; w < FT_CAPACITY_WAYS && status == FT_OK; w++)
        if (x->report.way[w])
            status = start_server(x, w, err);
    for (int w = 0; w < FT_CAPACITY_WAYS && status == FT_OK; w++)
        if (x->report.way[w])
            status = learn(x, w, err);
    return status;
}

/* ---- probes ---- */

/* Longest time that a text was promised; mean of the promised speeds. */
static void class_times(const capacity *x, uint32_t class, double *text_s, double *speed)
{
    uint32_t first = class == FT_CAPACITY_MIXED ? 0 : class;
    uint32_t n = class == FT_CAPACITY_MIXED ? x->report.n_classes : 1;
    *text_s = *speed = 0;
    for (uint32_t i = first; i < first + n; i++) {
        *text_s = fmax(*text_s, x->classes[i].n_tokens / (double)x->classes[i].tokens_per_s);
        *speed += (double)x->classes[i].tokens_per_s / n;
    }
}

static ft_status probe(capacity *x, int w, uint32_t class, uint32_t n, ft_error *err,
                       ft_capacity_probe *out)
{
    const bool mixed = class == FT_CAPACITY_MIXED;
    const double probe_s = x->f.probe_s;
    ft_crowd_opts o = crowd_opts(x, w);
    ft_crowd_result r;
    double text_s, speed;
    class_times(x, class, &text_s, &speed);
    o.classes = mixed ? x->classes : &x->classes[class];
    o.n_classes = mixed ? x->report.n_classes : 1;
    o.n_devices = n;
    o.warm_s = text_s / 2;
    o.measure_s = fmax(1.5 * text_s, probe_s - o.warm_s);
    o.measure_s =
        fmax(o.measure_s, fmin(TEXTS_ENOUGH * o.n_classes * text_s / n, LONGEST * probe_s));
    double texts = n * o.measure_s / text_s;
    o.slow_most = 2 + (uint32_t)(3 * x->f.epsilon * texts);
    ft_status status = ft_crowd_run(&o, err, &r);
    ft_capacity_report one = x->report; /* of these classes */
    one.n_classes = o.n_classes;
    *out = ft_capacity_probe_of(&one, n, &r);
    return status;
}

static void say(const capacity *x, int w, uint32_t class, const ft_capacity_probe *p)
{
    char name[16];
    ft_capacity_class_name(&x->report, class, name);
    fprintf(
        stderr,
        "%5.0f s  %-11s %6s tokens/s: %3u devices: %llu of %llu texts slow%s, %.1f tokens/s, "
        "server %.0f %% busy, %.1f rows in %.1f ms, %.2f tokens a verdict, %.0f %% in runs, edges' side %.0f %%\n",
        ft_bench_now_s() - x->began_s, ft_capacity_way_name[w], name, p->n,
        (unsigned long long)p->slow_texts, (unsigned long long)p->texts,
        p->refused ? " (some refused)" : "", p->goodput, 100 * p->busy, p->rows_a_pass, p->pass_ms,
        p->tokens_a_verdict, 100 * p->runs, 100 * p->driver);
}

/* One turn of one search. */
static ft_status turn(capacity *x, int w, uint32_t class, ft_capacity_search *search, ft_error *err)
{
    ft_capacity_probe p;
    double text_s, speed;
    uint32_t n = ft_capacity_search_next(search);
    class_times(x, class, &text_s, &speed);
    ft_status status = probe(x, w, class, n, err, &p);
    if (status != FT_OK)
        return status;
    say(x, w, class, &p);
    ft_capacity_report_add(&x->report, (ft_capacity_way)w, class, &p);
    ft_capacity_search_saw(search, p.texts, p.slow_texts, (uint32_t)(ENOUGH * p.goodput / speed));
    if (search->low == n)
        x->report.found[w][class].at = p;
    return FT_OK;
}

static uint32_t guess(const capacity *x, int w, uint32_t class)
{
    double text_s, speed, before_s;
    class_times(x, class, &text_s, &speed);
    double n = GUESS * x->tokens_per_busy_s[w] / speed;
    if (class > 0 && class != FT_CAPACITY_MIXED && x->report.found[w][class - 1].at.n > 0) {
        class_times(x, class - 1, &text_s, &before_s);
        n = x->report.found[w][class - 1].at.n * before_s / speed;
    }
    return n < 1 ? 1 : n > (double)x->f.most ? (uint32_t)x->f.most : (uint32_t)n;
}

static ft_status search_class(capacity *x, uint32_t class, ft_error *err)
{
    ft_capacity_search search[FT_CAPACITY_WAYS];
    ft_status status = FT_OK;
    bool more = true;
    for (int w = 0; w < FT_CAPACITY_WAYS; w++)
        ft_capacity_search_init(&search[w], guess(x, w, class), (uint32_t)x->f.most, x->f.epsilon,
                                x->f.precision);
    while (more && status == FT_OK) {
        more = false;
        for (int w = 0; w < FT_CAPACITY_WAYS && status == FT_OK; w++) {
            if (!x->report.way[w] || !ft_capacity_search_next(&search[w]))
                continue;
            status = turn(x, w, class, &search[w], err);
            more = true;
        }
    }
    for (int w = 0; w < FT_CAPACITY_WAYS; w++)
        x->report.found[w][class].known = x->report.way[w];
    return status;
}

static ft_status measure(capacity *x, ft_error *err)
{
    int cores = ft_load_leave_core(-1, &x->core); /* first: threads inherit where they may run */
    x->report.driver_cores = cores ? cores : 1;
    if (!cores)
        x->core = -1;
    ft_status status = load(x, err);
    if (status == FT_OK)
        status = prepare(x, err);
    for (uint32_t i = 0; !x->report.mixed_only && i < x->report.n_classes && status == FT_OK; i++)
        status = search_class(x, i, err);
    if (status == FT_OK && x->report.mixed)
        status = search_class(x, FT_CAPACITY_MIXED, err);
    return status;
}

/* ---- what comes out ---- */

static json_t *to_json(const capacity *x)
{
    const capacity_flags *f = &x->f;
    json_t *out = json_pack("{s:s, s:s, s:s, s:s}", "command", "bench capacity", "model", f->model,
                            "draft_model", f->draft, "prompts", f->prompts);
    json_object_set_new(out, "draft", json_string(f->how.draft));
    json_object_set_new(out, "predictor", json_string(f->how.predictor));
    json_object_set_new(out, "cache_type", json_string(f->cache_type));
    json_t *lengths = json_array();
    const struct {
        const char *key;
        double value;
    } figures[] = {{"rtt_ms", f->rtt_ms},
                   {"draft_ms", f->draft_ms},
                   {"epsilon", f->epsilon},
                   {"precision", f->precision},
                   {"probe_s", f->probe_s},
                   {"temperature", f->temp},
                   {"seconds", ft_bench_now_s() - x->began_s}};
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"n_prompts", x->set.n},   {"longest_prompt", x->set.longest},
                  {"devices_most", f->most}, {"fixed_draft_tokens", f->fixed},
                  {"server_core", x->core},  {"driver_cores", x->report.driver_cores}};
    for (size_t i = 0; i < FT_COUNT(figures); i++)
        json_object_set_new(out, figures[i].key, json_real(figures[i].value));
    for (size_t i = 0; i < FT_COUNT(counts); i++)
        json_object_set_new(out, counts[i].key, json_integer(counts[i].value));
    for (uint32_t i = 0; i < x->report.n_classes; i++)
        json_array_append_new(lengths, json_integer(x->classes[i].n_tokens));
    json_object_set_new(out, "text_tokens", lengths);
    json_object_set_new(out, "interleaved", json_true());
    ft_capacity_report_json(&x->report, out);
    return out;
}

static void print_text(const capacity *x)
{
    const capacity_flags *f = &x->f;
    printf("%s, drafts by %s: %u prompts of at most %u tokens, texts of at most %u, round trip %g "
           "ms, %g ms a draft forward\n",
           f->model, f->draft, x->set.n, x->set.longest, text_tokens(x), f->rtt_ms, f->draft_ms);
    if (x->core < 0)
        printf("there is no second core: server and edges share one, and these are no figures of "
               "a server\n");
    else
        printf("server: core %d, one thread; edges: %d other core(s)\n", x->core,
               x->report.driver_cores);
    ft_capacity_report_print(&x->report);
}

static void stop(capacity *x)
{
    for (int w = 0; w < FT_CAPACITY_WAYS; w++)
        ft_load_server_stop(&x->server[w]);
    json_decref(x->report.probes);
    ft_load_set_deinit(&x->set);
    ft_load_drafts_deinit(&x->drafts);
    ft_model_destroy(x->draft);
    ft_vocab_destroy(x->vocab);
    ft_predictor_deinit(&x->predictor);
    free(x);
}

static int report(const capacity *x)
{
    ft_error err = {0};
    if (x->f.plot && ft_capacity_report_plot(&x->report, x->f.plot, &err) != FT_OK)
        return ft_cmd_fail(&err);
    if (x->f.json)
        return ft_cmd_print_json(to_json(x));
    print_text(x);
    return 0;
}

static int parse(capacity_flags *f, int argc, char **argv)
{
    const ft_flag flags[] = {
        {"--model", "-m", FT_FLAG_STRING, &f->model, "FILE", "target model", 0, 0},
        {"--model-draft", "-md", FT_FLAG_STRING, &f->draft, "FILE", "draft model", 0, 0},
        {"--prompts", NULL, FT_FLAG_STRING, &f->prompts, "FILE",
         "JSON lines with `turns` or `prompt`", 0, 0},
        {"--limit", NULL, FT_FLAG_INT, &f->limit, "N",
         "so many prompts, spread over the file; 0: all", 0, 1e6},
        {"--max-prompt", NULL, FT_FLAG_INT, &f->longest, "N", "prompts of more tokens are left out",
         8, 1 << 20},
        {"--min-prompt", NULL, FT_FLAG_INT, &f->shortest, "N",
         "prompts of fewer tokens are left out", 0, 1 << 20},
        {"--predict", "-n", FT_FLAG_INT, &f->n, "N",
         "tokens a text at most; fewer where that takes more than half of --probe-s as promised",
         TEXT_LEAST, 65536},
        {"--slo", NULL, FT_FLAG_STRING, &f->slo, "SPEEDS", "classes: tokens/s that are promised", 0,
         0},
        {"--mixed", NULL, FT_FLAG_BOOL, &f->mixed, NULL, "also devices of all classes together", 0,
         0},
        {"--mixed-only", NULL, FT_FLAG_BOOL, &f->mixed_only, NULL,
         "only devices of all classes together", 0, 0},
        {"--policies", NULL, FT_FLAG_STRING, &f->policies, "LIST", "what to compare", 0, 0},
        {"--epsilon", NULL, FT_FLAG_FLOAT, &f->epsilon, "P",
         "share of texts that may be slower than promised", 0, 0.5},
        {"--precision", NULL, FT_FLAG_FLOAT, &f->precision, "P",
         "a search ends when it knows the number of devices so well", 0, 1},
        {"--probe-s", NULL, FT_FLAG_FLOAT, &f->probe_s, "S",
         "seconds that a probe takes, where texts are not too few", 0.1, 3600},
        {"--devices-most", NULL, FT_FLAG_INT, &f->most, "N", "devices at most", 1, FT_CROWD_MOST},
        {"--rtt", NULL, FT_FLAG_FLOAT, &f->rtt_ms, "MS", "round-trip time of the link", 0, 10000},
        {"--draft-ms", NULL, FT_FLAG_FLOAT, &f->draft_ms, "MS", "time of a device's draft forward",
         0, 10000},
        {"--draft", NULL, FT_FLAG_STRING, &f->how.draft, "HOW",
         "of wisp and edf: auto: what pays; N: chains of N; tree:BUDGET[:DEPTH]", 0, 0},
        {"--draft-fixed", NULL, FT_FLAG_INT, &f->fixed, "N",
         "and of fcfs, sled and static, as SLED's devices draft", 1, 64},
        {"--predictor", NULL, FT_FLAG_STRING, &f->how.predictor, "FILE",
         "of wisp and edf: ends a draft where it expects a rejection; none: it does not", 0, 0},
        {"--cache-type", NULL, FT_FLAG_STRING, &f->cache_type, "TYPE",
         "how the servers keep K and V: f16, bf16 or q8_0", 0, 0},
        {"--costs", NULL, FT_FLAG_STRING, &f->costs, "FILE",
         "what passes cost, for the servers, from foretoken fit verify-time", 0, 0},
        {"--temp", NULL, FT_FLAG_FLOAT, &f->temp, "T", "temperature; 0: greedy", 0, 100},
        {"--seed", "-s", FT_FLAG_INT, &f->seed, "N", "of the draws", 0, 1e18},
        {"--plot", NULL, FT_FLAG_STRING, &f->plot, "FILE",
         "devices held over speed, by gnuplot: .svg, .png or .txt", 0, 0},
        {"--json", NULL, FT_FLAG_BOOL, &f->json, NULL, "one JSON object", 0, 0},
    };
    const ft_cmd_usage usage = {
        .usage = "bench capacity -m TARGET -md DRAFT --prompts FILE [flags]",
        .about =
            "Searches how many devices a server on one core holds: the largest number of which no\n"
            "more than --epsilon of the texts are slower than promised. Devices are real edges whose\n"
            "drafts are recorded and take the time they are said to take, over delayed links.\n"
            "wisp, edf, fcfs: devices draft, by that policy. sled: fcfs, and every round computes the\n"
            "whole text again. static: batches that are full or have waited. centralized: the server\n"
            "decodes by itself.",
        .flags = flags,
        .n_flags = FT_COUNT(flags)};
    int words;
    return ft_cmd_parse(&usage, argc, argv, &words);
}

int ft_cmd_bench_capacity(int argc, char **argv)
{
    ft_error err = {0};
    capacity *x = calloc(1, sizeof *x); /* a figure for everything: too much for a stack */
    if (!x)
        return ft_error_set(&err, FT_NOMEM, "out of memory"), ft_cmd_fail(&err);
    x->f = (capacity_flags){.policies = "wisp,edf,fcfs,sled,static,centralized",
                            .slo = "2,4,6,8",
                            .limit = 24,
                            .longest = 256,
                            .n = 64,
                            .most = 128,
                            .how = FT_EDGE_DRAFT_FLAGS_INIT,
                            .cache_type = "f16",
                            .fixed = 4,
                            .rtt_ms = 20,
                            .draft_ms = 5,
                            .epsilon = 0.05,
                            .precision = 0.1,
                            .probe_s = 8};
    x->report.probes = json_array();
    x->began_s = ft_bench_now_s();
    int code = parse(&x->f, argc, argv);
    if (code < 0 && check(x, &err) != FT_OK) {
        (void)ft_cmd_fail(&err);
        code = 2;
    }
    if (code >= 0) {
        stop(x);
        return code;
    }
    ft_cmd_catch_signals();
    prctl(PR_SET_TIMERSLACK, 1); /* of links and devices, whose threads inherit it: 50 us else */
    code = measure(x, &err) == FT_OK ? report(x) : ft_cmd_fail(&err);
    stop(x);
    return code;
}
