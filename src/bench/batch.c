// SPDX-License-Identifier: Apache-2.0
// The modes take turns, so that what else the machine does falls on all of them. Before that the
// server alone makes each text, one task at a time: all modes must make the same ones.
#include "bench/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "bench/load_server.h"
#include "edge/batch_cut.h"

#define ROW_S 1e9 /* the rounds alone end the measurement */

const char *const ft_bench_batch_name[FT_BENCH_BATCH_MODES] = {
    [FT_BENCH_BATCH_PIPELINE] = "pipeline",
    [FT_BENCH_BATCH_NO_PIPELINE] = "no-pipeline",
    [FT_BENCH_BATCH_NO_BATCHING] = "no-batching",
    [FT_BENCH_BATCH_AD] = "ad",
};

typedef struct bench bench;

/* A mode under measurement. */
typedef struct side {
    bench *of;
    uint32_t length, size, at_once;
    bool plain; /* by the edge without a draft model */
    ft_batch_stats sum;
    double verify_s; /* for which the server's engine worked */
    uint32_t n;
    bool differs; /* from the texts of the server alone */
} side;

struct bench {
    const ft_bench_batch_opts *o;
    ft_vocab *vocab;
    ft_model *draft;
    ft_tasks tasks;
    char **expected; /* [tasks.n] */
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
        s->differs |= strcmp(x->expected[i], a->answer[i].text) != 0;
    }
    return FT_OK;
}

static ft_status answer(side *s, ft_journal *journal, ft_error *err)
{
    bench *x = s->of;
    ft_batch_cut cut;
    ft_batch_stats stats;
    ft_status status = ft_batch_cut_init(&cut, s->length, s->size, x->tasks.n, err);
    if (status != FT_OK)
        return status;
    const ft_batch_opts opts = {.edge = s->plain ? x->plain : x->edge,
                                .vocab = x->vocab,
                                .tasks = &x->tasks,
                                .journal = journal,
                                .planner = ft_batch_cut_planner(&cut),
                                .sampling = x->o->sampling,
                                .at_once = s->at_once,
                                .clock = ft_clock_monotonic(),
                                .cancelled = stopped,
                                .ctx = x};
    status = ft_batch_run(&opts, err, &stats);
    ft_batch_cut_deinit(&cut);
    if (status != FT_OK)
        return status;
    s->sum.rounds += stats.rounds;
    s->sum.passes += stats.passes;
    s->sum.drafted += stats.drafted;
    s->sum.accepted += stats.accepted;
    s->sum.tokens += stats.tokens;
    s->sum.draft_s += stats.draft_s;
    s->n++;
    return take_texts(s, ft_journal_answers(journal), err);
}

static ft_status run_side(void *ctx, double *seconds, ft_error *err)
{
    side *s = ctx;
    char part[sizeof s->of->out + 8];
    ft_journal *journal = NULL;
    ft_bench_load_counters before, after;
    const ft_journal_opts opts = {.out = s->of->out, .n = s->of->tasks.n};
    ft_status status = ft_bench_load_server_count(&s->of->server, err, &before);
    if (status == FT_OK)
        status = ft_journal_open(&opts, err, &journal);
    if (status != FT_OK)
        return status;
    const double began_s = ft_bench_now_s();
    status = answer(s, journal, err);
    *seconds = ft_bench_now_s() - began_s;
    ft_journal_close(journal);
    snprintf(part, sizeof part, "%s.part", s->of->out);
    (void)unlink(part);
    if (status == FT_OK)
        status = ft_bench_load_server_count(&s->of->server, err, &after);
    if (status != FT_OK)
        return status;
    const ft_bench_load_counters run = ft_bench_load_counters_since(&before, &after);
    s->verify_s += (double)ft_verifier_stats_busy_us(&run.stats) / 1e6;
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
    if (!x->expected)
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
        status = make_edge(x, x->o->length, err, &x->edge);
    return status == FT_OK ? make_edge(x, 0, err, &x->plain) : status;
}

static side side_of(bench *x, ft_bench_batch_mode mode)
{
    const uint32_t all = (uint32_t)x->tasks.n, batch = ft_min_u32(x->o->batch, all);
    side s = {.of = x, .length = x->o->length, .size = batch, .at_once = all};
    if (mode == FT_BENCH_BATCH_NO_PIPELINE)
        s.at_once = batch;
    if (mode == FT_BENCH_BATCH_NO_BATCHING)
        s.size = s.at_once = 1;
    if (mode == FT_BENCH_BATCH_AD) {
        s.length = 0;
        s.plain = true;
    }
    return s;
}

/* ---- the report ---- */

static json_t *mode_json(const side *s, ft_bench_batch_mode mode, double makespan_s)
{
    const double n = fmax(s->n, 1);
    json_t *out =
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:b}", "mode", ft_bench_batch_name[mode], "makespan_s",
                  makespan_s, "draft_s", s->sum.draft_s / n, "verify_s", s->verify_s / n,
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
    const double sum = draft_s + verify_s;
    return sum > 0 ? 1 - fmax(draft_s, verify_s) / sum : 0;
}

static void add_gain(json_t *report, const bench *x, const double *makespan_s)
{
    const side *alone = &x->sides[FT_BENCH_BATCH_NO_PIPELINE];
    if (!x->o->mode[FT_BENCH_BATCH_PIPELINE] || !x->o->mode[FT_BENCH_BATCH_NO_PIPELINE])
        return;
    json_object_set_new(report, "pipeline_gain",
                        json_real(1 - makespan_s[FT_BENCH_BATCH_PIPELINE] /
                                          makespan_s[FT_BENCH_BATCH_NO_PIPELINE]));
    json_object_set_new(report, "bound",
                        json_real(ft_bench_batch_bound(alone->sum.draft_s, alone->verify_s)));
}

static ft_status measure(bench *x, ft_error *err, json_t **report)
{
    const ft_bench_opts how = {.rounds = x->o->rounds, .row_s = ROW_S};
    ft_bench_side sides[FT_BENCH_BATCH_MODES];
    double median_s[FT_BENCH_BATCH_MODES], makespan_s[FT_BENCH_BATCH_MODES] = {0}, unused;
    side alone = {.of = x, .size = 1, .at_once = 1, .plain = true};
    uint32_t n = 0, rounds;
    ft_status status = run_side(&alone, &unused, err);
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
    n = 0;
    for (int mode = 0; mode < FT_BENCH_BATCH_MODES; mode++) {
        if (!x->o->mode[mode])
            continue;
        makespan_s[mode] = median_s[n++];
        json_array_append_new(
            modes, mode_json(&x->sides[mode], (ft_bench_batch_mode)mode, makespan_s[mode]));
    }
    *report = json_pack("{s:o, s:i, s:i, s:i, s:i, s:b}", "modes", modes, "tasks", (int)x->tasks.n,
                        "batch", (int)x->o->batch, "length", (int)x->o->length, "rounds",
                        (int)rounds, "own_core", x->core >= 0);
    add_gain(*report, x, makespan_s);
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
    ft_tasks_deinit(&x.tasks);
    ft_model_destroy(x.draft);
    ft_vocab_destroy(x.vocab);
    return status;
}
