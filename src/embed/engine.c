// SPDX-License-Identifier: Apache-2.0
// libforetoken's engines, and what all of its handles share: errors, sampling, files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "embed/handles.h"
#include "engine/load.h"
#include "llama.h"

const char *foretoken_version(void)
{
    return FT_VERSION;
}

const char *foretoken_code_name(int code)
{
    return ft_status_name((ft_status)code);
}

static void drop(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

void ft_embed_quiet(void)
{
    ft_log_set_level((ft_log_level)(FT_LOG_ERROR + 1));
    llama_log_set(drop, NULL);
    ggml_log_set(drop, NULL);
}

int ft_embed_error(const ft_error *err, foretoken_error *error)
{
    if (error) {
        const char *message = err->message[0] ? err->message : ft_status_text(err->code);
        error->code = (int)err->code;
        snprintf(error->message, sizeof error->message, "%s", message);
    }
    return (int)err->code;
}

ft_status ft_embed_sampling(const foretoken_sampling *sampling, ft_error *err, ft_sampling *out)
{
    *out = ft_sampling_default();
    if (!sampling)
        return FT_OK;
    out->temperature = sampling->temperature;
    out->top_k = sampling->top_k;
    out->top_p = sampling->top_p == 0 ? 1 : sampling->top_p;
    out->min_p = sampling->min_p;
    out->seed = sampling->seed;
    return ft_sampling_check(out, err);
}

ft_status ft_embed_load(const char *path, ft_error *err, ft_model **model, ft_vocab **vocab)
{
    if (!path)
        return ft_error_set(err, FT_INVALID, "embed: no model file");
    if (!model)
        return ft_vocab_load(path, err, vocab);
    const ft_device_opts device = FT_DEVICE_OPTS_INIT;
    return ft_model_load_on(&device, &(ft_model_opts){.path = path, .vocab = vocab}, err, model);
}

int foretoken_engine_open(const char *path, uint32_t kv_tokens, int threads, foretoken_error *error,
                          foretoken_engine **out)
{
    ft_error err = {0};
    foretoken_engine *e = calloc(1, sizeof *e);
    *out = NULL;
    ft_embed_quiet();
    ft_status status = e ? FT_OK : ft_error_set(&err, FT_NOMEM, "embed: no memory for an engine");
    if (status == FT_OK && kv_tokens == 0)
        status = ft_error_set(&err, FT_INVALID, "embed: a pool of 0 tokens holds no text");
    if (status == FT_OK)
        status = ft_embed_load(path, &err, &e->model, &e->vocab);
    if (status == FT_OK) {
        const ft_engine_opts opts = {.model = e->model,
                                     .kv_tok = kv_tokens,
                                     .max_logits = FORETOKEN_DRAFT_MAX + 1,
                                     .n_threads = threads};
        status = ft_engine_create(&opts, &err, &e->engine);
    }
    if (status != FT_OK) {
        foretoken_engine_close(e);
        return ft_embed_error(&err, error);
    }
    *out = e;
    return 0;
}

void foretoken_engine_close(foretoken_engine *engine)
{
    if (!engine)
        return;
    ft_engine_destroy(engine->engine);
    ft_vocab_destroy(engine->vocab);
    ft_model_destroy(engine->model);
    free(engine);
}

uint64_t foretoken_engine_vocabulary(const foretoken_engine *engine)
{
    return ft_vocab_fingerprint(engine->vocab);
}

int foretoken_engine_tokenize(const foretoken_engine *engine, const char *text, int32_t *tokens,
                              size_t most, size_t *n, foretoken_error *error)
{
    ft_error err = {0};
    ft_tokens all = {0};
    *n = 0;
    if (ft_vocab_tokenize(engine->vocab, text, strlen(text), NULL, &err, &all) == FT_OK) {
        *n = all.n;
        if (all.n > 0 && most > 0)
            memcpy(tokens, all.id, (all.n < most ? all.n : most) * sizeof *tokens);
    }
    ft_tokens_deinit(&all);
    return err.code == FT_OK ? 0 : ft_embed_error(&err, error);
}

size_t foretoken_engine_piece(const foretoken_engine *engine, int32_t token, char *bytes,
                              size_t most)
{
    ft_buf piece = {0};
    if (ft_vocab_piece(engine->vocab, token, false, &piece) != FT_OK)
        piece.len = 0;
    const size_t n = piece.len;
    if (n > 0 && most > 0)
        memcpy(bytes, piece.data, n < most ? n : most);
    ft_buf_deinit(&piece);
    return n;
}

bool foretoken_engine_is_end(const foretoken_engine *engine, int32_t token)
{
    return ft_vocab_is_eog(engine->vocab, token);
}
