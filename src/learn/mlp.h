/* SPDX-License-Identifier: Apache-2.0
 *
 * Small multilayer perceptrons with ReLU: inference. The network is plain data; a finished one may be
 * used by any thread.
 */
#ifndef FT_LEARN_MLP_H
#define FT_LEARN_MLP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_MLP_LAYERS 8    /* with weights, at most */
#define FT_MLP_WIDTH  1024 /* of inputs and layers at most */

/* The widths of inputs, hidden layers and outputs. */
typedef struct ft_mlp_shape {
    uint32_t n_layers;                 /* with weights: 1 to FT_MLP_LAYERS */
    uint32_t width[FT_MLP_LAYERS + 1]; /* [n_layers + 1], each 1 to FT_MLP_WIDTH */
} ft_mlp_shape;

typedef struct ft_mlp {
    ft_mlp_shape shape;
    float *weight[FT_MLP_LAYERS]; /* [width[i], width[i + 1]]: all weights of an input together */
    float *bias[FT_MLP_LAYERS];   /* [width[i + 1]] */
} ft_mlp;

/* All weights 0. FT_INVALID (shape), FT_NOMEM leave *out all-zero. */
FT_WARN_UNUSED ft_status ft_mlp_init(const ft_mlp_shape *shape, ft_error *err, ft_mlp *out);
/* All-zero is legal. */
void ft_mlp_deinit(ft_mlp *mlp);

/* Weights and biases together. */
size_t ft_mlp_n_params(const ft_mlp_shape *shape);

/* y[n, outputs] from x[n, inputs]: ReLU behind every layer but the last. Each row's result is the same
 * bits whatever the other rows. No allocation. */
void ft_mlp_run(const ft_mlp *mlp, const float *x, size_t n, float *y);

#endif
