// SPDX-License-Identifier: Apache-2.0
// Inference of small perceptrons. A layer adds its inputs to all outputs, one after the other. So
// the inner loop vectorizes, and the order of additions is fixed. Inputs that are 0 are skipped;
// after ReLU that is about half of them. No state.
#include "learn/mlp.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_valid(const ft_mlp_shape *shape)
{
    if (shape->n_layers < 1 || shape->n_layers > FT_MLP_LAYERS)
        return false;
    for (uint32_t i = 0; i <= shape->n_layers; i++)
        if (shape->width[i] < 1 || shape->width[i] > FT_MLP_WIDTH)
            return false;
    return true;
}

size_t ft_mlp_n_params(const ft_mlp_shape *shape)
{
    size_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++)
        n += ((size_t)shape->width[i] + 1) * shape->width[i + 1];
    return n;
}

ft_status ft_mlp_init(const ft_mlp_shape *shape, ft_error *err, ft_mlp *out)
{
    *out = (ft_mlp){0};
    if (!is_valid(shape))
        return ft_error_set(err, FT_INVALID, "mlp: it can have 1 to %d layers, each 1 to %d wide",
                            FT_MLP_LAYERS, FT_MLP_WIDTH);
    /* One block, beginning at weight[0]. */
    float *at = calloc(ft_mlp_n_params(shape), sizeof *at);
    if (!at)
        return ft_error_set(err, FT_NOMEM, "mlp: out of memory");
    out->shape = *shape;
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        out->weight[i] = at;
        out->bias[i] = at + (size_t)shape->width[i] * shape->width[i + 1];
        at = out->bias[i] + shape->width[i + 1];
    }
    return FT_OK;
}

void ft_mlp_deinit(ft_mlp *mlp)
{
    free(mlp->weight[0]);
    *mlp = (ft_mlp){0};
}

void ft_mlp_layer(const ft_mlp *mlp, uint32_t i, const float *restrict x, float *restrict y)
{
    const uint32_t n_in = mlp->shape.width[i], n_out = mlp->shape.width[i + 1];
    memcpy(y, mlp->bias[i], n_out * sizeof *y);
    for (uint32_t k = 0; k < n_in; k++) {
        const float *restrict weight = mlp->weight[i] + (size_t)k * n_out;
        if (x[k] != 0)
            for (uint32_t j = 0; j < n_out; j++)
                y[j] += x[k] * weight[j];
    }
}

void ft_mlp_run(const ft_mlp *mlp, const float *x, size_t n, float *y)
{
    const uint32_t last = mlp->shape.n_layers - 1;
    float buffer[2][FT_MLP_WIDTH];
    for (size_t row = 0; row < n; row++) {
        const float *in = x + row * mlp->shape.width[0];
        for (uint32_t i = 0; i < last; i++) {
            float *out = buffer[i & 1];
            ft_mlp_layer(mlp, i, in, out);
            for (uint32_t j = 0; j < mlp->shape.width[i + 1]; j++)
                out[j] = out[j] > 0 ? out[j] : 0;
            in = out;
        }
        ft_mlp_layer(mlp, last, in, y + row * mlp->shape.width[last + 1]);
    }
}
