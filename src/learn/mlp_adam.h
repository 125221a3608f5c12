/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a perceptron by Adam (Kingma, Ba, ICLR 2015) from gradients that the caller gives at its
 * outputs. For losses that ggml-opt does not have (mlp_train.h). Sums have a fixed order, so the
 * same steps give the same weights with any instruction set. Owned by one thread. */
#ifndef FT_LEARN_MLP_ADAM_H
#define FT_LEARN_MLP_ADAM_H

#include "base/rng.h"
#include "learn/mlp.h"

typedef struct ft_mlp_adam {
    ft_mlp *net;                     /* borrowed */
    const uint8_t *mask;             /* [n] borrowed; weights of 0 stay 0. NULL: all are trained */
    size_t n;                        /* weights and biases */
    float *gradient, *mean, *square; /* [n] of gradients: the sum since the last step; moments */
    float *input[FT_MLP_LAYERS];     /* of each layer, of the last run */
    uint64_t steps;
} ft_mlp_adam;

/* Gives the network its first weights (He's, by the inputs that the mask leaves to each unit) and
 * biases of 0. FT_NOMEM: *out is all-zero. */
FT_WARN_UNUSED ft_status ft_mlp_adam_init(ft_mlp *net, const uint8_t *mask, ft_rng *rng,
                                          ft_error *err, ft_mlp_adam *out);
/* All-zero is legal. */
void ft_mlp_adam_deinit(ft_mlp_adam *adam);

/* y[outputs] of x[inputs]: the bits of ft_mlp_run. */
void ft_mlp_adam_run(ft_mlp_adam *adam, const float *x, float *y);
/* Adds the gradient of a loss whose derivatives by the last run's outputs are slope[outputs]. */
void ft_mlp_adam_back(ft_mlp_adam *adam, const float *slope);
/* One step against the summed gradient, which is then 0. */
void ft_mlp_adam_step(ft_mlp_adam *adam, float rate);

#endif
