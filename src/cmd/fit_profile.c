// SPDX-License-Identifier: Apache-2.0
// Batches for `fit verify-time`. One text is computed once; the contexts of a batch are copies of its
// beginning, since values do not change the work. Tokens of the rows are drawn anew for every batch.
//
//   compute  1 to 4 prompts' chunks, hundreds of rows, mostly without context
//   memory   1 to max_seqs verifications of 1 to 33 rows, all with logits, behind long contexts
//   mixed    some of those beside one prompt's chunk
#include "cmd/fit_profile.h"

#include <stdlib.h>

#include "base/num.h"
#include "cmd/bench.h"

#define TREE_ROWS 33 /* the root and 32 nodes: SpecEdge's budget */
#define WARM_RUNS 2

typedef struct part {
    uint32_t rows, cached;
    bool verify; /* all rows with logits; else none, as in the chunks of a prompt */
} part;

struct ft_profile {
    ft_profile_opts opts;
    ft_engine *engine;
    ft_seq *text;
    ft_seq **seq; /* [max_seqs] */
    part *parts;  /* [max_seqs] */
    ft_segment *segments;
    int32_t *tokens; /* [max_rows] */
    uint64_t *want;  /* [max_rows / 64 + 1], all ones */
    uint32_t n_parts, n_rows;
};

const char *const ft_regime_name[FT_REGIMES] = {"compute", "memory", "mixed"};

static uint32_t between(ft_rng *rng, uint32_t low, uint32_t high)
{
    return low + ft_rng_below(rng, high - low + 1);
}

static ft_status compute_text(ft_profile *p, ft_error *err)
{
    uint32_t n = p->opts.max_ctx, n_vocab = ft_model_hparams(p->opts.model)->n_vocab;
    int32_t *tokens = malloc(n * sizeof *tokens);
    ft_status status = tokens ? ft_seq_create(p->engine, err, &p->text)
                              : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; tokens && i < n; i++)
        tokens[i] = (int32_t)((1000u + 37u * i) % n_vocab);
    if (status == FT_OK)
        status = ft_bench_read(p->engine, p->text, tokens, n, false, err);
    free(tokens);
    return status;
}

ft_status ft_profile_create(const ft_profile_opts *opts, ft_error *err, ft_profile **out)
{
    uint32_t seqs = opts->max_seqs, rows = opts->max_rows;
    const ft_engine_opts engine = {.model = opts->model,
                                   .kv_tok = (seqs + 1) * (opts->max_ctx + 2 * FT_KV_BLOCK_TOK) +
                                             rows + seqs * FT_KV_BLOCK_TOK,
                                   .max_batch_tok = rows,
                                   .n_threads = opts->n_threads,
                                   .kv_type = opts->kv_type};
    ft_profile *p = calloc(1, sizeof *p);
    ft_status status = FT_OK;
    *out = NULL;
    if (!p)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    p->opts = *opts;
    p->seq = calloc(seqs, sizeof *p->seq);
    p->parts = calloc(seqs, sizeof *p->parts);
    p->segments = calloc(seqs, sizeof *p->segments);
    p->tokens = calloc(rows, sizeof *p->tokens);
    p->want = calloc(rows / 64 + 1, sizeof *p->want);
    if (!p->seq || !p->parts || !p->segments || !p->tokens || !p->want)
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; status == FT_OK && i <= rows / 64; i++)
        p->want[i] = UINT64_MAX;
    if (status == FT_OK)
        status = ft_engine_create(&engine, err, &p->engine);
    if (status == FT_OK)
        status = compute_text(p, err);
    if (status != FT_OK) {
        ft_profile_destroy(p);
        return status;
    }
    *out = p;
    return FT_OK;
}

static void drop_contexts(ft_profile *p)
{
    for (uint32_t i = 0; i < p->n_parts; i++) {
        if (p->seq[i])
            ft_seq_destroy(p->seq[i]);
        p->seq[i] = NULL;
    }
    p->n_parts = p->n_rows = 0;
}

void ft_profile_destroy(ft_profile *p)
{
    if (!p)
        return;
    if (p->seq)
        drop_contexts(p);
    if (p->text)
        ft_seq_destroy(p->text);
    ft_engine_destroy(p->engine);
    free(p->seq);
    free(p->parts);
    free(p->segments);
    free(p->tokens);
    free(p->want);
    free(p);
}

/* ---- shapes ---- */

static void add_part(ft_profile *p, uint32_t rows, uint32_t cached, bool verify)
{
    rows = ft_min_u32(rows, p->opts.max_rows - p->n_rows);
    if (rows == 0 || p->n_parts == p->opts.max_seqs)
        return;
    p->parts[p->n_parts++] = (part){.rows = rows, .cached = cached, .verify = verify};
    p->n_rows += rows;
}

static void add_chunks(ft_profile *p, ft_rng *rng)
{
    uint32_t n = between(rng, 1, 4), rows = between(rng, p->opts.max_rows / 8, p->opts.max_rows);
    for (uint32_t i = 0; i < n; i++)
        add_part(p, rows / n, ft_rng_below(rng, 3) ? 0 : ft_rng_below(rng, p->opts.max_ctx + 1),
                 false);
}

static void add_verifications(ft_profile *p, ft_rng *rng)
{
    uint32_t n = between(rng, 1, p->opts.max_seqs), rows = between(rng, 1, TREE_ROWS);
    uint32_t least = ft_min_u32(16, p->opts.max_ctx);
    for (uint32_t i = 0; i < n; i++)
        add_part(p, between(rng, 1, rows), between(rng, least, p->opts.max_ctx), true);
}

static void draw(ft_profile *p, ft_regime regime, ft_rng *rng)
{
    if (regime != FT_REGIME_COMPUTE)
        add_verifications(p, rng);
    if (regime == FT_REGIME_COMPUTE)
        add_chunks(p, rng);
    if (regime == FT_REGIME_MIXED)
        add_part(p, between(rng, 16, p->opts.max_rows), ft_rng_below(rng, p->opts.max_ctx + 1),
                 false);
}

/* ---- one batch ---- */

static ft_status make_contexts(ft_profile *p, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < p->n_parts && status == FT_OK; i++) {
        ft_seq *shared = NULL;
        status = ft_seq_fork(p->text, err, &shared);
        if (status != FT_OK)
            break;
        ft_seq_truncate(shared, p->parts[i].cached);
        status = ft_seq_dup(shared, err, &p->seq[i]);
        ft_seq_destroy(shared);
    }
    return status;
}

static ft_status run(ft_profile *p, ft_error *err, double *us)
{
    ft_status status = FT_OK;
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const part *it = &p->parts[i];
        p->segments[i] = (ft_segment){.seq = p->seq[i],
                                      .n = it->rows,
                                      .tokens = p->tokens + at,
                                      .want = it->verify ? p->want : NULL};
        at += it->rows;
    }
    double begin = ft_bench_now_s();
    status = ft_engine_forward(p->engine, p->segments, p->n_parts, err);
    *us = (ft_bench_now_s() - begin) * 1e6;
    for (uint32_t i = 0; i < p->n_parts; i++)
        ft_seq_truncate(p->seq[i], p->parts[i].cached);
    return status;
}

ft_status ft_profile_batch(ft_profile *p, ft_regime regime, ft_rng *rng, ft_error *err,
                           ft_pass *pass, double *us)
{
    double once = 0;
    uint32_t n_vocab = ft_model_hparams(p->opts.model)->n_vocab;
    draw(p, regime, rng);
    for (uint32_t i = 0; i < p->n_rows; i++)
        p->tokens[i] = (int32_t)ft_rng_below(rng, n_vocab);
    *pass = (ft_pass){0};
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const part *it = &p->parts[i];
        *pass = ft_pass_plus(*pass, it->cached, it->rows, it->verify ? it->rows : 0);
    }
    ft_status status = make_contexts(p, err);
    for (uint32_t i = 0; i < WARM_RUNS && status == FT_OK; i++)
        status = run(p, err, &once);
    *us = 0;
    for (uint32_t i = 0; i < p->opts.runs && status == FT_OK; i++) {
        status = run(p, err, &once);
        *us = *us == 0 || once < *us ? once : *us;
    }
    drop_contexts(p);
    return status;
}
