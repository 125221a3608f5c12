// SPDX-License-Identifier: Apache-2.0
// bench verify, this engine's side: all sessions' segments in one pass (in as few as hold at most
// FT_BENCH_PASS_TOK rows), the walks down its trees as the server does them (serve/judge.h), then
// each sequence is truncated to its context. Contexts are distinct blocks: one text is computed,
// the others are copied (values do not change the work), so that one text, the target's greedy one,
// goes on from all of them.
#include <stdlib.h>
#include <string.h>

#include "bench/verify.h"
#include "serve/judge.h"

#define ROWS_MAX (FT_BENCH_TREE_MAX + 1)
#define LEARN    24 /* walks before the first round that counts: the head's times by rows */

_Static_assert(FT_BENCH_TREE_MAX == FT_TREE_MAX, "trees must fit");

struct ft_bench_ours {
    ft_bench_job job;
    ft_engine *engine;
    ft_seq **seq; /* [n_sessions] */
    uint32_t n_seq;
    ft_segment *segments; /* [n_sessions] */
    ft_tree *trees;       /* [n_sessions] */
    int32_t *tokens;      /* [n_sessions, ROWS_MAX] root and nodes */
    int32_t parent[ROWS_MAX];
    ft_judge *judge;
    ft_sampling sampling;
    ft_bench_walked walked;
    double kv_bytes_per_tok;
};

uint32_t ft_bench_rows(const ft_bench_job *job)
{
    return job->tree->n + 1;
}

int32_t ft_bench_token(const ft_bench_job *job, uint32_t session, uint32_t i)
{
    return (int32_t)((1000u + 37u * i + 11u * session) % ft_model_hparams(job->model)->n_vocab);
}

static ft_status fill_first(ft_bench_ours *o, ft_error *err)
{
    uint32_t n = o->job.n_ctx;
    int32_t *tokens = malloc(n * sizeof *tokens);
    ft_status status = tokens ? ft_seq_create(o->engine, err, &o->seq[0])
                              : ft_error_set(err, FT_NOMEM, "out of memory");
    o->n_seq = status == FT_OK;
    for (uint32_t i = 0; tokens && i < n; i++)
        tokens[i] = ft_bench_token(&o->job, 0, i);
    if (status == FT_OK)
        status = ft_bench_read(o->engine, o->seq[0], tokens, n, false, err);
    free(tokens);
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
    uint64_t pass_tok = (uint64_t)n * (max_tree + 1);
    pass_tok = pass_tok < 256 ? 256 : pass_tok > FT_BENCH_PASS_TOK ? FT_BENCH_PASS_TOK : pass_tok;
    /* a sequence's last block and its tree's may be partly empty */
    ft_engine_opts opts = {.model = job->model,
                           .kv_tok = n * (job->n_ctx + max_tree + 1 + 2 * FT_KV_BLOCK_TOK),
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
    o->trees = calloc(n, sizeof *o->trees);
    o->tokens = calloc((size_t)n * ROWS_MAX, sizeof *o->tokens);
    o->sampling = ft_sampling_default();
    if (!o->seq || !o->segments || !o->trees || !o->tokens)
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK)
        status = ft_engine_create(&opts, err, &o->engine);
    if (status == FT_OK)
        status = ft_engine_warm(o->engine, NULL, NULL, err, NULL);
    const ft_judge_opts judge = {.engine = o->engine,
                                 .clock = ft_clock_monotonic(),
                                 .max_rows = opts.max_batch_tok,
                                 .n_threads = job->n_threads};
    if (status == FT_OK)
        status = ft_judge_create(&judge, err, &o->judge);
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
    ft_judge_destroy(o->judge);
    ft_engine_destroy(o->engine);
    free(o->seq);
    free(o->segments);
    free(o->trees);
    free(o->tokens);
    free(o);
}

double ft_bench_ours_kv_bytes_per_tok(const ft_bench_ours *o)
{
    return o->kv_bytes_per_tok;
}

void ft_bench_ours_walked(const ft_bench_ours *o, ft_bench_walked *out)
{
    *out = o->walked;
}

/* ---- trees ---- */

/* The target's own n tokens behind the root, which is the same in all sessions. */
static ft_status continue_text(ft_bench_ours *o, int32_t *text, uint32_t n, ft_error *err)
{
    const uint64_t want = 1;
    uint32_t n_vocab = ft_model_hparams(o->job.model)->n_vocab;
    int32_t token = ft_bench_token(&o->job, 0, o->job.n_ctx);
    ft_segment s = {.seq = o->seq[0], .n = 1, .tokens = &token, .want = &want};
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        status = ft_engine_forward(o->engine, &s, 1, err);
        if (status == FT_OK)
            token = text[i] = ft_bench_argmax(ft_engine_logits(o->engine, 0), n_vocab);
    }
    ft_seq_truncate(o->seq[0], o->job.n_ctx);
    return status;
}

/* Where session i's walk is to end: sessions stand for equal shares of all walks. */
static int32_t end_of(const ft_bench_ours *o, uint32_t i)
{
    return ft_bench_tree_end(o->job.tree, (i + 0.5) / o->job.n_sessions);
}

/* A tree in which the nodes on the path to `end`, and no others, have the target's tokens. */
static void plant(const ft_bench_ours *o, const int32_t *text, int32_t end, ft_tree *out)
{
    const ft_bench_tree *tree = o->job.tree;
    int32_t n_vocab = (int32_t)ft_model_hparams(o->job.model)->n_vocab;
    bool path[FT_BENCH_TREE_MAX] = {0};
    uint32_t known = end < 0 ? 0 : tree->depth[end] + 1; /* depth of the last token of text */
    for (int32_t at = end; at >= 0; at = tree->parent[at])
        path[at] = true;
    ft_tree_clear(out);
    for (uint32_t i = 0; i < tree->n; i++) {
        int32_t right = text[tree->depth[i] < known ? tree->depth[i] : known];
        int32_t wrong = (right + 1 + (int32_t)i) % n_vocab;
        ft_tree_add(out, tree->parent[i], path[i] ? right : wrong, 0);
    }
}

static ft_status plant_all(ft_bench_ours *o, ft_error *err)
{
    const ft_bench_tree *tree = o->job.tree;
    int32_t text[FT_BENCH_TREE_MAX + 1], longest = end_of(o, o->job.n_sessions - 1);
    uint32_t n =
        longest < 0 ? 1 : tree->depth[longest] + 2; /* and what the target says behind it */
    ft_status status = continue_text(o, text, n, err);
    o->parent[0] = -1;
    for (uint32_t i = 0; i < tree->n; i++)
        o->parent[i + 1] = tree->parent[i] + 1;
    for (uint32_t i = 0; i < o->job.n_sessions && status == FT_OK; i++) {
        int32_t *tokens = o->tokens + (size_t)i * ROWS_MAX;
        plant(o, text, end_of(o, i), &o->trees[i]);
        tokens[0] = ft_bench_token(&o->job, 0, o->job.n_ctx);
        memcpy(tokens + 1, o->trees[i].token, tree->n * sizeof *tokens);
    }
    return status;
}

/* ---- a round ---- */

static const uint64_t want_all[(ROWS_MAX + 63) / 64] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull};

static void fill_segments(ft_bench_ours *o)
{
    for (uint32_t i = 0; i < o->job.n_sessions; i++)
        o->segments[i] = (ft_segment){.seq = o->seq[i],
                                      .n = ft_bench_rows(&o->job),
                                      .tokens = o->tokens + (size_t)i * ROWS_MAX,
                                      .parent = o->parent,
                                      .want = want_all};
}

/* Down the trees of sessions [first, end), whose pass was the last. */
static ft_status walk(ft_bench_ours *o, uint32_t first, uint32_t end, ft_error *err)
{
    size_t n;
    ft_judge_stats stats;
    ft_judge_clear(o->judge);
    for (uint32_t i = first; i < end; i++) {
        ft_walk *w = ft_judge_add(o->judge);
        w->rule = &ft_rule_exact;
        w->draft = (ft_drafted){
            .tree = &o->trees[i], .sampling = &o->sampling, .position = o->job.n_ctx + 1};
        w->root_row = o->segments[i].first_row;
    }
    ft_status status = ft_judge_run(o->judge, err);
    const ft_walk *w = ft_judge_walks(o->judge, &n);
    for (size_t i = 0; i < n && status == FT_OK; i++)
        o->walked.accepted += (double)w[i].found.n_path / o->job.n_sessions;
    ft_judge_get_stats(o->judge, &stats);
    o->walked.heads += stats.heads;
    o->walked.head_rows += stats.rows;
    return status;
}

/* A pass over as many sessions from `first` on as fit, and `walks` times their walks. *end: the
 * first session that did not fit. */
static ft_status run_pass(ft_bench_ours *o, uint32_t first, int walks, uint32_t *end, ft_error *err)
{
    uint32_t most = FT_BENCH_PASS_TOK / ft_bench_rows(&o->job), left = o->job.n_sessions - first;
    ft_segment *segments = o->segments + first;
    uint32_t n = left < most ? left : most;
    *end = first + n;
    if (o->job.all_logits)
        return ft_engine_forward(o->engine, segments, n, err);
    ft_status status = ft_engine_forward_rows(o->engine, segments, n, err);
    for (int i = 0; i < walks && status == FT_OK; i++)
        status = walk(o, first, *end, err);
    return status;
}

static void drop_trees(ft_bench_ours *o)
{
    for (uint32_t i = 0; i < o->job.n_sessions; i++)
        ft_seq_truncate(o->seq[i], o->job.n_ctx);
}

ft_status ft_bench_ours_set_job(ft_bench_ours *o, const ft_bench_job *job, ft_error *err)
{
    uint32_t end;
    o->job = *job;
    ft_status status = plant_all(o, err);
    fill_segments(o);
    if (status == FT_OK && !job->all_logits)
        status = run_pass(o, 0, LEARN, &end, err);
    drop_trees(o);
    return status;
}

ft_status ft_bench_ours_round(void *ours, double *seconds, ft_error *err)
{
    ft_bench_ours *o = ours;
    ft_status status = FT_OK;
    o->walked = (ft_bench_walked){0};
    fill_segments(o);
    double begin = ft_bench_now_s();
    for (uint32_t at = 0; at < o->job.n_sessions && status == FT_OK;)
        status = run_pass(o, at, 1, &at, err);
    drop_trees(o);
    *seconds = ft_bench_now_s() - begin;
    return status;
}
