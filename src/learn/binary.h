/* SPDX-License-Identifier: Apache-2.0
 *
 * How well log-odds tell two classes apart, in WISP's words: 1 is accepted, 0 rejected, and a false
 * positive a rejected token that was predicted to be accepted. Pure functions.
 */
#ifndef FT_LEARN_BINARY_H
#define FT_LEARN_BINARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_BINARY_BINS 10

/* Predictions to compare with what happened. */
typedef struct ft_binary_data {
    const float *odds; /* [n] log-odds of class 1, finite */
    const uint8_t *y;  /* [n] 0 or 1 */
    size_t n;
} ft_binary_data;

typedef struct ft_binary_quality {
    uint64_t tp, fp, tn, fn;                             /* at the threshold */
    double accuracy, recall, specificity, fpr, balanced; /* 0 where there is nothing to divide by */
    double auc; /* ties count half; 0.5 for one class alone */
    /* Expected calibration error: the mean over samples of |share that is 1 - probability| of their bin;
     * bins are of equal width in probability. */
    double ece;
    struct {
        uint64_t n;
        double predicted, observed; /* means */
    } bin[FT_BINARY_BINS];
} ft_binary_quality;

/* 1 is predicted from log-odds of `least` on. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_binary_measure(const ft_binary_data *data, float least, ft_error *err,
                                           ft_binary_quality *out);

/* The `least` of the highest balanced accuracy among those whose false positive rate is at most max_fpr;
 * where no threshold within the data is, one above them all. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_binary_threshold(const ft_binary_data *data, double max_fpr,
                                             ft_error *err, float *out);

#endif
