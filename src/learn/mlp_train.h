/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains small perceptrons that separate two classes, with ggml-opt: cross-entropy, AdamW in
 * mini-batches. The epoch with the best validation loss is kept.
 */
#ifndef FT_LEARN_MLP_TRAIN_H
#define FT_LEARN_MLP_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"
#include "learn/mlp.h"

typedef struct ft_mlp_data {
    const float *x;   /* [n, inputs], with mean about 0 and deviation about 1 */
    const uint8_t *y; /* [n] 0 or 1 */
    size_t n;
} ft_mlp_data;

typedef struct ft_mlp_train_opts {
    uint32_t batch; /* samples in a step; like the numbers below, more than 0 */
    uint32_t max_epochs;
    float rate; /* learning rate */
    int n_threads;
    uint64_t seed;        /* for weights and order; same seed, threads and machine: same result */
    ft_progress progress; /* in epochs */
} ft_mlp_train_opts;

typedef struct ft_mlp_training {
    uint32_t epochs, best; /* epochs done; the epoch that was kept, counted from 1 */
    /* Of the kept epoch: mean cross-entropy in nats on training data (during the epoch) and on
     * validation data. */
    double train_loss, loss;
} ft_mlp_training;

/* Trains `mlp`, which was initialised with one output: the log-odds of class 1. FT_INVALID: less
 * training data than one batch, or no validation data. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_mlp_train(const ft_mlp_train_opts *opts, const ft_mlp_data *train,
                                      const ft_mlp_data *validation, ft_error *err, ft_mlp *mlp,
                                      ft_mlp_training *out);

/* Mean cross-entropy of log-odds, in nats. */
double ft_mlp_loss(const ft_mlp *mlp, const ft_mlp_data *data);

#endif
