// SPDX-License-Identifier: Apache-2.0
// bench verify, this engine's side: all sessions' segments in one pass (in as few as hold at most
// FT_BENCH_PASS_TOK nodes), then each sequence is truncated to its context. Contexts are distinct
// blocks: one text is computed, the others are copied (values do not change the work).
#include <stdlib.h>
#include <string.h>

#include "cmd/bench_verify.h"

struct ft_bench_ours {
    ft_bench_job job;
    ft_engine *engine;
    ft_seq **seq; /* [n_sessions] */
    uint32_t n_seq;
    ft_segment *segments; /* [n_sessions] */
    int32_t *tokens;      /* [n_sessions, FT_BENCH_TREE_MAX] */
    double kv_bytes_per_tok;
};

int32_t ft_bench_token(const ft_bench_job *job, uint32_t session, uint32_t i)
{
    return (int32_t)((1000u + 37u * i + 11u * session) % ft_model_hparams(job->model)->n_vocab);
}

static ft_status fill_first(ft_bench_ours *o, ft_error *err)
{
    uint32_t n_ctx = o->job.n_ctx, path[256];
    int32_t tokens[256];
    ft_status status = ft_seq_create(o->engine, err, &o->seq[0]);
    o->n_seq = status == FT_OK;
    for (uint32_t i = 0; i < 256; i++)
        path[i] = i;
    for (uint32_t at = 0; at < n_ctx && status == FT_OK;) {
        uint32_t n = n_ctx - at < 256 ? n_ctx - at : 256;
        ft_segment s = {.seq = o->seq[0], .n = n, .tokens = tokens};
        for (uint32_t i = 0; i < n; i++)
            tokens[i] = ft_bench_token(&o->job, 0, at + i);
        status = ft_engine_forward(o->engine, &s, 1, err);
        if (status == FT_OK)
            status = ft_seq_commit(o->seq[0], path, n, NULL, 0, err);
        at += n;
    }
    return status;
}

static ft_status fill(ft_bench_ours *o, ft_error *err)
{
    ft_engine_stats stats;
    ft_status status = fill_first(o, err);
    while (o->n_seq < o->job.n_sessions && status == FT_OK) {
        status = ft_seq_dup(o->seq[0], err, &o->seq[o->n_seq]);
        o->n_seq += status == FT_OK;
    }
    ft_engine_get_stats(o->engine, &stats);
    o->kv_bytes_per_tok = (double)stats.kv_bytes / stats.blocks *
                          (stats.blocks - stats.blocks_free) /
                          ((double)o->job.n_sessions * o->job.n_ctx);
    return status;
}

ft_status ft_bench_ours_create(const ft_bench_job *job, uint32_t max_tree, ft_error *err,
                               ft_bench_ours **out)
{
    uint32_t n = job->n_sessions;
    uint64_t pass_tok = (uint64_t)n * max_tree;
    pass_tok = pass_tok < 256 ? 256 : pass_tok > FT_BENCH_PASS_TOK ? FT_BENCH_PASS_TOK : pass_tok;
    /* a sequence's last block and its tree's may be partly empty */
    ft_engine_opts opts = {.model = job->model,
                           .kv_tok = n * (job->n_ctx + max_tree + 2 * FT_KV_BLOCK_TOK),
                           .max_batch_tok = (uint32_t)pass_tok,
                           .n_threads = job->n_threads,
                           .kv_type = job->kv};
    ft_bench_ours *o = calloc(1, sizeof *o);
    ft_status status = FT_OK;
    *out = NULL;
    if (!o)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    o->job = *job;
    o->seq = calloc(n, sizeof *o->seq);
    o->segments = calloc(n, sizeof *o->segments);
    o->tokens = calloc((size_t)n * FT_BENCH_TREE_MAX, sizeof *o->tokens);
    if (!o->seq || !o->segments || !o->tokens)
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK)
        status = ft_engine_create(&opts, err, &o->engine);
    if (status == FT_OK)
        status = fill(o, err);
    if (status != FT_OK) {
        ft_bench_ours_destroy(o);
        return status;
    }
    *out = o;
    return FT_OK;
}

void ft_bench_ours_destroy(ft_bench_ours *o)
{
    if (!o)
        return;
    for (uint32_t i = 0; i < o->n_seq; i++)
        ft_seq_destroy(o->seq[i]);
    ft_engine_destroy(o->engine);
    free(o->seq);
    free(o->segments);
    free(o->tokens);
    free(o);
}

void ft_bench_ours_set_job(ft_bench_ours *o, const ft_bench_job *job)
{
    o->job = *job;
}

double ft_bench_ours_kv_bytes_per_tok(const ft_bench_ours *o)
{
    return o->kv_bytes_per_tok;
}

static const uint64_t want_all[FT_BENCH_TREE_MAX / 64] = {~0ull, ~0ull, ~0ull, ~0ull};

static void fill_segments(ft_bench_ours *o)
{
    const ft_bench_tree *tree = o->job.tree;
    for (uint32_t i = 0; i < o->job.n_sessions; i++) {
        int32_t *tokens = o->tokens + (size_t)i * FT_BENCH_TREE_MAX;
        for (uint32_t j = 0; j < tree->n; j++)
            tokens[j] = ft_bench_token(&o->job, i, o->job.n_ctx + j);
        o->segments[i] = (ft_segment){.seq = o->seq[i],
                                      .n = tree->n,
                                      .tokens = tokens,
                                      .parent = tree->parent,
                                      .want = want_all};
    }
}

ft_status ft_bench_ours_round(void *ours, double *seconds, ft_error *err)
{
    ft_bench_ours *o = ours;
    uint32_t n = o->job.n_sessions, most = FT_BENCH_PASS_TOK / o->job.tree->n;
    ft_status status = FT_OK;
    fill_segments(o);
    double begin = ft_bench_now_s();
    for (uint32_t at = 0; at < n && status == FT_OK; at += most)
        status = ft_engine_forward(o->engine, o->segments + at, n - at < most ? n - at : most, err);
    for (uint32_t i = 0; i < n; i++)
        ft_seq_truncate(o->seq[i], o->job.n_ctx);
    *seconds = ft_bench_now_s() - begin;
    return status;
}
