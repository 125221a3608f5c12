// SPDX-License-Identifier: Apache-2.0
// Draws the batches of a fit and times them, in rounds. Main thread only.
#include "cmd/fit_passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/progress.h"
#include "cmd/gen_flags.h"

#define SETTLED    0.03 /* no more runs if the two shortest differ by this share at most */
#define NOISE_MOST 0.15 /* more noise than this means a busy machine; a quiet one has 0.03 */

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(ft_fit_opts, path), "MODEL", "model (GGUF)", .required = true,
     .model = true},
    {"--threads", "-t", FT_FLAG(ft_fit_opts, profile.n_threads), "N", "threads; 0: all cores", 0,
     512},
    {"--cache-type", NULL, FT_FLAG_ENUM(ft_fit_opts, profile.kv_type, ft_kv_choices), "TYPE",
     "type of K and V in memory"},
    {"--ctx", NULL, FT_FLAG(ft_fit_opts, profile.max_ctx), "N", "longest context, tokens", 16,
     1 << 20},
    {"--rows", NULL, FT_FLAG(ft_fit_opts, profile.max_rows), "N", "rows of a batch at most", 64,
     8192},
    {"--sessions", NULL, FT_FLAG(ft_fit_opts, profile.max_seqs), "N",
     "sequences of a batch at most", 1, 1024},
    {"--batches", NULL, FT_FLAG(ft_fit_opts, train), "N", "batches to fit", 30, 100000},
    {"--unseen", NULL, FT_FLAG(ft_fit_opts, test), "N", "batches to check the fit on", 15, 100000},
    {"--runs", NULL, FT_FLAG(ft_fit_opts, runs), "N",
     "runs of each batch; up to twice as many if they differ", 1, 100},
    {"--seed", NULL, FT_FLAG(ft_fit_opts, seed), "N", "seed of the batches' shapes", 0, 1e9},
    FT_FLAG_INCLUDE(ft_fit_opts, device, ft_flags_device),
};

const ft_flag_group ft_flags_fit = FT_FLAG_ROWS(rows);

/* A measurement under way. */
typedef struct run {
    const ft_fit_opts *opts;
    const ft_fit_draw *batches;
    ft_profile *profile;
    ft_fit_passes *out;
} run;

static size_t most_runs(const run *f)
{
    return (size_t)(f->opts->runs > 1 ? 2 * f->opts->runs : 1);
}

static ft_status draw(run *f, int part, ft_error *err)
{
    size_t n = (size_t)(part == FT_FIT_TRAIN ? f->opts->train : f->opts->test);
    size_t *i = &f->out->part[part].n;
    ft_status status = FT_OK;
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)f->opts->seed * 2 + (uint64_t)part);
    f->out->part[part].at = calloc(n, sizeof *f->out->part[part].at);
    if (!f->out->part[part].at)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (; *i < n && status == FT_OK; ++*i) {
        ft_fit_pass *it = &f->out->part[part].at[*i];
        *it = (ft_fit_pass){.us = INFINITY, .second_us = INFINITY, .runs_ms = json_array()};
        status = f->batches->draw(f->batches->ctx, f->profile, *i, &rng, err, &it->batch);
    }
    return status;
}

/* One more run of a batch; the shortest counts. */
static ft_status time_batch(run *f, ft_fit_pass *it, ft_rng *rng, ft_error *err)
{
    double us = 0;
    ft_status status = ft_profile_time(f->profile, &it->batch, rng, err, &us);
    it->second_us = fmax(it->us, fmin(us, it->second_us));
    it->us = fmin(us, it->us);
    it->sum_us += us;
    json_array_append_new(it->runs_ms, json_real(us / 1e3));
    return status;
}

/* A round times every batch once, in random order. So a disturbance of some seconds hits one run of
 * a batch and not all of them, and fitted batches as often as unseen ones. The rounds after the
 * first --runs only time batches whose two shortest runs differ. */
static ft_status time_round(run *f, size_t round, size_t *order, ft_rng *rng, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("measuring");
    ft_status status = FT_OK;
    size_t n_train = f->out->part[FT_FIT_TRAIN].n, n = n_train + f->out->part[FT_FIT_TEST].n;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        size_t j = i + ft_rng_below(rng, (uint32_t)(n - i)), at = order[j];
        ft_fit_pass *it = at < n_train ? &f->out->part[FT_FIT_TRAIN].at[at]
                                       : &f->out->part[FT_FIT_TEST].at[at - n_train];
        order[j] = order[i];
        if (round < (size_t)f->opts->runs || it->second_us > (1 + SETTLED) * it->us)
            status = time_batch(f, it, rng, err);
        ft_progress_report(&progress, round * n + i + 1, most_runs(f) * n);
    }
    return status;
}

static void measure_noise(ft_fit_passes *p)
{
    double sum = 0, n = 0;
    for (int part = 0; part < FT_FIT_PARTS; part++)
        for (size_t i = 0; i < p->part[part].n; i++) {
            const ft_fit_pass *it = &p->part[part].at[i];
            sum += it->sum_us / it->us;
            n += (double)json_array_size(it->runs_ms);
        }
    p->noise = sum / n - 1;
}

static ft_status time_all(run *f, ft_error *err)
{
    ft_status status = FT_OK;
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)f->opts->seed * 2);
    for (int part = 0; part < FT_FIT_PARTS && status == FT_OK; part++)
        status = draw(f, part, err);
    size_t *order = calloc((size_t)(f->opts->train + f->opts->test), sizeof *order);
    if (status == FT_OK && !order)
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    for (size_t round = 0; round < most_runs(f) && status == FT_OK; round++)
        status = time_round(f, round, order, &rng, err);
    free(order);
    if (status == FT_OK)
        measure_noise(f->out);
    return status;
}

ft_status ft_fit_measure(const char *who, ft_fit_opts *opts, const ft_fit_draw *batches,
                         ft_error *err, ft_fit_passes *out)
{
    run f = {.opts = opts, .batches = batches, .out = out};
    const ft_model_opts model = {.path = opts->path};
    *out = (ft_fit_passes){0};
    ft_status status = ft_model_load_on(&opts->device, &model, err, &out->model);
    if (status != FT_OK)
        return status;
    opts->profile.model = out->model;
    const uint32_t trained = ft_model_hparams(out->model)->n_ctx_train;
    if (opts->profile.max_ctx + opts->profile.max_rows > trained)
        return ft_error_set(err, FT_INVALID, "%s: --ctx and --rows exceed the model's context (%u)",
                            who, trained);
    status = ft_profile_create(&opts->profile, err, &f.profile);
    if (status == FT_OK)
        status = time_all(&f, err);
    ft_profile_destroy(f.profile);
    return status;
}

void ft_fit_passes_deinit(ft_fit_passes *p)
{
    for (int part = 0; part < FT_FIT_PARTS; part++) {
        for (size_t i = 0; i < p->part[part].n; i++) {
            ft_profile_batch_deinit(&p->part[part].at[i].batch);
            json_decref(p->part[part].at[i].runs_ms);
        }
        free(p->part[part].at);
    }
    ft_model_destroy(p->model);
    *p = (ft_fit_passes){0};
}

void ft_fit_print_noise(const ft_fit_passes *p)
{
    printf("a run took %.1f %% longer than the shortest of its batch, on average%s\n",
           100 * p->noise,
           p->noise > NOISE_MOST ? ": other programs use this machine, measure again" : "");
}

json_t *ft_fit_pass_json(const ft_fit_pass *it, bool fitted)
{
    const ft_profile_batch *b = &it->batch;
    return json_pack("{s:b, s:i, s:i, s:i, s:I, s:I, s:O, s:f}", "fitted", fitted, "sequences",
                     (int)b->n_parts, "rows", (int)b->pass.rows, "logits_rows", (int)b->pass.out,
                     "interactions", (json_int_t)b->pass.ctx, "cached_tok",
                     (json_int_t)b->pass.cached, "runs_ms", it->runs_ms, "ms", it->us / 1e3);
}
