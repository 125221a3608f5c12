// SPDX-License-Identifier: Apache-2.0
// One node a forward, as a draft model grows a tree on a device (EdgeLLM III-B). One side goes on
// with the branch of the node before. The other one has four branches and goes on with another one
// each time. Both trees have as many nodes. Timed are the forwards; the text is read before.
#include "bench/branch.h"

#include <stdio.h>

#include "base/num.h"

#define BRANCHES   4
#define N_PAST_MAX 65536

typedef struct bench {
    const ft_bench_branch_opts *o;
    const ft_model *model;
    ft_engine *engine;
    ft_seq *seq;
    uint32_t n_past; /* of the row */
} bench;

static int32_t token_of(const bench *b, uint32_t i)
{
    return (int32_t)((1000u + 37u * i) % ft_model_hparams(b->model)->n_vocab);
}

/* Computes a tree of `branches` chains, a node a forward, the chains in turn. */
static ft_status grow(bench *b, uint32_t branches, double *seconds, ft_error *err)
{
    const uint64_t want = 1;
    ft_status status = FT_OK;
    const double begin = ft_bench_now_s();
    for (uint32_t i = 0; i < (uint32_t)b->o->n_nodes && status == FT_OK; i++) {
        const int32_t token = token_of(b, i), parent = (int32_t)i - (int32_t)branches;
        const int32_t hangs_on = parent < 0 ? -1 : parent;
        ft_segment s = {
            .seq = b->seq, .n = 1, .tokens = &token, .parent = &hangs_on, .want = &want};
        status = ft_engine_forward(b->engine, &s, 1, err);
    }
    *seconds = ft_bench_now_s() - begin;
    ft_seq_truncate(b->seq, b->n_past);
    return status;
}

static ft_status same_round(void *ctx, double *seconds, ft_error *err)
{
    return grow(ctx, 1, seconds, err);
}

static ft_status other_round(void *ctx, double *seconds, ft_error *err)
{
    return grow(ctx, BRANCHES, seconds, err);
}

static ft_status read_text(bench *b, ft_error *err)
{
    int32_t tokens[FT_BENCH_READ_TOK];
    ft_status status = FT_OK;
    for (uint32_t at = 0; at < b->n_past && status == FT_OK; at += FT_BENCH_READ_TOK) {
        const uint32_t n = ft_min_u32(b->n_past - at, FT_BENCH_READ_TOK);
        for (uint32_t i = 0; i < n; i++)
            tokens[i] = token_of(b, at + i);
        status = ft_bench_read(b->engine, b->seq, tokens, n, false, err);
    }
    return status;
}

static ft_status open_row(bench *b, ft_error *err)
{
    const ft_engine_opts opts = {.model = b->model,
                                 .kv_tok =
                                     b->n_past + (uint32_t)b->o->n_nodes + 2 * FT_KV_BLOCK_TOK,
                                 .max_batch_tok = FT_BENCH_READ_TOK,
                                 .max_logits = 1,
                                 .n_threads = ft_bench_threads(b->o->common),
                                 .kv_type = b->o->common->kv};
    ft_status status = ft_engine_create(&opts, err, &b->engine);
    if (status == FT_OK)
        status = ft_engine_warm(b->engine, NULL, NULL, err, NULL);
    if (status == FT_OK)
        status = ft_seq_create(b->engine, err, &b->seq);
    return status == FT_OK ? read_text(b, err) : status;
}

static void close_row(bench *b)
{
    ft_seq_destroy(b->seq);
    ft_engine_destroy(b->engine);
    b->seq = NULL;
    b->engine = NULL;
}

static ft_status measure_row(bench *b, json_t *rows, ft_error *err)
{
    const ft_bench_side sides[] = {{b, same_round, true}, {b, other_round, true}};
    double s[2];
    ft_bench_rounds rounds = {0};
    ft_status status = open_row(b, err);
    if (status == FT_OK)
        status = ft_bench_interleave(b->o->common, sides, 2, err, s, &rounds);
    close_row(b);
    if (status != FT_OK)
        return status;
    const double each_us = 1e6 / (double)b->o->n_nodes;
    json_t *row =
        json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:i}", "n_past", (int)b->n_past, "nodes",
                  (int)b->o->n_nodes, "branches", BRANCHES, "same_us", s[0] * each_us, "other_us",
                  s[1] * each_us, "ratio", s[1] / s[0], "rounds", (int)rounds.n);
    ft_bench_row(b->o->common, row);
    json_array_append_new(rows, row);
    return FT_OK;
}

ft_status ft_bench_branch(const ft_bench_branch_opts *opts, const ft_model *model, json_t *report,
                          ft_error *err)
{
    bench b = {.o = opts, .model = model};
    ft_bench_list list;
    ft_status status = ft_bench_list_parse("--n-past", opts->n_past, N_PAST_MAX, err, &list);
    if (status != FT_OK)
        return status;
    json_t *rows = json_array();
    json_object_set_new(report, "rows", rows);
    for (uint32_t i = 0; i < list.n && status == FT_OK; i++) {
        b.n_past = list.value[i];
        status = measure_row(&b, rows, err);
    }
    json_object_set_new(report, "n", json_integer((json_int_t)json_array_size(rows)));
    return status;
}
