// SPDX-License-Identifier: Apache-2.0
// One row of bench verify: finds libllama's fastest way, then measures ours and that way,
// interleaved. The ways are tried one after another, each for a pass or a few. A way that takes
// longer than one and a half times the best is given up. Nothing is opened that memory has no room
// for (verify_memory.h).
#include "bench/verify_row.h"

#include <stdio.h>
#include <string.h>

#include "bench/verify_memory.h"

/* Scores of plain attention are held whole; more than this is out of proportion. */
#define SCORES_MAX ((size_t)2 << 30)
#define MAX_WAYS   8
#define WHAT_LEN   64

typedef struct trial {
    ft_bench_way way;
    double pass_s; /* 0: none could run */
    char what[WHAT_LEN];
} trial;

/* What is found among some ways. */
typedef struct search {
    const ft_bench_row_opts *opts;
    trial best;
    json_t *tried;
    char why[FT_BENCH_WHY_LEN]; /* of the last that could not run */
} search;

/* ---- which ways there are ---- */

/* All sessions in one context: the ways of a server with one cache. If ours keeps K and V as bf16,
 * libllama may, too. */
static uint32_t list_ways(const ft_bench_job *job, ft_bench_way *ways)
{
    uint32_t n = 0, all = job->n_sessions;
    ways[n++] = (ft_bench_way){.flash = true, .unified = true, .per_ctx = all};
    ways[n++] = (ft_bench_way){.flash = false, .unified = true, .per_ctx = all};
    if (job->chain && all > 1) {
        ways[n++] = (ft_bench_way){.flash = true, .unified = false, .per_ctx = all};
        ways[n++] = (ft_bench_way){.flash = false, .unified = false, .per_ctx = all};
    }
    for (uint32_t i = 0, plain = n; job->kv == FT_KV_BF16 && i < plain; i++) {
        ways[n] = ways[i];
        ways[n++].bf16 = true;
    }
    return n;
}

/* Several contexts of a few sessions each, one after another. No mask over other sessions' cells,
 * but smaller batches. */
static uint32_t list_context_ways(const ft_bench_job *job, ft_bench_way *ways)
{
    uint32_t n = 0;
    for (uint32_t per = 1; per <= 4 && per < job->n_sessions; per *= 4) {
        ways[n++] = (ft_bench_way){.flash = true, .unified = true, .per_ctx = per};
        ways[n++] = (ft_bench_way){.flash = false, .unified = true, .per_ctx = per};
    }
    return n;
}

/* ---- trying them ---- */

/* The best of a few passes; of one if it takes long. */
static ft_status time_passes(ft_bench_theirs *theirs, ft_error *err, double *pass_s)
{
    double s;
    ft_status status = ft_bench_theirs_round(theirs, pass_s, err);
    for (int i = 0; i < 3 && status == FT_OK && *pass_s < 1; i++) {
        status = ft_bench_theirs_round(theirs, &s, err);
        if (status == FT_OK && s < *pass_s)
            *pass_s = s;
    }
    return status;
}

/* With all threads, then with one, which is faster if other programs use the cores (ours finds that
 * by itself). */
static ft_status time_way(ft_bench_theirs *theirs, int n_threads, ft_error *err, bool *one_thread,
                          double *pass_s)
{
    double s;
    ft_error ignored;
    ft_status status = time_passes(theirs, err, pass_s);
    *one_thread = false;
    if (status != FT_OK || n_threads < 2)
        return status;
    ft_bench_theirs_use_one_thread(theirs);
    ft_bench_theirs_set_limit(theirs, *pass_s);
    if (time_passes(theirs, &ignored, &s) == FT_OK && s < *pass_s) {
        *one_thread = true;
        *pass_s = s;
    }
    return FT_OK;
}

/* Whether a way has room now beside what is open; else why not. */
static bool has_room(const ft_bench_row_opts *o, const ft_bench_way *way, char *why, size_t size)
{
    const ft_bench_need need = ft_bench_theirs_need(o->job, way);
    const ft_bench_room room = ft_bench_room_now(o->limit_bytes);
    size_t scores = ft_bench_theirs_score_bytes(o->job, way);
    char text[WHAT_LEN];
    if (!way->flash && scores > SCORES_MAX) {
        snprintf(why, size, "scores alone take %.2f GB, more than %.2f", (double)scores / 1e9,
                 (double)SCORES_MAX / 1e9);
        return false;
    }
    if (ft_bench_fits(&room, need))
        return true;
    ft_bench_need_describe(&room, need, text, sizeof text);
    snprintf(why, size, "no memory for libllama: %s", text);
    return false;
}

/* Opens a way and times it; sets `used` and `what`. */
static ft_status time_anew(const search *x, double limit, ft_error *err, ft_bench_way *used,
                           char *what, double *pass_s)
{
    const ft_bench_row_opts *o = x->opts;
    ft_bench_theirs *theirs = NULL;
    ft_status status = ft_bench_theirs_create(o->job, used, o->base, err, &theirs);
    if (status == FT_OK) {
        ft_bench_theirs_describe(theirs, what, WHAT_LEN);
        ft_bench_theirs_set_limit(theirs, limit);
        status = time_way(theirs, o->job->n_threads, err, &used->one_thread, pass_s);
        if (used->one_thread)
            ft_bench_theirs_describe(theirs, what, WHAT_LEN);
    }
    ft_bench_theirs_destroy(theirs);
    return status;
}

static void say_why(search *x, const char *what, const char *why)
{
    json_array_append_new(x->tried, json_pack("{s:s, s:s}", "libllama", what, "why", why));
    snprintf(x->why, sizeof x->why, "%s: %s", what, why);
}

/* A way that cannot run, or not in time, is no failure: `why` says so. */
static ft_status try_way(search *x, const ft_bench_way *way, ft_error *err)
{
    const ft_bench_row_opts *o = x->opts;
    ft_error local = {0};
    ft_bench_way used = *way;
    double pass_s = 0, limit = o->limit_s;
    char what[WHAT_LEN], why[FT_BENCH_WHY_LEN - WHAT_LEN - 2];
    ft_bench_way_describe(o->job, way, what, sizeof what);
    if (!has_room(o, way, why, sizeof why)) {
        say_why(x, what, why);
        return FT_OK;
    }
    if (x->best.pass_s > 0 && x->best.pass_s * 1.5 + 0.1 < limit)
        limit = x->best.pass_s * 1.5 + 0.1;
    ft_status status = time_anew(x, limit, &local, &used, what, &pass_s);
    if (status == FT_TIMEOUT)
        snprintf(why, sizeof why, "a pass takes longer than %.1f s", limit);
    else if (status == FT_UNSUPPORTED || status == FT_NOMEM)
        snprintf(why, sizeof why, "%.120s", local.message);
    else if (status != FT_OK)
        return ft_error_set(err, status, "%s", local.message);
    if (status != FT_OK) {
        say_why(x, what, why);
        return FT_OK;
    }
    json_array_append_new(x->tried, json_pack("{s:s, s:f}", "libllama", what, "tok_s",
                                              o->job->n_sessions * o->job->tree->n / pass_s));
    if (x->best.pass_s == 0 || pass_s < x->best.pass_s) {
        x->best = (trial){.way = used, .pass_s = pass_s};
        memcpy(x->best.what, what, sizeof what);
    }
    return FT_OK;
}

static ft_status try_ways(search *x, const ft_bench_way *ways, uint32_t n, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        status = try_way(x, &ways[i], err);
    return status;
}

/* ---- the row ---- */

static void put_rate(json_t *row, const char *name, double nodes, double pass_s)
{
    json_object_set_new(row, name, pass_s > 0 ? json_real(nodes / pass_s) : json_null());
}

static void put_ratio(json_t *row, const char *name, double theirs_s, double ours_s)
{
    json_object_set_new(row, name,
                        theirs_s > 0 && ours_s > 0 ? json_real(theirs_s / ours_s) : json_null());
}

static void put_theirs(json_t *row, const char *prefix, const trial *best)
{
    json_object_set_new(row, prefix, best->pass_s > 0 ? json_string(best->what) : json_null());
}

/* Interleaves some of libllama's two best ways, and ours if it is open: its time goes to
 * *ours, a way's to its trial. A way that finds no memory any more keeps the time that it was
 * chosen for. */
static ft_status interleave(const ft_bench_row_opts *o, trial *const *ways, uint32_t n_ways,
                            ft_bench_ours_s *ours, uint32_t *n_rounds, ft_error *err)
{
    ft_bench_theirs *theirs[2] = {0};
    ft_bench_side sides[3];
    double seconds[3] = {0};
    ft_bench_rounds rounds = {0};
    uint32_t n = 0, n_ours;
    ft_status status = FT_OK;
    if (o->ours)
        sides[n++] = (ft_bench_side){o->ours, ft_bench_ours_round, true};
    n_ours = n;
    for (uint32_t i = 0; i < n_ways && status == FT_OK; i++) {
        status = ft_bench_theirs_create(o->job, &ways[i]->way, o->base, err, &theirs[i]);
        if (status == FT_OK)
            sides[n++] = (ft_bench_side){theirs[i], ft_bench_theirs_round, false};
        else if (status == FT_NOMEM)
            status = FT_OK;
    }
    if (status == FT_OK && n)
        status = ft_bench_interleave(o->common, sides, n, err, seconds, &rounds);
    *n_rounds = rounds.n;
    for (uint32_t i = 0, at = n_ours; i < n_ways; i++) {
        if (theirs[i])
            ways[i]->pass_s = seconds[at++];
        ft_bench_theirs_destroy(theirs[i]);
    }
    if (o->ours) {
        *ours = (ft_bench_ours_s){seconds[0], rounds.least_s[0]};
        ft_bench_ours_walked(o->ours, o->walked);
    }
    return status;
}

/* All sides interleaved; if memory holds only one way of libllama's at a time, one after another.
 * A side's `ours` is our time beside it, the time that was measured before where ours is closed. */
static ft_status interleave_all(const ft_bench_row_opts *o, trial *best[2], json_t *row,
                                ft_bench_ours_s ours[2], ft_error *err)
{
    trial *ways[2];
    uint32_t n = 0, rounds = 0;
    ft_bench_need need = {0};
    for (int i = 0; i < 2; i++)
        if (best[i]->pass_s > 0) {
            need = ft_bench_need_sum(need, ft_bench_theirs_need(o->job, &best[i]->way));
            ways[n++] = best[i];
        }
    const ft_bench_room room = ft_bench_room_now(o->limit_bytes);
    if (n < 2 || (o->ours && ft_bench_fits(&room, need))) {
        ft_status status = interleave(o, ways, n, &ours[0], &rounds, err);
        ours[1] = ours[0];
        json_object_set_new(row, "rounds", json_integer(rounds));
        return status;
    }
    ft_status status = interleave(o, &ways[1], 1, &ours[1], &rounds, err);
    if (status == FT_OK)
        status = interleave(o, &ways[0], 1, &ours[0], &rounds, err);
    json_object_set_new(row, "rounds", json_integer(rounds));
    return status;
}

static void put_roofline(const ft_bench_row_opts *o, json_t *row, const ft_bench_ours_s *ours)
{
    const ft_bench_job *job = o->job;
    uint32_t rows = job->n_sessions * ft_bench_rows(job);
    uint64_t below = 1; /* of the root: itself; of nodes: the root, ancestors and themselves */
    ft_bench_work work;
    for (uint32_t i = 0; i < job->tree->n; i++)
        below += job->tree->depth[i] + 2;
    const ft_bench_pass pass = {.rows = rows,
                                .out_rows = job->all_logits ? rows : o->walked->head_rows,
                                .kv_tok = (uint64_t)job->n_sessions * job->n_ctx,
                                .row_tok = (uint64_t)rows * job->n_ctx + job->n_sessions * below,
                                .kv = job->kv};
    ft_bench_pass_work(job->model, &pass, &work);
    if (o->walked->heads > 1) /* further runs read the head again */
        work.bytes +=
            (o->walked->heads - 1.0) * (double)ggml_nbytes(ft_model_weights(job->model)->output);
    double bound_s = ft_bench_bound_s(o->machine, &work);
    put_ratio(row, "roofline", bound_s, ours->median);
    put_ratio(row, "roofline_best", bound_s, ours->least);
}

static void put_walked(const ft_bench_row_opts *o, json_t *row, double ours_s)
{
    const ft_bench_walked *w = o->walked;
    if (ours_s == 0)
        return;
    json_object_set_new(row, "logits", json_string(o->job->all_logits ? "all" : "walk"));
    json_object_set_new(row, "accepted", o->job->all_logits ? json_null() : json_real(w->accepted));
    json_object_set_new(row, "head_runs", json_integer(o->job->all_logits ? 1 : w->heads));
    json_object_set_new(row, "head_rows",
                        json_integer(o->job->all_logits ? o->job->n_sessions * ft_bench_rows(o->job)
                                                        : w->head_rows));
}

static void put_figures(const ft_bench_row_opts *o, json_t *row, const search *one,
                        const search *many, const ft_bench_ours_s ours[2])
{
    double nodes = (double)o->job->n_sessions * o->job->tree->n;
    put_rate(row, "foretoken_tok_s", nodes, ours[0].median);
    put_rate(row, "libllama_tok_s", nodes, one->best.pass_s);
    put_ratio(row, "ratio", one->best.pass_s, ours[0].median);
    put_theirs(row, "libllama", &one->best);
    put_rate(row, "contexts_tok_s", nodes, many->best.pass_s);
    put_ratio(row, "contexts_ratio", many->best.pass_s, ours[1].median);
    put_theirs(row, "contexts", &many->best);
    if (o->base && one->best.pass_s == 0)
        json_object_set_new(row, "why", json_string(one->why));
    put_walked(o, row, ours[0].median);
    put_roofline(o, row, &ours[0]);
}

ft_status ft_bench_row_run(const ft_bench_row_opts *o, json_t *row, ft_bench_ours_s before,
                           ft_error *err)
{
    ft_bench_way ways[MAX_WAYS];
    ft_bench_ours_s ours[2] = {before, before};
    json_t *tried = json_array();
    search one = {.opts = o, .tried = tried}, many = {.opts = o, .tried = tried};
    trial *best[2] = {&one.best, &many.best};
    json_object_set_new(row, "tried", tried);
    ft_status status = FT_OK;
    if (o->base) {
        status = try_ways(&one, ways, list_ways(o->job, ways), err);
        if (status == FT_OK)
            status = try_ways(&many, ways, list_context_ways(o->job, ways), err);
    }
    if (status == FT_OK)
        status = interleave_all(o, best, row, ours, err);
    if (status == FT_OK)
        put_figures(o, row, &one, &many, ours);
    return status;
}
