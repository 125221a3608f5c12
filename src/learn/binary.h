/* SPDX-License-Identifier: Apache-2.0
 *
 * How well log-odds separate two classes, in WISP's terms: 1 is accepted, 0 is rejected; a false
 * positive is a rejected token that was predicted to be accepted. Pure functions.
 */
#ifndef FT_LEARN_BINARY_H
#define FT_LEARN_BINARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_BINARY_BINS 10

/* Predictions and the outcomes to compare them with. */
typedef struct ft_binary_data {
    const float *odds; /* [n] log-odds of class 1, finite */
    const uint8_t *y;  /* [n] 0 or 1 */
    size_t n;
} ft_binary_data;

typedef struct ft_binary_quality {
    uint64_t tp, fp, tn, fn;                             /* at the threshold */
    double accuracy, recall, specificity, fpr, balanced; /* 0 if the divisor is 0 */
    double auc; /* ties count half; 0.5 for one class alone */
    /* Expected calibration error. Samples are put into bins of equal width in probability. It is
     * the mean over samples of |share of class 1 - mean probability| of the sample's bin. */
    double ece;
    struct {
        uint64_t n;
        double predicted, observed; /* means */
    } bin[FT_BINARY_BINS];
} ft_binary_quality;

/* Predicts class 1 if the log-odds are at least `least`. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_binary_measure(const ft_binary_data *data, float least, ft_error *err,
                                           ft_binary_quality *out);

/* Finds the `least` with the highest balanced accuracy among those with a false positive rate of at
 * most max_fpr. If no threshold within the data has such a rate, it is one above all samples.
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_binary_threshold(const ft_binary_data *data, double max_fpr,
                                             ft_error *err, float *out);

#endif
