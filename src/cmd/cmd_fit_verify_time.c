// SPDX-License-Identifier: Apache-2.0
// foretoken fit verify-time: what a pass of this model costs on this machine (WISP 4.4, eq. (19),
// and appendix C): profiles batches, fits by least squares, says how sure one may be, writes the
// file that `serve --costs` starts from.
//
// Departs from the paper: rows with logits, and whether there are any, are features of their own
// (the output head is a large part of a small model's work, and its weights are read once),
// interactions are those that a causal pass has and not L_total x L_new, and squared errors are
// relative to the time of the pass, so that short ones count as long ones do. The shortest of a
// batch's runs, which are far apart in time, is its time: what other programs add is not the pass's
// own. A feature whose coefficient would be negative is left out: no work makes a pass shorter.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plot.h"
#include "cmd/cmd.h"
#include "cmd/gen_flags.h"
#include "cmd/fit_profile.h"
#include "learn/lsq.h"
#include "sched/cost_file.h"

#define FOLDS      5
#define BOOTSTRAPS 1000
#define LEVEL      0.95
#define SETTLED \
    0.03 /* the two shortest runs of a batch differ by no more: it needs no further ones */
#define NOISE_MOST 0.15 /* of runs above the shortest of their batch; quiet machines have 0.03 */

typedef struct samples {
    size_t n;
    ft_profile_batch *batches;
    double *runs;   /* [n, most_runs] microseconds */
    size_t *n_runs; /* [n] */
    double *x;      /* [n, FT_COST_FACTORS] */
    double *y;      /* [n] microseconds, of the shortest run */
    double *second; /* [n] of the next shortest; infinite: none */
} samples;

typedef struct fit {
    const char *path, *kv_name, *out, *plot;
    int64_t threads, ctx, rows, seqs, train, test, runs, seed;
    bool json;
    ft_device_opts device;
    const ft_model *model;
    ft_profile *profile;
    samples data[2]; /* fitted; never seen */
    uint32_t most_rows;
    /* the features that stay, and what they cost */
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
    for (size_t i = 0; i < s->n; i++)
        ft_profile_batch_deinit(&s->batches[i]);
    free(s->batches);
    free(s->runs);
    free(s->n_runs);
    free(s->x);
    free(s->y);
    free(s->second);
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
    s->batches = calloc(n, sizeof *s->batches);
    s->runs = calloc(n * most_runs(f), sizeof *s->runs);
    s->n_runs = calloc(n, sizeof *s->n_runs);
    s->second = calloc(n, sizeof *s->second);
    s->x = calloc(n * FT_COST_FACTORS, sizeof *s->x);
    s->y = calloc(n, sizeof *s->y);
    if (!s->batches || !s->runs || !s->n_runs || !s->second || !s->x || !s->y)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (; s->n < n && status == FT_OK; s->n++) {
        ft_profile_batch *b = &s->batches[s->n];
        status = ft_profile_draw(f->profile, (ft_regime)(s->n % FT_REGIMES), &rng, err, b);
        ft_pass_factors(&b->pass, s->x + s->n * FT_COST_FACTORS);
        f->most_rows = b->pass.rows > f->most_rows ? b->pass.rows : f->most_rows;
    }
    return status;
}

/* One more run of a batch; the shortest counts. */
static ft_status time_batch(fit *f, samples *s, size_t i, ft_rng *rng, ft_error *err)
{
    double us = 0;
    ft_status status = ft_profile_time(f->profile, &s->batches[i], rng, err, &us);
    s->second[i] = s->n_runs[i] == 0 ? INFINITY : fmax(s->y[i], fmin(us, s->second[i]));
    s->y[i] = s->n_runs[i] == 0 ? us : fmin(us, s->y[i]);
    s->runs[i * most_runs(f) + s->n_runs[i]++] = us;
    return status;
}

/* A round times every batch once, in an order of its own: what disturbs the machine for seconds
 * meets one run of a batch, not all of them as it would if they followed one another, and fitted
 * batches as often as unseen ones. Later rounds only time those again whose two shortest runs
 * differ. */
static ft_status time_round(fit *f, size_t round, size_t *order, ft_rng *rng, ft_error *err)
{
    ft_status status = FT_OK;
    size_t n_train = f->data[TRAIN].n, n = n_train + f->data[TEST].n;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        size_t j = i + ft_rng_below(rng, (uint32_t)(n - i)), at = order[j];
        samples *s = &f->data[at < n_train ? TRAIN : TEST];
        order[j] = order[i];
        at -= at < n_train ? 0 : n_train;
        if (round < (size_t)f->runs || s->second[at] > (1 + SETTLED) * s->y[at])
            status = time_batch(f, s, at, rng, err);
        if (!f->json)
            fprintf(stderr, "\rround %zu of up to %zu, batch %zu of %zu    ", round + 1,
                    most_runs(f), i + 1, n);
    }
    return status;
}

static void measure_noise(fit *f)
{
    double sum = 0, n = 0;
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < f->data[part].n; i++)
            for (size_t r = 0; r < f->data[part].n_runs[i]; r++, n++)
                sum += f->data[part].runs[i * most_runs(f) + r] / f->data[part].y[i] - 1;
    f->noise = sum / n;
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
    if (!f->json)
        fprintf(stderr, "\n");
    if (status == FT_OK)
        measure_noise(f);
    return status;
}

/* ---- fitting ---- */

/* The used columns of the samples; weight: as if errors were relative. Borrowed until the next
 * call. */
typedef struct view {
    double *x, *weight;
} view;

static ft_lsq_data view_of(const fit *f, int part, view *v)
{
    const samples *s = &f->data[part];
    for (size_t i = 0; i < s->n; i++) {
        v->weight[i] = 1 / (s->y[i] * s->y[i]);
        for (size_t j = 0; j < f->n_used; j++)
            v->x[i * f->n_used + j] = s->x[i * FT_COST_FACTORS + (size_t)f->used[j]];
    }
    return (ft_lsq_data){.x = v->x, .y = s->y, .weight = v->weight, .n = s->n, .k = f->n_used};
}

/* Least squares; leaves features out until no cost is negative. coef[n_used]. */
static ft_status fit_costs(fit *f, view *v, ft_error *err, double *coef)
{
    for (;;) {
        const ft_lsq_data data = view_of(f, TRAIN, v);
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
    const samples *s = &f->data[part];
    ft_lsq_data data = view_of(f, part, v);
    double *y = v->weight; /* no longer needed */
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (regime >= 0 && s->batches[i].regime != (ft_regime)regime)
            continue;
        memmove(v->x + n * f->n_used, v->x + i * f->n_used, f->n_used * sizeof *v->x);
        y[n++] = s->y[i];
    }
    data.y = y;
    data.n = n;
    ft_lsq_measure(&data, coef, out);
}

static ft_status fit_all(fit *f, ft_error *err)
{
    double coef[FT_COST_FACTORS], low[FT_COST_FACTORS], high[FT_COST_FACTORS];
    size_t most = f->data[TRAIN].n > f->data[TEST].n ? f->data[TRAIN].n : f->data[TEST].n;
    view v = {.x = calloc(most * FT_COST_FACTORS, sizeof *v.x),
              .weight = calloc(most, sizeof *v.weight)};
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)f->seed);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        f->used[f->n_used++] = i;
    ft_status status = v.x && v.weight ? fit_costs(f, &v, err, coef)
                                       : ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK) {
        const ft_lsq_data data = view_of(f, TRAIN, &v);
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

static double predicted_us(const fit *f, const samples *s, size_t i)
{
    double us = 0;
    for (int j = 0; j < FT_COST_FACTORS; j++)
        us += s->x[i * FT_COST_FACTORS + (size_t)j] * f->us[j];
    return us;
}

static json_t *batch_json(const fit *f, int part, size_t i)
{
    const samples *s = &f->data[part];
    const ft_profile_batch *b = &s->batches[i];
    json_t *runs = json_array();
    for (size_t r = 0; r < s->n_runs[i]; r++)
        json_array_append_new(runs, json_real(s->runs[i * most_runs(f) + r] / 1e3));
    return json_pack("{s:s, s:b, s:i, s:i, s:i, s:I, s:I, s:o, s:f, s:f}", "regime",
                     ft_regime_name[b->regime], "fitted", part == TRAIN, "sequences",
                     (int)b->n_parts, "rows", (int)b->pass.rows, "logits_rows", (int)b->pass.out,
                     "interactions", (json_int_t)b->pass.ctx, "cached_tok",
                     (json_int_t)b->pass.cached, "runs_ms", runs, "ms", s->y[i] / 1e3,
                     "predicted_ms", predicted_us(f, s, i) / 1e3);
}

static json_t *report_of(const fit *f)
{
    ft_costs costs = {.most_rows = f->most_rows, .error = f->quality[TEST].mape};
    memcpy(costs.us, f->us, sizeof costs.us);
    costs.error = costs.error < 1 ? costs.error : 1;
    snprintf(costs.model, sizeof costs.model, "%s", ft_model_name(f->model));
    json_t *report = ft_costs_json(&costs), *interval = json_object(), *regime = json_object();
    json_t *batches = json_array();
    for (int i = 0; i < FT_COST_FACTORS; i++)
        json_object_set_new(interval, ft_cost_factor_name[i],
                            json_pack("[f, f]", f->low[i], f->high[i]));
    for (int i = 0; i < FT_REGIMES; i++)
        json_object_set_new(regime, ft_regime_name[i], quality_json(&f->regime[i]));
    json_object_set_new(report, "interval_95", interval);
    json_object_set_new(report, "train", quality_json(&f->quality[TRAIN]));
    json_object_set_new(report, "test", quality_json(&f->quality[TEST]));
    json_object_set_new(report, "test_by_regime", regime);
    json_object_set_new(
        report, "cross_validation",
        json_pack("{s:i, s:f, s:f}", "parts", FOLDS, "mean_r2", f->cv_mean, "sd_r2", f->cv_sd));
    json_object_set_new(report, "r2", json_real(f->quality[TEST].r2));
    json_object_set_new(report, "mape", json_real(f->quality[TEST].mape));
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < f->data[part].n; i++)
            json_array_append_new(batches, batch_json(f, part, i));
    json_object_set_new(report, "noise", json_real(f->noise));
    json_object_set_new(report, "batches", batches);
    json_object_set_new(report, "file", json_string(f->path));
    json_object_set_new(report, "threads", json_integer(f->threads));
    json_object_set_new(report, "kv_type", json_string(f->kv_name));
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
        const samples *s = &f->data[part];
        for (size_t i = 0; i < s->n; i++) {
            fprintf(p.gnuplot, "%g %g\n", s->y[i] / 1e3, predicted_us(f, s, i) / 1e3);
        }
        fprintf(p.gnuplot, "e\n");
    }
    return ft_plot_close(&p, err);
}

static ft_status write_file(const fit *f, const json_t *report, ft_error *err)
{
    if (!f->out || json_dump_file(report, f->out, JSON_INDENT(2)) == 0)
        return FT_OK;
    return ft_error_set(err, FT_IO, "fit verify-time: %s cannot be written: %s", f->out,
                        strerror(errno));
}

/* ---- the command ---- */

static ft_status fit_and_report(fit *f, ft_error *err)
{
    ft_model *model = NULL;
    const ft_model_opts model_opts = {.path = f->path};
    ft_profile_opts opts = {.n_threads = (int)f->threads,
                            .max_rows = (uint32_t)f->rows,
                            .max_ctx = (uint32_t)f->ctx,
                            .max_seqs = (uint32_t)f->seqs};
    if (!f->path)
        return ft_error_set(err, FT_INVALID, "fit verify-time: which model? pass it with -m");
    ft_status status = ft_cmd_kv_type(f->kv_name, err, &opts.kv_type);
    if (status == FT_OK)
        status = ft_model_load_on(&f->device, &model_opts, err, &model);
    f->model = opts.model = model;
    if (status == FT_OK && opts.max_ctx + opts.max_rows > ft_model_hparams(model)->n_ctx_train)
        status = ft_error_set(err, FT_INVALID,
                              "fit verify-time: --ctx and --rows exceed the model's context (%u)",
                              ft_model_hparams(model)->n_ctx_train);
    if (status == FT_OK)
        status = ft_profile_create(&opts, err, &f->profile);
    if (status == FT_OK)
        status = profile(f, err);
    ft_profile_destroy(f->profile);
    if (status == FT_OK)
        status = fit_all(f, err);
    if (status == FT_OK && f->plot)
        status = plot(f, err);
    if (status == FT_OK) {
        json_t *report = report_of(f);
        status = write_file(f, report, err);
        if (status == FT_OK && f->json)
            ft_cmd_print_json(report);
        else
            json_decref(report);
        if (status == FT_OK && !f->json)
            print_report(f);
    }
    ft_model_destroy(model);
    return status;
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(fit, path), "FILE", "model (GGUF)"},
    {"--threads", "-t", FT_FLAG(fit, threads), "N", "threads; 0: all cores", 0, 512},
    {"--cache-type", NULL, FT_FLAG(fit, kv_name), "TYPE", "f16, bf16 or q8_0"},
    {"--out", "-o", FT_FLAG(fit, out), "FILE", "write what serve --costs reads"},
    {"--plot", NULL, FT_FLAG(fit, plot), "FILE",
     "predicted over measured, by gnuplot: .svg, .png or .txt"},
    {"--ctx", NULL, FT_FLAG(fit, ctx), "N", "longest context", 16, 1 << 20},
    {"--rows", NULL, FT_FLAG(fit, rows), "N", "most rows of a batch", 64, 8192},
    {"--sessions", NULL, FT_FLAG(fit, seqs), "N", "most sequences of a batch", 1, 1024},
    {"--batches", NULL, FT_FLAG(fit, train), "N", "batches to fit", 30, 100000},
    {"--unseen", NULL, FT_FLAG(fit, test), "N", "batches to check the fit on", 15, 100000},
    {"--runs", NULL, FT_FLAG(fit, runs), "N",
     "rounds over all batches; up to as many more where runs differ", 1, 100},
    {"--seed", NULL, FT_FLAG(fit, seed), "N", "of the batches' shapes", 0, 1e9},
    {"--json", NULL, FT_FLAG(fit, json), NULL, "print one JSON object"},
    FT_FLAG_INCLUDE(fit, device, ft_flags_device),
};

static const fit defaults = {.kv_name = "f16",
                             .ctx = 2048,
                             .rows = 512,
                             .seqs = 32,
                             .train = 123,
                             .test = 50,
                             .runs = 3,
                             .seed = 1,
                             .device = FT_DEVICE_OPTS_INIT};

static int run(void *options, int n_words, char **words)
{
    fit *f = options;
    ft_error err = {0};
    ft_status status = fit_and_report(f, &err);
    samples_deinit(&f->data[TRAIN]);
    samples_deinit(&f->data[TEST]);
    return status == FT_OK ? 0 : ft_cmd_fail(&err);
}

const ft_command ft_cmd_fit_verify_time = {
    .name = "fit verify-time",
    .summary = "what passes of a model cost on this machine, for serve --costs",
    .usage = "-m FILE [flags]",
    .about = "Measures what forward passes of a model cost on this machine (prompts, trees "
             "behind\n"
             "long contexts, both together), fits fixed, per-row, per-interaction and "
             "per-cached-\n"
             "token costs, and says how well they predict batches that were not fitted. serve\n"
             "--costs FILE starts from the result instead of learning from its first users.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
