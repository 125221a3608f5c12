// SPDX-License-Identifier: Apache-2.0
// foretoken fit verify-time: what a pass of this model costs on this machine (WISP 4.4, eq. (19),
// and appendix C). Profiles batches, fits costs by least squares, says how certain they are, writes
// the file that `serve --costs` reads.
//
// Departs from the paper:
// - Rows with logits are a feature, and whether there are any is another. The output head is a
//   large part of a small model's work, and its weights are read once.
// - Interactions are those of a causal pass and not L_total x L_new.
// - Squared errors are relative to the time of the pass, so that short passes count as long ones
//   do.
// - A batch's time is that of its shortest run. Its runs are far apart in time, and what other
//   programs add is not the pass's own time.
// - A feature whose cost would be negative is left out: no work makes a pass shorter.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plot.h"
#include "base/progress.h"
#include "cmd/cmd.h"
#include "cmd/gen_flags.h"
#include "cmd/fit_profile.h"
#include "learn/lsq.h"
#include "sched/cost_file.h"

#define FOLDS      5
#define BOOTSTRAPS 1000
#define LEVEL      0.95
#define SETTLED    0.03 /* no more runs if the two shortest differ by this share at most */
#define NOISE_MOST 0.15 /* more noise than this means a busy machine; a quiet one has 0.03 */

/* A batch and its runs. */
typedef struct sample {
    ft_profile_batch batch;
    double factor[FT_COST_FACTORS];
    double us, second_us; /* of the shortest run and the second shortest; infinite: there is none */
    double sum_us;        /* of all runs */
    json_t *runs_ms;
} sample;

typedef struct samples {
    size_t n;
    sample *at; /* [n] */
} samples;

typedef struct fit {
    const char *path, *out, *plot;
    int64_t train, test, runs, seed;
    bool json;
    ft_device_opts device;
    ft_profile_opts opts;
    ft_profile *profile;
    samples data[2]; /* fitted; never seen */
    /* the features that are not left out, and their costs */
    size_t n_used;
    int used[FT_COST_FACTORS];
    double us[FT_COST_FACTORS], low[FT_COST_FACTORS], high[FT_COST_FACTORS];
    ft_lsq_quality quality[2], regime[FT_REGIMES];
    double cv_mean, cv_sd;
    double noise; /* by how much a run is longer than the shortest of its batch, on average */
} fit;

enum { TRAIN, TEST };

/* ---- profiling ---- */

static void samples_deinit(samples *s)
{
    for (size_t i = 0; i < s->n; i++) {
        ft_profile_batch_deinit(&s->at[i].batch);
        json_decref(s->at[i].runs_ms);
    }
    free(s->at);
}

static size_t most_runs(const fit *f)
{
    return (size_t)(f->runs > 1 ? 2 * f->runs : 1);
}

static ft_status draw(fit *f, int part, ft_error *err)
{
    samples *s = &f->data[part];
    size_t n = (size_t)(part == TRAIN ? f->train : f->test);
    ft_status status = FT_OK;
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)f->seed * 2 + (uint64_t)part);
    s->at = calloc(n, sizeof *s->at);
    if (!s->at)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (; s->n < n && status == FT_OK; s->n++) {
        sample *it = &s->at[s->n];
        *it = (sample){.us = INFINITY, .second_us = INFINITY, .runs_ms = json_array()};
        status = ft_profile_draw(f->profile, (ft_regime)(s->n % FT_REGIMES), &rng, err, &it->batch);
        ft_pass_factors(&it->batch.pass, it->factor);
    }
    return status;
}

/* One more run of a batch; the shortest counts. */
static ft_status time_batch(fit *f, sample *it, ft_rng *rng, ft_error *err)
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
static ft_status time_round(fit *f, size_t round, size_t *order, ft_rng *rng, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("measuring");
    ft_status status = FT_OK;
    size_t n_train = f->data[TRAIN].n, n = n_train + f->data[TEST].n;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        size_t j = i + ft_rng_below(rng, (uint32_t)(n - i)), at = order[j];
        sample *it = at < n_train ? &f->data[TRAIN].at[at] : &f->data[TEST].at[at - n_train];
        order[j] = order[i];
        if (round < (size_t)f->runs || it->second_us > (1 + SETTLED) * it->us)
            status = time_batch(f, it, rng, err);
        ft_progress_report(&progress, round * n + i + 1, most_runs(f) * n);
    }
    return status;
}

static void measure_noise(fit *f)
{
    double sum = 0, n = 0;
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < f->data[part].n; i++) {
            const sample *it = &f->data[part].at[i];
            sum += it->sum_us / it->us;
            n += (double)json_array_size(it->runs_ms);
        }
    f->noise = sum / n - 1;
}

static ft_status profile(fit *f, ft_error *err)
{
    ft_status status = FT_OK;
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)f->seed * 2);
    for (int part = 0; part < 2 && status == FT_OK; part++)
        status = draw(f, part, err);
    size_t *order = calloc((size_t)(f->train + f->test), sizeof *order);
    if (status == FT_OK && !order)
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    for (size_t round = 0; round < most_runs(f) && status == FT_OK; round++)
        status = time_round(f, round, order, &rng, err);
    free(order);
    if (status == FT_OK)
        measure_noise(f);
    return status;
}

/* ---- fitting ---- */

/* Samples as least squares take them. */
typedef struct view {
    double *x, *y, *weight; /* [n, n_used], [n], [n] */
} view;

/* The used factors of a part's samples, or only of those of one regime (-1: of all). The weights
 * make errors relative. Borrowed until the next call. */
static ft_lsq_data view_of(const fit *f, int part, int regime, view *v)
{
    size_t n = 0;
    for (size_t i = 0; i < f->data[part].n; i++) {
        const sample *it = &f->data[part].at[i];
        if (regime >= 0 && it->batch.regime != (ft_regime)regime)
            continue;
        for (size_t j = 0; j < f->n_used; j++)
            v->x[n * f->n_used + j] = it->factor[f->used[j]];
        v->y[n] = it->us;
        v->weight[n++] = 1 / (it->us * it->us);
    }
    return (ft_lsq_data){.x = v->x, .y = v->y, .weight = v->weight, .n = n, .k = f->n_used};
}

/* Least squares; leaves features out until no cost is negative. coef[n_used]. */
static ft_status fit_costs(fit *f, view *v, ft_error *err, double *coef)
{
    for (;;) {
        const ft_lsq_data data = view_of(f, TRAIN, -1, v);
        ft_status status = ft_lsq_fit(&data, err, coef);
        size_t worst = 0;
        if (status != FT_OK)
            return status;
        for (size_t j = 1; j < f->n_used; j++)
            worst = coef[j] < coef[worst] ? j : worst;
        if (coef[worst] >= 0)
            return FT_OK;
        memmove(&f->used[worst], &f->used[worst + 1], (f->n_used - worst - 1) * sizeof *f->used);
        f->n_used--;
    }
}

/* Quality on all samples of a part, or on those of one regime. */
static void measure(const fit *f, const double *coef, int part, int regime, view *v,
                    ft_lsq_quality *out)
{
    const ft_lsq_data data = view_of(f, part, regime, v);
    ft_lsq_measure(&data, coef, out);
}

static ft_status fit_all(fit *f, ft_error *err)
{
    double coef[FT_COST_FACTORS], low[FT_COST_FACTORS], high[FT_COST_FACTORS];
    size_t most = f->data[TRAIN].n > f->data[TEST].n ? f->data[TRAIN].n : f->data[TEST].n;
    view v = {.x = calloc(most * FT_COST_FACTORS, sizeof *v.x),
              .y = calloc(most, sizeof *v.y),
              .weight = calloc(most, sizeof *v.weight)};
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)f->seed);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        f->used[f->n_used++] = i;
    ft_status status = v.x && v.y && v.weight ? fit_costs(f, &v, err, coef)
                                              : ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK) {
        const ft_lsq_data data = view_of(f, TRAIN, -1, &v);
        const ft_lsq_bootstrap how = {.rounds = BOOTSTRAPS, .level = LEVEL, .rng = &rng};
        status = ft_lsq_intervals(&data, &how, err, low, high);
        if (status == FT_OK)
            status = ft_lsq_cross_validate(&data, FOLDS, &rng, err, &f->cv_mean, &f->cv_sd);
    }
    for (size_t j = 0; j < f->n_used && status == FT_OK; j++) {
        f->us[f->used[j]] = coef[j];
        f->low[f->used[j]] = low[j];
        f->high[f->used[j]] = high[j];
    }
    for (int part = 0; part < 2 && status == FT_OK; part++)
        measure(f, coef, part, -1, &v, &f->quality[part]);
    for (int regime = 0; regime < FT_REGIMES && status == FT_OK; regime++)
        measure(f, coef, TEST, regime, &v, &f->regime[regime]);
    free(v.x);
    free(v.y);
    free(v.weight);
    return status;
}

/* ---- what comes out ---- */

static json_t *quality_json(const ft_lsq_quality *q)
{
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "batches", (int)q->n, "r2", q->r2,
                     "adjusted_r2", q->adjusted_r2, "rmse_ms", q->rmse / 1e3, "mae_ms",
                     q->mae / 1e3, "mape", q->mape, "max_error_ms", q->max_error / 1e3);
}

static double predicted_us(const fit *f, const sample *it)
{
    double us = 0;
    for (int j = 0; j < FT_COST_FACTORS; j++)
        us += it->factor[j] * f->us[j];
    return us;
}

static json_t *batch_json(const fit *f, int part, const sample *it)
{
    const ft_profile_batch *b = &it->batch;
    return json_pack("{s:s, s:b, s:i, s:i, s:i, s:I, s:I, s:O, s:f, s:f}", "regime",
                     ft_regime_name[b->regime], "fitted", part == TRAIN, "sequences",
                     (int)b->n_parts, "rows", (int)b->pass.rows, "logits_rows", (int)b->pass.out,
                     "interactions", (json_int_t)b->pass.ctx, "cached_tok",
                     (json_int_t)b->pass.cached, "runs_ms", it->runs_ms, "ms", it->us / 1e3,
                     "predicted_ms", predicted_us(f, it) / 1e3);
}

static json_t *report_of(const fit *f)
{
    ft_costs costs = {.error = fmin(f->quality[TEST].mape, 1)};
    memcpy(costs.us, f->us, sizeof costs.us);
    snprintf(costs.model, sizeof costs.model, "%s", ft_model_name(f->opts.model));
    json_t *report = ft_costs_json(&costs), *interval = json_object(), *regime = json_object();
    json_t *batches = json_array();
    for (int i = 0; i < FT_COST_FACTORS; i++)
        json_object_set_new(interval, ft_cost_factor_name[i],
                            json_pack("[f, f]", f->low[i], f->high[i]));
    for (int i = 0; i < FT_REGIMES; i++)
        json_object_set_new(regime, ft_regime_name[i], quality_json(&f->regime[i]));
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < f->data[part].n; i++)
            json_array_append_new(batches, batch_json(f, part, &f->data[part].at[i]));
    json_object_update_new(
        report, json_pack("{s:o, s:o, s:o, s:o, s:{s:i, s:f, s:f}, s:f, s:f, s:f, s:o, s:i, s:s}",
                          "interval_95", interval, "train", quality_json(&f->quality[TRAIN]),
                          "test", quality_json(&f->quality[TEST]), "test_by_regime", regime,
                          "cross_validation", "parts", FOLDS, "mean_r2", f->cv_mean, "sd_r2",
                          f->cv_sd, "r2", f->quality[TEST].r2, "mape", f->quality[TEST].mape,
                          "noise", f->noise, "batches", batches, "threads", f->opts.n_threads,
                          "kv_type", ft_kv_type_name(f->opts.kv_type)));
    json_object_set_new(report, "file", json_string(f->path));
    return report;
}

static void print_report(const fit *f)
{
    printf("%-14s %14s   95 %% of %d bootstrap fits\n", "one", "microseconds", BOOTSTRAPS);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        printf("%-14s %14.6g   %.6g to %.6g\n", ft_cost_factor_name[i], f->us[i], f->low[i],
               f->high[i]);
    printf("\n%-12s %8s %8s %10s %10s %8s %10s\n", "batches", "n", "R2", "RMSE ms", "MAE ms",
           "MAPE", "worst ms");
    for (int i = 0; i < 2 + FT_REGIMES; i++) {
        const ft_lsq_quality *q = i < 2 ? &f->quality[i] : &f->regime[i - 2];
        printf("%-12s %8zu %8.4f %10.3f %10.3f %7.1f%% %10.3f\n",
               i == TRAIN  ? "fitted"
               : i == TEST ? "unseen"
                           : ft_regime_name[i - 2],
               q->n, q->r2, q->rmse / 1e3, q->mae / 1e3, 100 * q->mape, q->max_error / 1e3);
    }
    printf("\n%d-fold cross-validation: R2 %.4f, standard deviation %.4f\n", FOLDS, f->cv_mean,
           f->cv_sd);
    printf("a run took %.1f %% longer than the shortest of its batch, on average%s\n",
           100 * f->noise,
           f->noise > NOISE_MOST ? ": other programs use this machine, measure again" : "");
}

/* Predicted over measured milliseconds. */
static ft_status plot(const fit *f, ft_error *err)
{
    ft_plot p = {.command = "fit verify-time", .path = f->plot, .width = 720, .height = 640};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key left top\nset logscale xy\n"
                       "set xlabel 'measured ms'\nset ylabel 'predicted ms'\n"
                       "plot x notitle with lines, '-' title 'fitted', '-' title 'unseen'\n");
    for (int part = 0; part < 2; part++) {
        for (size_t i = 0; i < f->data[part].n; i++) {
            const sample *it = &f->data[part].at[i];
            fprintf(p.gnuplot, "%g %g\n", it->us / 1e3, predicted_us(f, it) / 1e3);
        }
        fprintf(p.gnuplot, "e\n");
    }
    return ft_plot_close(&p, err);
}

/* ---- the command ---- */

/* Between loading the model and its end. */
static ft_status profile_and_fit(fit *f, ft_error *err)
{
    const uint32_t trained = ft_model_hparams(f->opts.model)->n_ctx_train;
    if (f->opts.max_ctx + f->opts.max_rows > trained)
        return ft_error_set(err, FT_INVALID,
                            "fit verify-time: --ctx and --rows exceed the model's context (%u)",
                            trained);
    ft_status status = ft_profile_create(&f->opts, err, &f->profile);
    if (status == FT_OK)
        status = profile(f, err);
    ft_profile_destroy(f->profile);
    if (status == FT_OK)
        status = fit_all(f, err);
    if (status == FT_OK && f->plot)
        status = plot(f, err);
    return status;
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(fit, path), "FILE", "model (GGUF)", .required = true},
    {"--threads", "-t", FT_FLAG(fit, opts.n_threads), "N", "threads; 0: all cores", 0, 512},
    {"--cache-type", NULL, FT_FLAG_ENUM(fit, opts.kv_type, ft_kv_choices), "TYPE",
     "type of K and V in memory"},
    {"--out", "-o", FT_FLAG(fit, out), "FILE", "write what serve --costs reads"},
    {"--plot", NULL, FT_FLAG(fit, plot), "FILE",
     "predicted over measured time, by gnuplot: .svg, .png or .txt"},
    {"--ctx", NULL, FT_FLAG(fit, opts.max_ctx), "N", "longest context, tokens", 16, 1 << 20},
    {"--rows", NULL, FT_FLAG(fit, opts.max_rows), "N", "rows of a batch at most", 64, 8192},
    {"--sessions", NULL, FT_FLAG(fit, opts.max_seqs), "N", "sequences of a batch at most", 1, 1024},
    {"--batches", NULL, FT_FLAG(fit, train), "N", "batches to fit", 30, 100000},
    {"--unseen", NULL, FT_FLAG(fit, test), "N", "batches to check the fit on", 15, 100000},
    {"--runs", NULL, FT_FLAG(fit, runs), "N",
     "runs of each batch; up to twice as many if they differ", 1, 100},
    {"--seed", NULL, FT_FLAG(fit, seed), "N", "seed of the batches' shapes", 0, 1e9},
    {"--json", NULL, FT_FLAG(fit, json), NULL, "print one JSON object"},
    FT_FLAG_INCLUDE(fit, device, ft_flags_device),
};

static const fit defaults = {.opts = {.max_ctx = 2048, .max_rows = 512, .max_seqs = 32},
                             .train = 123,
                             .test = 50,
                             .runs = 3,
                             .seed = 1,
                             .device = FT_DEVICE_OPTS_INIT};

static int run(void *options, int n_words, char **words)
{
    fit *f = options;
    ft_error err = {0};
    ft_model *model = NULL;
    json_t *report = NULL;
    const ft_model_opts opts = {.path = f->path};
    ft_status status = ft_model_load_on(&f->device, &opts, &err, &model);
    f->opts.model = model;
    if (status == FT_OK)
        status = profile_and_fit(f, &err);
    if (status == FT_OK)
        report = report_of(f);
    if (status == FT_OK && f->out)
        status = ft_cmd_write_json("fit verify-time", f->out, report, JSON_INDENT(2), &err);
    if (status == FT_OK && !f->json)
        print_report(f);
    samples_deinit(&f->data[TRAIN]);
    samples_deinit(&f->data[TEST]);
    ft_model_destroy(model);
    return ft_cmd_report(status, &err, report, f->json, NULL);
}

const ft_command ft_cmd_fit_verify_time = {
    .name = "fit verify-time",
    .summary = "measure what passes of a model cost on this machine, for serve --costs",
    .usage = "-m FILE [flags]",
    .about = "Measures what forward passes of a model cost on this machine (prompts, trees "
             "behind long contexts, both together). Fits fixed, per-row, per-interaction and "
             "per-cached-token costs, and says how well they predict batches that were not "
             "fitted. serve --costs FILE starts from the result instead of learning the costs "
             "from its first users.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
