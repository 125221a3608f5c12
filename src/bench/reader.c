// SPDX-License-Identifier: Apache-2.0
// What reader.h says: a model, an engine with one sequence, a sampler. Its owner calls.
#include "bench/reader.h"

#include "bench/bench.h"
#include "engine/products.h"

#define CHUNK 256 /* tokens of one forward */

ft_status ft_bench_reader_init(const ft_bench_reader_opts *opts, ft_error *err,
                               ft_bench_reader *out)
{
    const uint32_t kv_tok = (uint32_t)opts->n_ctx;
    const ft_model_opts mo = {
        .path = opts->path, .choose = ft_products_choose, .progress = opts->loading};
    *out = (ft_bench_reader){0};
    ft_status status = ft_model_load(&mo, err, &out->model);
    if (status != FT_OK)
        return status;
    const ft_hparams *hp = ft_model_hparams(out->model);
    out->n_vocab = hp->n_vocab;
    out->n_ctx = hp->n_ctx_train < kv_tok ? hp->n_ctx_train : kv_tok;
    const ft_engine_opts eo = {.model = out->model,
                               .kv_tok = kv_tok,
                               .max_batch_tok = CHUNK,
                               .max_logits = 1,
                               .n_threads = (int)opts->n_threads};
    status = ft_engine_create(&eo, err, &out->engine);
    if (status == FT_OK)
        status = ft_seq_create(out->engine, err, &out->seq);
    if (status == FT_OK)
        status = ft_sampler_create(hp->n_vocab, err, &out->sampler);
    return status;
}

ft_status ft_bench_reader_init_pair(const ft_bench_reader_opts *opts, const char *draft_path,
                                    ft_error *err, ft_bench_reader *target, ft_bench_reader *draft)
{
    ft_bench_reader_opts of_draft = *opts;
    of_draft.path = draft_path;
    *draft = (ft_bench_reader){0};
    ft_status status = ft_bench_reader_init(opts, err, target);
    if (status == FT_OK)
        status = ft_bench_reader_init(&of_draft, err, draft);
    if (status == FT_OK && target->n_vocab != draft->n_vocab)
        status = ft_error_set(err, FT_INVALID,
                              "draft vocabulary (%u) is not the target's (%u): pass a draft of the "
                              "same family with -md",
                              draft->n_vocab, target->n_vocab);
    return status;
}

void ft_bench_reader_deinit(ft_bench_reader *reader)
{
    ft_sampler_destroy(reader->sampler);
    if (reader->seq)
        ft_seq_destroy(reader->seq);
    ft_engine_destroy(reader->engine);
    ft_model_destroy(reader->model);
}

ft_status ft_bench_reader_feed(ft_bench_reader *reader, const int32_t *tokens, uint32_t n,
                               ft_error *err, const float **logits)
{
    ft_status status = ft_bench_read(reader->engine, reader->seq, tokens, n, true, err);
    if (status == FT_OK)
        *logits = ft_engine_logits(reader->engine, 0);
    return status;
}
