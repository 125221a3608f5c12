// SPDX-License-Identifier: Apache-2.0
// Texts of the target, written token by token with rule `exact`, and the draft model behind a
// recording: what is asked for the first time it computes, and then it is known. One thread.
#include "bench/ablate_texts.h"

#include <stdlib.h>

#include "bench/bench.h"
#include "engine/products.h"

typedef struct writer {
    ft_model *model;
    ft_engine *engine;
    ft_seq *seq;
    ft_sampler *sampler;
} writer;

static void writer_deinit(writer *w)
{
    ft_sampler_destroy(w->sampler);
    if (w->seq)
        ft_seq_destroy(w->seq);
    ft_engine_destroy(w->engine);
    ft_model_destroy(w->model);
}

static ft_status writer_init(writer *w, const ft_bench_ablate_opts *opts, uint32_t kv_tok,
                             ft_error *err)
{
    const ft_model_opts model = {
        .path = opts->target, .choose = ft_products_choose, .progress = opts->loading};
    ft_status status = ft_model_load(&model, err, &w->model);
    if (status != FT_OK)
        return status;
    const ft_engine_opts engine = {.model = w->model,
                                   .kv_tok = kv_tok,
                                   .max_batch_tok = FT_BENCH_READ_TOK,
                                   .max_logits = 1,
                                   .n_threads = (int)opts->threads};
    status = ft_engine_create(&engine, err, &w->engine);
    if (status == FT_OK)
        status = ft_seq_create(w->engine, err, &w->seq);
    if (status == FT_OK)
        status = ft_sampler_create(ft_model_hparams(w->model)->n_vocab, err, &w->sampler);
    return status;
}

static ft_status write_one(writer *w, const ft_ablate_texts *t, const ft_sampling *s,
                           ft_bench_load_prompt *p, uint32_t most, ft_error *err)
{
    ft_seq_truncate(w->seq, 0);
    ft_status status =
        ft_bench_read(w->engine, w->seq, p->tokens.id, (uint32_t)p->tokens.n, true, err);
    while (status == FT_OK && p->text.n < most) {
        const uint32_t at = (uint32_t)(p->tokens.n + p->text.n);
        int32_t token = ft_sampler_draw(w->sampler, s, ft_engine_logits(w->engine, 0), at);
        status = ft_tokens_append(&p->text, &token, 1);
        if (status != FT_OK || ft_vocab_is_eog(t->vocab, token))
            break;
        status = ft_bench_read(w->engine, w->seq, &token, 1, true, err);
    }
    return status;
}

static ft_status write_set(writer *w, ft_ablate_texts *t, int warmth,
                           const ft_bench_ablate_opts *opts, ft_error *err)
{
    ft_bench_load_set *set = &t->set[warmth];
    ft_status status = FT_OK;
    t->texts[warmth] = calloc(set->n, sizeof *t->texts[warmth]);
    if (!t->texts[warmth])
        return ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    for (uint32_t i = 0; i < set->n && status == FT_OK; i++) {
        ft_bench_load_prompt *p = &set->prompts[i];
        ft_sampling s = ft_sampling_default();
        s.temperature = (float)warmth;
        s.seed = i;
        status = write_one(w, t, &s, p, (uint32_t)opts->tokens, err);
        t->texts[warmth][i] =
            (ft_ablate_text){.prompt = &p->tokens, .text = &p->text, .sampling = s};
        ft_progress_report(&opts->progress, i + 1, set->n);
        if (status == FT_OK && opts->stop && opts->stop())
            status = ft_error_set(err, FT_CANCELLED, "bench ablate: stopped");
    }
    return status;
}

static ft_status write_all(ft_ablate_texts *t, const ft_bench_ablate_opts *opts, uint32_t kv_tok,
                           ft_error *err)
{
    writer w = {0};
    ft_status status = writer_init(&w, opts, kv_tok, err);
    for (int i = 0; i < FT_ABLATE_WARMTHS && status == FT_OK; i++)
        status = write_set(&w, t, i, opts, err);
    writer_deinit(&w);
    return status;
}

ft_status ft_ablate_texts_make(const ft_bench_ablate_opts *opts, ft_error *err,
                               ft_ablate_texts *out)
{
    const ft_model_opts draft = {
        .path = opts->draft, .choose = ft_products_choose, .progress = opts->loading};
    *out = (ft_ablate_texts){0};
    ft_status status = ft_vocab_load(opts->target, err, &out->vocab);
    for (int i = 0; i < FT_ABLATE_WARMTHS && status == FT_OK; i++) {
        const ft_bench_load_set_opts set = {.path = opts->prompts,
                                            .vocab = out->vocab,
                                            .limit = (uint32_t)opts->texts,
                                            .longest = 1024,
                                            .multiple = 1};
        status = ft_bench_load_set_read(&set, err, &out->set[i]);
    }
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &out->draft);
    if (status != FT_OK)
        return status;
    const uint32_t kv_tok = out->set[0].longest + (uint32_t)opts->tokens + 8 * FT_TREE_MAX;
    const ft_bench_load_drafts_opts drafts = {.model = out->draft,
                                              .kv_tok = 2 * kv_tok,
                                              .branch = 2 * ft_draft_params_tree(1, 1, 1).branch,
                                              .n_threads = (int)opts->threads};
    status = ft_bench_load_drafts_init(&out->drafts, &drafts, err);
    return status == FT_OK ? write_all(out, opts, kv_tok, err) : status;
}

void ft_ablate_texts_deinit(ft_ablate_texts *texts)
{
    for (int i = 0; i < FT_ABLATE_WARMTHS; i++) {
        free(texts->texts[i]);
        ft_bench_load_set_deinit(&texts->set[i]);
    }
    ft_bench_load_drafts_deinit(&texts->drafts);
    ft_model_destroy(texts->draft);
    ft_vocab_destroy(texts->vocab);
}

ft_ablate_world_opts ft_ablate_texts_world(ft_ablate_texts *texts, const ft_ablate_case *how)
{
    return (ft_ablate_world_opts){.vocab = texts->vocab,
                                  .drafts = &texts->drafts,
                                  .texts = texts->texts[how->warmth],
                                  .n = texts->set[how->warmth].n};
}
