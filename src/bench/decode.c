// SPDX-License-Identifier: Apache-2.0
// Greedy decoding by this engine and by libllama on the same file and threads, interleaved. Timed
// is the loop of one pass and one argmax for each token and stream; loading and the prompt are not.
// libllama is tried with separate streams and with one cache, with and without flash attention;
// ours is compared with the fastest.
#include "bench/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/libllama.h"
#include "bench/machine.h"

#define MAX_STREAMS 256
#define TRIAL_STEPS 16 /* of a way that is tried */

typedef struct way {
    bool unified, flash;
    const char *name;
} way;

static const way ways[] = {
    {false, true, "streams, flash"},
    {false, false, "streams, no flash"},
    {true, true, "unified, flash"},
    {true, false, "unified, no flash"},
};

typedef struct bench {
    const ft_bench_decode_opts *o;
    const ft_model *model;
    ft_bench_machine machine;
    bool one_thread; /* libllama's fastest way takes one of them, as ours may */
    ft_engine *engine;
    ft_seq *seq[MAX_STREAMS];
    ft_bench_llama base;  /* the open model */
    ft_bench_llama llama; /* of the row, in some way */
    uint32_t n_streams;
    int64_t n_steps; /* of a round */
} bench;

/* Token of a prompt. Any will do for a measurement, but streams should differ. */
static int32_t prompt_token(const bench *b, uint32_t stream, uint32_t i)
{
    return (int32_t)((1000u + 37u * i + 11u * stream) % ft_model_hparams(b->model)->n_vocab);
}

/* ---- ours ---- */

static ft_status our_prompt(bench *b, uint32_t stream, int32_t *next, ft_error *err)
{
    uint32_t n = (uint32_t)b->o->n_prompt, path[FT_BENCH_DECODE_PROMPT_MAX];
    int32_t tokens[FT_BENCH_DECODE_PROMPT_MAX];
    uint64_t want[FT_BENCH_DECODE_PROMPT_MAX / 64] = {0};
    for (uint32_t i = 0; i < n; i++) {
        tokens[i] = prompt_token(b, stream, i);
        path[i] = i;
    }
    want[(n - 1) / 64] = 1ull << (n - 1) % 64;
    ft_segment s = {.seq = b->seq[stream], .n = n, .tokens = tokens, .want = want};
    ft_seq_truncate(b->seq[stream], 0);
    ft_status status = ft_engine_forward(b->engine, &s, 1, err);
    if (status != FT_OK)
        return status;
    *next = ft_bench_argmax(ft_engine_logits(b->engine, 0), ft_model_hparams(b->model)->n_vocab);
    return ft_seq_commit(b->seq[stream], path, n, NULL, 0, err);
}

static ft_status our_round(void *ctx, double *seconds, ft_error *err)
{
    bench *b = ctx;
    int32_t token[MAX_STREAMS];
    ft_segment s[MAX_STREAMS];
    const uint64_t want = 1;
    const uint32_t first = 0, n_vocab = ft_model_hparams(b->model)->n_vocab;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++) {
        status = our_prompt(b, i, &token[i], err);
        s[i] = (ft_segment){.seq = b->seq[i], .n = 1, .tokens = &token[i], .want = &want};
    }
    double begin = ft_bench_now_s();
    for (int64_t step = 0; step < b->n_steps && status == FT_OK; step++) {
        status = ft_engine_forward(b->engine, s, b->n_streams, err);
        for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++) {
            token[i] = ft_bench_argmax(ft_engine_logits(b->engine, s[i].first_row), n_vocab);
            status = ft_seq_commit(b->seq[i], &first, 1, NULL, 0, err);
        }
    }
    *seconds = ft_bench_now_s() - begin;
    return status;
}

static ft_status open_ours(bench *b, ft_error *err)
{
    uint32_t n_ctx = (uint32_t)(b->o->n_prompt + b->o->n_predict);
    ft_engine_opts opts = {.model = b->model,
                           .kv_tok = (n_ctx + FT_KV_BLOCK_TOK) * b->n_streams,
                           .max_batch_tok = FT_BENCH_DECODE_PROMPT_MAX,
                           .max_logits = b->n_streams,
                           .n_threads = ft_bench_threads(b->o->common),
                           .kv_type = b->o->common->kv};
    ft_status status = ft_engine_create(&opts, err, &b->engine);
    if (status == FT_OK)
        status = ft_engine_warm(b->engine, NULL, NULL, err, NULL);
    for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++)
        status = ft_seq_create(b->engine, err, &b->seq[i]);
    return status;
}

static void close_ours(bench *b)
{
    for (uint32_t i = 0; i < MAX_STREAMS; i++) {
        ft_seq_destroy(b->seq[i]);
        b->seq[i] = NULL;
    }
    ft_engine_destroy(b->engine);
    b->engine = NULL;
}

/* ---- libllama's ---- */

static ft_status their_prompts(bench *b, int32_t *next, ft_error *err)
{
    int32_t n_prompt = (int32_t)b->o->n_prompt;
    ft_status status = FT_OK;
    llama_memory_clear(llama_get_memory(b->llama.ctx), false);
    for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++) {
        ft_bench_llama_clear(&b->llama);
        for (int32_t j = 0; j < n_prompt; j++)
            ft_bench_llama_add(&b->llama, prompt_token(b, i, (uint32_t)j), j, (int32_t)i,
                               j + 1 == n_prompt);
        status = ft_bench_llama_run(&b->llama, err);
        if (status == FT_OK)
            next[i] =
                ft_bench_argmax(llama_get_logits_ith(b->llama.ctx, -1), (uint32_t)b->llama.n_vocab);
    }
    return status;
}

static ft_status their_round(void *ctx, double *seconds, ft_error *err)
{
    bench *b = ctx;
    int32_t token[MAX_STREAMS];
    ft_status status = their_prompts(b, token, err);
    double begin = ft_bench_now_s();
    for (int64_t step = 0; step < b->n_steps && status == FT_OK; step++) {
        ft_bench_llama_clear(&b->llama);
        for (uint32_t i = 0; i < b->n_streams; i++)
            ft_bench_llama_add(&b->llama, token[i], (int32_t)(b->o->n_prompt + step), (int32_t)i,
                               true);
        status = ft_bench_llama_run(&b->llama, err);
        for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++)
            token[i] = ft_bench_argmax(llama_get_logits_ith(b->llama.ctx, (int32_t)i),
                                       (uint32_t)b->llama.n_vocab);
    }
    *seconds = ft_bench_now_s() - begin;
    ft_bench_llama_pause(&b->llama);
    return status;
}

static ft_status open_theirs(void *ctx, size_t i, ft_error *err)
{
    bench *b = ctx;
    ft_bench_llama_opts opts = {.share = &b->base,
                                .n_ctx = (uint32_t)(b->o->n_prompt + b->o->n_predict),
                                .n_streams = b->n_streams,
                                .max_batch_tok = FT_BENCH_DECODE_PROMPT_MAX,
                                .n_threads = ft_bench_threads(b->o->common),
                                .flash = ways[i].flash,
                                .unified = ways[i].unified};
    return ft_bench_llama_open(&opts, err, &b->llama);
}

/* Opens the way that is fastest over a few tokens. With one stream, streams and a unified cache are
 * the same. */
static ft_status open_best(bench *b, const way **best, ft_error *err)
{
    const ft_bench_llama_trial trial = {.ctx = b,
                                        .llama = &b->llama,
                                        .n_ways = b->n_streams > 1 ? FT_COUNT(ways) : 2,
                                        .n_threads = ft_bench_threads(b->o->common),
                                        .open = open_theirs,
                                        .round = their_round};
    size_t i = 0;
    b->n_steps = b->o->n_predict < TRIAL_STEPS ? b->o->n_predict : TRIAL_STEPS;
    ft_status status = ft_bench_llama_open_best(&trial, err, &i, &b->one_thread);
    b->n_steps = b->o->n_predict;
    *best = &ways[i];
    return status;
}

/* ---- rows ---- */

static double roofline(const bench *b, double seconds)
{
    ft_bench_work work;
    uint64_t seen = (uint64_t)b->n_streams * (uint64_t)(b->o->n_prompt + b->o->n_predict / 2);
    const ft_bench_pass pass = {.rows = b->n_streams,
                                .out_rows = b->n_streams,
                                .kv_tok = seen,
                                .row_tok = seen,
                                .kv = b->o->common->kv};
    ft_bench_pass_work(b->model, &pass, &work);
    return ft_bench_bound_s(&b->machine, &work) * (double)b->o->n_predict / seconds;
}

static ft_status run_row(bench *b, json_t *rows, ft_error *err)
{
    const ft_bench_side sides[] = {{b, our_round, true}, {b, their_round, false}};
    const way *best = NULL;
    double s[2];
    ft_bench_rounds rounds;
    ft_status status = open_ours(b, err);
    if (status == FT_OK)
        status = open_best(b, &best, err);
    if (status == FT_OK)
        status = ft_bench_interleave(b->o->common, sides, 2, err, s, &rounds);
    close_ours(b);
    ft_bench_llama_close(&b->llama);
    if (status != FT_OK)
        return status;
    char name[64];
    snprintf(name, sizeof name, "%s%s", best->name, b->one_thread ? ", 1 thread" : "");
    double tokens = (double)b->o->n_predict * b->n_streams, bound = roofline(b, s[0]),
           least = roofline(b, rounds.least_s[0]);
    json_t *row = json_pack("{s:i, s:f, s:f, s:f, s:s, s:f, s:f, s:i}", "streams",
                            (int)b->n_streams, "foretoken_tok_s", tokens / s[0], "libllama_tok_s",
                            tokens / s[1], "ratio", s[1] / s[0], "libllama", name, "roofline",
                            bound, "roofline_best", least, "rounds", (int)rounds.n);
    json_array_append_new(rows, row);
    ft_bench_row(b->o->common, row);
    return FT_OK;
}

ft_status ft_bench_decode(const ft_bench_decode_opts *opts, const ft_model *model, json_t *report,
                          ft_error *err)
{
    bench state = {.o = opts, .model = model}, *b = &state;
    json_t *rows = json_array();
    ft_bench_list streams;
    const ft_bench_llama_opts base = {.path = b->o->common->path,
                                      .like = model,
                                      .n_ctx = 256,
                                      .n_streams = 1,
                                      .max_batch_tok = 1,
                                      .n_threads = ft_bench_threads(b->o->common)};
    json_object_set_new(report, "rows", rows);
    json_object_set_new(report, "n", json_integer(b->o->n_predict));
    ft_status status = ft_bench_list_parse("--streams", b->o->streams, MAX_STREAMS, err, &streams);
    if (status == FT_OK)
        status = ft_bench_machine_measure(ft_bench_threads(b->o->common), err, &b->machine);
    if (status == FT_OK)
        status = ft_bench_llama_open(&base, err, &b->base);
    if (status != FT_OK)
        return status;
    json_object_set_new(report, "machine", ft_bench_machine_json(&b->machine));
    for (uint32_t i = 0; i < streams.n && status == FT_OK; i++) {
        b->n_streams = streams.value[i];
        status = run_row(b, rows, err);
    }
    ft_bench_llama_close(&b->base);
    return status;
}
