// SPDX-License-Identifier: Apache-2.0
// bench logits: this engine's logits against libllama's on the same file and prompt, beside
// libllama's own spread between its flash and its plain attention. Quantized files differ by the
// noise of rounding activations; the spread says how large that is.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench_llama.h"
#include "cmd/cmd.h"
#include "engine/engine.h"
#include "model/vocab.h"

#define MAX_TOK 512

typedef struct diff {
    double max, nmse;
    int argmax_differs; /* rows */
} diff;

/* Any text would do; this one is ordinary English with a number and some code. */
static const char default_prompt[] =
    "The lighthouse keeper wrote in his log that the storm of 1887 had taken the boat, the garden "
    "and most of the roof. \"We shall need 40 planks,\" he said, and his daughter answered: for (int "
    "i = 0; i < 40; i++) carry(plank[i]); which is to say, one at a time.";

static ft_status our_logits(const ft_model *model, ft_attn_route route, const ft_tokens *tokens,
                            float *out, ft_error *err)
{
    uint32_t n = (uint32_t)tokens->n, n_vocab = ft_model_hparams(model)->n_vocab;
    uint64_t want[MAX_TOK / 64];
    ft_engine *engine = NULL;
    ft_seq *seq = NULL;
    ft_engine_opts opts = {.model = model, .kv_tok = n, .max_batch_tok = n, .route = route};
    memset(want, 0xff, sizeof want);
    ft_segment s = {.n = n, .tokens = tokens->id, .want = want};
    ft_status status = ft_engine_create(&opts, err, &engine);
    if (status == FT_OK)
        status = ft_seq_create(engine, err, &seq);
    s.seq = seq;
    if (status == FT_OK)
        status = ft_engine_forward(engine, &s, 1, err);
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        memcpy(out + (size_t)i * n_vocab, ft_engine_logits(engine, i), n_vocab * sizeof *out);
    ft_seq_destroy(seq);
    ft_engine_destroy(engine);
    return status;
}

static ft_status their_logits(const char *path, bool flash, const ft_tokens *tokens, float *out,
                              ft_error *err)
{
    uint32_t n = (uint32_t)tokens->n;
    ft_bench_llama llama;
    ft_bench_llama_opts opts = {.path = path,
                                .n_ctx = n,
                                .n_streams = 1,
                                .max_batch_tok = n,
                                .n_threads = 2,
                                .flash = flash};
    ft_status status = ft_bench_llama_open(&opts, err, &llama);
    if (status != FT_OK)
        return status;
    ft_bench_llama_clear(&llama);
    for (uint32_t i = 0; i < n; i++)
        ft_bench_llama_add(&llama, tokens->id[i], (int32_t)i, 0, true);
    status = ft_bench_llama_run(&llama, err);
    if (status == FT_OK)
        memcpy(out, llama_get_logits(llama.ctx), (size_t)n * (uint32_t)llama.n_vocab * sizeof *out);
    ft_bench_llama_close(&llama);
    return status;
}

static diff compare(const float *a, const float *b, uint32_t n, uint32_t n_vocab)
{
    diff d = {0};
    double error = 0, power = 0;
    for (size_t i = 0; i < (size_t)n * n_vocab; i++) {
        double e = (double)a[i] - b[i];
        d.max = fabs(e) > d.max ? fabs(e) : d.max;
        error += e * e;
        power += (double)b[i] * b[i];
    }
    for (uint32_t r = 0; r < n; r++)
        d.argmax_differs += ft_bench_argmax(a + (size_t)r * n_vocab, n_vocab) !=
                            ft_bench_argmax(b + (size_t)r * n_vocab, n_vocab);
    d.nmse = error / power;
    return d;
}

static ft_status measure(const char *path, const char *prompt, json_t *rows, ft_error *err)
{
    static const char *const names[] = {"foretoken/cpu - libllama", "foretoken/portable - libllama",
                                        "libllama/flash - libllama"};
    ft_model *model = NULL;
    ft_vocab *vocab = NULL;
    ft_tokens tokens = {0};
    float *logits[4] = {0}; /* ours by CPU, ours portable, libllama flash, libllama plain */
    uint32_t n = 0, n_vocab = 0;
    ft_model_opts opts = {.path = path};
    ft_status status = ft_model_load(&opts, err, &model);
    if (status == FT_OK)
        status = ft_vocab_load(path, err, &vocab);
    if (status == FT_OK)
        status = ft_vocab_tokenize(vocab, prompt, strlen(prompt), FT_TOKENIZE_BOS, err, &tokens);
    if (status == FT_OK && (tokens.n == 0 || tokens.n > MAX_TOK))
        status = ft_error_set(err, FT_INVALID, "the prompt has %zu tokens; 1 to %d are allowed",
                              tokens.n, MAX_TOK);
    if (status == FT_OK) {
        n = (uint32_t)tokens.n;
        n_vocab = ft_model_hparams(model)->n_vocab;
    }
    for (int i = 0; i < 4 && status == FT_OK; i++) {
        logits[i] = malloc((size_t)n * n_vocab * sizeof(float));
        if (!logits[i])
            status = ft_error_set(err, FT_NOMEM, "out of memory");
        else if (i < 2)
            status = our_logits(model, i ? FT_ATTN_PORTABLE : FT_ATTN_CPU, &tokens, logits[i], err);
        else
            status = their_logits(path, i == 2, &tokens, logits[i], err);
    }
    for (int i = 0; i < 3 && status == FT_OK; i++) {
        diff d = compare(logits[i], logits[3], n, n_vocab);
        json_array_append_new(rows, json_pack("{s:s, s:i, s:f, s:f, s:i}", "pair", names[i], "rows",
                                              (int)n, "max_error", d.max, "nmse", d.nmse,
                                              "argmax_differs", d.argmax_differs));
    }
    for (int i = 0; i < 4; i++)
        free(logits[i]);
    ft_tokens_deinit(&tokens);
    ft_vocab_destroy(vocab);
    ft_model_destroy(model);
    return status;
}

static void print_rows(const json_t *rows)
{
    size_t i;
    const json_t *row;
    printf("%-30s %6s %11s %11s %s\n", "pair", "rows", "max error", "NMSE", "other argmax");
    json_array_foreach(rows, i, row)
    {
        printf("%-30s %6lld %11.4g %11.3g %lld\n", json_string_value(json_object_get(row, "pair")),
               (long long)json_integer_value(json_object_get(row, "rows")),
               json_real_value(json_object_get(row, "max_error")),
               json_real_value(json_object_get(row, "nmse")),
               (long long)json_integer_value(json_object_get(row, "argmax_differs")));
    }
}

int ft_cmd_bench_logits(int argc, char **argv)
{
    const char *path = NULL, *prompt = default_prompt;
    bool json = false;
    const ft_flag flags[] = {
        {"--model", "-m", FT_FLAG_STRING, &path, "FILE", "model (GGUF)", 0, 0},
        {"--prompt", "-p", FT_FLAG_STRING, &prompt, "TEXT", "what to compare on", 0, 0},
        {"--json", NULL, FT_FLAG_BOOL, &json, NULL, "print one JSON object", 0, 0},
    };
    const ft_cmd_usage usage = {.usage = "bench logits -m FILE [flags]",
                                .about = "Logits of a prompt by both attention routes against "
                                         "libllama's, beside libllama's own spread.",
                                .flags = flags,
                                .n_flags = FT_COUNT(flags)};
    int n_words, code = ft_cmd_parse(&usage, argc, argv, &n_words);
    if (code >= 0)
        return code;
    ft_error err = {0};
    json_t *rows = json_array();
    ft_status status = path ? measure(path, prompt, rows, &err)
                            : ft_error_set(&err, FT_INVALID, "bench logits: pass a model with -m");
    if (status != FT_OK) {
        json_decref(rows);
        return ft_cmd_fail(&err);
    }
    if (json)
        return ft_cmd_print_json(json_pack("{s:s, s:o}", "model", path, "rows", rows));
    print_rows(rows);
    json_decref(rows);
    return 0;
}
