// SPDX-License-Identifier: Apache-2.0
// libllama as the other side of a benchmark, in its default configuration for the machine (repacked
// weights, f16 cache). Used by one thread.
#include "cmd/bench_llama.h"

#include <stdlib.h>
#include <unistd.h>

ft_status ft_bench_llama_open(const ft_bench_llama_opts *opts, ft_error *err, ft_bench_llama *out)
{
    *out = (ft_bench_llama){0};
    out->model = llama_model_load_from_file(opts->path, llama_model_default_params());
    if (!out->model)
        return ft_error_set(err, FT_CORRUPT, "libllama cannot load %s", opts->path);
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = opts->n_ctx * opts->n_streams;
    params.n_seq_max = opts->n_streams;
    params.n_batch = params.n_ubatch = opts->max_batch_tok;
    params.n_threads = params.n_threads_batch =
        opts->n_threads > 0 ? opts->n_threads : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    params.flash_attn_type =
        opts->flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    out->ctx = llama_init_from_model(out->model, params);
    if (!out->ctx) {
        ft_bench_llama_close(out);
        return ft_error_set(err, FT_NOMEM, "libllama cannot make a context of %u tokens",
                            params.n_ctx);
    }
    out->batch = llama_batch_init((int32_t)opts->max_batch_tok, 0, 1);
    out->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(out->model));
    return FT_OK;
}

void ft_bench_llama_close(ft_bench_llama *llama)
{
    if (llama->batch.token)
        llama_batch_free(llama->batch);
    llama_free(llama->ctx);
    llama_model_free(llama->model);
    *llama = (ft_bench_llama){0};
}

void ft_bench_llama_clear(ft_bench_llama *llama)
{
    llama->batch.n_tokens = 0;
}

void ft_bench_llama_add(ft_bench_llama *llama, int32_t token, int32_t pos, int32_t stream,
                        bool want)
{
    int32_t i = llama->batch.n_tokens++;
    llama->batch.token[i] = token;
    llama->batch.pos[i] = pos;
    llama->batch.n_seq_id[i] = 1;
    llama->batch.seq_id[i][0] = stream;
    llama->batch.logits[i] = want;
}

ft_status ft_bench_llama_run(ft_bench_llama *llama, ft_error *err)
{
    int code = llama_decode(llama->ctx, llama->batch);
    if (code != 0)
        return ft_error_set(err, FT_INTERNAL, "libllama: llama_decode returns %d", code);
    return FT_OK;
}

/* Decodes a text's tokens from pos on in stream 0, with logits of the last one. */
static ft_status extend(ft_bench_llama *llama, const int32_t *tokens, size_t n, int32_t pos,
                        ft_error *err)
{
    ft_status status = FT_OK;
    size_t most = llama_n_batch(llama->ctx);
    for (size_t at = 0; at < n && status == FT_OK;) {
        ft_bench_llama_clear(llama);
        for (size_t end = n - at < most ? n : at + most; at < end; at++)
            ft_bench_llama_add(llama, tokens[at], pos++, 0, at + 1 == n);
        status = ft_bench_llama_run(llama, err);
    }
    return status;
}

ft_status ft_bench_llama_greedy(ft_bench_llama *llama, const ft_tokens *prompt, ft_error *err,
                                int32_t *out, uint32_t *n)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(llama->model);
    uint32_t most = *n;
    llama_memory_clear(llama_get_memory(llama->ctx), false);
    ft_status status = extend(llama, prompt->id, prompt->n, 0, err);
    for (*n = 0; status == FT_OK && *n < most;) {
        int32_t token =
            ft_bench_argmax(llama_get_logits_ith(llama->ctx, -1), (uint32_t)llama->n_vocab);
        if (llama_vocab_is_eog(vocab, token))
            break;
        out[(*n)++] = token;
        if (*n < most)
            status = extend(llama, &token, 1, (int32_t)(prompt->n + *n - 1), err);
    }
    return status;
}

int32_t ft_bench_argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ft_bench_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
