/* SPDX-License-Identifier: Apache-2.0
 * Fits a law of pass times to measured passes by least squares: the time is a sum of factors of the
 * pass, each times its cost. Says how certain the costs are and how well they predict.
 *
 * Squared errors are relative to the time of the pass, so that short passes count as long ones do.
 * A factor whose cost would be negative is left out: no work makes a pass shorter. Of two factors
 * that are equal in every pass the first has the cost of both. */
#ifndef FT_CMD_FIT_LAW_H
#define FT_CMD_FIT_LAW_H

#include "cmd/fit_passes.h"
#include "learn/lsq.h"

#define FT_FIT_FACTORS    FT_COST_FACTORS /* of a law at most */
#define FT_FIT_FOLDS      5               /* of the cross-validation */
#define FT_FIT_BOOTSTRAPS 1000            /* fits for the intervals */

typedef struct ft_fit_law {
    uint32_t n;              /* factors, 0 < n <= FT_FIT_FACTORS */
    const char *const *name; /* [n] */
    void (*factors)(const void *ctx, const ft_profile_batch *batch, double *out);
    const void *ctx;
} ft_fit_law;

/* A law with its costs. A factor that was left out costs 0. */
typedef struct ft_fit {
    const ft_fit_law *law;
    double us[FT_FIT_FACTORS], low[FT_FIT_FACTORS], high[FT_FIT_FACTORS]; /* of 95 % intervals */
    ft_lsq_quality quality[FT_FIT_PARTS], regime[FT_REGIMES]; /* regimes: of unseen passes */
    double cv_mean, cv_sd;
} ft_fit;

/* law is borrowed. regimes: how many there are among the passes, the first ones of the enum.
 * Errors as ft_lsq_fit. */
FT_WARN_UNUSED ft_status ft_fit_costs(const ft_fit_law *law, const ft_fit_passes *passes,
                                      uint32_t regimes, uint64_t seed, ft_error *err, ft_fit *out);
/* Microseconds of a pass by the fit. */
double ft_fit_predict_us(const ft_fit *fit, const ft_profile_batch *batch);

/* What each part of a law is of the time of a regime's passes, as the fit predicts it (WISP
 * appendix C, component analysis). */
typedef struct ft_fit_shares {
    size_t n;                       /* passes, fitted ones and others */
    double share[FT_FIT_FACTORS];   /* mean over passes; together 1 */
    size_t largest[FT_FIT_FACTORS]; /* passes of which it is the largest part */
} ft_fit_shares;
void ft_fit_get_shares(const ft_fit *fit, const ft_fit_passes *passes, ft_regime regime,
                       ft_fit_shares *out);

/* The six factors of sched/cost.h. */
extern const ft_fit_law ft_fit_law_six;

/* {factor: [low, high]}; qualities. */
json_t *ft_fit_intervals_json(const ft_fit *fit);
json_t *ft_fit_quality_json(const ft_lsq_quality *quality);
/* {"parts", "mean_r2", "sd_r2"}. */
json_t *ft_fit_cv_json(const ft_fit *fit);

/* {"passes", "share": {factor: share}, "largest": {factor: passes}}. */
json_t *ft_fit_shares_json(const ft_fit *fit, const ft_fit_shares *shares);

/* Tables on standard output: the costs; the shares of all regimes; and the qualities, with these
 * names of the regimes. */
void ft_fit_print_shares(const ft_fit *fit, const ft_fit_shares shares[FT_REGIMES]);
void ft_fit_print_costs(const ft_fit *fit);
void ft_fit_print_quality(const ft_fit *fit, uint32_t regimes, const char *const *regime_name);

#endif
