// SPDX-License-Identifier: Apache-2.0
// bench decode: greedy decoding by this engine and by libllama on the same file and threads, in
// interleaved rounds. Timed is the loop of one pass and one argmax a token and stream; loading and the
// prompt are not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/bench_llama.h"
#include "cmd/cmd.h"
#include "engine/engine.h"

#define MAX_STREAMS 256
#define MAX_ROUNDS  100

typedef struct args {
    const char *path, *streams;
    int64_t n_predict, n_prompt, n_threads, rounds;
    bool json;
} args;

typedef struct bench {
    const args *args;
    ft_model *model;
    ft_engine *engine;
    ft_seq *seq[MAX_STREAMS];
    ft_bench_llama llama;
    uint32_t n_streams;
    double ours[MAX_ROUNDS], theirs[MAX_ROUNDS]; /* tokens/s */
} bench;

/* Some token of the prompt; any will do for a measurement, but streams should differ. */
static int32_t prompt_token(const bench *b, uint32_t stream, uint32_t i)
{
    return (int32_t)((1000u + 37u * i + 11u * stream) % ft_model_hparams(b->model)->n_vocab);
}

static double per_second(const bench *b, int64_t begin_us)
{
    ft_clock clock = ft_clock_monotonic();
    double us = (double)(ft_clock_now_us(&clock) - begin_us);
    return (double)b->args->n_predict * b->n_streams * 1e6 / us;
}

static int64_t now_us(void)
{
    ft_clock clock = ft_clock_monotonic();
    return ft_clock_now_us(&clock);
}

static ft_status our_prompt(bench *b, uint32_t stream, int32_t *next, ft_error *err)
{
    uint32_t n = (uint32_t)b->args->n_prompt, path[512];
    int32_t tokens[512];
    uint64_t want[512 / 64] = {0};
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

static ft_status our_round(bench *b, double *tok_s, ft_error *err)
{
    int32_t token[MAX_STREAMS];
    ft_segment s[MAX_STREAMS];
    const uint64_t want = 1;
    const uint32_t first = 0, n_vocab = ft_model_hparams(b->model)->n_vocab;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++) {
        status = our_prompt(b, i, &token[i], err);
        s[i] = (ft_segment){.seq = b->seq[i], .n = 1, .tokens = &token[i], .want = &want};
    }
    int64_t begin = now_us();
    for (int64_t step = 0; step < b->args->n_predict && status == FT_OK; step++) {
        status = ft_engine_forward(b->engine, s, b->n_streams, err);
        for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++) {
            token[i] = ft_bench_argmax(ft_engine_logits(b->engine, s[i].first_row), n_vocab);
            status = ft_seq_commit(b->seq[i], &first, 1, NULL, 0, err);
        }
    }
    *tok_s = per_second(b, begin);
    return status;
}

static ft_status their_round(bench *b, double *tok_s, ft_error *err)
{
    int32_t token[MAX_STREAMS], n_prompt = (int32_t)b->args->n_prompt;
    ft_status status = FT_OK;
    llama_memory_clear(llama_get_memory(b->llama.ctx), false);
    for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++) {
        ft_bench_llama_clear(&b->llama);
        for (int32_t j = 0; j < n_prompt; j++)
            ft_bench_llama_add(&b->llama, prompt_token(b, i, (uint32_t)j), j, (int32_t)i,
                               j + 1 == n_prompt);
        status = ft_bench_llama_run(&b->llama, err);
        if (status == FT_OK)
            token[i] =
                ft_bench_argmax(llama_get_logits_ith(b->llama.ctx, -1), (uint32_t)b->llama.n_vocab);
    }
    int64_t begin = now_us();
    for (int64_t step = 0; step < b->args->n_predict && status == FT_OK; step++) {
        ft_bench_llama_clear(&b->llama);
        for (uint32_t i = 0; i < b->n_streams; i++)
            ft_bench_llama_add(&b->llama, token[i], n_prompt + (int32_t)step, (int32_t)i, true);
        status = ft_bench_llama_run(&b->llama, err);
        for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++)
            token[i] = ft_bench_argmax(llama_get_logits_ith(b->llama.ctx, (int32_t)i),
                                       (uint32_t)b->llama.n_vocab);
    }
    *tok_s = per_second(b, begin);
    return status;
}

static ft_status open_sides(bench *b, ft_error *err)
{
    const args *a = b->args;
    uint32_t n_ctx = (uint32_t)(a->n_prompt + a->n_predict);
    uint32_t n_batch = b->n_streams > 512 ? b->n_streams : 512;
    ft_engine_opts opts = {.model = b->model,
                           .kv_tok = (n_ctx + 16) * b->n_streams,
                           .max_batch_tok = n_batch,
                           .max_logits = b->n_streams,
                           .n_threads = (int)a->n_threads};
    ft_bench_llama_opts llama = {.path = a->path,
                                 .n_ctx = n_ctx + 32,
                                 .n_streams = b->n_streams,
                                 .max_batch_tok = n_batch,
                                 .n_threads = (int)a->n_threads,
                                 .flash = true};
    ft_status status = ft_engine_create(&opts, err, &b->engine);
    if (status == FT_OK)
        status = ft_bench_llama_open(&llama, err, &b->llama);
    for (uint32_t i = 0; i < b->n_streams && status == FT_OK; i++)
        status = ft_seq_create(b->engine, err, &b->seq[i]);
    return status;
}

static void close_sides(bench *b)
{
    for (uint32_t i = 0; i < MAX_STREAMS; i++) {
        ft_seq_destroy(b->seq[i]);
        b->seq[i] = NULL;
    }
    ft_engine_destroy(b->engine);
    b->engine = NULL;
    ft_bench_llama_close(&b->llama);
}

static ft_status run_row(bench *b, ft_error *err, json_t *rows)
{
    double warm;
    uint32_t n = (uint32_t)b->args->rounds;
    ft_status status = open_sides(b, err);
    if (status == FT_OK)
        status = our_round(b, &warm, err);
    if (status == FT_OK)
        status = their_round(b, &warm, err);
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        status = our_round(b, &b->ours[i], err);
        if (status == FT_OK)
            status = their_round(b, &b->theirs[i], err);
    }
    close_sides(b);
    if (status != FT_OK)
        return status;
    double ours = ft_bench_median(b->ours, n), theirs = ft_bench_median(b->theirs, n);
    if (!b->args->json)
        printf("%7u %16.1f %16.1f %8.3f\n", b->n_streams, ours, theirs, ours / theirs);
    json_array_append_new(rows, json_pack("{s:i, s:f, s:f, s:f}", "streams", (int)b->n_streams,
                                          "foretoken_tok_s", ours, "libllama_tok_s", theirs,
                                          "ratio", ours / theirs));
    return FT_OK;
}

static ft_status run_all(bench *b, ft_error *err, json_t *rows)
{
    const char *at = b->args->streams;
    if (!b->args->json)
        printf("%7s %16s %16s %8s\n", "streams", "foretoken tok/s", "libllama tok/s", "ratio");
    for (;;) {
        char *end;
        unsigned long n = strtoul(at, &end, 10);
        if (end == at || n == 0 || n > MAX_STREAMS || (*end && *end != ','))
            return ft_error_set(err, FT_INVALID,
                                "--streams: '%s' is no list of numbers from 1 to %d",
                                b->args->streams, MAX_STREAMS);
        b->n_streams = (uint32_t)n;
        ft_status status = run_row(b, err, rows);
        if (status != FT_OK || !*end)
            return status;
        at = end + 1;
    }
}

int ft_cmd_bench_decode(int argc, char **argv)
{
    args a = {.streams = "1", .n_predict = 128, .n_prompt = 64, .n_threads = 2, .rounds = 5};
    const ft_flag flags[] = {
        {"--model", "-m", FT_FLAG_STRING, &a.path, "FILE", "model (GGUF)", 0, 0},
        {"--n-predict", "-n", FT_FLAG_INT, &a.n_predict, "N", "tokens a stream and round", 1,
         65536},
        {"--n-prompt", NULL, FT_FLAG_INT, &a.n_prompt, "N", "tokens of the prompt", 1, 512},
        {"--threads", "-t", FT_FLAG_INT, &a.n_threads, "N", "threads of either side", 1, 512},
        {"--streams", NULL, FT_FLAG_STRING, &a.streams, "LIST", "parallel streams, as in 1,16", 0,
         0},
        {"--rounds", NULL, FT_FLAG_INT, &a.rounds, "N", "timed rounds of either side", 1,
         MAX_ROUNDS},
        {"--json", NULL, FT_FLAG_BOOL, &a.json, NULL, "print one JSON object", 0, 0},
    };
    const ft_cmd_usage usage = {.usage = "bench decode -m FILE [flags]",
                                .about = "Greedy decoding by this engine and by libllama, in "
                                         "interleaved rounds; medians and their ratio.",
                                .flags = flags,
                                .n_flags = FT_COUNT(flags)};
    int n_words, code = ft_cmd_parse(&usage, argc, argv, &n_words);
    if (code >= 0)
        return code;
    ft_error err = {0};
    bench *b = calloc(1, sizeof *b);
    json_t *rows = json_array();
    ft_model_opts opts = {.path = a.path};
    ft_status status = FT_OK;
    if (!b || !rows)
        status = ft_error_set(&err, FT_NOMEM, "out of memory");
    else if (!a.path)
        status = ft_error_set(&err, FT_INVALID, "bench decode: pass a model with -m");
    else
        status = ft_model_load(&opts, &err, &b->model);
    if (status == FT_OK) {
        b->args = &a;
        status = run_all(b, &err, rows);
        ft_model_destroy(b->model);
    }
    free(b);
    if (status != FT_OK) {
        json_decref(rows);
        return ft_cmd_fail(&err);
    }
    if (!a.json) {
        json_decref(rows);
        return 0;
    }
    return ft_cmd_print_json(json_pack("{s:s, s:i, s:i, s:i, s:o}", "model", a.path, "threads",
                                       (int)a.n_threads, "n", (int)a.n_predict, "rounds",
                                       (int)a.rounds, "rows", rows));
}
