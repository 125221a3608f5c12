// SPDX-License-Identifier: Apache-2.0
// bench prefill: what prompts cost. Reading one, against libllama in its fastest way; and in the
// server, by its verifier in this process: a text that comes back, and a long prompt that arrives while
// other sessions are being served.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench_llama.h"
#include "cmd/bench_serving.h"
#include "engine/engine.h"

#define MAX_LENGTH 65536

typedef struct bench {
    ft_bench_flags flags;
    const char *lengths;
    int64_t n_prefix, n_sessions, n_long, budget_ms;
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
                                      .n_threads = ft_bench_threads(&b->flags),
                                      .flash = ways[i].flash};
    return ft_bench_llama_open(&opts, err, &b->llama);
}

/* Opens the fastest way; batches longer than the prompt are all one way. */
static ft_status open_best(bench *b, way *best, ft_error *err)
{
    ft_bench_llama_trial trial = {.ctx = b,
                                  .llama = &b->llama,
                                  .n_ways = 2,
                                  .n_threads = ft_bench_threads(&b->flags),
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
                                 .n_threads = ft_bench_threads(&b->flags),
                                 .kv_type = b->flags.kv};
    ft_status status = ft_engine_create(&opts, err, &b->engine);
    if (status == FT_OK)
        status = ft_engine_warm(b->engine, NULL, err, NULL);
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
                                 .kv = b->flags.kv};
        ft_bench_pass_work(b->model, &p, &pass);
        sum.bytes += pass.bytes;
        sum.int8_macs += pass.int8_macs;
        sum.f32_macs += pass.f32_macs;
    }
    return ft_bench_bound_s(&b->machine, &sum) / seconds;
}

static ft_status put_row(bench *b, way best, const double *s, uint32_t rounds)
{
    char name[64];
    uint32_t ubatch = best.ubatch < b->n ? best.ubatch : b->n;
    snprintf(name, sizeof name, "%s, ubatch %u%s", best.flash ? "flash" : "no flash", ubatch,
             b->one_thread ? ", 1 thread" : "");
    double bound = roofline(b, s[0]);
    if (!b->flags.json)
        printf("%7u %16.1f %16.1f %8.3f %9.2f  %s\n", b->n, b->n / s[0], b->n / s[1], s[1] / s[0],
               bound, name);
    fflush(stdout);
    json_array_append_new(b->rows,
                          json_pack("{s:i, s:f, s:f, s:f, s:s, s:f, s:i}", "tokens", (int)b->n,
                                    "foretoken_tok_s", b->n / s[0], "libllama_tok_s", b->n / s[1],
                                    "ratio", s[1] / s[0], "libllama", name, "roofline", bound,
                                    "rounds", (int)rounds));
    return FT_OK;
}

static ft_status run_row(bench *b, ft_error *err)
{
    const ft_bench_side sides[] = {{b, our_round, true}, {b, their_round, false}};
    double s[2];
    uint32_t rounds;
    way best = ways[0];
    b->tokens = malloc(b->n * sizeof *b->tokens);
    ft_status status = b->tokens ? open_ours(b, err) : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; b->tokens && i < b->n; i++)
        b->tokens[i] = (int32_t)((1000u + 37u * i) % ft_model_hparams(b->model)->n_vocab);
    if (status == FT_OK)
        status = open_best(b, &best, err);
    if (status == FT_OK)
        status = ft_bench_interleave(&b->flags, sides, 2, err, s, &rounds);
    if (status == FT_OK)
        status = put_row(b, best, s, rounds);
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
    const ft_bench_llama_opts base = {.path = b->flags.path,
                                      .like = b->model,
                                      .n_ctx = 256,
                                      .n_streams = 1,
                                      .max_batch_tok = 1,
                                      .n_threads = ft_bench_threads(&b->flags)};
    ft_status status = ft_bench_llama_open(&base, err, &b->base);
    if (status == FT_OK && !b->flags.json)
        printf("%7s %16s %16s %8s %9s  %s\n", "tokens", "foretoken tok/s", "libllama tok/s",
               "ratio", "roofline", "libllama");
    for (uint32_t i = 0; i < lengths->n && status == FT_OK; i++) {
        b->n = lengths->value[i];
        status = run_row(b, err);
    }
    ft_bench_llama_close(&b->base);
    return status;
}

/* ---- in the server ---- */

static double at(const json_t *object, const char *a, const char *b)
{
    const json_t *value = json_object_get(object, a);
    return json_number_value(b ? json_object_get(value, b) : value);
}

static void print_serving(const json_t *back, const json_t *arrival)
{
    printf(
        "a text of %.0f tokens, of which %.0f come back: first token after %.1f ms, cold %.1f ms; "
        "ratio %.3f\n",
        at(back, "prompt_tokens", NULL), at(back, "cached_tokens", NULL),
        at(back, "returning_ms", NULL), at(back, "cold_ms", NULL), at(back, "ratio", NULL));
    printf(
        "a prompt of %.0f tokens arrives at %.0f sessions (first token after %.0f ms): rounds p50 "
        "%.1f -> %.1f ms, p99 %.1f -> %.1f ms; p99 grows by %.1f ms, budget %.0f ms\n",
        at(arrival, "prompt_tokens", NULL), at(arrival, "sessions", NULL),
        at(arrival, "prompt_ms", NULL), at(arrival, "before", "p50_ms"),
        at(arrival, "during", "p50_ms"), at(arrival, "before", "p99_ms"),
        at(arrival, "during", "p99_ms"), at(arrival, "growth_p99_ms", NULL),
        at(arrival, "budget_ms", NULL));
}

static ft_status run_serving(bench *b, json_t *report, ft_error *err)
{
    ft_vocab *vocab = NULL;
    json_t *back = NULL, *arrival = NULL;
    ft_status status = ft_vocab_load(b->flags.path, err, &vocab);
    const ft_bench_serving_opts opts = {.flags = &b->flags,
                                        .model = b->model,
                                        .vocab = vocab,
                                        .n_prefix = (uint32_t)b->n_prefix,
                                        .n_sessions = (uint32_t)b->n_sessions,
                                        .n_long = (uint32_t)b->n_long,
                                        .budget_us = (uint32_t)b->budget_ms * 1000};
    if (status == FT_OK)
        status = ft_bench_returning(&opts, err, &back);
    if (status == FT_OK)
        status = ft_bench_arrival(&opts, err, &arrival);
    if (status == FT_OK && !b->flags.json)
        print_serving(back, arrival);
    json_object_set_new(report, "returning", back);
    json_object_set_new(report, "arrival", arrival);
    ft_vocab_destroy(vocab);
    return status;
}

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    bench *b = ctx;
    ft_bench_list lengths;
    b->model = model;
    b->rows = json_array();
    json_object_set_new(report, "rows", b->rows);
    ft_status status = ft_bench_list_parse("--lengths", b->lengths, MAX_LENGTH, err, &lengths);
    if (status == FT_OK)
        status = ft_bench_machine_measure(ft_bench_threads(&b->flags), err, &b->machine);
    if (status != FT_OK)
        return status;
    json_object_set_new(report, "machine", ft_bench_machine_json(&b->machine));
    status = run_rows(b, &lengths, err);
    return status == FT_OK ? run_serving(b, report, err) : status;
}

int ft_cmd_bench_prefill(int argc, char **argv)
{
    bench b = {.flags = FT_BENCH_FLAGS_INIT,
               .lengths = "128,512,2048",
               .n_prefix = 1000,
               .n_sessions = 8,
               .n_long = 2048,
               .budget_ms = 50};
    const ft_flag flags[] = {
        FT_BENCH_FLAGS(b.flags),
        {"--lengths", NULL, FT_FLAG_STRING, &b.lengths, "LIST", "tokens of the prompts", 0, 0},
        {"--prefix", NULL, FT_FLAG_INT, &b.n_prefix, "N", "tokens of the text that comes back", 1,
         MAX_LENGTH},
        {"--sessions", NULL, FT_FLAG_INT, &b.n_sessions, "N",
         "sessions being served as a prompt arrives", 1, FT_BENCH_SESSIONS_MAX},
        {"--prompt", NULL, FT_FLAG_INT, &b.n_long, "N", "tokens of the prompt that arrives", 1,
         MAX_LENGTH},
        {"--prefill-ms", NULL, FT_FLAG_INT, &b.budget_ms, "MS",
         "the verifier's budget: a prompt may delay a round by so much", 1, 10000},
    };
    const ft_cmd_usage usage = {
        .usage = "bench prefill -m FILE [flags]",
        .about =
            "What prompts cost: reading one, against libllama in its fastest way; time to first "
            "token of a text that comes back; and what a long prompt does to the rounds of "
            "sessions that are being served.",
        .flags = flags,
        .n_flags = FT_COUNT(flags)};
    const ft_bench_cmd cmd = {
        .usage = &usage, .name = "bench prefill", .flags = &b.flags, .ctx = &b, .measure = measure};
    return ft_bench_main(&cmd, argc, argv);
}
