// SPDX-License-Identifier: Apache-2.0
// bench verify, libllama's side. A tree is verified by tokens of several sequences: each path from
// root to leaf is a sequence, a node belongs to the sequences of the leaves below it, and the
// context belongs to all sequences of its session. A libllama context has at most 256 sequences. If
// all leaves of all sessions fit into them, every session keeps its ids from round to round. If
// not, every session keeps one id, the others are lent to as many sessions at a time as they
// suffice for (sharing the context with them is bookkeeping only), and a round takes several
// batches.
//
// Invariant between rounds: the cells hold the contexts and nothing else.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/verify.h"

#define UBATCH_TOK FT_BENCH_UBATCH_TOK

typedef struct group {
    ft_bench_llama llama;
    uint32_t first, n; /* sessions */
} group;

struct ft_bench_theirs {
    ft_bench_job job;
    ft_bench_way way;
    group *groups;
    uint32_t n_groups;
    uint32_t n_ids;   /* sequence ids a session and batch: its leaves */
    bool lent;        /* ids but one are lent */
    uint32_t at_once; /* sessions a batch */
    int32_t *seqs;    /* [tree->n, n_ids]: of a session's nodes, as 0.. n_ids - 1 */
    uint32_t *n_seqs; /* [tree->n] */
    double limit_s;
    uint32_t n_batches; /* of a round */
};

/* ---- opening ---- */

ft_status ft_bench_base_open(const ft_model *like, int n_threads, ft_error *err, ft_bench_base *out)
{
    *out = (ft_bench_base){0};
    const ft_bench_llama_opts opts = {.path = ft_model_path(like),
                                      .like = like,
                                      .n_ctx = 256,
                                      .n_streams = 1,
                                      .max_batch_tok = 1,
                                      .n_threads = n_threads};
    ft_status status = ft_bench_llama_open(&opts, err, &out->llama);
    if (status == FT_OK)
        ft_bench_llama_pause(&out->llama);
    return status;
}

void ft_bench_base_close(ft_bench_base *base)
{
    ft_bench_llama_close(&base->llama);
    for (size_t i = 0; i < sizeof base->state / sizeof *base->state; i++)
        free(base->state[i].data);
    *base = (ft_bench_base){0};
}

/* Which leaves lie below each node. */
static ft_status list_leaves(ft_bench_theirs *t, ft_error *err)
{
    const ft_bench_tree *tree = t->job.tree;
    t->n_ids = tree->n_leaves;
    t->seqs = calloc((size_t)tree->n * t->n_ids, sizeof *t->seqs);
    t->n_seqs = calloc(tree->n, sizeof *t->n_seqs);
    if (!t->seqs || !t->n_seqs)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t leaf = 0; leaf < tree->n; leaf++)
        for (uint32_t i = 0; tree->leaf[leaf] >= 0 && i <= leaf; i++)
            if (ft_bench_tree_above(tree, i, leaf))
                t->seqs[i * t->n_ids + t->n_seqs[i]++] = tree->leaf[leaf];
    return FT_OK;
}

static ft_status plan_ids(ft_bench_theirs *t, ft_error *err)
{
    uint32_t n = t->way.per_ctx, most = FT_BENCH_PASS_TOK / ft_bench_rows(&t->job);
    if (n > FT_BENCH_SEQ_MAX)
        return ft_error_set(err, FT_UNSUPPORTED, "libllama knows at most %d sequences",
                            FT_BENCH_SEQ_MAX);
    t->lent = n * t->n_ids > FT_BENCH_SEQ_MAX;
    if (t->lent) {
        uint32_t spare = (FT_BENCH_SEQ_MAX - n) / (t->n_ids - 1);
        if (spare == 0)
            return ft_error_set(err, FT_UNSUPPORTED,
                                "%u sessions leave no sequence ids (of %d) for a tree of %u leaves",
                                n, FT_BENCH_SEQ_MAX, t->n_ids);
        most = spare < most ? spare : most;
    }
    t->at_once = most < n ? most : n;
    return FT_OK;
}

/* Sequence id of leaf `leaf` of session i of a group, which is the at-th of its batch. */
static int32_t seq_id(const ft_bench_theirs *t, uint32_t i, uint32_t at, int32_t leaf)
{
    if (!t->lent)
        return (int32_t)(i * t->n_ids) + leaf;
    return leaf == 0 ? (int32_t)i : (int32_t)(t->way.per_ctx + at * (t->n_ids - 1)) + leaf - 1;
}

static ft_bench_llama_opts llama_opts(const ft_bench_theirs *t, uint32_t n_sessions,
                                      const ft_bench_llama *base)
{
    uint32_t batch = t->at_once * ft_bench_rows(&t->job), ids = n_sessions * t->n_ids;
    uint32_t room = t->job.n_ctx + ft_bench_rows(&t->job);
    uint32_t fill = t->way.unified ? batch : UBATCH_TOK; /* streams read their first text here */
    return (ft_bench_llama_opts){
        .share = base,
        .n_ctx = t->way.unified ? room : (room + 255) / 256 * 256,
        .n_streams = n_sessions,
        .n_seq = t->lent ? FT_BENCH_SEQ_MAX : ids,
        .max_batch_tok = batch > fill ? batch : fill,
        .max_ubatch_tok = batch < UBATCH_TOK ? batch : UBATCH_TOK,
        .n_threads = t->job.n_threads,
        .flash = t->way.flash,
        .bf16 = t->way.bf16,
        .unified = t->way.unified,
    };
}

static ft_status read_text(const ft_bench_job *job, ft_bench_llama *llama, ft_error *err)
{
    int32_t *tokens = calloc(job->n_ctx, sizeof *tokens);
    if (!tokens)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; i < job->n_ctx; i++)
        tokens[i] = ft_bench_token(job, 0, i);
    ft_status status = ft_bench_llama_extend(llama, tokens, job->n_ctx, 0, err);
    free(tokens);
    return status;
}

static int state_of(const ft_bench_way *way)
{
    return (int)way->flash + 2 * (int)way->bf16;
}

static ft_status make_state(const ft_bench_theirs *t, ft_bench_base *base, ft_error *err)
{
    uint32_t n = t->job.n_ctx;
    int kind = state_of(&t->way);
    ft_bench_llama one = {0};
    const ft_bench_llama_opts opts = {.share = &base->llama,
                                      .n_ctx = n,
                                      .n_streams = 1,
                                      .max_batch_tok = n < UBATCH_TOK ? n : UBATCH_TOK,
                                      .n_threads = t->job.n_threads,
                                      .flash = t->way.flash,
                                      .bf16 = t->way.bf16};
    if (base->state[kind].n_ctx == n)
        return FT_OK;
    base->state[kind].n_ctx = 0;
    free(base->state[kind].data);
    base->state[kind].data = NULL;
    ft_status status = ft_bench_llama_open(&opts, err, &one);
    if (status == FT_OK)
        status = read_text(&t->job, &one, err);
    if (status == FT_OK) {
        size_t size = llama_state_seq_get_size(one.ctx, 0);
        uint8_t *data = base->state[kind].data = malloc(size);
        base->state[kind].size = size;
        if (data && llama_state_seq_get_data(one.ctx, data, size, 0) == size)
            base->state[kind].n_ctx = n;
        else
            status = ft_error_set(err, FT_NOMEM, "libllama: no state of %u tokens", n);
    }
    ft_bench_llama_close(&one);
    return status;
}

/* A copy between streams copies the cells' memory. */
static ft_status fill_streams(ft_bench_theirs *t, group *g, ft_error *err)
{
    ft_status status = read_text(&t->job, &g->llama, err);
    for (uint32_t i = 1; i < g->n && status == FT_OK; i++)
        llama_memory_seq_cp(llama_get_memory(g->llama.ctx), 0, (int32_t)i, -1, -1);
    return status;
}

static ft_status fill_group(ft_bench_theirs *t, group *g, const ft_bench_base *base, ft_error *err)
{
    const uint8_t *state = base->state[state_of(&t->way)].data;
    size_t size = base->state[state_of(&t->way)].size;
    if (!t->way.unified)
        return fill_streams(t, g, err);
    llama_memory_t memory = llama_get_memory(g->llama.ctx);
    for (uint32_t i = 0; i < g->n; i++) {
        int32_t first = seq_id(t, i, 0, 0);
        if (llama_state_seq_set_data(g->llama.ctx, state, size, first) != size)
            return ft_error_set(err, FT_INTERNAL, "libllama: cannot set the state of session %u",
                                g->first + i);
        for (int32_t leaf = 1; !t->lent && leaf < (int32_t)t->n_ids; leaf++)
            llama_memory_seq_cp(memory, first, seq_id(t, i, 0, leaf), -1, -1);
    }
    return FT_OK;
}

static ft_status open_groups(ft_bench_theirs *t, ft_bench_base *base, ft_error *err)
{
    uint32_t n = t->job.n_sessions, per = t->way.per_ctx;
    t->groups = calloc((n + per - 1) / per, sizeof *t->groups);
    ft_status status =
        t->groups ? make_state(t, base, err) : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t first = 0; first < n && status == FT_OK; first += per) {
        group *g = &t->groups[t->n_groups];
        g->first = first;
        g->n = n - first < per ? n - first : per;
        ft_bench_llama_opts opts = llama_opts(t, g->n, &base->llama);
        status = ft_bench_llama_open(&opts, err, &g->llama);
        if (status == FT_OK) {
            t->n_groups++;
            t->n_batches += (g->n + t->at_once - 1) / t->at_once;
            status = fill_group(t, g, base, err);
        }
    }
    return status;
}

ft_status ft_bench_theirs_create(const ft_bench_job *job, const ft_bench_way *way,
                                 ft_bench_base *base, ft_error *err, ft_bench_theirs **out)
{
    ft_bench_theirs *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    t->job = *job;
    t->way = *way;
    ft_status status = list_leaves(t, err);
    if (status == FT_OK && !way->unified && t->n_ids > 1)
        status = ft_error_set(err, FT_UNSUPPORTED, "separate streams hold no trees");
    if (status == FT_OK)
        status = plan_ids(t, err);
    if (status == FT_OK)
        status = open_groups(t, base, err);
    if (status != FT_OK) {
        ft_bench_theirs_destroy(t);
        return status;
    }
    if (way->one_thread)
        ft_bench_theirs_use_one_thread(t);
    *out = t;
    return FT_OK;
}

void ft_bench_theirs_destroy(ft_bench_theirs *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->n_groups; i++)
        ft_bench_llama_close(&t->groups[i].llama);
    free(t->groups);
    free(t->seqs);
    free(t->n_seqs);
    free(t);
}

void ft_bench_theirs_use_one_thread(ft_bench_theirs *t)
{
    t->way.one_thread = true;
    for (uint32_t i = 0; i < t->n_groups; i++)
        llama_set_n_threads(t->groups[i].llama.ctx, 1, 1);
}

void ft_bench_theirs_set_limit(ft_bench_theirs *t, double limit_s)
{
    t->limit_s = limit_s;
}

void ft_bench_way_describe(const ft_bench_job *job, const ft_bench_way *way, char *out, size_t size)
{
    uint32_t n_groups = (job->n_sessions + way->per_ctx - 1) / way->per_ctx;
    int n = snprintf(out, size, "%s, %s", way->unified ? "unified" : "streams",
                     way->flash ? "flash" : "no flash");
    if (way->bf16)
        n += snprintf(out + n, size - (size_t)n, ", bf16");
    if (way->one_thread)
        n += snprintf(out + n, size - (size_t)n, ", 1 thread");
    if (n_groups > 1)
        snprintf(out + n, size - (size_t)n, ", %u contexts", n_groups);
}

void ft_bench_theirs_describe(const ft_bench_theirs *t, char *out, size_t size)
{
    ft_bench_way_describe(&t->job, &t->way, out, size);
    size_t n = strlen(out);
    if (t->n_batches > t->n_groups)
        snprintf(out + n, size - n, ", %u batches", t->n_batches);
}

/* ---- a round ---- */

static void add_session(ft_bench_theirs *t, group *g, uint32_t i, uint32_t at)
{
    const ft_bench_tree *tree = t->job.tree;
    int32_t seqs[FT_BENCH_SEQ_MAX];
    uint32_t at_pos = t->job.n_ctx, session = g->first + i;
    for (uint32_t k = 0; k < t->n_ids; k++) /* the root belongs to all */
        seqs[k] = seq_id(t, i, at, (int32_t)k);
    ft_bench_llama_add_shared(&g->llama, ft_bench_token(&t->job, session, at_pos), (int32_t)at_pos,
                              seqs, t->n_ids);
    at_pos++;
    for (uint32_t j = 0; j < tree->n; j++) {
        for (uint32_t k = 0; k < t->n_seqs[j]; k++)
            seqs[k] = seq_id(t, i, at, t->seqs[j * t->n_ids + k]);
        ft_bench_llama_add_shared(&g->llama, ft_bench_token(&t->job, session, at_pos + j),
                                  (int32_t)(at_pos + tree->depth[j]), seqs, t->n_seqs[j]);
    }
}

/* Lends the ids, if they are lent, and takes the tree's cells back afterwards. */
static void share_context(ft_bench_theirs *t, group *g, uint32_t i, uint32_t at)
{
    llama_memory_t memory = llama_get_memory(g->llama.ctx);
    for (int32_t leaf = 1; t->lent && leaf < (int32_t)t->n_ids; leaf++)
        llama_memory_seq_cp(memory, (int32_t)i, seq_id(t, i, at, leaf), -1, -1);
}

static void drop_tree(ft_bench_theirs *t, group *g, uint32_t i, uint32_t at)
{
    llama_memory_t memory = llama_get_memory(g->llama.ctx);
    for (int32_t leaf = 0; leaf < (int32_t)t->n_ids; leaf++)
        llama_memory_seq_rm(memory, seq_id(t, i, at, leaf),
                            t->lent && leaf > 0 ? -1 : (llama_pos)t->job.n_ctx, -1);
}

static ft_status run_group(ft_bench_theirs *t, group *g, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t first = 0; first < g->n && status == FT_OK; first += t->at_once) {
        uint32_t n = g->n - first < t->at_once ? g->n - first : t->at_once;
        ft_bench_llama_clear(&g->llama);
        for (uint32_t i = 0; i < n; i++) {
            share_context(t, g, first + i, i);
            add_session(t, g, first + i, i);
        }
        status = ft_bench_llama_run(&g->llama, err);
        for (uint32_t i = 0; i < n; i++)
            drop_tree(t, g, first + i, i);
    }
    return status;
}

ft_status ft_bench_theirs_round(void *theirs, double *seconds, ft_error *err)
{
    ft_bench_theirs *t = theirs;
    ft_status status = FT_OK;
    ft_bench_llama_resume(&t->groups[0].llama);
    double begin = ft_bench_now_s();
    for (uint32_t i = 0; i < t->n_groups && status == FT_OK; i++) {
        t->groups[i].llama.give_up_s = t->limit_s > 0 ? begin + t->limit_s : 0;
        status = run_group(t, &t->groups[i], err);
    }
    *seconds = ft_bench_now_s() - begin;
    ft_bench_llama_pause(&t->groups[0].llama);
    return status;
}
