// SPDX-License-Identifier: Apache-2.0
// Products with packed K-quants in plain C: the reference that the other kernels must equal bit for
// bit. Stateless; any thread.
//
// A Q4_K or Q5_K block of 32 adds x.scale (scale dot - min sum of x.q) to its output. A Q6_K block
// adds x.scale (scale0 dot0 + scale1 dot1); each dot covers 16 values and starts at -32 times their
// sum. scale and min include the superblock's d and dmin. Dots are exact; the rest is f32, by fused
// multiply-adds in the order written.
#include <math.h>
#include <string.h>

#include "engine/f16.h"
#include "engine/gemm_types.h"
#include "model/pack.h"
#include "model/pack_k.h"

/* 32 weights of an output row: integers; weight i has scale[i / 16]. min is an eighth of its real
 * value, because x holds its sum times -8 (start8). */
typedef struct weights {
    int q[32];
    float scale[2], min;
} weights;

static int nibble(const uint8_t quants[4][64], size_t row, int k)
{
    return quants[k / 8][4 * row + (size_t)(k % 4)] >> (k % 8 < 4 ? 0 : 4) & 15;
}

/* Scale and min of block b. */
static void read_scales(const ft_pack_scales *from, size_t b, size_t row, weights *out)
{
    unsigned low = from->low[b][row], high = from->high[b % 4][row] >> (b < 4 ? 0 : 4);
    unsigned scale = (low & 15) | (high & 3) << 4, min = low >> 4 | (high >> 2 & 3) << 4;
    out->scale[0] = ft_f16_to_f32(from->d[row]) * (float)scale;
    out->min = ft_f16_to_f32(from->dmin[row]) * 0.125f * (float)min;
}

static void read_q4_k(const ft_pack_q4_k *from, size_t b, size_t row, weights *out)
{
    read_scales(&from->scales, b, row, out);
    for (int k = 0; k < 32; k++)
        out->q[k] = nibble(from->quants[b], row, k);
}

static void read_q5_k(const ft_pack_q5_k *from, size_t b, size_t row, weights *out)
{
    read_scales(&from->scales, b, row, out);
    for (int k = 0; k < 32; k++)
        out->q[k] = nibble(from->block[b].quants, row, k) |
                    (from->block[b].bits[4 * row + (size_t)(k % 4)] >> k / 4 & 1) << 4;
}

static void read_q6_k(const ft_pack_q6_k *from, uint16_t d, size_t b, size_t row, weights *out)
{
    for (size_t h = 0; h < 2; h++)
        out->scale[h] = ft_f16_to_f32(d) * (float)from->scales[2 * b + h][row];
    for (int k = 0; k < 32; k++)
        out->q[k] = nibble(from->block[b].quants, row, k) |
                    (from->block[b].bits[k / 16][4 * row + (size_t)(k % 4)] >> k % 16 / 4 * 2 & 3)
                        << 4;
}

static void read_weights(enum ggml_type type, const ft_gemm_tile *t, uint32_t block, size_t row,
                         weights *out)
{
    size_t s = block / 8, b = block % 8;
    if (type == GGML_TYPE_Q4_K) {
        read_q4_k((const ft_pack_q4_k *)t->weights + s, b, row, out);
    } else if (type == GGML_TYPE_Q5_K) {
        read_q5_k((const ft_pack_q5_k *)t->weights + s, b, row, out);
    } else {
        ft_pack_q6_k_place at = ft_pack_q6_k_at(s, t->n_blocks / 8);
        uint16_t d;
        memcpy(&d, t->weights + at.d + 2 * row, 2);
        read_q6_k((const ft_pack_q6_k *)(t->weights + at.super), d, b, row, out);
    }
}

static int32_t dot(const int *w, const int8_t *q, int n)
{
    int32_t sum = 0;
    for (int k = 0; k < n; k++)
        sum += w[k] * q[k];
    return sum;
}

static float add_block(enum ggml_type type, const weights *w, const ft_gemm_block *x, float sum)
{
    float value;
    if (type == GGML_TYPE_Q6_K) {
        value = w->scale[0] * (float)(x->start32[0] + dot(w->q, x->q, 16));
        value = fmaf(w->scale[1], (float)(x->start32[1] + dot(w->q + 16, x->q + 16, 16)), value);
    } else {
        value = w->scale[0] * (float)dot(w->q, x->q, 32);
        value = fmaf(w->min, (float)x->start8, value);
    }
    return fmaf(value, x->scale, sum);
}

static void tile_of(enum ggml_type type, const ft_gemm_tile *t)
{
    for (size_t row = 0; row < FT_PACK_ROWS; row++) {
        float sum[FT_GEMM_GROUP] = {0};
        for (uint32_t b = 0; b < t->n_blocks; b++) {
            weights w;
            read_weights(type, t, b, row, &w);
            for (uint32_t r = 0; r < t->n_rows; r++)
                sum[r] = add_block(type, &w, &t->rows[(size_t)b * t->row_blocks + r], sum[r]);
        }
        for (uint32_t r = 0; r < t->n_rows; r++) {
            if (t->residual)
                sum[r] += t->residual[r * t->residual_stride + row];
            t->out[r * t->out_stride + row] = sum[r];
        }
    }
}

FT_GEMM_K_TYPES(FT_GEMM_FUNCTION)

ft_gemm_tile_fn *ft_gemm_k_plain(enum ggml_type type)
{
    switch (type) {
        FT_GEMM_K_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}
