// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops in plain C, for any head size: what machines without a kernel of their own
// run, and what the tests hold the others against. Written as straight loops, not through
// attn_tile.h, so that a mistake there shows. Stateless.
#include <math.h>
#include <string.h>

#include "engine/attn_kernel.h"
#include "ggml.h"

static void scores(const ft_attn_scores *a)
{
    for (uint32_t b = 0; b < a->n_block; b++)
        for (uint32_t i = 0; i < a->nq; i++)
            for (uint32_t lane = 0; lane < 16; lane++) {
                float sum = 0;
                for (uint32_t d = 0; d < a->dim; d++)
                    sum = fmaf(ggml_fp16_to_fp32(a->k[b][(size_t)d * 16 + lane]),
                               a->q[(size_t)d * a->nq + i], sum);
                a->s[(size_t)i * a->s_stride + (size_t)b * 16 + lane] = sum;
            }
}

/* As exp2_neg of attn_tile.h, the same bits. */
static float exp2_neg(float x)
{
    static const float c[] = {1.54035304e-4f,
                              1.33335581e-3f,
                              9.61812911e-3f,
                              5.55041087e-2f,
                              2.40226507e-1f,
                              6.93147181e-1f,
                              1.0f};
    if (x < -126.0f)
        return 0;
    float n = rintf(x), r = x - n, p = c[0];
    for (int i = 1; i < 7; i++)
        p = fmaf(p, r, c[i]);
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float pow2;
    memcpy(&pow2, &bits, sizeof pow2);
    return p * pow2;
}

static void softmax(float *s, uint32_t n, float *max, float *sum)
{
    float top = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        top = s[i] > top ? s[i] : top;
    memset(sum, 0, 16 * sizeof *sum);
    for (uint32_t i = 0; i < n; i++) {
        s[i] = exp2_neg(s[i] - top);
        sum[i % 16] += s[i];
    }
    *max = top;
}

static void values(const ft_attn_values *a)
{
    for (uint32_t i = 0; i < a->nq; i++)
        for (uint32_t d = 0; d < a->dim; d++) {
            const float *p = a->p + (size_t)i * FT_ATTN_TILE;
            float *acc = a->acc + (size_t)i * a->dim + d, sum = a->fresh ? 0 : *acc;
            for (uint32_t lane = a->begin; lane < a->end; lane++)
                sum = fmaf(ggml_fp16_to_fp32(a->v[lane][d]), p[lane], sum);
            *acc = sum;
        }
}

static void fold(const ft_attn_sums *total, const ft_attn_sums *tile, uint32_t dim)
{
    float top = *tile->max > *total->max ? *tile->max : *total->max;
    float old = exp2_neg(*total->max - top), new = exp2_neg(*tile->max - top);
    *total->max = top;
    for (uint32_t i = 0; i < 16; i++)
        total->sum[i] = fmaf(tile->sum[i], new, total->sum[i] * old);
    for (uint32_t d = 0; d < dim; d++)
        total->acc[d] = fmaf(tile->acc[d], new, total->acc[d] * old);
}

const ft_attn_kernel ft_attn_kernel_plain = {
    .name = "plain",
    .dim_multiple = 1,
    .scores = scores,
    .softmax = softmax,
    .values = values,
    .fold = fold,
};
