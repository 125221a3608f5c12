// SPDX-License-Identifier: Apache-2.0
// The measurement of bench uplink: the target writes the texts and their positions are recorded;
// then edges write them over each uplink by each method, interleaved. The server is a child of this
// process, on a core of its own (load_server.c). Edges write one at a time, in this thread.
#include "bench/uplink.h"

#include <stdlib.h>
#include <sys/prctl.h>

#include "base/progress.h"
#include "bench/load_server.h"
#include "bench/positions.h"
#include "bench/uplink_report.h"

#define CONTEXT_MARGIN 64 /* beyond prompt, text and draft */
#define WARM_TOK       16 /* of a text that only warms up */
#define WARM_TEXTS     16
#define SESSIONS       64 /* of the server: more than there are edges */
#define NODES_MOST     64 /* of a draft, as `serve` takes by default */

/* Drafts that tell the rate. */
#define LARGE_LENGTH 12
#define LARGE_TOP_K  200
#define LARGE_TOK    16 /* of a text */
#define LARGE_ROUNDS 20
#define LARGE_TEXTS  32 /* at most, where drafts do not get large */

typedef struct uplink {
    const ft_bench_uplink_opts *o;
    ft_vocab *vocab;
    ft_model *draft;
    ft_positions positions;
    ft_bench_uplink_text *texts; /* [n_texts] as the positions' */
    size_t n_texts, skipped;
    int core, driver_cores;
    ft_bench_load_server server;
    ft_bench_uplink_edge *edges; /* [n_edges] by link, then method */
    uint32_t n_edges;
    ft_bench_uplink_part *parts; /* [n_edges, n_texts, rounds] */
} uplink;

static bool stopped(const uplink *x)
{
    return x->o->stop && x->o->stop();
}

/* ---- texts ---- */

static ft_status take_text(void *ctx, const ft_bench_answer *answer, ft_error *err)
{
    uplink *x = ctx;
    ft_bench_uplink_text *t = &x->texts[x->n_texts++];
    size_t n = answer->text->n;
    t->sampling = answer->sampling;
    if (n > 0 && ft_vocab_is_eog(x->vocab, answer->text->id[n - 1]))
        n--;
    return ft_tokens_append(&t->prompt, answer->prompt->id, answer->prompt->n) == FT_OK &&
                   ft_tokens_append(&t->text, answer->text->id, n) == FT_OK
               ? FT_OK
               : ft_error_set(err, FT_NOMEM, "bench uplink: out of memory for texts");
}

/* Those that drafts may have, each once. */
static void put_lattices(const ft_bench_uplink_opts *o, ft_bench_positions_opts *out)
{
    out->l[out->n_l++] = (double)o->l;
    for (uint32_t i = 0; o->policy && i < o->policy->n_l; i++)
        if (o->policy->l[i] != (uint32_t)o->l)
            out->l[out->n_l++] = o->policy->l[i];
}

/* The texts, and what both models say of them. */
static ft_status record(uplink *x, ft_error *err)
{
    const ft_bench_uplink_opts *o = x->o;
    ft_bench_positions_opts opts = {.target = o->model,
                                    .draft = o->draft,
                                    .prompts = o->prompts,
                                    .n_predict = o->n,
                                    .max_prompts = o->n_prompts,
                                    .n_ctx = o->n_ctx,
                                    .top_k = o->top_k,
                                    .seed = o->seed,
                                    .temperature = {o->temp},
                                    .n_temperatures = 1,
                                    .loading = ft_progress_terminal("loading"),
                                    .progress = ft_progress_terminal("positions"),
                                    .stop = o->stop,
                                    .on_answer = take_text,
                                    .ctx = x};
    put_lattices(o, &opts);
    x->texts = calloc((size_t)o->n_prompts, sizeof *x->texts);
    if (!x->texts)
        return ft_error_set(err, FT_NOMEM, "bench uplink: out of memory");
    ft_status status = ft_bench_positions(&opts, err, &x->positions, &x->skipped);
    if (status == FT_OK && stopped(x))
        status = ft_error_set(err, FT_CANCELLED, "stopped");
    return status;
}

/* ---- server and edges ---- */

static uint32_t text_tok(const uplink *x)
{
    return (uint32_t)x->o->n_ctx + FT_TREE_MAX + CONTEXT_MARGIN;
}

static ft_status start_server(uplink *x, ft_error *err)
{
    const ft_bench_load_server_opts opts = {.model = x->o->model,
                                            .ctx = text_tok(x),
                                            .kv_tok = ((uint32_t)x->n_texts + 2) * text_tok(x),
                                            .max_sessions = SESSIONS,
                                            .threads = 1,
                                            .rules = "exact,ratio",
                                            .core = x->core,
                                            .stop = x->o->stop};
    return ft_bench_load_server_start(&opts, err, &x->server);
}

static ft_bench_uplink_edge_opts edge_opts(const uplink *x)
{
    return (ft_bench_uplink_edge_opts){.address = x->server.address,
                                       .vocab = x->vocab,
                                       .draft = x->draft,
                                       .policy = x->o->policy,
                                       .rtt_us = (int64_t)(x->o->rtt_ms * 1e3),
                                       .kv_tok = 2 * text_tok(x)};
}

static ft_bench_uplink_way way_of(const ft_bench_uplink_opts *o, ft_qsv_method method)
{
    const bool policy = method == FT_QSV_METHOD_POLICY, tree = method == FT_QSV_METHOD_TREE;
    return (ft_bench_uplink_way){.method = method,
                                 .length = policy ? o->policy->n_lengths : (uint32_t)o->length,
                                 .width = tree ? (uint32_t)o->width : 1,
                                 .l = (uint32_t)o->l};
}

static ft_status make_edges(uplink *x, ft_error *err)
{
    const ft_bench_uplink_opts *o = x->o;
    const ft_bench_uplink_edge_opts opts = edge_opts(x);
    ft_status status = FT_OK;
    x->edges = calloc((size_t)o->n_links * FT_QSV_METHODS, sizeof *x->edges);
    if (!x->edges)
        return ft_error_set(err, FT_NOMEM, "bench uplink: out of memory");
    for (uint32_t i = 0; i < o->n_links * FT_QSV_METHODS && status == FT_OK; i++) {
        const ft_qsv_method method = (ft_qsv_method)(i % FT_QSV_METHODS);
        if (!o->method[method])
            continue;
        const ft_bench_uplink_way way = way_of(o, method);
        status = ft_bench_uplink_edge_init(&x->edges[x->n_edges++], &opts, &way,
                                           &o->link[i / FT_QSV_METHODS], err);
    }
    return status;
}

static ft_status write_text(uplink *x, uint32_t edge, size_t text, uint32_t round, ft_error *err)
{
    const size_t part = (edge * x->n_texts + text) * (size_t)x->o->rounds + round;
    const ft_bench_uplink_write how = {.text = &x->texts[text],
                                       .n_tokens = (uint32_t)x->o->n,
                                       .seed = (uint64_t)x->o->seed + text,
                                       .stop = x->o->stop};
    return ft_bench_uplink_edge_write(&x->edges[edge], &how, err, &x->parts[part]);
}

/* The beginning of a text, so that the edge is not cold. A policy is not asked while the rate is
 * not known, so its edge goes on until it is. */
static ft_status warm_up(uplink *x, ft_bench_uplink_edge *e, ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t t = 0; status == FT_OK && t < WARM_TEXTS; t++) {
        const ft_bench_uplink_write how = {.text = &x->texts[t % x->n_texts],
                                           .n_tokens = WARM_TOK,
                                           .seed = (uint64_t)x->o->seed + t,
                                           .stop = x->o->stop};
        status = ft_bench_uplink_edge_write(e, &how, err, NULL);
        if (e->way.method != FT_QSV_METHOD_POLICY || e->known.bits_per_s > 0)
            break;
    }
    return status;
}

/* In each round each text by all edges, every other one in reverse order. */
static ft_status write_all(uplink *x, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("texts");
    const uint64_t n = x->n_edges, all = (uint64_t)x->o->rounds * x->n_texts * n;
    x->parts = calloc(all, sizeof *x->parts);
    if (!x->parts)
        return ft_error_set(err, FT_NOMEM, "bench uplink: out of memory");
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < x->n_edges && status == FT_OK; i++)
        status = warm_up(x, &x->edges[i], err);
    for (uint64_t i = 0; i < all && status == FT_OK; i++) {
        const uint64_t turn = i / n, k = i % n, round = turn / x->n_texts;
        ft_progress_report(&progress, i, all);
        status = write_text(x, (uint32_t)((turn + round) % 2 ? n - 1 - k : k), turn % x->n_texts,
                            (uint32_t)round, err);
    }
    ft_progress_report(&progress, all, all);
    return status;
}

static ft_status check(const ft_bench_uplink_opts *o, ft_error *err)
{
    if (o->method[FT_QSV_METHOD_TREE] && o->length * o->width > NODES_MOST)
        return ft_error_set(err, FT_INVALID,
                            "bench uplink: a tree of %d levels of %d nodes has more nodes than a "
                            "server takes (%d): take a smaller --draft-length or --tree-width",
                            (int)o->length, (int)o->width, NODES_MOST);
    if (!o->policy || o->policy->n_l <= FT_QSV_L)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "bench uplink: the policy chooses among %u l, the simulator among %d at "
                        "most",
                        o->policy->n_l, FT_QSV_L);
}

static ft_status measure(uplink *x, ft_error *err)
{
    const ft_model_opts draft = {.path = x->o->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = check(x->o, err);
    if (status == FT_OK)
        status = ft_vocab_load(x->o->model, err, &x->vocab);
    if (status == FT_OK)
        status = record(x, err);
    x->driver_cores = ft_bench_load_split_cores(&x->core); /* threads inherit it */
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &x->draft);
    if (status == FT_OK)
        status = start_server(x, err);
    if (status == FT_OK)
        status = make_edges(x, err);
    if (status == FT_OK)
        status = write_all(x, err);
    return status;
}

/* ---- the rate ---- */

/* An edge that knows nothing sends large Drafts. Its texts are of no other use: many tokens may be
 * drawn, so that points are large, and drafts get shorter towards the end of each text, so that
 * sizes differ. */
static ft_status find_rate(uplink *x, const ft_qsv_link *link, ft_error *err,
                           ft_bench_uplink_known *out)
{
    const ft_bench_uplink_edge_opts opts = edge_opts(x);
    const ft_bench_uplink_way way = {
        .method = FT_QSV_METHOD_FIXED, .length = LARGE_LENGTH, .width = 1, .l = FT_RATIO_L_MAX};
    ft_bench_uplink_edge edge;
    ft_status status = ft_bench_uplink_edge_init(&edge, &opts, &way, link, err);
    for (size_t t = 0; t < LARGE_TEXTS && status == FT_OK && edge.known.large < LARGE_ROUNDS; t++) {
        ft_bench_uplink_text text = x->texts[t % x->n_texts];
        text.sampling.temperature = 1;
        text.sampling.top_k = LARGE_TOP_K;
        text.sampling.seed += t / x->n_texts; /* other draws of the same prompt */
        const ft_bench_uplink_write how = {
            .text = &text, .n_tokens = LARGE_TOK, .large_most = LARGE_ROUNDS, .stop = x->o->stop};
        status = ft_bench_uplink_edge_write(&edge, &how, err, NULL);
    }
    *out = edge.known;
    ft_bench_uplink_edge_deinit(&edge);
    return status;
}

/* On each uplink of a constant rate, as often as there are rounds. */
static ft_status find_rates(uplink *x, ft_error *err, json_t *rates)
{
    const uint32_t rounds = (uint32_t)x->o->rounds;
    ft_bench_uplink_known known[FT_BENCH_UPLINK_ROUNDS_MAX];
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < x->o->n_links && status == FT_OK; i++) {
        const ft_qsv_link *link = &x->o->link[i];
        if (link->rate.step_ns > 0)
            continue;
        for (uint32_t r = 0; r < rounds && status == FT_OK; r++)
            status = find_rate(x, link, err, &known[r]);
        if (status == FT_OK)
            json_array_append_new(rates, ft_bench_uplink_rate(link, known, rounds));
    }
    return status;
}

/* ---- the report ---- */

static void add_up(const uplink *x, ft_bench_uplink_total *totals)
{
    const size_t of_edge = x->n_texts * (size_t)x->o->rounds;
    for (uint32_t i = 0; i < x->n_edges; i++) {
        totals[i].way = x->edges[i].way;
        ft_bench_uplink_total_of(&x->parts[i * of_edge], x->n_texts, (uint32_t)x->o->rounds,
                                 &totals[i]);
    }
}

static ft_status simulate_all(const uplink *x, const ft_bench_uplink_times *times,
                              const ft_bench_uplink_total *totals, ft_error *err, json_t *rows)
{
    const ft_bench_uplink_sim_opts opts = {.times = times,
                                           .positions = &x->positions,
                                           .policy = x->o->policy,
                                           .seed = (uint64_t)x->o->seed};
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < x->n_edges && status == FT_OK; i++) {
        const ft_bench_uplink_edge *e = &x->edges[i];
        ft_bench_uplink_simulated simulated;
        status = ft_bench_uplink_simulate(&opts, &e->way, e->link,
                                          ft_bench_uplink_policy_share(&totals[i].part.sum), err,
                                          &simulated);
        if (status == FT_OK)
            json_array_append_new(rows, ft_bench_uplink_row(e, &totals[i], &simulated));
    }
    return status;
}

/* The uplink that changes; null: there is none. */
static json_t *markov_json(const ft_bench_uplink_opts *o)
{
    for (uint32_t i = 0; i < o->n_links; i++) {
        const ft_line_rate *rate = &o->link[i].rate;
        if (rate->step_ns > 0)
            return json_pack("{s:[f, f], s:f, s:f}", "mbit", rate->bits_per_s[0] / 1e6,
                             rate->bits_per_s[1] / 1e6, "step_ms", (double)rate->step_ns / 1e6,
                             "stay", rate->stay);
    }
    return json_null();
}

static json_t *head(const uplink *x)
{
    const ft_bench_uplink_opts *o = x->o;
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:o, s:I, s:I, "
                     "s:I, s:i, s:i, s:b}",
                     "command", "bench uplink", "model", o->model, "draft_model", o->draft,
                     "prompts", o->prompts, "texts", (json_int_t)x->n_texts, "skipped",
                     (json_int_t)x->skipped, "rounds", (json_int_t)o->rounds, "n", (json_int_t)o->n,
                     "seed", (json_int_t)o->seed, "temperature", o->temp, "top_k",
                     (json_int_t)o->top_k, "rtt_ms", o->rtt_ms, "markov", markov_json(o), "length",
                     (json_int_t)o->length, "width", (json_int_t)o->width, "l", (json_int_t)o->l,
                     "server_core", x->core, "driver_cores", x->driver_cores, "interleaved", 1);
}

static ft_status report_of(uplink *x, ft_error *err, json_t **report)
{
    ft_bench_uplink_total *totals = calloc(x->n_edges, sizeof *totals);
    json_t *rows = json_array(), *rates = json_array();
    if (!totals) {
        json_decref(rows);
        json_decref(rates);
        return ft_error_set(err, FT_NOMEM, "bench uplink: out of memory");
    }
    add_up(x, totals);
    const ft_bench_uplink_times times = ft_bench_uplink_times_of(totals, x->n_edges);
    ft_status status = find_rates(x, err, rates);
    if (status == FT_OK)
        status = simulate_all(x, &times, totals, err, rows);
    if (status == FT_OK) {
        json_t *claims = ft_bench_uplink_claims(rows, rates);
        *report = head(x);
        json_object_set_new(*report, "times",
                            ft_bench_uplink_times_json(&times, totals, x->n_edges));
        json_object_set(*report, "rows", rows);
        json_object_set(*report, "rates", rates);
        json_object_set_new(*report, "claims", claims);
    }
    json_decref(rows);
    json_decref(rates);
    free(totals);
    return status;
}

ft_status ft_bench_uplink(const ft_bench_uplink_opts *opts, ft_error *err, json_t **report)
{
    uplink x = {.o = opts, .core = -1};
    *report = NULL;
    prctl(PR_SET_TIMERSLACK, 1); /* of links, whose threads inherit it: 50 us else */
    ft_status status = measure(&x, err);
    if (status == FT_OK)
        status = report_of(&x, err, report);
    for (uint32_t i = 0; i < x.n_edges; i++)
        ft_bench_uplink_edge_deinit(&x.edges[i]);
    free(x.edges);
    ft_bench_load_server_stop(&x.server);
    ft_model_destroy(x.draft);
    for (size_t i = 0; i < x.n_texts; i++) {
        ft_tokens_deinit(&x.texts[i].prompt);
        ft_tokens_deinit(&x.texts[i].text);
    }
    free(x.texts);
    free(x.parts);
    ft_positions_deinit(&x.positions);
    ft_vocab_destroy(x.vocab);
    return status;
}
