/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear least squares (LAPACK), and what one needs to know before trusting a fit: its quality on
 * unseen data, bootstrap intervals of its coefficients, cross-validation (WISP 4.4 and appendix C).
 * Pure; any thread.
 */
#ifndef FT_LEARN_LSQ_H
#define FT_LEARN_LSQ_H

#include <stddef.h>

#include "base/rng.h"
#include "base/status.h"

#define FT_LSQ_MAX_COEF 16

/* Samples: y[i] is modelled as the sum over j of x[i, j] coef[j]. For a constant term add a column
 * of ones. Borrowed. */
typedef struct ft_lsq_data {
    const double *x;      /* [n, k] row-major */
    const double *y;      /* [n] */
    const double *weight; /* [n] > 0: weights of the squared errors; NULL: equal */
    size_t n, k;          /* n >= k, 0 < k <= FT_LSQ_MAX_COEF */
} ft_lsq_data;

typedef struct ft_lsq_quality {
    size_t n;
    double r2, adjusted_r2; /* 1 - unexplained share of the variance */
    double rmse, mae, max_error;
    double mape; /* mean of |error| / |y| over samples with y != 0 */
} ft_lsq_quality;

/* Finds coef[k] with the least (weighted) squared error. FT_INVALID: too few samples, too many
 * columns, or a number that is not finite. FT_PRECONDITION: the columns depend on each other.
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_lsq_fit(const ft_lsq_data *data, ft_error *err, double *coef);

/* Measures coef[k] on samples, without weights. */
void ft_lsq_measure(const ft_lsq_data *data, const double *coef, ft_lsq_quality *out);

/* Percentile intervals: fits `rounds` samples of size n, drawn with replacement. low[k] and high[k]
 * cut off (1 - level) / 2 of the fits on each side. A draw whose columns depend on each other is
 * drawn again. Errors as ft_lsq_fit. */
typedef struct ft_lsq_bootstrap {
    size_t rounds; /* > 0 */
    double level;  /* 0.95 */
    ft_rng *rng;
} ft_lsq_bootstrap;
FT_WARN_UNUSED ft_status ft_lsq_intervals(const ft_lsq_data *data, const ft_lsq_bootstrap *how,
                                          ft_error *err, double *low, double *high);

/* Cross-validation: splits the data into `folds` random parts, fits without each part in turn, and
 * measures R2 on it. Returns mean and standard deviation over the parts. FT_INVALID: a part would
 * be empty. */
FT_WARN_UNUSED ft_status ft_lsq_cross_validate(const ft_lsq_data *data, size_t folds, ft_rng *rng,
                                               ft_error *err, double *mean_r2, double *sd_r2);

#endif
