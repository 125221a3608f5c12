// SPDX-License-Identifier: Apache-2.0
// bench verify: the server's one call, many sessions' trees over long contexts in one pass, against
// libllama in the best way that it has for the row (docs/BENCHMARKS.md).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench_verify_memory.h"
#include "cmd/bench_verify_row.h"

#define MAX_SESSIONS 1024
#define MAX_CTX      65536

typedef struct bench {
    ft_bench_flags flags;
    const char *sessions, *ctx, *tree, *shape, *vs, *logits;
    double limit_s, memory_gb;
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
        ft_bench_list_parse("--sessions", b->sessions, MAX_SESSIONS, err, &b->n_sessions);
    if (status == FT_OK)
        status = ft_bench_list_parse("--ctx", b->ctx, MAX_CTX, err, &b->n_ctx);
    if (status == FT_OK)
        status = ft_bench_list_parse("--tree", b->tree, FT_BENCH_TREE_MAX, err, &b->n_tree);
    if (status != FT_OK)
        return status;
    b->shape_tree = strcmp(b->shape, "chain") != 0;
    b->shape_chain = strcmp(b->shape, "tree") != 0;
    if (b->shape_tree && b->shape_chain && strcmp(b->shape, "tree,chain") != 0)
        return ft_error_set(err, FT_INVALID, "--shape: '%s' is not tree, chain or tree,chain",
                            b->shape);
    b->all_logits = strcmp(b->logits, "all") == 0;
    if (!b->all_logits && strcmp(b->logits, "walk") != 0)
        return ft_error_set(err, FT_INVALID, "--logits: '%s' is not walk or all", b->logits);
    b->with_base = strcmp(b->vs, "libllama") == 0;
    if (!b->with_base && strcmp(b->vs, "none") != 0)
        return ft_error_set(err, FT_INVALID, "--vs: '%s' is not libllama or none", b->vs);
    return FT_OK;
}

/* ---- rows ---- */

static double number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : 0;
}

static void print_row(const json_t *row)
{
    const char *way = json_string_value(json_object_get(row, "libllama"));
    const char *why = json_string_value(json_object_get(row, "why"));
    const char *our_why = json_string_value(json_object_get(row, "foretoken_why"));
    printf("%-5s %8.0f %5.0f %5.0f %12.1f %12.1f %7.2f %9.2f %8.2f  %s%s%s\n",
           json_string_value(json_object_get(row, "shape")), number(row, "sessions"),
           number(row, "ctx"), number(row, "tree"), number(row, "foretoken_tok_s"),
           number(row, "libllama_tok_s"), number(row, "ratio"), number(row, "contexts_ratio"),
           number(row, "roofline"),
           way   ? way
           : why ? why
                 : "",
           our_why ? "; " : "", our_why ? our_why : "");
    fflush(stdout);
}

static size_t limit_bytes(const bench *b)
{
    return (size_t)(b->memory_gb * 1e9);
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

/* Ours for a job, unless it is open already. *ours stays NULL where memory has no room for it: the row
 * says so. */
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
                           double *seconds, ft_error *err)
{
    const ft_bench_side side = {*ours, ft_bench_ours_round, true};
    ft_status status = ft_bench_interleave(&b->flags, &side, 1, err, seconds, NULL);
    ft_bench_ours_walked(*ours, walked);
    ft_bench_ours_destroy(*ours);
    *ours = NULL;
    return status;
}

/* *ours may be NULL before and after: a row that has no memory for both sides measures ours, frees it
 * and then measures libllama's. */
static ft_status run_row(bench *b, const ft_bench_job *job, uint32_t max_tree, ft_bench_ours **ours,
                         ft_error *err)
{
    double ours_s = 0;
    ft_bench_walked walked = {0};
    json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "shape",
                            job->chain ? "chain" : "tree", "sessions", (int)job->n_sessions, "ctx",
                            (int)job->n_ctx, "tree", (int)job->tree->n, "depth",
                            (int)job->tree->n_depth, "leaves", (int)job->tree->n_leaves);
    json_array_append_new(b->rows, row);
    ft_status status = open_ours(b, job, max_tree, row, ours, err);
    bool both = *ours && fits_both(b, job);
    if (status == FT_OK && *ours && !both)
        status = run_alone(b, ours, &walked, &ours_s, err);
    const ft_bench_row_opts opts = {.flags = &b->flags,
                                    .machine = &b->machine,
                                    .job = job,
                                    .ours = *ours,
                                    .walked = &walked,
                                    .base = b->with_base ? &b->base : NULL,
                                    .limit_s = b->limit_s,
                                    .limit_bytes = limit_bytes(b)};
    if (status == FT_OK)
        status = ft_bench_row_run(&opts, row, ours_s, err);
    if (status != FT_OK)
        return status;
    json_object_set_new(row, "interleaved", json_boolean(both));
    if (!b->flags.json)
        print_row(row);
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
                                      .kv = b->flags.kv,
                                      .n_threads = ft_bench_threads(&b->flags)};
            status = run_row(b, &job, max_tree, &ours, err);
        }
    ft_bench_ours_destroy(ours);
    free(tree);
    return status;
}

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    bench *b = ctx;
    b->model = model;
    b->rows = json_array();
    json_object_set_new(report, "rows", b->rows);
    ft_status status = check(b, err);
    if (status == FT_OK)
        status = ft_bench_machine_measure(ft_bench_threads(&b->flags), err, &b->machine);
    if (status == FT_OK && b->with_base)
        status = ft_bench_base_open(model, ft_bench_threads(&b->flags), err, &b->base);
    json_object_set_new(report, "machine", ft_bench_machine_json(&b->machine));
    if (status == FT_OK && !b->flags.json)
        printf("%-5s %8s %5s %5s %12s %12s %7s %9s %8s  %s\n", "shape", "sessions", "ctx", "tree",
               "foretoken/s", "libllama/s", "ratio", "contexts", "roofline", "libllama");
    for (uint32_t c = 0; c < b->n_ctx.n && status == FT_OK; c++)
        for (uint32_t s = 0; s < b->n_sessions.n && status == FT_OK; s++)
            status = run_point(b, b->n_sessions.value[s], b->n_ctx.value[c], err);
    ft_bench_base_close(&b->base);
    return status;
}

int ft_cmd_bench_verify(int argc, char **argv)
{
    bench b = {.flags = FT_BENCH_FLAGS_INIT,
               .sessions = "1,4,16,64",
               .ctx = "512",
               .tree = "8,32",
               .shape = "tree,chain",
               .vs = "libllama",
               .logits = "walk",
               .limit_s = 60};
    const ft_flag flags[] = {
        FT_BENCH_FLAGS(b.flags),
        {"--sessions", NULL, FT_FLAG_STRING, &b.sessions, "LIST", "sessions of a round", 0, 0},
        {"--ctx", NULL, FT_FLAG_STRING, &b.ctx, "LIST", "committed tokens a session", 0, 0},
        {"--tree", NULL, FT_FLAG_STRING, &b.tree, "LIST", "nodes a session and round", 0, 0},
        {"--shape", NULL, FT_FLAG_STRING, &b.shape, "LIST", "tree, chain or tree,chain", 0, 0},
        {"--vs", NULL, FT_FLAG_STRING, &b.vs, "WHAT", "the other side: libllama or none", 0, 0},
        {"--logits", NULL, FT_FLAG_STRING, &b.logits, "WHICH",
         "ours: walk (those that the verification rule looks at) or all", 0, 0},
        {"--limit-s", NULL, FT_FLAG_FLOAT, &b.limit_s, "S",
         "a pass of libllama that takes longer is given up", 0.01, 86400},
        {"--memory-gb", NULL, FT_FLAG_FLOAT, &b.memory_gb, "GB",
         "memory that this program may take; 0: what the machine has free", 0, 1e6},
    };
    const ft_cmd_usage usage = {
        .usage = "bench verify -m FILE [flags]",
        .about =
            "Nodes verified a second: all sessions' trees, each behind a context of its own, in "
            "one pass, and the walks down the trees, against libllama's pass in its best way for "
            "the row. docs/BENCHMARKS.md says what that is and what is timed.",
        .flags = flags,
        .n_flags = FT_COUNT(flags)};
    const ft_bench_cmd cmd = {
        .usage = &usage, .name = "bench verify", .flags = &b.flags, .ctx = &b, .measure = measure};
    return ft_bench_main(&cmd, argc, argv);
}
