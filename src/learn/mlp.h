/* SPDX-License-Identifier: Apache-2.0
 *
 * Small multilayer perceptrons with ReLU: inference. The network is plain data; any thread may use
 * a finished one.
 */
#ifndef FT_LEARN_MLP_H
#define FT_LEARN_MLP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_MLP_LAYERS 8    /* most layers with weights */
#define FT_MLP_WIDTH  1024 /* most inputs of the network or units of a layer */

/* The widths of inputs, hidden layers and outputs. */
typedef struct ft_mlp_shape {
    uint32_t n_layers;                 /* layers with weights: 1 to FT_MLP_LAYERS */
    uint32_t width[FT_MLP_LAYERS + 1]; /* [n_layers + 1], each 1 to FT_MLP_WIDTH */
} ft_mlp_shape;

typedef struct ft_mlp {
    ft_mlp_shape shape;
    /* [width[i], width[i + 1]]: the weights of one input are together */
    float *weight[FT_MLP_LAYERS];
    float *bias[FT_MLP_LAYERS]; /* [width[i + 1]] */
} ft_mlp;

/* Makes a network with all weights 0. FT_INVALID (shape), FT_NOMEM: *out is all-zero. */
FT_WARN_UNUSED ft_status ft_mlp_init(const ft_mlp_shape *shape, ft_error *err, ft_mlp *out);
/* All-zero is legal. */
void ft_mlp_deinit(ft_mlp *mlp);

/* Number of weights and biases. */
size_t ft_mlp_n_params(const ft_mlp_shape *shape);

/* Computes y[n, outputs] from x[n, inputs], with ReLU behind every layer except the last. Each
 * row's result is the same bits, whatever the other rows are. No allocation. */
void ft_mlp_run(const ft_mlp *mlp, const float *x, size_t n, float *y);

/* One layer, without ReLU: y[width[i + 1]] from x[width[i]], which must not overlap. Inside the
 * room. */
void ft_mlp_layer(const ft_mlp *mlp, uint32_t i, const float *restrict x, float *restrict y);

#endif
