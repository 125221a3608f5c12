// SPDX-License-Identifier: Apache-2.0
// Inference of small perceptrons. A layer's outputs are sums over its inputs, in their order, 64
// outputs at a time. So the loop over outputs vectorizes without changing the order of additions.
// Inputs that are 0 are skipped; after ReLU that is about half of them. No state.
#include "learn/mlp.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER 64 /* outputs: four AVX-512 registers */

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

/* A layer's inputs that are not 0. */
typedef struct inputs {
    const float *x;
    uint32_t n;
    uint16_t at[FT_MLP_WIDTH];
} inputs;

static void list_inputs(const float *x, uint32_t n, inputs *out)
{
    out->x = x;
    out->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        out->at[out->n] = (uint16_t)i;
        out->n += x[i] != 0;
    }
}

/* Adds the inputs' contribution to n <= TOGETHER of n_out outputs; `weight` begins at the first of
 * these. */
static inline void some_outputs(const float *weight, const inputs *in, uint32_t n_out, uint32_t n,
                                float *y)
{
    float sum[TOGETHER];
    memcpy(sum, y, n * sizeof *sum);
    for (uint32_t k = 0; k < in->n; k++) {
        const float x = in->x[in->at[k]], *w = weight + (size_t)in->at[k] * n_out;
        for (uint32_t j = 0; j < n; j++)
            sum[j] += x * w[j];
    }
    memcpy(y, sum, n * sizeof *sum);
}

static void layer(const ft_mlp *mlp, uint32_t i, const float *x, float *y)
{
    const uint32_t n_out = mlp->shape.width[i + 1];
    const float *weight = mlp->weight[i];
    inputs in;
    uint32_t first = 0;
    list_inputs(x, mlp->shape.width[i], &in);
    memcpy(y, mlp->bias[i], n_out * sizeof *y);
    for (; first + TOGETHER <= n_out; first += TOGETHER) /* a constant: sums stay in registers */
        some_outputs(weight + first, &in, n_out, TOGETHER, y + first);
    for (; first + 16 <= n_out; first += 16)
        some_outputs(weight + first, &in, n_out, 16, y + first);
    if (first < n_out)
        some_outputs(weight + first, &in, n_out, n_out - first, y + first);
}

void ft_mlp_run(const ft_mlp *mlp, const float *x, size_t n, float *y)
{
    const uint32_t last = mlp->shape.n_layers - 1;
    float buffer[2][FT_MLP_WIDTH];
    for (size_t row = 0; row < n; row++) {
        const float *in = x + row * mlp->shape.width[0];
        for (uint32_t i = 0; i < last; i++) {
            float *out = buffer[i & 1];
            layer(mlp, i, in, out);
            for (uint32_t j = 0; j < mlp->shape.width[i + 1]; j++)
                out[j] = out[j] > 0 ? out[j] : 0;
            in = out;
        }
        layer(mlp, last, in, y + row * mlp->shape.width[last + 1]);
    }
}
