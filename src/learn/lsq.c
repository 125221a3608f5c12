// SPDX-License-Identifier: Apache-2.0
// Least squares by LAPACK's divide-and-conquer singular value decomposition. Columns are scaled to
// unit length first. Features of a forward pass differ by seven orders of magnitude, and whether a
// column depends on the others must not depend on units. Stateless.
#include "learn/lsq.h"

#include <lapacke.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RANK_TOLERANCE 1e-10 /* of the largest singular value */
#define DRAWS_MAX      100 /* most draws of a bootstrap round, until its columns are independent */

static ft_status check(const ft_lsq_data *d, ft_error *err)
{
    if (d->k == 0 || d->k > FT_LSQ_MAX_COEF)
        return ft_error_set(err, FT_INVALID, "least squares: %zu coefficients, not 1 to %d", d->k,
                            FT_LSQ_MAX_COEF);
    if (d->n < d->k)
        return ft_error_set(err, FT_INVALID, "least squares: %zu samples for %zu coefficients",
                            d->n, d->k);
    for (size_t i = 0; i < d->n; i++) {
        bool fine =
            isfinite(d->y[i]) && (!d->weight || (d->weight[i] > 0 && isfinite(d->weight[i])));
        for (size_t j = 0; j < d->k; j++)
            fine = fine && isfinite(d->x[i * d->k + j]);
        if (!fine)
            return ft_error_set(err, FT_INVALID, "least squares: sample %zu is not finite", i);
    }
    return FT_OK;
}

/* One fit, over the samples pick[n_pick] of the data (NULL: all). Scratch is reused between
 * fits. */
typedef struct solver {
    const ft_lsq_data *data;
    double *a, *b; /* [n, k], [n] */
} solver;

static void solver_deinit(solver *s)
{
    free(s->a);
    free(s->b);
}

static ft_status solver_init(solver *s, const ft_lsq_data *data, ft_error *err)
{
    *s = (solver){.data = data};
    ft_status status = check(data, err);
    if (status != FT_OK)
        return status;
    s->a = malloc(data->n * data->k * sizeof *s->a);
    s->b = malloc(data->n * sizeof *s->b);
    if (s->a && s->b)
        return FT_OK;
    solver_deinit(s);
    return ft_error_set(err, FT_NOMEM, "least squares: out of memory");
}

/* FT_PRECONDITION: dependent columns. */
static ft_status solve(solver *s, const size_t *pick, size_t n, ft_error *err, double *coef)
{
    const ft_lsq_data *d = s->data;
    double length[FT_LSQ_MAX_COEF] = {0}, singular[FT_LSQ_MAX_COEF];
    lapack_int rank = 0, k = (lapack_int)d->k;
    for (size_t i = 0; i < n; i++) {
        size_t at = pick ? pick[i] : i;
        double root = d->weight ? sqrt(d->weight[at]) : 1;
        s->b[i] = root * d->y[at];
        for (size_t j = 0; j < d->k; j++) {
            s->a[i * d->k + j] = root * d->x[at * d->k + j];
            length[j] += s->a[i * d->k + j] * s->a[i * d->k + j];
        }
    }
    for (size_t j = 0; j < d->k; j++) {
        length[j] = length[j] > 0 ? sqrt(length[j]) : 1;
        for (size_t i = 0; i < n; i++)
            s->a[i * d->k + j] /= length[j];
    }
    lapack_int info = n < d->k ? 1
                               : LAPACKE_dgelsd(LAPACK_ROW_MAJOR, (lapack_int)n, k, 1, s->a, k,
                                                s->b, 1, singular, RANK_TOLERANCE, &rank);
    if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
        return ft_error_set(err, FT_NOMEM, "least squares: out of memory");
    if (info != 0 || rank < k)
        return ft_error_set(err, FT_PRECONDITION,
                            "least squares: the samples do not determine all coefficients");
    for (size_t j = 0; j < d->k; j++)
        coef[j] = s->b[j] / length[j];
    return FT_OK;
}

ft_status ft_lsq_fit(const ft_lsq_data *data, ft_error *err, double *coef)
{
    solver s;
    ft_status status = solver_init(&s, data, err);
    if (status != FT_OK)
        return status;
    status = solve(&s, NULL, data->n, err, coef);
    solver_deinit(&s);
    return status;
}

/* ---- quality ---- */

static void measure(const ft_lsq_data *d, const size_t *pick, size_t n, const double *coef,
                    ft_lsq_quality *out)
{
    double mean = 0, total = 0, left = 0;
    size_t n_relative = 0;
    *out = (ft_lsq_quality){.n = n};
    for (size_t i = 0; i < n; i++)
        mean += d->y[pick ? pick[i] : i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        size_t at = pick ? pick[i] : i;
        double error = d->y[at];
        for (size_t j = 0; j < d->k; j++)
            error -= d->x[at * d->k + j] * coef[j];
        total += (d->y[at] - mean) * (d->y[at] - mean);
        left += error * error;
        out->mae += fabs(error) / (double)n;
        out->max_error = fmax(out->max_error, fabs(error));
        if (d->y[at] != 0) {
            out->mape += fabs(error / d->y[at]);
            n_relative++;
        }
    }
    out->rmse = n ? sqrt(left / (double)n) : 0;
    out->mape = n_relative ? out->mape / (double)n_relative : 0;
    out->r2 = total > 0 ? 1 - left / total : left == 0;
    out->adjusted_r2 =
        n > d->k ? 1 - (1 - out->r2) * (double)(n - 1) / (double)(n - d->k) : out->r2;
}

void ft_lsq_measure(const ft_lsq_data *data, const double *coef, ft_lsq_quality *out)
{
    measure(data, NULL, data->n, coef, out);
}

/* ---- bootstrap ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Quantile: the value below which a share of the sorted v[n] lies, interpolated linearly. */
static double percentile(const double *v, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[n - 1];
}

static ft_status draw_fits(solver *s, const ft_lsq_bootstrap *how, size_t *pick, ft_error *err,
                           double *fits)
{
    const ft_lsq_data *d = s->data;
    ft_status status = FT_OK;
    double coef[FT_LSQ_MAX_COEF];
    for (size_t r = 0; r < how->rounds && status == FT_OK; r++) {
        int draws = 0;
        do {
            for (size_t i = 0; i < d->n; i++)
                pick[i] = ft_rng_below(how->rng, (uint32_t)d->n);
            status = solve(s, pick, d->n, err, coef);
        } while (status == FT_PRECONDITION && ++draws < DRAWS_MAX);
        for (size_t j = 0; j < d->k; j++)
            fits[j * how->rounds + r] = coef[j];
    }
    return status;
}

ft_status ft_lsq_intervals(const ft_lsq_data *data, const ft_lsq_bootstrap *how, ft_error *err,
                           double *low, double *high)
{
    solver s;
    ft_status status = solver_init(&s, data, err);
    if (status != FT_OK)
        return status;
    size_t *pick = malloc(data->n * sizeof *pick);
    double *fits = calloc(how->rounds * data->k, sizeof *fits);
    if (how->rounds == 0 || data->n > UINT32_MAX)
        status = ft_error_set(err, FT_INVALID, "least squares: %zu bootstrap rounds", how->rounds);
    else if (!pick || !fits)
        status = ft_error_set(err, FT_NOMEM, "least squares: out of memory");
    else
        status = draw_fits(&s, how, pick, err, fits);
    for (size_t j = 0; j < data->k && status == FT_OK; j++) {
        double *of = fits + j * how->rounds;
        qsort(of, how->rounds, sizeof *of, ascending);
        low[j] = percentile(of, how->rounds, (1 - how->level) / 2);
        high[j] = percentile(of, how->rounds, (1 + how->level) / 2);
    }
    free(pick);
    free(fits);
    solver_deinit(&s);
    return status;
}

/* ---- cross-validation ---- */

static void shuffle(size_t *v, size_t n, ft_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        v[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t j = ft_rng_below(rng, (uint32_t)i), held = v[i - 1];
        v[i - 1] = v[j];
        v[j] = held;
    }
}

/* R2 on part `fold` of order[n], fitted on the other parts. Behind the order there is space for
 * another one. */
static ft_status one_fold(solver *s, size_t *order, size_t fold, size_t folds, ft_error *err,
                          double *r2)
{
    size_t n = s->data->n, begin = n * fold / folds, end = n * (fold + 1) / folds;
    size_t *rest = order + n;
    double coef[FT_LSQ_MAX_COEF];
    ft_lsq_quality quality;
    memcpy(rest, order, begin * sizeof *rest);
    memcpy(rest + begin, order + end, (n - end) * sizeof *rest);
    ft_status status = solve(s, rest, n - (end - begin), err, coef);
    if (status != FT_OK)
        return status;
    measure(s->data, order + begin, end - begin, coef, &quality);
    *r2 = quality.r2;
    return FT_OK;
}

ft_status ft_lsq_cross_validate(const ft_lsq_data *data, size_t folds, ft_rng *rng, ft_error *err,
                                double *mean_r2, double *sd_r2)
{
    solver s;
    ft_status status = solver_init(&s, data, err);
    double sum = 0, squares = 0, r2 = 0;
    if (status != FT_OK)
        return status;
    size_t *order = malloc(2 * data->n * sizeof *order);
    if (folds < 2 || folds > data->n || data->n > UINT32_MAX)
        status = ft_error_set(err, FT_INVALID, "least squares: %zu parts of %zu samples", folds,
                              data->n);
    else if (!order)
        status = ft_error_set(err, FT_NOMEM, "least squares: out of memory");
    else
        shuffle(order, data->n, rng);
    for (size_t fold = 0; fold < folds && status == FT_OK; fold++) {
        status = one_fold(&s, order, fold, folds, err, &r2);
        sum += r2;
        squares += r2 * r2;
    }
    if (status == FT_OK) {
        *mean_r2 = sum / (double)folds;
        *sd_r2 = sqrt(fmax(squares / (double)folds - *mean_r2 * *mean_r2, 0));
    }
    free(order);
    solver_deinit(&s);
    return status;
}
