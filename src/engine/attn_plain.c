// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops in plain C, for any head size: what machines without a kernel of their own
// run, and what the tests hold the others against. Written as straight loops, not through
// attn_tile.h, so that a mistake there shows. Stateless.
#include <math.h>
#include <string.h>

#include "engine/attn_kernel.h"
#include "ggml.h"

static void scores(const float *q, uint32_t nq, uint32_t dim, const ft_f16 *const *k,
                   const ft_f16 *const *ahead, uint32_t n_block, float *s, uint32_t s_stride)
{
    for (uint32_t b = 0; b < n_block; b++)
        for (uint32_t i = 0; i < nq; i++)
            for (uint32_t lane = 0; lane < 16; lane++) {
                float sum = 0;
                for (uint32_t d = 0; d < dim; d++)
                    sum = fmaf(ggml_fp16_to_fp32(k[b][(size_t)d * 16 + lane]),
                               q[(size_t)d * nq + i], sum);
                s[(size_t)i * s_stride + (size_t)b * 16 + lane] = sum;
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

static void values(const float *p, uint32_t nq, uint32_t dim, const ft_f16 *const *v,
                   const ft_f16 *const *ahead, uint32_t begin, uint32_t end, bool fresh, float *acc)
{
    for (uint32_t i = 0; i < nq; i++)
        for (uint32_t d = 0; d < dim; d++) {
            float sum = fresh ? 0 : acc[(size_t)i * dim + d];
            for (uint32_t lane = begin; lane < end; lane++)
                sum = fmaf(ggml_fp16_to_fp32(v[lane][d]), p[(size_t)i * FT_ATTN_TILE + lane], sum);
            acc[(size_t)i * dim + d] = sum;
        }
}

static void fold(float *total_max, float *total_sum, float *total_acc, float max, const float *sum,
                 const float *acc, uint32_t dim)
{
    float top = max > *total_max ? max : *total_max;
    float old = exp2_neg(*total_max - top), new = exp2_neg(max - top);
    *total_max = top;
    for (uint32_t i = 0; i < 16; i++)
        total_sum[i] = fmaf(sum[i], new, total_sum[i] * old);
    for (uint32_t d = 0; d < dim; d++)
        total_acc[d] = fmaf(acc[d], new, total_acc[d] * old);
}

const ft_attn_kernel ft_attn_kernel_plain = {
    .name = "plain",
    .dim_multiple = 1,
    .scores = scores,
    .softmax = softmax,
    .values = values,
    .fold = fold,
};
