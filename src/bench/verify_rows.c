// SPDX-License-Identifier: Apache-2.0
// The rows of bench verify: the server's most frequent call, many sessions' trees behind long
// contexts in one pass, compared with libllama in its fastest way for the row (docs/BENCHMARKS.md).
#include "bench/verify_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/verify_memory.h"
#include "bench/verify_row.h"

#define MAX_SESSIONS 1024
#define MAX_CTX      65536

typedef struct bench {
    const ft_bench_verify_opts *o;
    ft_bench_list n_sessions, n_ctx, n_tree;
    bool shape_tree, shape_chain, all_logits;
    const ft_model *model;
    ft_bench_machine machine;
    ft_bench_base base; /* open if --vs libllama */
    bool with_base;
    json_t *rows;
} bench;

static ft_status check(bench *b, ft_error *err)
{
    ft_status status =
        ft_bench_list_parse("--sessions", b->o->sessions, MAX_SESSIONS, err, &b->n_sessions);
    if (status == FT_OK)
        status = ft_bench_list_parse("--ctx", b->o->ctx, MAX_CTX, err, &b->n_ctx);
    if (status == FT_OK)
        status = ft_bench_list_parse("--tree", b->o->tree, FT_BENCH_TREE_MAX, err, &b->n_tree);
    if (status != FT_OK)
        return status;
    b->shape_tree = strcmp(b->o->shape, "chain") != 0;
    b->shape_chain = strcmp(b->o->shape, "tree") != 0;
    if (b->shape_tree && b->shape_chain && strcmp(b->o->shape, "tree,chain") != 0)
        return ft_error_set(err, FT_INVALID, "--shape: '%s' is not tree, chain or tree,chain",
                            b->o->shape);
    b->all_logits = strcmp(b->o->logits, "all") == 0;
    if (!b->all_logits && strcmp(b->o->logits, "walk") != 0)
        return ft_error_set(err, FT_INVALID, "--logits: '%s' is not walk or all", b->o->logits);
    b->with_base = strcmp(b->o->vs, "libllama") == 0;
    if (!b->with_base && strcmp(b->o->vs, "none") != 0)
        return ft_error_set(err, FT_INVALID, "--vs: '%s' is not libllama or none", b->o->vs);
    return FT_OK;
}

/* ---- rows ---- */

static size_t limit_bytes(const bench *b)
{
    return (size_t)(b->o->memory_gb * 1e9);
}

/* Whether libllama's cheapest way fits beside what is open. */
static bool fits_both(const bench *b, const ft_bench_job *job)
{
    const ft_bench_way way = {.flash = true, .unified = true, .per_ctx = job->n_sessions};
    const ft_bench_room room = ft_bench_room_now(limit_bytes(b));
    return !b->with_base || ft_bench_fits(&room, ft_bench_theirs_need(job, &way));
}

static ft_status refuse(json_t *row, const char *why)
{
    json_object_set_new(row, "foretoken_why", json_string(why));
    return FT_OK;
}

/* Opens ours for a job, unless it is open. *ours stays NULL if memory has no room for it; the row
 * says so then. */
static ft_status open_ours(const bench *b, const ft_bench_job *job, uint32_t max_tree, json_t *row,
                           ft_bench_ours **ours, ft_error *err)
{
    const ft_bench_room room = ft_bench_room_now(limit_bytes(b));
    const ft_bench_need need = ft_bench_ours_need(job, max_tree);
    char why[FT_BENCH_WHY_LEN], text[96];
    ft_error local = {0};
    if (!*ours && !ft_bench_fits(&room, need)) {
        ft_bench_need_describe(&room, need, text, sizeof text);
        snprintf(why, sizeof why, "no memory for foretoken: %s", text);
        return refuse(row, why);
    }
    ft_status status = *ours ? FT_OK : ft_bench_ours_create(job, max_tree, &local, ours);
    if (status == FT_NOMEM)
        return refuse(row, local.message);
    if (status != FT_OK)
        return ft_error_set(err, status, "%s", local.message);
    double kv_bytes = ft_bench_ours_kv_bytes_per_tok(*ours);
    json_object_set_new(row, "kv_bytes_per_tok", json_real(kv_bytes));
    json_object_set_new(row, "kv_ratio",
                        json_real(kv_bytes / (double)ft_bench_kv_tok_bytes(job->model, job->kv)));
    return ft_bench_ours_set_job(*ours, job, err);
}

/* Ours by itself; then its memory is free. */
static ft_status run_alone(const bench *b, ft_bench_ours **ours, ft_bench_walked *walked,
                           ft_bench_ours_s *time, ft_error *err)
{
    const ft_bench_side side = {*ours, ft_bench_ours_round, true};
    ft_bench_rounds rounds = {0};
    ft_status status = ft_bench_interleave(b->o->common, &side, 1, err, &time->median, &rounds);
    time->least = rounds.least_s[0];
    ft_bench_ours_walked(*ours, walked);
    ft_bench_ours_destroy(*ours);
    *ours = NULL;
    return status;
}

/* *ours may be NULL before and after: if memory has no room for both sides, ours is measured and
 * freed, and then libllama's is measured. */
static ft_status run_row(bench *b, const ft_bench_job *job, uint32_t max_tree, ft_bench_ours **ours,
                         ft_error *err)
{
    ft_bench_ours_s time = {0};
    ft_bench_walked walked = {0};
    json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "shape",
                            job->chain ? "chain" : "tree", "sessions", (int)job->n_sessions, "ctx",
                            (int)job->n_ctx, "tree", (int)job->tree->n, "depth",
                            (int)job->tree->n_depth, "leaves", (int)job->tree->n_leaves);
    json_array_append_new(b->rows, row);
    ft_status status = open_ours(b, job, max_tree, row, ours, err);
    bool both = *ours && fits_both(b, job);
    if (status == FT_OK && *ours && !both)
        status = run_alone(b, ours, &walked, &time, err);
    const ft_bench_row_opts opts = {.common = b->o->common,
                                    .machine = &b->machine,
                                    .job = job,
                                    .ours = *ours,
                                    .walked = &walked,
                                    .base = b->with_base ? &b->base : NULL,
                                    .limit_s = b->o->limit_s,
                                    .limit_bytes = limit_bytes(b)};
    if (status == FT_OK)
        status = ft_bench_row_run(&opts, row, time, err);
    if (status != FT_OK)
        return status;
    json_object_set_new(row, "interleaved", json_boolean(both));
    ft_bench_row(b->o->common, row);
    return FT_OK;
}

/* All rows of so many sessions with contexts of that length. */
static ft_status run_point(bench *b, uint32_t n_sessions, uint32_t n_ctx, ft_error *err)
{
    ft_bench_ours *ours = NULL;
    ft_bench_tree *tree = malloc(sizeof *tree);
    uint32_t max_tree = 0;
    ft_status status = tree ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; i < b->n_tree.n; i++)
        max_tree = b->n_tree.value[i] > max_tree ? b->n_tree.value[i] : max_tree;
    for (int chain = 0; chain < 2; chain++)
        for (uint32_t i = 0; i < b->n_tree.n && status == FT_OK; i++) {
            if (chain ? !b->shape_chain : !b->shape_tree)
                continue;
            ft_bench_tree_make(tree, b->n_tree.value[i], chain);
            const ft_bench_job job = {.model = b->model,
                                      .n_sessions = n_sessions,
                                      .n_ctx = n_ctx,
                                      .tree = tree,
                                      .chain = chain,
                                      .all_logits = b->all_logits,
                                      .kv = b->o->common->kv,
                                      .n_threads = ft_bench_threads(b->o->common)};
            status = run_row(b, &job, max_tree, &ours, err);
        }
    ft_bench_ours_destroy(ours);
    free(tree);
    return status;
}

ft_status ft_bench_verify(const ft_bench_verify_opts *opts, const ft_model *model, json_t *report,
                          ft_error *err)
{
    bench state = {.o = opts, .model = model, .rows = json_array()}, *b = &state;
    json_object_set_new(report, "rows", b->rows);
    ft_status status = check(b, err);
    if (status == FT_OK)
        status = ft_bench_machine_measure(ft_bench_threads(b->o->common), err, &b->machine);
    if (status == FT_OK && b->with_base)
        status = ft_bench_base_open(model, ft_bench_threads(b->o->common), err, &b->base);
    json_object_set_new(report, "machine", ft_bench_machine_json(&b->machine));
    for (uint32_t c = 0; c < b->n_ctx.n && status == FT_OK; c++)
        for (uint32_t s = 0; s < b->n_sessions.n && status == FT_OK; s++)
            status = run_point(b, b->n_sessions.value[s], b->n_ctx.value[c], err);
    ft_bench_base_close(&b->base);
    return status;
}
