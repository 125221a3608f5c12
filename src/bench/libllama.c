// SPDX-License-Identifier: Apache-2.0
// libllama as the other side of a benchmark: weights repacked where ggml can, f16 cache, and a
// thread pool that lives as long as the context (without one, libllama makes threads in every
// pass). Used by one thread.
#include "bench/libllama.h"

#include <stdlib.h>

#include "base/cpu.h"
#include "ggml-cpu.h"

/* Asked between operations; true ends the pass. */
static bool give_up(void *ctx)
{
    const ft_bench_llama *llama = ctx;
    return llama->give_up_s > 0 && ft_bench_now_s() > llama->give_up_s;
}

static struct llama_context_params context_params(const ft_bench_llama_opts *opts,
                                                  ft_bench_llama *llama)
{
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = opts->n_ctx * opts->n_streams;
    params.n_seq_max = opts->n_seq ? opts->n_seq : opts->n_streams;
    params.n_batch = opts->max_batch_tok;
    params.n_ubatch = opts->max_ubatch_tok ? opts->max_ubatch_tok : opts->max_batch_tok;
    params.n_threads = params.n_threads_batch = ft_cpu_threads(opts->n_threads);
    params.flash_attn_type =
        opts->flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = params.type_v = opts->bf16 ? GGML_TYPE_BF16
                                    : opts->q8 ? GGML_TYPE_Q8_0
                                               : GGML_TYPE_F16;
    params.kv_unified = opts->unified;
    params.abort_callback = give_up;
    params.abort_callback_data = llama;
    return params;
}

/* Loads the file with as many layers on the same devices as our side has. */
static struct llama_model *load(const char *path, const ft_model *like, bool mapped)
{
    struct llama_model_params params = llama_model_default_params();
    ggml_backend_dev_t devices[FT_DEVICES_MAX + 1] = {NULL}; /* NULL ends the list */
    for (size_t i = 0; like && i < ft_model_devices(like)->n; i++)
        devices[i] = ft_model_devices(like)->dev[i];
    params.devices = devices;
    params.use_extra_bufts = !mapped;
    params.n_gpu_layers = like ? (int32_t)ft_model_n_gpu_layers(like) : 0;
    return llama_model_load_from_file(path, params);
}

/* The model and the threads: borrowed or new. */
static ft_status open_base(const ft_bench_llama_opts *opts, int n_threads, ft_error *err,
                           ft_bench_llama *out)
{
    if (opts->share) {
        out->model = opts->share->model;
        out->pool = opts->share->pool;
        out->borrows = true;
        return FT_OK;
    }
    struct ggml_threadpool_params threads = ggml_threadpool_params_default(n_threads);
    out->pool = ggml_threadpool_new(&threads);
    out->model = load(opts->path, opts->like, opts->mapped);
    if (!out->model)
        return ft_error_set(err, FT_CORRUPT, "libllama cannot load %s", opts->path);
    return FT_OK;
}

ft_status ft_bench_llama_open(const ft_bench_llama_opts *opts, ft_error *err, ft_bench_llama *out)
{
    *out = (ft_bench_llama){0};
    struct llama_context_params params = context_params(opts, out);
    ft_status status = open_base(opts, params.n_threads, err, out);
    if (status == FT_OK) {
        out->ctx = llama_init_from_model(out->model, params);
        if (!out->ctx)
            status = ft_error_set(err, FT_NOMEM, "libllama cannot make a context of %u tokens",
                                  params.n_ctx);
    }
    if (status != FT_OK) {
        ft_bench_llama_close(out);
        return status;
    }
    if (out->pool)
        llama_attach_threadpool(out->ctx, out->pool, out->pool);
    out->batch = llama_batch_init((int32_t)opts->max_batch_tok, 0, FT_BENCH_SEQ_MAX);
    out->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(out->model));
    return FT_OK;
}

void ft_bench_llama_close(ft_bench_llama *llama)
{
    if (llama->batch.token)
        llama_batch_free(llama->batch);
    llama_free(llama->ctx);
    if (!llama->borrows) {
        llama_model_free(llama->model);
        ggml_threadpool_free(llama->pool);
    }
    *llama = (ft_bench_llama){0};
}

void ft_bench_llama_clear(ft_bench_llama *llama)
{
    llama->batch.n_tokens = 0;
}

void ft_bench_llama_add(ft_bench_llama *llama, int32_t token, int32_t pos, int32_t stream,
                        bool want)
{
    ft_bench_llama_add_shared(llama, token, pos, &stream, 1);
    llama->batch.logits[llama->batch.n_tokens - 1] = want;
}

void ft_bench_llama_add_shared(ft_bench_llama *llama, int32_t token, int32_t pos,
                               const int32_t *seqs, uint32_t n)
{
    int32_t i = llama->batch.n_tokens++;
    llama->batch.token[i] = token;
    llama->batch.pos[i] = pos;
    llama->batch.n_seq_id[i] = (int32_t)n;
    for (uint32_t s = 0; s < n; s++)
        llama->batch.seq_id[i][s] = seqs[s];
    llama->batch.logits[i] = true;
}

static void drop(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)level, (void)text, (void)ctx;
}

/* Decodes. A pass that is given up is no fault, but libllama would log three errors. */
static int decode(ft_bench_llama *llama)
{
    ggml_log_callback log = NULL;
    void *log_ctx = NULL;
    const bool may_end = llama->give_up_s > 0;
    if (may_end) {
        llama_log_get(&log, &log_ctx);
        llama_log_set(drop, NULL);
    }
    int code = llama_decode(llama->ctx, llama->batch);
    llama_synchronize(llama->ctx); /* on a device it only began */
    if (may_end)
        llama_log_set(log, log_ctx);
    return code;
}

ft_status ft_bench_llama_run(ft_bench_llama *llama, ft_error *err)
{
    int code = decode(llama);
    if (code == 2 && give_up(llama))
        return ft_error_set(err, FT_TIMEOUT, "libllama: the pass takes too long");
    if (code != 0)
        return ft_error_set(err, FT_INTERNAL, "libllama: llama_decode returns %d", code);
    return FT_OK;
}

void ft_bench_llama_pause(ft_bench_llama *llama)
{
    if (llama->pool)
        ggml_threadpool_pause(llama->pool);
}

void ft_bench_llama_resume(ft_bench_llama *llama)
{
    if (llama->pool)
        ggml_threadpool_resume(llama->pool);
}

ft_status ft_bench_llama_extend(ft_bench_llama *llama, const int32_t *tokens, size_t n, int32_t pos,
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
    ft_status status = ft_bench_llama_extend(llama, prompt->id, prompt->n, 0, err);
    for (*n = 0; status == FT_OK && *n < most;) {
        int32_t token =
            ft_bench_argmax(llama_get_logits_ith(llama->ctx, -1), (uint32_t)llama->n_vocab);
        if (llama_vocab_is_eog(vocab, token))
            break;
        out[(*n)++] = token;
        if (*n < most)
            status = ft_bench_llama_extend(llama, &token, 1, (int32_t)(prompt->n + *n - 1), err);
    }
    return status;
}

/* The times of one way that is open; *best_s: the least of all ways, 0: none yet. */
static ft_status try_way(const ft_bench_llama_trial *t, ft_error *err, double *best_s, bool *better,
                         bool *one_thread)
{
    ft_status status = FT_OK;
    double s = 0;
    for (int turn = 0; turn < 4 && status == FT_OK; turn++) {
        bool one = turn % 2;
        if ((one && t->n_threads == 1) || (turn > 1 && *best_s > 1))
            continue;
        llama_set_n_threads(t->llama->ctx, one ? 1 : t->n_threads, one ? 1 : t->n_threads);
        status = t->round(t->ctx, &s, err);
        if (status == FT_OK && (*best_s == 0 || s < *best_s)) {
            *best_s = s;
            *better = true;
            *one_thread = one;
        }
    }
    return status;
}

ft_status ft_bench_llama_open_best(const ft_bench_llama_trial *t, ft_error *err, size_t *best,
                                   bool *one_thread)
{
    double best_s = 0;
    ft_status status = FT_OK;
    for (size_t i = 0; i < t->n_ways && status == FT_OK; i++) {
        bool better = false;
        status = t->open(t->ctx, i, err);
        if (status == FT_OK)
            status = try_way(t, err, &best_s, &better, one_thread);
        if (better)
            *best = i;
        ft_bench_llama_close(t->llama);
    }
    if (status == FT_OK)
        status = t->open(t->ctx, *best, err);
    if (status == FT_OK && *one_thread)
        llama_set_n_threads(t->llama->ctx, 1, 1);
    return status;
}
