/* SPDX-License-Identifier: Apache-2.0
 *
 * One attention head's query, K or V of a row, in plain C. Each kernel's file includes it, so that
 * the compiler vectorizes it with that file's instruction set. No operation is contracted or
 * reordered, so the bits are the same everywhere.
 */
#ifndef FT_ENGINE_ATTN_HEAD_H
#define FT_ENGINE_ATTN_HEAD_H

#include <math.h>

#include "engine/attn_kernel.h"
#include "engine/f16.h"

static inline void head_rope(const ft_attn_geometry *geo, const float *table, float *x)
{
    uint32_t half = geo->n_rot / 2;
    if (geo->rope_neox) {
        float *restrict lo = x, *restrict hi = x + half;
        for (uint32_t i = 0; i < half; i++) {
            float c = table[2 * i], s = table[2 * i + 1], a = lo[i], b = hi[i];
            lo[i] = a * c - b * s;
            hi[i] = a * s + b * c;
        }
        return;
    }
    for (uint32_t i = 0; i < half; i++) {
        float c = table[2 * i], s = table[2 * i + 1], a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c - b * s;
        x[2 * i + 1] = a * s + b * c;
    }
}

static inline void head_prepare(const ft_attn_head *h, float *restrict out)
{
    uint32_t dim = h->geo->head_dim;
    for (uint32_t d = 0; d < dim; d++)
        out[d] = h->x[d];
    for (uint32_t d = 0; h->bias && d < dim; d++)
        out[d] += h->bias[d];
    if (h->norm) {
        double sum = 0;
        for (uint32_t d = 0; d < dim; d++)
            sum += (double)(out[d] * out[d]);
        float scale = 1.0f / sqrtf((float)(sum / dim) + h->geo->rms_eps);
        for (uint32_t d = 0; d < dim; d++)
            out[d] = out[d] * scale * h->norm[d];
    }
    if (h->rope)
        head_rope(h->geo, h->rope, out);
    for (uint32_t d = 0; h->scale != 1.0f && d < dim; d++)
        out[d] *= h->scale;
}

/* Rounds 32 floats to bytes; returns the scale. */
static inline float head_q8(const float *restrict x, int8_t *restrict out)
{
    uint32_t top = 0; /* bits of positive floats compare like the floats */
    for (uint32_t d = 0; d < FT_Q8_GROUP; d++) {
        uint32_t a = ft_f32_bits(x[d]) & 0x7fffffff;
        top = a > top ? a : top;
    }
    float max = ft_f32_of_bits(top), inverse = max > 0 ? 127.0f / max : 0;
    for (uint32_t d = 0; d < FT_Q8_GROUP; d++) {
        float v = rintf(x[d] * inverse);
        out[d] = (int8_t)(int32_t)(v > 127 ? 127 : v > -127 ? v : -127); /* NaN: -127 */
    }
    return max / 127.0f;
}

/* ---- f16 ---- */

static inline void head_query_f16(const float *head, uint32_t dim, void *q, uint32_t nq, uint32_t i)
{
    float *out = (float *)q + i; /* [dim, nq] */
    for (uint32_t d = 0; d < dim; d++)
        out[(size_t)d * nq] = head[d];
}

static inline void head_k_f16(const float *head, uint32_t dim, void *page, uint32_t lane)
{
    ft_f16 *k = (ft_f16 *)page + lane, part[16];
    for (uint32_t d = 0; d < dim; d += 16) {
        uint32_t n = dim - d < 16 ? dim - d : 16;
        ft_f16_row(head + d, part, n);
        for (uint32_t j = 0; j < n; j++)
            k[(size_t)(d + j) * FT_KV_BLOCK_TOK] = part[j];
    }
}

static inline void head_v_f16(const float *head, uint32_t dim, void *page, uint32_t lane)
{
    ft_f16_row(head, (ft_f16 *)page + (size_t)lane * dim, dim);
}

/* ---- bf16 ---- */

/* For kernels that widen to float: rounded to bf16 all the same, so all kernels use equal
 * values. */
static inline void head_query_bf16(const float *head, uint32_t dim, void *q, uint32_t nq,
                                   uint32_t i)
{
    float *out = (float *)q + i; /* [dim, nq] */
    for (uint32_t d = 0; d < dim; d++)
        out[(size_t)d * nq] = ft_bf16_to_f32(ft_bf16_of(head[d]));
}

/* For kernels with dot products. */
static inline void head_query_bf16_pairs(const float *head, uint32_t dim, void *q, uint32_t nq,
                                         uint32_t i)
{
    uint32_t *out = (uint32_t *)q + i; /* [dim / 2, nq] */
    for (uint32_t d = 0; d < dim / 2; d++)
        out[(size_t)d * nq] = ft_bf16_of(head[2 * d]) | (uint32_t)ft_bf16_of(head[2 * d + 1]) << 16;
}

static inline void head_k_bf16(const float *head, uint32_t dim, void *page, uint32_t lane)
{
    head_query_bf16_pairs(head, dim, page, FT_KV_BLOCK_TOK, lane);
}

static inline void head_v_bf16(const float *head, uint32_t dim, void *page, uint32_t lane)
{
    ft_bf16 *v = (ft_bf16 *)page + (size_t)(lane / 2) * dim * 2 + lane % 2;
    for (uint32_t d = 0; d < dim; d++)
        v[(size_t)d * 2] = ft_bf16_of(head[d]);
}

/* ---- q8_0 ---- */

/* For kernels that widen to float: whole numbers as floats [dim, nq], then scales [dim / 32,
 * nq]. */
static inline void head_query_q8(const float *head, uint32_t dim, void *q, uint32_t nq, uint32_t i)
{
    float *out = (float *)q + i, *scale = (float *)q + (size_t)dim * nq + i;
    int8_t group[FT_Q8_GROUP];
    for (uint32_t d = 0; d < dim; d += FT_Q8_GROUP) {
        scale[(size_t)(d / FT_Q8_GROUP) * nq] = head_q8(head + d, group);
        for (uint32_t j = 0; j < FT_Q8_GROUP; j++)
            out[(size_t)(d + j) * nq] = group[j];
    }
}

/* For kernels with dot products: bytes [dim / 4, nq, 4], scales [dim / 32, nq], and corrections
 * [dim / 32, nq]. The dot product takes K as unsigned bytes (value + 128); the correction, -128
 * times the sum of the query's bytes, removes the excess. */
static inline void head_query_q8_dot(const float *head, uint32_t dim, void *q, uint32_t nq,
                                     uint32_t i)
{
    char *bytes = q;
    float *scale = (float *)q + (size_t)(dim / 4) * nq + i;
    int32_t *excess = (int32_t *)q + (size_t)(dim / 4 + dim / FT_Q8_GROUP) * nq + i;
    int8_t group[FT_Q8_GROUP];
    for (uint32_t g = 0; g < dim / FT_Q8_GROUP; g++) {
        int32_t sum = 0;
        scale[(size_t)g * nq] = head_q8(head + (size_t)g * FT_Q8_GROUP, group);
        for (uint32_t j = 0; j < FT_Q8_GROUP; j += 4)
            memcpy(bytes + ((size_t)(g * FT_Q8_GROUP + j) / 4 * nq + i) * 4, group + j, 4);
        for (uint32_t j = 0; j < FT_Q8_GROUP; j++)
            sum += group[j];
        excess[(size_t)g * nq] = -128 * sum;
    }
}

static inline void head_k_q8(const float *head, uint32_t dim, void *page, uint32_t lane)
{
    ft_f16 *scale = (ft_f16 *)page + lane;
    char *bytes = (char *)page + ft_attn_scale_bytes(dim) + (size_t)lane * 4;
    int8_t group[FT_Q8_GROUP];
    for (uint32_t d = 0; d < dim; d += FT_Q8_GROUP) {
        scale[(size_t)(d / FT_Q8_GROUP) * FT_KV_BLOCK_TOK] = ft_f16_of(head_q8(head + d, group));
        for (uint32_t j = 0; j < FT_Q8_GROUP; j += 4)
            memcpy(bytes + (size_t)(d + j) / 4 * FT_KV_BLOCK_TOK * 4, group + j, 4);
    }
}

static inline void head_v_q8(const float *head, uint32_t dim, void *page, uint32_t lane)
{
    ft_f16 *scale = (ft_f16 *)page + lane;
    int8_t *bytes = (int8_t *)page + ft_attn_scale_bytes(dim) + (size_t)lane * dim;
    for (uint32_t d = 0; d < dim; d += FT_Q8_GROUP)
        scale[(size_t)(d / FT_Q8_GROUP) * FT_KV_BLOCK_TOK] =
            ft_f16_of(head_q8(head + d, bytes + d));
}

#endif
