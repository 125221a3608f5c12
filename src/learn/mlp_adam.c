// SPDX-License-Identifier: Apache-2.0
// Backpropagation and Adam for small perceptrons. Inner loops run along a layer's outputs, as in
// inference, so that they vectorize without another order of sums.
#include "learn/mlp_adam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The paper's. */
#define MEAN_KEEPS   0.9
#define SQUARE_KEEPS 0.999
#define LEAST        1e-8f

#define LANES 8

static size_t n_inputs(const ft_mlp_shape *shape)
{
    size_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++)
        n += shape->width[i];
    return n;
}

static void first_weights(ft_mlp_adam *a, ft_rng *rng)
{
    ft_mlp *net = a->net;
    memset(net->weight[0], 0, a->n * sizeof(float));
    for (uint32_t i = 0; i < net->shape.n_layers; i++) {
        const uint32_t n_in = net->shape.width[i], n_out = net->shape.width[i + 1];
        const uint8_t *mask = a->mask ? a->mask + (net->weight[i] - net->weight[0]) : NULL;
        for (uint32_t j = 0; j < n_out; j++) {
            uint32_t used = 0;
            for (uint32_t k = 0; k < n_in; k++)
                used += mask ? mask[(size_t)k * n_out + j] : 1;
            const double deviation = sqrt(2.0 / (used > 0 ? used : 1));
            for (uint32_t k = 0; k < n_in; k++)
                if (!mask || mask[(size_t)k * n_out + j])
                    net->weight[i][(size_t)k * n_out + j] = (float)(ft_rng_normal(rng) * deviation);
        }
    }
}

ft_status ft_mlp_adam_init(ft_mlp *net, const uint8_t *mask, ft_rng *rng, ft_error *err,
                           ft_mlp_adam *out)
{
    const size_t n = ft_mlp_n_params(&net->shape);
    float *block = calloc(3 * n + n_inputs(&net->shape), sizeof *block);
    *out = (ft_mlp_adam){0};
    if (!block)
        return ft_error_set(err, FT_NOMEM, "mlp: out of memory");
    *out = (ft_mlp_adam){.net = net,
                         .mask = mask,
                         .n = n,
                         .gradient = block,
                         .mean = block + n,
                         .square = block + 2 * n};
    float *input = block + 3 * n;
    for (uint32_t i = 0; i < net->shape.n_layers; i++) {
        out->input[i] = input;
        input += net->shape.width[i];
    }
    first_weights(out, rng);
    return FT_OK;
}

void ft_mlp_adam_deinit(ft_mlp_adam *adam)
{
    free(adam->gradient);
    *adam = (ft_mlp_adam){0};
}

void ft_mlp_adam_run(ft_mlp_adam *a, const float *x, float *y)
{
    const ft_mlp_shape *shape = &a->net->shape;
    memcpy(a->input[0], x, shape->width[0] * sizeof *x);
    for (uint32_t i = 0; i + 1 < shape->n_layers; i++) {
        float *out = a->input[i + 1];
        ft_mlp_layer(a->net, i, a->input[i], out);
        for (uint32_t j = 0; j < shape->width[i + 1]; j++)
            out[j] = out[j] > 0 ? out[j] : 0;
    }
    ft_mlp_layer(a->net, shape->n_layers - 1, a->input[shape->n_layers - 1], y);
}

static float dot(const float *restrict a, const float *restrict b, uint32_t n)
{
    float lane[LANES] = {0}, sum = 0;
    uint32_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (uint32_t k = 0; k < LANES; k++)
            lane[k] += a[j + k] * b[j + k];
    for (; j < n; j++)
        sum += a[j] * b[j];
    for (uint32_t k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

void ft_mlp_adam_back(ft_mlp_adam *a, const float *slope)
{
    const ft_mlp *net = a->net;
    float buffer[2][FT_MLP_WIDTH];
    const float *out_slope = slope;
    for (uint32_t i = net->shape.n_layers; i-- > 0;) {
        const uint32_t n_in = net->shape.width[i], n_out = net->shape.width[i + 1];
        float *restrict gradient = a->gradient + (net->weight[i] - net->weight[0]);
        float *restrict of_bias = a->gradient + (net->bias[i] - net->weight[0]);
        float *in_slope = buffer[i & 1];
        for (uint32_t j = 0; j < n_out; j++)
            of_bias[j] += out_slope[j];
        for (uint32_t k = 0; k < n_in; k++) {
            const float x = a->input[i][k];
            in_slope[k] = 0;
            if (x == 0) /* adds nothing; ReLU's slope there is 0 */
                continue;
            for (uint32_t j = 0; j < n_out; j++)
                gradient[(size_t)k * n_out + j] += x * out_slope[j];
            if (i > 0)
                in_slope[k] = dot(net->weight[i] + (size_t)k * n_out, out_slope, n_out);
        }
        out_slope = in_slope;
    }
}

void ft_mlp_adam_step(ft_mlp_adam *a, float rate)
{
    float *restrict weight = a->net->weight[0], *restrict gradient = a->gradient;
    float *restrict mean = a->mean, *restrict square = a->square;
    const float m = (float)MEAN_KEEPS, s = (float)SQUARE_KEEPS;
    a->steps++;
    const float mean_scale = (float)(1 / (1 - pow(MEAN_KEEPS, (double)a->steps)));
    const float square_scale = (float)(1 / (1 - pow(SQUARE_KEEPS, (double)a->steps)));
    for (size_t i = 0; a->mask && i < a->n; i++)
        gradient[i] *= a->mask[i];
    for (size_t i = 0; i < a->n; i++) {
        mean[i] = m * mean[i] + (1 - m) * gradient[i];
        square[i] = s * square[i] + (1 - s) * gradient[i] * gradient[i];
        weight[i] -= rate * (mean[i] * mean_scale) / (sqrtf(square[i] * square_scale) + LEAST);
        gradient[i] = 0;
    }
}
