// SPDX-License-Identifier: Apache-2.0
// What prompts cost: reading one, compared with libllama in its fastest way; and in the server, by
// its verifier in this process, a text that comes back, and a long prompt that arrives beside other
// sessions.
#include "bench/prefill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/libllama.h"
#include "bench/machine.h"
#include "bench/prefill_server.h"

typedef struct bench {
    const ft_bench_prefill_opts *o;
    const ft_model *model;
    ft_bench_machine machine;
    bool one_thread; /* libllama's fastest way takes one of them, as ours may */
    ft_engine *engine;
    ft_seq *seq;
    ft_bench_llama base, llama;
    uint32_t n;      /* tokens of the row's prompt */
    int32_t *tokens; /* [n] */
    json_t *rows;
} bench;

/* ---- reading a prompt ---- */

static ft_status our_round(void *ctx, double *seconds, ft_error *err)
{
    bench *b = ctx;
    ft_seq_truncate(b->seq, 0);
    double begin = ft_bench_now_s();
    ft_status status = ft_bench_read(b->engine, b->seq, b->tokens, b->n, true, err);
    *seconds = ft_bench_now_s() - begin;
    return status;
}

static ft_status their_round(void *ctx, double *seconds, ft_error *err)
{
    bench *b = ctx;
    llama_memory_clear(llama_get_memory(b->llama.ctx), false);
    double begin = ft_bench_now_s();
    ft_status status = ft_bench_llama_extend(&b->llama, b->tokens, b->n, 0, err);
    *seconds = ft_bench_now_s() - begin;
    ft_bench_llama_pause(&b->llama);
    return status;
}

typedef struct way {
    uint32_t ubatch;
    bool flash;
} way;

static const way ways[] = {{128, true},  {128, false}, {512, true},
                           {512, false}, {2048, true}, {2048, false}};

static ft_status open_theirs(void *ctx, size_t i, ft_error *err)
{
    bench *b = ctx;
    uint32_t ubatch = ways[i].ubatch < b->n ? ways[i].ubatch : b->n;
    const ft_bench_llama_opts opts = {.share = &b->base,
                                      .n_ctx = b->n,
                                      .n_streams = 1,
                                      .max_batch_tok = b->n < 2048 ? b->n : 2048,
                                      .max_ubatch_tok = ubatch,
                                      .n_threads = ft_bench_threads(b->o->common),
                                      .flash = ways[i].flash};
    return ft_bench_llama_open(&opts, err, &b->llama);
}

/* Opens the fastest way; batches longer than the prompt are all one way. */
static ft_status open_best(bench *b, way *best, ft_error *err)
{
    ft_bench_llama_trial trial = {.ctx = b,
                                  .llama = &b->llama,
                                  .n_ways = 2,
                                  .n_threads = ft_bench_threads(b->o->common),
                                  .open = open_theirs,
                                  .round = their_round};
    size_t i = 0;
    while (trial.n_ways < FT_COUNT(ways) && ways[trial.n_ways].ubatch / 4 < b->n)
        trial.n_ways++;
    ft_status status = ft_bench_llama_open_best(&trial, err, &i, &b->one_thread);
    *best = ways[i];
    return status;
}

static ft_status open_ours(bench *b, ft_error *err)
{
    const ft_engine_opts opts = {.model = b->model,
                                 .kv_tok = b->n,
                                 .max_batch_tok =
                                     b->n < FT_BENCH_READ_TOK ? b->n : FT_BENCH_READ_TOK,
                                 .max_logits = 1,
                                 .n_threads = ft_bench_threads(b->o->common),
                                 .kv_type = b->o->common->kv};
    ft_status status = ft_engine_create(&opts, err, &b->engine);
    if (status == FT_OK)
        status = ft_engine_warm(b->engine, NULL, NULL, err, NULL);
    return status == FT_OK ? ft_seq_create(b->engine, err, &b->seq) : status;
}

static double roofline(const bench *b, double seconds)
{
    ft_bench_work pass, sum = {0};
    for (uint32_t at = 0; at < b->n; at += FT_BENCH_READ_TOK) {
        uint32_t n = b->n - at < FT_BENCH_READ_TOK ? b->n - at : FT_BENCH_READ_TOK;
        const ft_bench_pass p = {.rows = n,
                                 .out_rows = at + n == b->n,
                                 .kv_tok = at,
                                 .row_tok = (uint64_t)n * at + (uint64_t)n * (n + 1) / 2,
                                 .kv = b->o->common->kv};
        ft_bench_pass_work(b->model, &p, &pass);
        sum.bytes += pass.bytes;
        sum.int8_macs += pass.int8_macs;
        sum.f32_macs += pass.f32_macs;
    }
    return ft_bench_bound_s(&b->machine, &sum) / seconds;
}

static ft_status put_row(bench *b, way best, const double *s, const ft_bench_rounds *rounds)
{
    char name[64];
    uint32_t ubatch = best.ubatch < b->n ? best.ubatch : b->n;
    snprintf(name, sizeof name, "%s, ubatch %u%s", best.flash ? "flash" : "no flash", ubatch,
             b->one_thread ? ", 1 thread" : "");
    double bound = roofline(b, s[0]), least = roofline(b, rounds->least_s[0]);
    json_t *row = json_pack("{s:i, s:f, s:f, s:f, s:s, s:f, s:f, s:i}", "tokens", (int)b->n,
                            "foretoken_tok_s", b->n / s[0], "libllama_tok_s", b->n / s[1], "ratio",
                            s[1] / s[0], "libllama", name, "roofline", bound, "roofline_best",
                            least, "rounds", (int)rounds->n);
    json_array_append_new(b->rows, row);
    ft_bench_row(b->o->common, row);
    return FT_OK;
}

static ft_status run_row(bench *b, ft_error *err)
{
    const ft_bench_side sides[] = {{b, our_round, true}, {b, their_round, false}};
    double s[2];
    ft_bench_rounds rounds;
    way best = ways[0];
    b->tokens = malloc(b->n * sizeof *b->tokens);
    ft_status status = b->tokens ? open_ours(b, err) : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; b->tokens && i < b->n; i++)
        b->tokens[i] = (int32_t)((1000u + 37u * i) % ft_model_hparams(b->model)->n_vocab);
    if (status == FT_OK)
        status = open_best(b, &best, err);
    if (status == FT_OK)
        status = ft_bench_interleave(b->o->common, sides, 2, err, s, &rounds);
    if (status == FT_OK)
        status = put_row(b, best, s, &rounds);
    ft_bench_llama_close(&b->llama);
    ft_seq_destroy(b->seq);
    ft_engine_destroy(b->engine);
    free(b->tokens);
    b->seq = NULL;
    b->engine = NULL;
    return status;
}

static ft_status run_rows(bench *b, const ft_bench_list *lengths, ft_error *err)
{
    const ft_bench_llama_opts base = {.path = b->o->common->path,
                                      .like = b->model,
                                      .n_ctx = 256,
                                      .n_streams = 1,
                                      .max_batch_tok = 1,
                                      .n_threads = ft_bench_threads(b->o->common)};
    ft_status status = ft_bench_llama_open(&base, err, &b->base);
    for (uint32_t i = 0; i < lengths->n && status == FT_OK; i++) {
        b->n = lengths->value[i];
        status = run_row(b, err);
    }
    ft_bench_llama_close(&b->base);
    return status;
}

/* ---- in the server ---- */

static ft_status run_serving(bench *b, json_t *report, ft_error *err)
{
    ft_vocab *vocab = NULL;
    json_t *back = NULL, *arrival = NULL;
    ft_status status = ft_vocab_load(b->o->common->path, err, &vocab);
    const ft_bench_prefill_server_opts opts = {.common = b->o->common,
                                               .model = b->model,
                                               .vocab = vocab,
                                               .n_prefix = (uint32_t)b->o->n_prefix,
                                               .n_sessions = (uint32_t)b->o->n_sessions,
                                               .n_long = (uint32_t)b->o->n_long,
                                               .budget_us = (uint32_t)b->o->budget_ms * 1000};
    if (status == FT_OK)
        status = ft_bench_prefill_returning(&opts, err, &back);
    if (status == FT_OK)
        status = ft_bench_prefill_arrival(&opts, err, &arrival);
    json_object_set_new(report, "returning", back);
    json_object_set_new(report, "arrival", arrival);
    ft_vocab_destroy(vocab);
    return status;
}

ft_status ft_bench_prefill(const ft_bench_prefill_opts *opts, const ft_model *model, json_t *report,
                           ft_error *err)
{
    bench state = {.o = opts, .model = model}, *b = &state;
    ft_bench_list lengths;
    b->rows = json_array();
    json_object_set_new(report, "rows", b->rows);
    ft_status status =
        ft_bench_list_parse("--lengths", b->o->lengths, FT_BENCH_PREFILL_MAX, err, &lengths);
    if (status == FT_OK)
        status = ft_bench_machine_measure(ft_bench_threads(b->o->common), err, &b->machine);
    if (status != FT_OK)
        return status;
    json_object_set_new(report, "machine", ft_bench_machine_json(&b->machine));
    status = run_rows(b, &lengths, err);
    return status == FT_OK ? run_serving(b, report, err) : status;
}
