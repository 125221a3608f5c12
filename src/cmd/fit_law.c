// SPDX-License-Identifier: Apache-2.0
// Least squares on measured passes, and what is said about them. Main thread only.
#include "cmd/fit_law.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVEL 0.95

static void six_factors(const void *ctx, const ft_profile_batch *b, double *out)
{
    (void)ctx;
    ft_pass_factors(&b->pass, out);
}

const ft_fit_law ft_fit_law_six = {
    .n = FT_COST_FACTORS, .name = ft_cost_factor_name, .factors = six_factors};

/* A fit under way: passes as least squares take them, and the factors that are not left out. */
typedef struct work {
    const ft_fit_law *law;
    const ft_fit_passes *passes;
    double *x, *y, *weight; /* [n, n_used], [n], [n] */
    size_t n_used;
    uint32_t used[FT_FIT_FACTORS];
} work;

static void work_deinit(work *w)
{
    free(w->x);
    free(w->y);
    free(w->weight);
}

/* Whether two factors are equal in every pass that is fitted: their costs cannot be told apart. */
static bool equal(const work *w, uint32_t i, uint32_t j)
{
    for (size_t k = 0; k < w->passes->part[FT_FIT_TRAIN].n; k++) {
        double factor[FT_FIT_FACTORS];
        w->law->factors(w->law->ctx, &w->passes->part[FT_FIT_TRAIN].at[k].batch, factor);
        if (factor[i] < factor[j] || factor[i] > factor[j])
            return false;
    }
    return true;
}

/* The factors of the law, without those that equal one before them. */
static void use_factors(work *w)
{
    for (uint32_t i = 0; i < w->law->n; i++) {
        bool own = true;
        for (size_t j = 0; j < w->n_used && own; j++)
            own = !equal(w, i, w->used[j]);
        if (own)
            w->used[w->n_used++] = i;
    }
}

static ft_status work_init(work *w, const ft_fit_law *law, const ft_fit_passes *p, ft_error *err)
{
    const size_t train = p->part[FT_FIT_TRAIN].n, test = p->part[FT_FIT_TEST].n;
    const size_t most = train > test ? train : test;
    *w = (work){.law = law, .passes = p};
    w->x = calloc(most * FT_FIT_FACTORS, sizeof *w->x);
    w->y = calloc(most, sizeof *w->y);
    w->weight = calloc(most, sizeof *w->weight);
    use_factors(w);
    if (w->x && w->y && w->weight)
        return FT_OK;
    work_deinit(w);
    return ft_error_set(err, FT_NOMEM, "out of memory");
}

/* The used factors of a part's passes, or only of those of one regime (-1: of all). The weights
 * make errors relative. Borrowed until the next call. */
static ft_lsq_data view(work *w, int part, int regime)
{
    size_t n = 0;
    for (size_t i = 0; i < w->passes->part[part].n; i++) {
        const ft_fit_pass *it = &w->passes->part[part].at[i];
        double factor[FT_FIT_FACTORS];
        if (regime >= 0 && it->batch.regime != (ft_regime)regime)
            continue;
        w->law->factors(w->law->ctx, &it->batch, factor);
        for (size_t j = 0; j < w->n_used; j++)
            w->x[n * w->n_used + j] = factor[w->used[j]];
        w->y[n] = it->us;
        w->weight[n++] = 1 / (it->us * it->us);
    }
    return (ft_lsq_data){.x = w->x, .y = w->y, .weight = w->weight, .n = n, .k = w->n_used};
}

/* Least squares; leaves factors out until no cost is negative. coef[n_used]. */
static ft_status solve(work *w, ft_error *err, double *coef)
{
    for (;;) {
        const ft_lsq_data data = view(w, FT_FIT_TRAIN, -1);
        ft_status status = ft_lsq_fit(&data, err, coef);
        size_t worst = 0;
        if (status != FT_OK)
            return status;
        for (size_t j = 1; j < w->n_used; j++)
            worst = coef[j] < coef[worst] ? j : worst;
        if (coef[worst] >= 0)
            return FT_OK;
        memmove(&w->used[worst], &w->used[worst + 1], (w->n_used - worst - 1) * sizeof *w->used);
        w->n_used--;
    }
}

static ft_status fit(work *w, uint64_t seed, ft_error *err, double *coef, ft_fit *out)
{
    double low[FT_FIT_FACTORS], high[FT_FIT_FACTORS];
    ft_rng rng;
    ft_rng_init(&rng, seed);
    ft_status status = solve(w, err, coef);
    if (status == FT_OK) {
        const ft_lsq_data data = view(w, FT_FIT_TRAIN, -1);
        const ft_lsq_bootstrap how = {.rounds = FT_FIT_BOOTSTRAPS, .level = LEVEL, .rng = &rng};
        status = ft_lsq_intervals(&data, &how, err, low, high);
        if (status == FT_OK)
            status =
                ft_lsq_cross_validate(&data, FT_FIT_FOLDS, &rng, err, &out->cv_mean, &out->cv_sd);
    }
    for (size_t j = 0; j < w->n_used && status == FT_OK; j++) {
        out->us[w->used[j]] = coef[j];
        out->low[w->used[j]] = low[j];
        out->high[w->used[j]] = high[j];
    }
    return status;
}

ft_status ft_fit_costs(const ft_fit_law *law, const ft_fit_passes *passes, uint32_t regimes,
                       uint64_t seed, ft_error *err, ft_fit *out)
{
    double coef[FT_FIT_FACTORS];
    work w;
    *out = (ft_fit){.law = law};
    ft_status status = work_init(&w, law, passes, err);
    if (status != FT_OK)
        return status;
    status = fit(&w, seed, err, coef, out);
    for (int part = 0; part < FT_FIT_PARTS && status == FT_OK; part++) {
        const ft_lsq_data data = view(&w, part, -1);
        ft_lsq_measure(&data, coef, &out->quality[part]);
    }
    for (uint32_t regime = 0; regime < regimes && status == FT_OK; regime++) {
        const ft_lsq_data data = view(&w, FT_FIT_TEST, (int)regime);
        ft_lsq_measure(&data, coef, &out->regime[regime]);
    }
    work_deinit(&w);
    return status;
}

double ft_fit_predict_us(const ft_fit *f, const ft_profile_batch *batch)
{
    double factor[FT_FIT_FACTORS], us = 0;
    f->law->factors(f->law->ctx, batch, factor);
    for (uint32_t j = 0; j < f->law->n; j++)
        us += factor[j] * f->us[j];
    return us;
}

static void add_shares(const ft_fit *f, const ft_profile_batch *batch, ft_fit_shares *sum)
{
    const double us = ft_fit_predict_us(f, batch);
    double factor[FT_FIT_FACTORS];
    uint32_t most = 0;
    f->law->factors(f->law->ctx, batch, factor);
    for (uint32_t j = 0; j < f->law->n; j++) {
        sum->share[j] += factor[j] * f->us[j] / us;
        most = factor[j] * f->us[j] > factor[most] * f->us[most] ? j : most;
    }
    sum->largest[most]++;
    sum->n++;
}

void ft_fit_get_shares(const ft_fit *f, const ft_fit_passes *passes, ft_regime regime,
                       ft_fit_shares *out)
{
    *out = (ft_fit_shares){0};
    for (int part = 0; part < FT_FIT_PARTS; part++)
        for (size_t i = 0; i < passes->part[part].n; i++) {
            const ft_profile_batch *batch = &passes->part[part].at[i].batch;
            if (batch->regime == regime && ft_fit_predict_us(f, batch) > 0)
                add_shares(f, batch, out);
        }
    for (uint32_t j = 0; j < f->law->n && out->n > 0; j++)
        out->share[j] /= (double)out->n;
}

/* ---- what is said ---- */

json_t *ft_fit_intervals_json(const ft_fit *f)
{
    json_t *out = json_object();
    for (uint32_t i = 0; i < f->law->n; i++)
        json_object_set_new(out, f->law->name[i], json_pack("[f, f]", f->low[i], f->high[i]));
    return out;
}

json_t *ft_fit_quality_json(const ft_lsq_quality *q)
{
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "batches", (int)q->n, "r2", q->r2,
                     "adjusted_r2", q->adjusted_r2, "rmse_ms", q->rmse / 1e3, "mae_ms",
                     q->mae / 1e3, "mape", q->mape, "max_error_ms", q->max_error / 1e3);
}

json_t *ft_fit_cv_json(const ft_fit *f)
{
    return json_pack("{s:i, s:f, s:f}", "parts", FT_FIT_FOLDS, "mean_r2", f->cv_mean, "sd_r2",
                     f->cv_sd);
}

json_t *ft_fit_shares_json(const ft_fit *f, const ft_fit_shares *s)
{
    json_t *share = json_object(), *largest = json_object();
    for (uint32_t j = 0; j < f->law->n; j++) {
        json_object_set_new(share, f->law->name[j], json_real(s->share[j]));
        json_object_set_new(largest, f->law->name[j], json_integer((json_int_t)s->largest[j]));
    }
    return json_pack("{s:i, s:o, s:o}", "passes", (int)s->n, "share", share, "largest", largest);
}

void ft_fit_print_shares(const ft_fit *f, const ft_fit_shares shares[FT_REGIMES])
{
    printf("\nshare of a pass's time; in brackets: passes of which it is the largest\n%-14s", "");
    for (int r = 0; r < FT_REGIMES; r++)
        printf(" %16s", ft_regime_name[r]);
    printf("\n");
    for (uint32_t j = 0; j < f->law->n; j++) {
        printf("%-14s", f->law->name[j]);
        for (int r = 0; r < FT_REGIMES; r++)
            printf(" %8.1f %% (%3zu)", 100 * shares[r].share[j], shares[r].largest[j]);
        printf("\n");
    }
    printf("WISP, appendix C, on an accelerator: interaction over 70 %% in compute, cached_tok 30 "
           "to 50 %% in memory\n");
}

void ft_fit_print_costs(const ft_fit *f)
{
    printf("%-14s %14s   95 %% of %d bootstrap fits\n", "one", "microseconds", FT_FIT_BOOTSTRAPS);
    for (uint32_t i = 0; i < f->law->n; i++)
        printf("%-14s %14.6g   %.6g to %.6g\n", f->law->name[i], f->us[i], f->low[i], f->high[i]);
}

void ft_fit_print_quality(const ft_fit *f, uint32_t regimes, const char *const *regime_name)
{
    static const char *const part_name[FT_FIT_PARTS] = {"fitted", "unseen"};
    printf("\n%-12s %8s %8s %10s %10s %8s %10s\n", "batches", "n", "R2", "RMSE ms", "MAE ms",
           "MAPE", "worst ms");
    for (uint32_t i = 0; i < FT_FIT_PARTS + regimes; i++) {
        const ft_lsq_quality *q = i < FT_FIT_PARTS ? &f->quality[i] : &f->regime[i - FT_FIT_PARTS];
        printf("%-12s %8zu %8.4f %10.3f %10.3f %7.1f%% %10.3f\n",
               i < FT_FIT_PARTS ? part_name[i] : regime_name[i - FT_FIT_PARTS], q->n, q->r2,
               q->rmse / 1e3, q->mae / 1e3, 100 * q->mape, q->max_error / 1e3);
    }
    printf("\n%d-fold cross-validation: R2 %.4f, standard deviation %.4f\n", FT_FIT_FOLDS,
           f->cv_mean, f->cv_sd);
}
