// SPDX-License-Identifier: Apache-2.0
// How many devices a real server holds at promised token speeds (WISP 5.2.1, eq. (20)), by policy.
// Every way to serve has a server of its own, a child process on the last core; servers that are
// not asked sleep. The searches of all ways are interleaved, one probe at a time, so that other
// work of the machine slows all down alike. One thread, and what load_crowd.h starts.
#include "bench/capacity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/num.h"
#include "bench/capacity_beside.h"
#include "bench/capacity_plot.h"
#include "bench/capacity_report.h"
#include "bench/local_cache.h"
#include "sched/sched.h"
#include "sched/tuning.h"
#include "bench/capacity_search.h"

#define CONTEXT_MARGIN 64   /* tokens of a text besides prompt, answer and draft */
#define LEARNERS       8    /* devices that write all texts before anything is measured */
#define TEXTS_ENOUGH   20   /* of a probe: one in twenty is what 5 % means */
#define LONGEST        3.0  /* a probe lasts up to so many times --probe-s to get them */
#define GUESS          0.8  /* first guess, of the rate while learning: promises cost something */
#define ENOUGH         0.95 /* of a probe's tokens: texts are not all equally fast */
#define DRAFT_TEXTS    64   /* that the draft model's memory holds at once */
#define RECOVERS       3.0  /* times what a refusing server needs to forget most of it */
#define PLANE_EIGHTHS  9    /* of the capacity: devices whose rounds are drawn */

/* Numbers of devices of a sweep, in eighths of the capacity. Finer steps differ by chance. */
static const uint32_t sweep_eighths[] = {4, 6, 7, 8, PLANE_EIGHTHS, 10, 12};

typedef struct capacity {
    const ft_bench_capacity_opts *o;
    ft_vocab *vocab;
    ft_model *draft;
    ft_bench_load_set set;
    ft_bench_load_drafts drafts;
    ft_bench_load_server server[FT_BENCH_CAPACITY_WAYS];
    double tokens_per_busy_s[FT_BENCH_CAPACITY_WAYS]; /* while it learned */
    ft_bench_crowd_class classes[FT_SLO_CLASSES];
    ft_bench_capacity_report report;
    ft_bench_local_cache learnt; /* what devices leave to those of later probes */
    char learnt_path[FT_BENCH_LOCAL_CACHE_PATH];
    double recovered_s[FT_BENCH_CAPACITY_WAYS]; /* the server promises again; 0: it does */
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

static const way ways[FT_BENCH_CAPACITY_WAYS] = {
    [FT_BENCH_CAPACITY_WISP] = {"wisp", .drafts = true, .ask = true},
    [FT_BENCH_CAPACITY_EDF] = {"edf", .drafts = true, .ask = true},
    [FT_BENCH_CAPACITY_FCFS] = {"fcfs", .drafts = true, .fixed = true, .ask = true},
    [FT_BENCH_CAPACITY_SLED] = {"fcfs", .drafts = true, .fixed = true, .anew = true},
    [FT_BENCH_CAPACITY_STATIC] = {"static", .drafts = true, .fixed = true},
    [FT_BENCH_CAPACITY_CENTRALIZED] = {"centralized"},
};

/* A text takes half of a probe at the promised speed, within limits of its length. */
static void set_classes(capacity *x)
{
    x->report.n_classes = x->o->n_classes;
    x->report.classes = x->classes;
    for (uint32_t i = 0; i < x->o->n_classes; i++) {
        double tokens = fmax(x->o->tokens_per_s[i] * x->o->search.probe_s / 2, FT_BENCH_TEXT_LEAST);
        x->classes[i] =
            (ft_bench_crowd_class){x->o->tokens_per_s[i], (uint32_t)fmin(tokens, (double)x->o->n)};
    }
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
    const ft_bench_capacity_opts *f = x->o;
    const ft_model_opts draft = {.path = f->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = ft_vocab_load(f->model, err, &x->vocab);
    if (status != FT_OK)
        return status;
    const ft_bench_load_set_opts set = {.path = f->prompts,
                                        .vocab = x->vocab,
                                        .limit = (uint32_t)f->limit,
                                        .longest = (uint32_t)f->longest,
                                        .shortest = (uint32_t)f->shortest,
                                        .multiple = 1};
    status = ft_bench_load_set_read(&set, err, &x->set);
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &x->draft);
    if (status == FT_OK && f->edge.draft.predictor)
        status =
            ft_predictor_check_draft(f->edge.draft.predictor, ft_model_fingerprint(x->draft), err);
    if (status != FT_OK)
        return status;
    const ft_bench_load_drafts_opts drafts = {
        .model = x->draft,
        .kv_tok = DRAFT_TEXTS * (x->set.longest + text_tokens(x) + CONTEXT_MARGIN),
        .branch = x->o->edge.draft.branch,
        .n_threads = 1};
    return ft_bench_load_drafts_init(&x->drafts, &drafts, err);
}

static ft_status start_server(capacity *x, int w, ft_error *err)
{
    const ft_bench_capacity_opts *f = x->o;
    ft_bench_load_server_opts opts = {.model = f->model,
                                      .max_sessions = 4 * (uint32_t)f->search.most + 8,
                                      .threads = 1,
                                      .policy = ways[w].policy,
                                      .slo = f->slo,
                                      .costs = f->costs,
                                      .cache_type = f->cache_type,
                                      .memory = f->memory,
                                      .no_prefix_cache = ways[w].anew,
                                      .core = x->core,
                                      .stop = f->stop};
    uint32_t text = text_tokens(x) + x->o->edge.draft.budget + CONTEXT_MARGIN;
    ft_bench_load_server_fit(&opts, &x->set, text, (uint32_t)f->search.most);
    ft_status status = ft_bench_load_server_start(&opts, err, &x->server[w]);
    x->server[w].slo_tokens_per_s = f->tokens_per_s;
    x->server[w].n_slo = f->n_classes;
    return status;
}

static ft_bench_crowd_opts crowd_opts(capacity *x, int w)
{
    const ft_bench_capacity_opts *f = x->o;
    return (ft_bench_crowd_opts){.server = &x->server[w],
                                 .set = &x->set,
                                 .vocab = x->vocab,
                                 .sampling = x->o->sampling,
                                 .drafts = ways[w].drafts ? &x->drafts : NULL,
                                 .draft = ways[w].fixed ? ft_draft_params_chain((uint32_t)f->fixed)
                                                        : x->o->edge.draft,
                                 .automatic = !ways[w].fixed && x->o->edge.automatic,
                                 .kept = {.folder = x->learnt_path, .of = "capacity"},
                                 .anew = ways[w].anew,
                                 .ask = ways[w].ask,
                                 .rtt_us = (int64_t)(f->rtt_ms * 1e3),
                                 .forward_us = (int64_t)(f->draft_ms * 1e3),
                                 .stop = f->stop};
}

/* Writes the texts and records their drafts; then, with prompts in the prefix cache, estimates how
 * fast the server is. */
static ft_status learn(capacity *x, int w, ft_error *err)
{
    const ft_bench_crowd_class longest = {1, text_tokens(x)};
    ft_bench_crowd_opts o = crowd_opts(x, w);
    ft_bench_crowd_result r;
    o.classes = &longest;
    o.n_classes = 1;
    o.n_devices = LEARNERS;
    ft_status status = ft_bench_crowd_learn(&o, err, &r);
    if (status == FT_OK && !ways[w].anew)
        status = ft_bench_crowd_learn(&o, err, &r);
    double busy_s = (double)ft_verifier_stats_busy_us(&r.server.stats) / 1e6;
    x->tokens_per_busy_s[w] = busy_s > 0 ? (double)r.tokens / busy_s : 0;
    if (status == FT_OK)
        fprintf(x->o->log, "%5.0f s  %-11s %u texts, %.0f tokens/s of the server's work\n",
                ft_bench_now_s() - x->began_s, ft_bench_capacity_way_name[w], x->set.n,
                x->tokens_per_busy_s[w]);
    return status;
}

static ft_status prepare(capacity *x, ft_error *err)
{
    ft_status status = ft_bench_local_cache_make(&x->learnt, 1, err);
    ft_bench_local_cache_path(&x->learnt, 0, x->learnt_path);
    for (int w = 0; w < FT_BENCH_CAPACITY_WAYS && status == FT_OK; w++)
        if (x->report.way[w])
            status = start_server(x, w, err);
    for (int w = 0; w < FT_BENCH_CAPACITY_WAYS && status == FT_OK; w++)
        if (x->report.way[w])
            status = learn(x, w, err);
    return status;
}

/* ---- probes ---- */

/* Longest time that a text was promised; mean of the promised speeds. */
static void class_times(const capacity *x, uint32_t class, double *text_s, double *speed)
{
    uint32_t first = class == FT_BENCH_CAPACITY_MIXED ? 0 : class;
    uint32_t n = class == FT_BENCH_CAPACITY_MIXED ? x->report.n_classes : 1;
    *text_s = *speed = 0;
    for (uint32_t i = first; i < first + n; i++) {
        *text_s = fmax(*text_s, x->classes[i].n_tokens / (double)x->classes[i].tokens_per_s);
        *speed += (double)x->classes[i].tokens_per_s / n;
    }
}

typedef struct trial {
    int w;
    uint32_t class, n;             /* n: devices */
    bool whole;                    /* it is measured to its end, even if many texts are slow */
    ft_bench_crowd_rounds *rounds; /* NULL: not wanted */
} trial;

/* A server that has missed promises gives no new ones for a while (sched/admit.h). That is a cost
 * of the probe before, not of this number of devices. */
static void wait_until_recovered(capacity *x, int w)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    while (ft_bench_now_s() < x->recovered_s[w] && !(x->o->stop && x->o->stop()))
        nanosleep(&pause, NULL);
}

static ft_status probe(capacity *x, const trial *t, ft_error *err, ft_bench_capacity_probe *out)
{
    const uint32_t class = t->class, n = t->n;
    const bool mixed = class == FT_BENCH_CAPACITY_MIXED;
    const double probe_s = x->o->search.probe_s;
    ft_bench_crowd_opts o = crowd_opts(x, t->w);
    ft_bench_crowd_result r;
    double text_s, speed;
    o.rounds = t->rounds;
    class_times(x, class, &text_s, &speed);
    o.classes = mixed ? x->classes : &x->classes[class];
    o.n_classes = mixed ? x->report.n_classes : 1;
    o.n_devices = n;
    o.warm_s = text_s / 2;
    o.measure_s = fmax(1.5 * text_s, probe_s - o.warm_s);
    o.measure_s =
        fmax(o.measure_s, fmin(TEXTS_ENOUGH * o.n_classes * text_s / n, LONGEST * probe_s));
    double texts = n * o.measure_s / text_s;
    o.slow_most = t->whole ? 0 : 2 + (uint32_t)(3 * x->o->search.epsilon * texts);
    wait_until_recovered(x, t->w);
    ft_status status = ft_bench_crowd_run(&o, err, &r);
    ft_bench_capacity_report one = x->report; /* of these classes */
    one.n_classes = o.n_classes;
    *out = ft_bench_capacity_probe_of(&one, n, &r);
    if (ways[t->w].ask && out->slow_texts > 0)
        x->recovered_s[t->w] = ft_bench_now_s() + RECOVERS * ft_sched_tune->admit.behind_s;
    return status;
}

static void keep(capacity *x, int w, uint32_t class, const ft_bench_capacity_probe *p)
{
    ft_bench_capacity_report_add(&x->report, (ft_bench_capacity_way)w, class, p);
    ft_capacity_beside_saw(&x->report, (ft_bench_capacity_way)w, p);
}

static void say(const capacity *x, int w, uint32_t class, const ft_bench_capacity_probe *p)
{
    char name[16];
    ft_bench_capacity_class_name(&x->report, class, name);
    fprintf(x->o->log,
            "%5.0f s  %-11s %6s tokens/s: %3u devices: %llu of %llu texts slow%s, %.1f tokens/s, "
            "server %.0f %% busy, %.1f rows in %.1f ms, %.2f tokens a verdict, %.0f %% in runs, "
            "edges' side %.0f %%\n",
            ft_bench_now_s() - x->began_s, ft_bench_capacity_way_name[w], name, p->n,
            (unsigned long long)p->slow_texts, (unsigned long long)p->texts,
            p->refused ? " (some refused)" : "", p->goodput, 100 * p->busy, p->rows_a_pass,
            p->pass_ms, p->tokens_a_verdict, 100 * p->runs, 100 * p->driver);
}

/* The next probe of one search. */
static ft_status probe_next(capacity *x, int w, uint32_t class, ft_capacity_search *search,
                            ft_error *err)
{
    ft_bench_capacity_probe p;
    double text_s, speed;
    uint32_t n = ft_capacity_search_next(search);
    const trial next = {.w = w, .class = class, .n = n};
    class_times(x, class, &text_s, &speed);
    ft_status status = probe(x, &next, err, &p);
    if (status != FT_OK)
        return status;
    say(x, w, class, &p);
    keep(x, w, class, &p);
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
    if (class > 0 && class != FT_BENCH_CAPACITY_MIXED && x->report.found[w][class - 1].at.n > 0) {
        class_times(x, class - 1, &text_s, &before_s);
        n = x->report.found[w][class - 1].at.n * before_s / speed;
    }
    return n < 1 ? 1 : n > (double)x->o->search.most ? (uint32_t)x->o->search.most : (uint32_t)n;
}

static ft_status search_class(capacity *x, uint32_t class, ft_error *err)
{
    ft_capacity_search search[FT_BENCH_CAPACITY_WAYS];
    ft_status status = FT_OK;
    bool more = true;
    for (int w = 0; w < FT_BENCH_CAPACITY_WAYS; w++)
        ft_capacity_search_init(&search[w], guess(x, w, class), (uint32_t)x->o->search.most,
                                x->o->search.epsilon, x->o->search.precision);
    while (more && status == FT_OK) {
        more = false;
        for (int w = 0; w < FT_BENCH_CAPACITY_WAYS && status == FT_OK; w++) {
            if (!x->report.way[w] || !ft_capacity_search_next(&search[w]))
                continue;
            status = probe_next(x, w, class, &search[w], err);
            more = true;
        }
    }
    for (int w = 0; w < FT_BENCH_CAPACITY_WAYS; w++)
        x->report.found[w][class].known = x->report.way[w];
    return status;
}

/* ---- the sweep ---- */

/* The rounds of this probe are drawn: wisp's, of classes mixed or else of the fastest class. */
static bool is_drawn(const capacity *x, int w, uint32_t class, uint32_t eighths)
{
    const uint32_t of = x->report.mixed ? FT_BENCH_CAPACITY_MIXED : x->report.n_classes - 1;
    return w == FT_BENCH_CAPACITY_WISP && class == of && eighths == PLANE_EIGHTHS;
}

static void keep_plane(ft_knee *knee, uint32_t class, const ft_bench_capacity_probe *p,
                       const ft_bench_crowd_rounds *rounds)
{
    ft_sim_plane *plane = &knee->plane;
    knee->plane_way = ft_bench_capacity_way_name[FT_BENCH_CAPACITY_WISP];
    plane->n_devices = p->n;
    plane->n = rounds->n;
    for (size_t i = 0; i < plane->n && class != FT_BENCH_CAPACITY_MIXED; i++)
        plane->at[i].class = class;
    memcpy(plane->result.late, p->late_rounds, sizeof plane->result.late);
    for (size_t i = 0; i < knee->n_classes; i++)
        for (int cause = 0; cause < FT_LATE_CAUSES; cause++)
            plane->n_seen += p->late_rounds[i][cause];
}

/* Away from what is held, so that a small capacity has points on both sides. */
static uint32_t sweep_number(uint32_t held, uint32_t eighths)
{
    return ft_max_u32((held * eighths + (eighths > 8 ? 7 : 0)) / 8, 1);
}

/* One number of devices, unless it is more than may be tried, or was tried already. */
static ft_status sweep_point(capacity *x, int w, uint32_t class, uint32_t eighths, ft_error *err)
{
    ft_knee *knee = x->report.knee;
    const uint32_t held = x->report.found[w][class].at.n;
    const bool mixed = class == FT_BENCH_CAPACITY_MIXED, drawn = is_drawn(x, w, class, eighths);
    ft_sim_curve *curve = &knee->curve[w][mixed ? knee->n_classes : class];
    ft_bench_crowd_rounds rounds = {.at = knee->plane.at, .most = FT_SIM_PLANE_POINTS};
    const trial next = {.w = w,
                        .class = class,
                        .n = sweep_number(held, eighths),
                        .whole = true,
                        .rounds = drawn ? &rounds : NULL};
    ft_bench_capacity_probe p;
    curve->capacity = held;
    if (next.n > x->o->search.most || (curve->n > 0 && curve->at[curve->n - 1].n >= next.n))
        return FT_OK;
    ft_status status = probe(x, &next, err, &p);
    if (status != FT_OK)
        return status;
    say(x, w, class, &p);
    keep(x, w, class, &p);
    ft_sim_sweep_point *point = &curve->at[curve->n++];
    *point = (ft_sim_sweep_point){.n = p.n, .slow = p.slow};
    memcpy(point->slow_of, p.slow_of, sizeof point->slow_of);
    if (drawn)
        keep_plane(knee, class, &p, &rounds);
    return FT_OK;
}

static ft_status sweep_class(capacity *x, uint32_t class, ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t i = 0; x->report.knee && i < FT_COUNT(sweep_eighths); i++)
        for (int w = 0; w < FT_BENCH_CAPACITY_WAYS && status == FT_OK; w++)
            if (x->report.way[w])
                status = sweep_point(x, w, class, sweep_eighths[i], err);
    return status;
}

static ft_status measure_class(capacity *x, uint32_t class, ft_error *err)
{
    ft_status status = search_class(x, class, err);
    return status == FT_OK ? sweep_class(x, class, err) : status;
}

static ft_status knee_create(capacity *x, ft_error *err)
{
    ft_knee *knee = x->report.knee = calloc(1, sizeof *knee);
    if (!knee)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    knee->command = "bench capacity";
    knee->epsilon = x->o->search.epsilon;
    knee->way = ft_bench_capacity_way_name;
    knee->n_ways = FT_BENCH_CAPACITY_WAYS;
    knee->n_classes = x->report.n_classes;
    for (uint32_t i = 0; i < x->report.n_classes; i++)
        knee->speed[i] = (double)x->classes[i].tokens_per_s;
    return FT_OK;
}

static ft_status measure(capacity *x, ft_error *err)
{
    x->report.driver_cores = ft_bench_load_split_cores(&x->core); /* threads inherit it */
    ft_status status = load(x, err);
    if (status == FT_OK)
        status = prepare(x, err);
    for (uint32_t i = 0; !x->report.mixed_only && i < x->report.n_classes && status == FT_OK; i++)
        status = measure_class(x, i, err);
    if (status == FT_OK && x->report.mixed)
        status = measure_class(x, FT_BENCH_CAPACITY_MIXED, err);
    return status;
}

/* ---- what comes out ---- */

static json_t *to_json(const capacity *x)
{
    const ft_bench_capacity_opts *f = x->o;
    json_t *lengths = json_array();
    for (uint32_t i = 0; i < x->report.n_classes; i++)
        json_array_append_new(lengths, json_integer(x->classes[i].n_tokens));
    json_t *out = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:I, "
        "s:I, s:i, s:i, s:o, s:b, s:s?}",
        "command", "bench capacity", "model", f->model, "draft_model", f->draft, "prompts",
        f->prompts, "draft", f->names.draft, "predictor", f->names.predictor, "cache_type",
        f->cache_type, "rtt_ms", f->rtt_ms, "draft_ms", f->draft_ms, "epsilon", f->search.epsilon,
        "precision", f->search.precision, "probe_s", f->search.probe_s, "temperature", f->temp,
        "seconds", ft_bench_now_s() - x->began_s, "n_prompts", (int)x->set.n, "longest_prompt",
        (int)x->set.longest, "devices_most", (json_int_t)f->search.most, "fixed_draft_tokens",
        (json_int_t)f->fixed, "server_core", x->core, "driver_cores", x->report.driver_cores,
        "text_tokens", lengths, "interleaved", 1, "memory", f->memory);
    ft_bench_capacity_report_json(&x->report, out);
    ft_capacity_beside_json(&x->report, out);
    return out;
}

static void print_text(const capacity *x)
{
    const ft_bench_capacity_opts *f = x->o;
    fprintf(f->text,
            "%s, drafts by %s: %u prompts of at most %u tokens, texts of at most %u, round trip %g "
            "ms, %g ms a draft forward\n",
            f->model, f->draft, x->set.n, x->set.longest, text_tokens(x), f->rtt_ms, f->draft_ms);
    ft_bench_load_print_cores(x->core, x->report.driver_cores, f->text);
    ft_bench_load_print_memory(f->memory, f->text);
    ft_bench_capacity_report_print(&x->report, f->text);
    ft_capacity_beside_print(&x->report, f->text);
    if (x->report.knee)
        ft_knee_print(x->report.knee, f->text);
}

static void stop(capacity *x)
{
    for (int w = 0; w < FT_BENCH_CAPACITY_WAYS; w++)
        ft_bench_load_server_stop(&x->server[w]);
    json_decref(x->report.probes);
    free(x->report.knee);
    ft_bench_local_cache_remove(&x->learnt);
    ft_bench_load_set_deinit(&x->set);
    ft_bench_load_drafts_deinit(&x->drafts);
    ft_model_destroy(x->draft);
    ft_vocab_destroy(x->vocab);
}

ft_status ft_bench_capacity(const ft_bench_capacity_opts *opts, ft_error *err, json_t **report)
{
    capacity *x = calloc(1, sizeof *x); /* too large for a stack */
    *report = NULL;
    if (!x)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    x->o = opts;
    x->began_s = ft_bench_now_s();
    x->report.probes = json_array();
    x->report.mixed = opts->mixed || opts->mixed_only;
    x->report.mixed_only = opts->mixed_only;
    memcpy(x->report.way, opts->way, sizeof x->report.way);
    x->report.beside.away_s = (opts->rtt_ms + opts->draft_ms) / 1e3;
    x->report.beside.most_tokens = ft_max_u32(opts->edge.draft.budget, (uint32_t)opts->fixed);
    set_classes(x);
    prctl(PR_SET_TIMERSLACK, 1); /* of links and devices, whose threads inherit it: 50 us else */
    ft_status status = opts->sweep ? knee_create(x, err) : FT_OK;
    if (status == FT_OK)
        status = measure(x, err);
    if (status == FT_OK && opts->sweep)
        ft_capacity_beside_knee(&x->report, x->report.knee);
    if (status == FT_OK && opts->plot)
        status = opts->sweep ? ft_knee_plot(x->report.knee, opts->plot, err)
                             : ft_bench_capacity_plot(&x->report, opts->plot, err);
    if (status == FT_OK) {
        *report = to_json(x);
        if (opts->text)
            print_text(x);
    }
    stop(x);
    free(x);
    return status;
}
