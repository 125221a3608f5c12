// SPDX-License-Identifier: Apache-2.0
// The modes take turns, so that what else the machine does falls on all of them. Before that the
// server alone makes each text, one task at a time: all modes must make the same ones, and plans
// know how long the answers are. Runs to warm up measure what plans need.
#include "bench/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "bench/load_server.h"
#include "edge/batch.h"

#define ROW_S       1e9 /* the rounds alone end the measurement */
#define ACCEPTANCE  0.6 /* until it is measured, as in foretoken batch; so is the next */
#define LENGTH_MOST 10  /* of planned drafts */

const char *const ft_bench_batch_name[FT_BENCH_BATCH_MODES] = {
    [FT_BENCH_BATCH_PIPELINE] = "pipeline",
    [FT_BENCH_BATCH_NO_PIPELINE] = "no-pipeline",
    [FT_BENCH_BATCH_NO_BATCHING] = "no-batching",
    [FT_BENCH_BATCH_AD] = "ad",
};

typedef struct bench bench;

/* A run over all tasks. */
typedef struct run {
    double makespan_s, planned_s;
    double wait_s;   /* for which the edge waited for verdicts: the rest of the time it worked */
    double verify_s; /* for which the server's engine worked */
} run;

/* A mode under measurement. */
typedef struct side {
    bench *of;
    bool plain; /* by the edge without a draft model */
    bool one_at_a_time, no_batches;
    ft_batch_stats sum;
    run runs[FT_BENCH_ROUNDS_MAX];
    uint32_t n;
    uint32_t length; /* of the last run's first plan */
    bool differs;    /* from the texts of the server alone */
} side;

struct bench {
    const ft_bench_batch_opts *o;
    ft_vocab *vocab;
    ft_model *draft;
    ft_tasks tasks;
    char **expected;      /* [tasks.n] */
    uint32_t *answer_tok; /* [tasks.n] */
    ft_batch_known known;
    ft_bench_load_server server;
    ft_wire_client *client;
    ft_edge *edge, *plain;
    int core;
    char out[64]; /* journals are made beside this name */
    side sides[FT_BENCH_BATCH_MODES];
};

static bool stopped(void *ctx)
{
    const bench *x = ctx;
    return x->o->stop && x->o->stop();
}

/* ---- one run over all tasks ---- */

/* Keeps the texts of the first run, and compares those of later ones. */
static ft_status take_texts(side *s, const ft_task_answers *a, ft_error *err)
{
    bench *x = s->of;
    for (size_t i = 0; i < a->n; i++) {
        if (!x->expected[i] && !(x->expected[i] = strdup(a->answer[i].text)))
            return ft_error_set(err, FT_NOMEM, "bench batch: out of memory");
        x->answer_tok[i] = ft_max_u32(a->answer[i].tokens, 1);
        s->differs |= strcmp(x->expected[i], a->answer[i].text) != 0;
    }
    return FT_OK;
}

static ft_batch_planner_opts plan_of(const side *s)
{
    const bench *x = s->of;
    const int64_t length = x->o->length;
    ft_batch_planner_opts opts = {.tasks = &x->tasks,
                                  .context = x->o->n_ctx,
                                  .length_least = length > 0 ? (uint32_t)length : 0,
                                  .length_most = length >= 0 ? (uint32_t)length : LENGTH_MOST,
                                  .batch_most = x->o->batch,
                                  .at_once = (uint32_t)x->tasks.n,
                                  .one_at_a_time = s->one_at_a_time,
                                  .answer_tok = x->answer_tok,
                                  .watch = {.stop = x->o->stop}};
    if (s->no_batches) {
        opts.batch_most = opts.at_once = 1;
        opts.sequence = true;
    }
    if (s->plain)
        opts.length_least = opts.length_most = 0;
    return opts;
}

static ft_status answer(side *s, ft_journal *journal, ft_error *err, run *out)
{
    bench *x = s->of;
    const ft_batch_planner_opts how = plan_of(s);
    ft_batch_planner planner;
    ft_batch_stats stats;
    ft_status status = ft_batch_planner_init(&planner, &how, &x->known, err);
    if (status != FT_OK)
        return status;
    const ft_batch_opts opts = {.edge = s->plain ? x->plain : x->edge,
                                .vocab = x->vocab,
                                .tasks = &x->tasks,
                                .journal = journal,
                                .planner = &planner,
                                .sampling = x->o->sampling,
                                .clock = ft_clock_monotonic(),
                                .cancelled = stopped,
                                .ctx = x};
    status = ft_batch_run(&opts, err, &stats);
    s->length = planner.length;
    ft_batch_planner_deinit(&planner);
    if (status != FT_OK)
        return status;
    s->sum.rounds += stats.rounds;
    s->sum.passes += stats.passes;
    s->sum.drafted += stats.drafted;
    s->sum.accepted += stats.accepted;
    s->sum.tokens += stats.tokens;
    s->sum.n_anew += stats.n_anew;
    out->wait_s = stats.wait_s;
    out->planned_s = stats.planned_s;
    return take_texts(s, ft_journal_answers(journal), err);
}

static ft_status run_side(void *ctx, double *seconds, ft_error *err)
{
    side *s = ctx;
    char part[sizeof s->of->out + 8];
    ft_journal *journal = NULL;
    ft_bench_load_counters before, after;
    const ft_journal_opts opts = {.out = s->of->out, .n = s->of->tasks.n};
    run this = {0};
    ft_status status = ft_bench_load_server_count(&s->of->server, err, &before);
    if (status == FT_OK)
        status = ft_journal_open(&opts, err, &journal);
    if (status != FT_OK)
        return status;
    const double began_s = ft_bench_now_s();
    status = answer(s, journal, err, &this);
    *seconds = this.makespan_s = ft_bench_now_s() - began_s;
    ft_journal_close(journal);
    snprintf(part, sizeof part, "%s.part", s->of->out);
    (void)unlink(part);
    if (status == FT_OK)
        status = ft_bench_load_server_count(&s->of->server, err, &after);
    if (status != FT_OK)
        return status;
    const ft_bench_load_counters counted = ft_bench_load_counters_since(&before, &after);
    this.verify_s = (double)ft_verifier_stats_busy_us(&counted.stats) / 1e6;
    if (s->n < FT_COUNT(s->runs))
        s->runs[s->n++] = this;
    return FT_OK;
}

/* ---- what it takes ---- */

static ft_status load(bench *x, ft_error *err)
{
    const ft_bench_batch_opts *o = x->o;
    const ft_model_opts draft = {.path = o->draft, .progress = ft_progress_terminal("draft")};
    const ft_tokenize_limits limits = {.cancelled = stopped, .ctx = x, .max_tok = o->n_ctx};
    ft_status status = ft_tasks_load(o->tasks, o->sampling.seed, err, &x->tasks);
    if (status == FT_OK)
        status = ft_vocab_load(o->draft, err, &x->vocab);
    if (status == FT_OK)
        status = ft_tasks_tokenize(&x->tasks, x->vocab, &limits, err);
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &x->draft);
    if (status != FT_OK)
        return status;
    x->expected = calloc(x->tasks.n, sizeof *x->expected);
    x->answer_tok = calloc(x->tasks.n, sizeof *x->answer_tok);
    if (!x->expected || !x->answer_tok)
        return ft_error_set(err, FT_NOMEM, "bench batch: out of memory");
    snprintf(x->out, sizeof x->out, "/tmp/foretoken-bench-batch-%ld", (long)getpid());
    return FT_OK;
}

/* KV of all texts at once. */
static uint32_t kv_tok(const bench *x)
{
    uint64_t n = x->o->n_ctx;
    for (size_t i = 0; i < x->tasks.n; i++)
        n += ft_task_room_tok(&x->tasks.task[i], x->o->n_ctx);
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static ft_status make_edge(bench *x, uint32_t length, ft_error *err, ft_edge **out)
{
    const ft_edge_opts opts = {.vocab = x->vocab,
                               .draft_model = length > 0 ? x->draft : NULL,
                               .source = ft_link_source_wire(x->client),
                               .draft = ft_draft_params_chain(length),
                               .max_generations = (uint32_t)x->tasks.n,
                               .draft_kv_tok = kv_tok(x),
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1};
    return ft_edge_create(&opts, err, out);
}

static ft_status start(bench *x, ft_error *err)
{
    const ft_bench_load_server_opts server = {.model = x->o->model,
                                              .ctx = x->o->n_ctx,
                                              .kv_tok = 2 * kv_tok(x) + 1024,
                                              .max_sessions = 4 * (uint32_t)x->tasks.n + 64,
                                              .threads = 1,
                                              .no_prefix_cache = true,
                                              .core = x->core,
                                              .stop = x->o->stop};
    ft_status status = ft_bench_load_server_start(&server, err, &x->server);
    const ft_wire_client_opts wire = {.address = x->server.address};
    if (status == FT_OK)
        status = ft_wire_client_create(&wire, err, &x->client);
    if (status == FT_OK)
        status =
            make_edge(x, x->o->length >= 0 ? (uint32_t)x->o->length : LENGTH_MOST, err, &x->edge);
    return status == FT_OK ? make_edge(x, 0, err, &x->plain) : status;
}

static ft_status load_costs(bench *x, ft_error *err)
{
    ft_status status = FT_OK;
    ft_batch_known_init(&x->known, ACCEPTANCE);
    for (int i = 0; i < FT_STATIONS && status == FT_OK; i++) {
        ft_costs costs;
        if (!x->o->costs[i])
            continue;
        status = ft_costs_load(x->o->costs[i], err, &costs);
        if (status == FT_OK)
            ft_batch_known_costs(&x->known, (ft_station)i, &costs);
    }
    return status;
}

static side side_of(bench *x, ft_bench_batch_mode mode)
{
    side s = {.of = x};
    s.one_at_a_time = mode == FT_BENCH_BATCH_NO_PIPELINE || mode == FT_BENCH_BATCH_NO_BATCHING;
    s.no_batches = mode == FT_BENCH_BATCH_NO_BATCHING;
    s.plain = mode == FT_BENCH_BATCH_AD;
    return s;
}

/* The texts of the server alone, one after the other. If nothing else will measure the costs of
 * both stations, also the pipeline once: otherwise it warms up first of all modes. */
static ft_status prepare(bench *x, ft_error *err)
{
    side alone = {.of = x, .plain = true, .one_at_a_time = true, .no_batches = true};
    side first = side_of(x, FT_BENCH_BATCH_PIPELINE);
    double unused;
    ft_batch_known_init(&x->known, ACCEPTANCE);
    ft_status status = run_side(&alone, &unused, err);
    if (status == FT_OK)
        status = load_costs(x, err);
    if (status != FT_OK || x->o->mode[FT_BENCH_BATCH_PIPELINE])
        return status;
    return run_side(&first, &unused, err);
}

/* ---- the report ---- */

typedef double of_run(const run *r);

static double makespan_of(const run *r)
{
    return r->makespan_s;
}

static double planned_of(const run *r)
{
    return r->planned_s;
}

static double draft_of(const run *r)
{
    return r->makespan_s - r->wait_s;
}

static double verify_of(const run *r)
{
    return r->verify_s;
}

/* The median over a mode's runs. The first one warmed up, if there are others. */
static double median(const side *s, of_run *value)
{
    double all[FT_BENCH_ROUNDS_MAX];
    const uint32_t from = s->n > 1;
    for (uint32_t i = from; i < s->n; i++)
        all[i - from] = value(&s->runs[i]);
    return ft_bench_median(all, s->n - from);
}

static json_t *mode_json(const side *s, ft_bench_batch_mode mode)
{
    const double n = fmax(s->n, 1), makespan_s = median(s, makespan_of);
    json_t *out =
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:b}", "mode",
                  ft_bench_batch_name[mode], "makespan_s", makespan_s, "planned_s",
                  median(s, planned_of), "draft_s", median(s, draft_of), "verify_s",
                  median(s, verify_of), "length", (int)s->length, "planned_anew", s->sum.n_anew / n,
                  "tokens_per_s", (double)s->sum.tokens / n / makespan_s, "identical", !s->differs);
    if (s->sum.drafted > 0) {
        json_object_set_new(out, "acceptance",
                            json_real((double)s->sum.accepted / (double)s->sum.drafted));
        json_object_set_new(out, "passes_per_batch",
                            json_real(s->sum.passes / (double)s->sum.rounds));
    }
    return out;
}

double ft_bench_batch_bound(double draft_s, double verify_s)
{
    const double both_s = draft_s + verify_s;
    return both_s > 0 ? 1 - fmax(draft_s, verify_s) / both_s : 0;
}

static void add_gain(json_t *report, const bench *x)
{
    const side *with = &x->sides[FT_BENCH_BATCH_PIPELINE];
    const side *alone = &x->sides[FT_BENCH_BATCH_NO_PIPELINE];
    if (!x->o->mode[FT_BENCH_BATCH_PIPELINE] || !x->o->mode[FT_BENCH_BATCH_NO_PIPELINE])
        return;
    const double alone_s = median(alone, makespan_of), draft_s = median(with, draft_of),
                 verify_s = median(with, verify_of);
    json_object_set_new(report, "pipeline_gain",
                        json_real(1 - median(with, makespan_of) / alone_s));
    json_object_set_new(report, "bound", json_real(ft_bench_batch_bound(draft_s, verify_s)));
    if (verify_s > 0)
        json_object_set_new(report, "stage_ratio", json_real(draft_s / verify_s));
}

static ft_status measure(bench *x, ft_error *err, json_t **report)
{
    const ft_bench_opts how = {.rounds = x->o->rounds, .row_s = ROW_S};
    ft_bench_side sides[FT_BENCH_BATCH_MODES];
    double median_s[FT_BENCH_BATCH_MODES];
    uint32_t n = 0;
    ft_bench_rounds rounds;
    ft_status status = prepare(x, err);
    for (int mode = 0; mode < FT_BENCH_BATCH_MODES; mode++) {
        x->sides[mode] = side_of(x, (ft_bench_batch_mode)mode);
        if (x->o->mode[mode])
            sides[n++] = (ft_bench_side){.ctx = &x->sides[mode], .round = run_side};
    }
    if (status == FT_OK)
        status = ft_bench_interleave(&how, sides, n, err, median_s, &rounds);
    if (status != FT_OK)
        return status;
    json_t *modes = json_array();
    for (int mode = 0; mode < FT_BENCH_BATCH_MODES; mode++)
        if (x->o->mode[mode])
            json_array_append_new(modes, mode_json(&x->sides[mode], (ft_bench_batch_mode)mode));
    *report = json_pack("{s:o, s:i, s:i, s:b}", "modes", modes, "tasks", (int)x->tasks.n, "rounds",
                        (int)rounds.n, "own_core", x->core >= 0);
    add_gain(*report, x);
    return FT_OK;
}

ft_status ft_bench_batch(const ft_bench_batch_opts *opts, ft_error *err, json_t **report)
{
    bench x = {.o = opts};
    *report = NULL;
    (void)ft_bench_load_split_cores(&x.core); /* threads inherit it */
    ft_status status = load(&x, err);
    if (status == FT_OK)
        status = start(&x, err);
    if (status == FT_OK)
        status = measure(&x, err, report);
    ft_edge_destroy(x.edge);
    ft_edge_destroy(x.plain);
    ft_wire_client_destroy(x.client);
    ft_bench_load_server_stop(&x.server);
    for (size_t i = 0; x.expected && i < x.tasks.n; i++)
        free(x.expected[i]);
    free(x.expected);
    free(x.answer_tok);
    ft_tasks_deinit(&x.tasks);
    ft_model_destroy(x.draft);
    ft_vocab_destroy(x.vocab);
    return status;
}
