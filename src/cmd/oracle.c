// SPDX-License-Identifier: Apache-2.0
// libllama as oracle: one context, one sequence, cleared for each prompt. Not for timing: see
// bench_decode.c for that.
#include "cmd/oracle.h"

#include <stdlib.h>

#include "llama.h"

struct ft_oracle {
    struct llama_model *model;
    struct llama_context *ctx;
    const struct llama_vocab *vocab;
    uint32_t n_batch;
};

void ft_oracle_destroy(ft_oracle *oracle)
{
    if (!oracle)
        return;
    llama_free(oracle->ctx);
    llama_model_free(oracle->model);
    free(oracle);
}

ft_status ft_oracle_create(const char *path, uint32_t n_ctx, int n_threads, ft_error *err,
                           ft_oracle **out)
{
    *out = NULL;
    ft_oracle *oracle = calloc(1, sizeof *oracle);
    if (!oracle)
        return ft_error_set(err, FT_NOMEM, "no memory for libllama");
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = n_ctx;
    params.n_batch = params.n_ubatch = oracle->n_batch = 512;
    params.n_threads = params.n_threads_batch = n_threads;
    params.no_perf = true;
    oracle->model = llama_model_load_from_file(path, llama_model_default_params());
    if (oracle->model)
        oracle->ctx = llama_init_from_model(oracle->model, params);
    if (!oracle->ctx) {
        ft_oracle_destroy(oracle);
        return ft_error_set(err, FT_IO, "%s: libllama cannot load it", path);
    }
    oracle->vocab = llama_model_get_vocab(oracle->model);
    *out = oracle;
    return FT_OK;
}

static int32_t argmax(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Decodes tokens [n] in batches; logits of the last one are ready afterwards. */
static ft_status decode(ft_oracle *oracle, const int32_t *tokens, uint32_t n, ft_error *err)
{
    for (uint32_t at = 0; at < n;) {
        uint32_t chunk = n - at < oracle->n_batch ? n - at : oracle->n_batch;
        /* libllama only reads the tokens */
        int32_t *chunk_tokens = (int32_t *)(uintptr_t)(tokens + at);
        int code = llama_decode(oracle->ctx, llama_batch_get_one(chunk_tokens, (int32_t)chunk));
        if (code != 0)
            return ft_error_set(err, FT_INTERNAL, "llama_decode failed with code %d", code);
        at += chunk;
    }
    return FT_OK;
}

ft_status ft_oracle_greedy(ft_oracle *oracle, const int32_t *prompt, uint32_t n_prompt, uint32_t n,
                           ft_error *err, int32_t *out, uint32_t *n_out)
{
    int32_t n_vocab = llama_vocab_n_tokens(oracle->vocab);
    *n_out = 0;
    llama_memory_clear(llama_get_memory(oracle->ctx), true);
    ft_status status = decode(oracle, prompt, n_prompt, err);
    while (status == FT_OK && *n_out < n) {
        int32_t token = argmax(llama_get_logits_ith(oracle->ctx, -1), n_vocab);
        if (llama_vocab_is_eog(oracle->vocab, token))
            break;
        out[(*n_out)++] = token;
        if (*n_out < n)
            status = decode(oracle, &token, 1, err);
    }
    return status;
}
