// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops in plain C, for any head size. Machines without a faster kernel use it,
// and tests compare the other kernels with it. It has plain loops instead of attn_tile.h, so that a
// mistake there is found. Stateless.
#include <math.h>
#include <string.h>

#include "engine/attn_head.h"
#include "engine/attn_kernel.h"

#define TOK FT_KV_BLOCK_TOK

static float bf16_at(const void *base, size_t i)
{
    return ft_bf16_to_f32(((const ft_bf16 *)base)[i]);
}

/* ---- scores ---- */

static float score_f16(const ft_attn_scores *a, const ft_f16 *k, uint32_t i, uint32_t lane)
{
    const float *q = (const float *)a->q + i;
    float sum = 0;
    for (uint32_t d = 0; d < a->dim; d++)
        sum = fmaf(ft_f16_to_f32(k[(size_t)d * TOK + lane]), q[(size_t)d * a->nq], sum);
    return sum;
}

/* The second product of each pair first, like the dot product of bfloat16. */
static float score_bf16(const ft_attn_scores *a, const ft_bf16 *k, uint32_t i, uint32_t lane)
{
    const float *q = (const float *)a->q + i;
    float sum = 0;
    for (uint32_t d = 0; d < a->dim; d += 2) {
        const ft_bf16 *pair = k + (size_t)d * TOK + (size_t)lane * 2;
        sum = fmaf(bf16_at(pair, 1), q[(size_t)(d + 1) * a->nq], sum);
        sum = fmaf(bf16_at(pair, 0), q[(size_t)d * a->nq], sum);
    }
    return sum;
}

static float score_q8(const ft_attn_scores *a, const void *page, uint32_t i, uint32_t lane)
{
    const float *q = (const float *)a->q + i, *q_scale = q + (size_t)a->dim * a->nq;
    const int8_t *k = (const int8_t *)page + ft_attn_scale_bytes(a->dim) + (size_t)lane * 4;
    const ft_f16 *k_scale = (const ft_f16 *)page + lane;
    float sum = 0;
    for (uint32_t g = 0; g < a->dim / FT_Q8_GROUP; g++) {
        int32_t whole = 0;
        for (uint32_t d = g * FT_Q8_GROUP; d < (g + 1) * FT_Q8_GROUP; d++)
            whole += k[(size_t)(d / 4) * TOK * 4 + d % 4] * (int32_t)q[(size_t)d * a->nq];
        float scale = ft_f16_to_f32(k_scale[(size_t)g * TOK]) * q_scale[(size_t)g * a->nq];
        sum = fmaf((float)whole, scale, sum);
    }
    return sum;
}

static void scores(const ft_attn_scores *a, ft_kv_type type)
{
    for (uint32_t b = 0; b < a->n_block; b++)
        for (uint32_t i = 0; i < a->nq; i++)
            for (uint32_t lane = 0; lane < TOK; lane++)
                a->s[(size_t)i * a->s_stride + (size_t)b * TOK + lane] =
                    type == FT_KV_F16    ? score_f16(a, a->k[b], i, lane)
                    : type == FT_KV_BF16 ? score_bf16(a, a->k[b], i, lane)
                                         : score_q8(a, a->k[b], i, lane);
}

/* ---- weights ---- */

/* Like exp2_neg in attn_tile.h, with the same bits. */
static float exp2_neg(float x)
{
    static const float c[] = {1.32647e-3f,   9.67151e-3f,   5.550734e-2f,
                              2.4022242e-1f, 6.9314698e-1f, 1.0f};
    if (x < -126.0f)
        return 0;
    float n = rintf(x), r = x - n, p = c[0];
    for (int i = 1; i < 6; i++)
        p = fmaf(p, r, c[i]);
    return p * ft_f32_of_bits((uint32_t)((int32_t)n + 127) << 23);
}

static void weights_one(const ft_attn_weights *a, uint32_t i, ft_kv_type type)
{
    float *s = a->s + (size_t)i * FT_ATTN_TILE, *max = a->sums.max + i;
    float *sum = a->sums.sum + (size_t)i * 16, *acc = a->sums.acc + (size_t)i * a->dim;
    float top = -INFINITY, factor = 1;
    for (uint32_t j = 0; j < a->n[i]; j++)
        top = s[j] > top ? s[j] : top;
    if (a->fresh) {
        memset(sum, 0, 16 * sizeof *sum);
        *max = top;
    } else if (top > *max) {
        factor = exp2_neg(*max - top);
        *max = top;
    }
    for (uint32_t d = 0; !a->fresh && d < a->dim; d++)
        acc[d] *= factor;
    for (uint32_t j = 0; j < 16; j++)
        sum[j] *= factor;
    for (uint32_t j = 0; j < a->n[i]; j++) {
        float p = exp2_neg(s[j] - *max);
        s[j] = type == FT_KV_BF16 ? ft_bf16_to_f32(ft_bf16_of(p)) : p;
        sum[j % 16] += s[j];
    }
}

static void weights(const ft_attn_weights *a, ft_kv_type type)
{
    for (uint32_t i = 0; i < a->nq; i++)
        if (a->n[i])
            weights_one(a, i, type);
}

/* ---- values ---- */

static float value_q8(const ft_attn_values *a, const void *page, uint32_t lane, uint32_t d)
{
    return ((const int8_t *)page)[ft_attn_scale_bytes(a->dim) + (size_t)lane * a->dim + d];
}

static float sum_f16(const ft_attn_values *a, const float *p, uint32_t d, float sum)
{
    for (uint32_t lane = a->begin; lane < a->end; lane++) {
        const ft_f16 *v = a->v[lane / TOK];
        sum = fmaf(ft_f16_to_f32(v[(size_t)(lane % TOK) * a->dim + d]), p[lane], sum);
    }
    return sum;
}

static float sum_bf16(const ft_attn_values *a, const float *p, uint32_t d, float sum)
{
    for (uint32_t lane = a->begin; lane < a->end; lane += 2) {
        const ft_bf16 *v = (const ft_bf16 *)a->v[lane / TOK] + (size_t)(lane % TOK) * a->dim;
        if (lane + 1 < a->end)
            sum = fmaf(bf16_at(v, (size_t)d * 2 + 1), p[lane + 1], sum);
        sum = fmaf(bf16_at(v, (size_t)d * 2), p[lane], sum);
    }
    return sum;
}

static float sum_q8(const ft_attn_values *a, const float *p, uint32_t d, float sum)
{
    for (uint32_t lane = a->begin; lane < a->end; lane++) {
        const ft_f16 *scale = (const ft_f16 *)a->v[lane / TOK] + (size_t)(d / FT_Q8_GROUP) * TOK;
        float weight = p[lane] * ft_f16_to_f32(scale[lane % TOK]);
        sum = fmaf(value_q8(a, a->v[lane / TOK], lane % TOK, d), weight, sum);
    }
    return sum;
}

static void values(const ft_attn_values *a, ft_kv_type type)
{
    for (uint32_t i = 0; i < a->nq; i++)
        for (uint32_t d = 0; d < a->dim; d++) {
            const float *p = a->p + (size_t)i * FT_ATTN_TILE;
            float *acc = a->acc + (size_t)i * a->dim + d, sum = a->fresh ? 0 : *acc;
            *acc = type == FT_KV_F16    ? sum_f16(a, p, d, sum)
                   : type == FT_KV_BF16 ? sum_bf16(a, p, d, sum)
                                        : sum_q8(a, p, d, sum);
        }
}

/* ---- spans ---- */

static void fold(const ft_attn_sums *total, const ft_attn_sums *span, uint32_t i, uint32_t dim)
{
    float *sum = total->sum + (size_t)i * 16, *acc = total->acc + (size_t)i * dim;
    const float *span_sum = span->sum + (size_t)i * 16, *span_acc = span->acc + (size_t)i * dim;
    float top = span->max[i] > total->max[i] ? span->max[i] : total->max[i];
    float old = exp2_neg(total->max[i] - top), new = exp2_neg(span->max[i] - top);
    total->max[i] = top;
    for (uint32_t j = 0; j < 16; j++)
        sum[j] = fmaf(span_sum[j], new, sum[j] * old);
    for (uint32_t d = 0; d < dim; d++)
        acc[d] = fmaf(span_acc[d], new, acc[d] * old);
}

/* ---- kernels ---- */

#define FUNCTIONS(T, TYPE)                               \
    static void scores_##T(const ft_attn_scores *args)   \
    {                                                    \
        scores(args, TYPE);                              \
    }                                                    \
    static void weights_##T(const ft_attn_weights *args) \
    {                                                    \
        weights(args, TYPE);                             \
    }                                                    \
    static void values_##T(const ft_attn_values *args)   \
    {                                                    \
        values(args, TYPE);                              \
    }
FUNCTIONS(f16, FT_KV_F16)
FUNCTIONS(bf16, FT_KV_BF16)
FUNCTIONS(q8, FT_KV_Q8_0)

#define KERNEL(T, TYPE, MULTIPLE)          \
    [TYPE] = {.name = "plain",             \
              .type = TYPE,                \
              .dim_multiple = MULTIPLE,    \
              .prepare = head_prepare,     \
              .set_query = head_query_##T, \
              .write_k = head_k_##T,       \
              .write_v = head_v_##T,       \
              .scores = scores_##T,        \
              .weights = weights_##T,      \
              .values = values_##T,        \
              .fold = fold}
static const ft_attn_kernel kernels[] = {KERNEL(f16, FT_KV_F16, 1), KERNEL(bf16, FT_KV_BF16, 2),
                                         KERNEL(q8, FT_KV_Q8_0, FT_Q8_GROUP)};

const ft_attn_kernel *ft_attn_kernel_plain(ft_kv_type type)
{
    return &kernels[type];
}
