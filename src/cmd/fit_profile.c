// SPDX-License-Identifier: Apache-2.0
// Batches for `fit verify-time` and `fit runtime`. Values of tokens do not change the work, so one
// text is computed once and copied: one context for each sequence of a batch. A sequence begins
// with a part of it.
//
// verify-time:
//   compute  1 to 4 prompts' chunks, hundreds of rows, mostly without context
//   memory   1 to max_seqs verifications of 1 to 33 rows, all with logits, behind long contexts
//   mixed    some of those beside one prompt's chunk
// runtime, 1 to max_seqs tasks:
//   compute  their prompts and, in a verification, what was drafted behind them
//   memory   behind texts whose KV is there: a token of a draft, or a root and what was drafted
#include "cmd/fit_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/bench.h"

#define WARM_RUNS  2
#define REPEAT_US  20e3 /* short passes are repeated for this long; the shortest is undisturbed */
#define TREE_ROWS  33   /* the root and 32 nodes: SpecEdge's budget */
#define DRAFT_MOST 10   /* tokens of a draft: l_max of Zhu et al., IV */

struct ft_profile {
    ft_profile_opts opts;
    ft_engine *engine;
    ft_seq **context;     /* [max_seqs] of max_ctx tokens, each with memory of its own */
    ft_segment *segments; /* [max_seqs], of the present batch; they own their sequences */
    int32_t *tokens;      /* [max_rows] */
    uint64_t *want;       /* [max_rows / 64 + max_seqs], of the present batch */
};

const char *const ft_regime_name[FT_REGIMES] = {"compute", "memory", "mixed"};

static uint32_t between(ft_rng *rng, uint32_t low, uint32_t high)
{
    return low + ft_rng_below(rng, high - low + 1);
}

/* 1 to most; the logarithm is uniform, so a few rows are as frequent as many. */
static uint32_t some(ft_rng *rng, uint32_t most)
{
    return (uint32_t)exp2(ft_rng_unit(rng) * log2((double)most + 1));
}

/* ---- shapes ---- */

static void add_part(const ft_profile *p, ft_profile_batch *b, const ft_profile_part *part)
{
    uint32_t rows = ft_min_u32(part->rows, p->opts.max_rows - b->pass.rows);
    if (rows == 0 || b->n_parts == p->opts.max_seqs)
        return;
    const ft_profile_part it = {rows, part->cached, ft_min_u32(part->n_out, rows)};
    b->parts[b->n_parts++] = it;
    b->pass = ft_pass_plus(b->pass, it.cached, it.rows, it.n_out);
}

static void add_chunks(const ft_profile *p, ft_rng *rng, ft_profile_batch *b)
{
    uint32_t n = between(rng, 1, 4), rows = between(rng, p->opts.max_rows / 8, p->opts.max_rows);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t cached = ft_rng_below(rng, 3) ? 0 : ft_rng_below(rng, p->opts.max_ctx + 1);
        add_part(p, b, &(ft_profile_part){rows / n, cached, 0});
    }
}

static void add_verifications(const ft_profile *p, ft_rng *rng, ft_profile_batch *b)
{
    uint32_t n = some(rng, p->opts.max_seqs), rows = some(rng, TREE_ROWS);
    uint32_t least = ft_min_u32(16, p->opts.max_ctx);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tree = between(rng, 1, rows), cached = between(rng, least, p->opts.max_ctx);
        add_part(p, b, &(ft_profile_part){tree, cached, tree});
    }
}

ft_status ft_profile_draw(const ft_profile *p, ft_regime regime, ft_rng *rng, ft_error *err,
                          ft_profile_batch *out)
{
    *out =
        (ft_profile_batch){.regime = regime, .parts = calloc(p->opts.max_seqs, sizeof *out->parts)};
    if (!out->parts)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    if (regime == FT_REGIME_COMPUTE)
        add_chunks(p, rng, out);
    else
        add_verifications(p, rng, out);
    if (regime == FT_REGIME_MIXED) {
        uint32_t rows = between(rng, 16, p->opts.max_rows);
        uint32_t cached = ft_rng_below(rng, p->opts.max_ctx + 1);
        add_part(p, out, &(ft_profile_part){rows, cached, 0});
    }
    return FT_OK;
}

/* Every prompt has room in the pass: it is computed as a whole. */
static void add_prompts(const ft_profile *p, uint32_t n_new, ft_rng *rng, ft_profile_batch *b)
{
    const uint32_t n = some(rng, ft_min_u32(p->opts.max_seqs, p->opts.max_rows / (n_new + 1)));
    const uint32_t most = some(rng, p->opts.max_rows / n - n_new);
    for (uint32_t i = 0; i < n; i++)
        add_part(p, b, &(ft_profile_part){between(rng, 1, most) + n_new, 0, n_new + 1});
}

static void add_texts(const ft_profile *p, uint32_t n_new, ft_rng *rng, ft_profile_batch *b)
{
    const uint32_t n = some(rng, ft_min_u32(p->opts.max_seqs, p->opts.max_rows / (n_new + 1)));
    const uint32_t most = some(rng, p->opts.max_ctx);
    for (uint32_t i = 0; i < n; i++)
        add_part(p, b, &(ft_profile_part){n_new + 1, between(rng, 1, most), n_new + 1});
}

ft_status ft_profile_draw_step(const ft_profile *p, ft_profile_role role, ft_regime regime,
                               ft_rng *rng, ft_error *err, ft_profile_batch *out)
{
    const uint32_t n_new = role == FT_PROFILE_VERIFY ? between(rng, 1, DRAFT_MOST) : 0;
    *out =
        (ft_profile_batch){.regime = regime, .parts = calloc(p->opts.max_seqs, sizeof *out->parts)};
    if (!out->parts)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    if (regime == FT_REGIME_COMPUTE)
        add_prompts(p, n_new, rng, out);
    else
        add_texts(p, n_new, rng, out);
    return FT_OK;
}

void ft_profile_batch_deinit(ft_profile_batch *batch)
{
    free(batch->parts);
    *batch = (ft_profile_batch){0};
}

/* ---- one pass ---- */

/* A sequence of the first n tokens of a context. Its last block is a copy, because a pass writes
 * into it. */
static ft_status begin_of(const ft_seq *context, uint32_t n, ft_error *err, ft_seq **out)
{
    ft_seq *shared = NULL;
    ft_status status = ft_seq_fork(context, err, &shared);
    if (status != FT_OK)
        return status;
    ft_seq_truncate(shared, n);
    status = ft_seq_fork(shared, err, out);
    ft_seq_destroy(shared);
    return status;
}

/* The words of a part's rows with logits; NULL: there are none. */
static const uint64_t *mark(const ft_profile_part *part, uint64_t *want)
{
    if (part->n_out == 0)
        return NULL;
    memset(want, 0, (part->rows + 63) / 64 * sizeof *want);
    for (uint32_t i = part->rows - part->n_out; i < part->rows; i++)
        want[i / 64] |= 1ull << (i % 64);
    return want;
}

/* Makes sequences and segments of a batch, and runs a pass of one row: in it the engine makes the
 * copies of blocks, whose time is not the batch's. */
static ft_status prepare(ft_profile *p, const ft_profile_batch *b, ft_rng *rng, ft_error *err)
{
    ft_segment one = {.n = 1, .tokens = p->tokens};
    ft_status status = FT_OK;
    uint32_t at = 0, word = 0, n_vocab = ft_model_hparams(p->opts.model)->n_vocab;
    for (uint32_t i = 0; i < b->pass.rows; i++)
        p->tokens[i] = (int32_t)ft_rng_below(rng, n_vocab);
    for (uint32_t i = 0; i < b->n_parts && status == FT_OK; i++) {
        const ft_profile_part *it = &b->parts[i];
        p->segments[i] =
            (ft_segment){.n = it->rows, .tokens = p->tokens + at, .want = mark(it, p->want + word)};
        status = begin_of(p->context[i], it->cached, err, &p->segments[i].seq);
        at += it->rows;
        word += (it->rows + 63) / 64;
    }
    one.seq = p->segments[0].seq;
    if (status == FT_OK)
        status = ft_engine_forward(p->engine, &one, 1, err);
    if (status == FT_OK)
        ft_seq_truncate(one.seq, b->parts[0].cached);
    return status;
}

ft_status ft_profile_time(ft_profile *p, const ft_profile_batch *b, ft_rng *rng, ft_error *err,
                          double *us)
{
    double spent_us = 0;
    ft_status status = prepare(p, b, rng, err);
    *us = INFINITY;
    while (status == FT_OK && spent_us < REPEAT_US) {
        double begin = ft_bench_now_s();
        status = ft_engine_forward(p->engine, p->segments, b->n_parts, err);
        double once_us = (ft_bench_now_s() - begin) * 1e6;
        spent_us += once_us;
        *us = fmin(*us, once_us);
        for (uint32_t i = 0; i < b->n_parts; i++)
            ft_seq_truncate(p->segments[i].seq, b->parts[i].cached);
    }
    for (uint32_t i = 0; i < b->n_parts; i++) {
        ft_seq_destroy(p->segments[i].seq);
        p->segments[i].seq = NULL;
    }
    return status;
}

/* ---- creation ---- */

static ft_status compute_contexts(ft_profile *p, ft_error *err)
{
    uint32_t n = p->opts.max_ctx, n_vocab = ft_model_hparams(p->opts.model)->n_vocab;
    int32_t *tokens = malloc(n * sizeof *tokens);
    ft_status status = tokens ? ft_seq_create(p->engine, err, &p->context[0])
                              : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; tokens && i < n; i++)
        tokens[i] = (int32_t)((1000u + 37u * i) % n_vocab);
    if (status == FT_OK)
        status = ft_bench_read(p->engine, p->context[0], tokens, n, false, err);
    for (uint32_t i = 1; i < p->opts.max_seqs && status == FT_OK; i++)
        status = ft_seq_dup(p->context[0], err, &p->context[i]);
    free(tokens);
    return status;
}

/* The engine runs the first pass of a size on one thread, to compare (engine/pace.h); after this
 * none of the batches meets a first pass. */
static ft_status warm_up(ft_profile *p, ft_error *err)
{
    ft_status status = FT_OK;
    ft_rng rng;
    ft_rng_init(&rng, 0);
    for (uint32_t rows = 1; rows < 2 * p->opts.max_rows && status == FT_OK; rows *= 2) {
        const uint32_t n = ft_min_u32(rows, p->opts.max_rows);
        ft_profile_part part = {.rows = n, .n_out = n};
        const ft_profile_batch b = {
            .parts = &part, .n_parts = 1, .pass = ft_pass_plus((ft_pass){0}, 0, n, 0)};
        double us;
        for (int i = 0; i < WARM_RUNS && status == FT_OK; i++)
            status = ft_profile_time(p, &b, &rng, err, &us);
    }
    return status;
}

ft_status ft_profile_create(const ft_profile_opts *opts, ft_error *err, ft_profile **out)
{
    uint32_t seqs = opts->max_seqs, rows = opts->max_rows;
    const ft_engine_opts engine = {.model = opts->model,
                                   .kv_tok = seqs * (opts->max_ctx + 4 * FT_KV_BLOCK_TOK) + rows,
                                   .max_batch_tok = rows,
                                   .n_threads = opts->n_threads,
                                   .kv_type = opts->kv_type};
    ft_profile *p = calloc(1, sizeof *p);
    ft_status status = FT_OK;
    *out = NULL;
    if (!p)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    p->opts = *opts;
    p->context = calloc(seqs, sizeof *p->context);
    p->segments = calloc(seqs, sizeof *p->segments);
    p->tokens = calloc(rows, sizeof *p->tokens);
    p->want = calloc(rows / 64 + seqs, sizeof *p->want);
    if (!p->context || !p->segments || !p->tokens || !p->want)
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK)
        status = ft_engine_create(&engine, err, &p->engine);
    if (status == FT_OK)
        status = compute_contexts(p, err);
    if (status == FT_OK)
        status = warm_up(p, err);
    if (status != FT_OK) {
        ft_profile_destroy(p);
        return status;
    }
    *out = p;
    return FT_OK;
}

void ft_profile_destroy(ft_profile *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->context && i < p->opts.max_seqs; i++)
        ft_seq_destroy(p->context[i]);
    ft_engine_destroy(p->engine);
    free(p->context);
    free(p->segments);
    free(p->tokens);
    free(p->want);
    free(p);
}
