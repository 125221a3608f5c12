// SPDX-License-Identifier: Apache-2.0
// The values of rows that products read, and rows for packed float weights. They are made by the
// same plain code on every machine, written so that the compiler's vectors fit it: what they cost
// is small beside any product that reads them. Stateless.
#include "engine/gemm_f.h"

#include <math.h>
#include <string.h>

enum { LANES = 32 };

size_t ft_gemm_f_units(enum ggml_type form, uint32_t n_in)
{
    return form == GGML_TYPE_BF16 ? n_in / 2 : n_in;
}

float ft_gemm_f_rms_factor(const float *x, uint32_t n_in, float eps)
{
    float square[LANES] = {0};
    const float *at = x, *end = x + n_in;
    for (; end - at >= LANES; at += LANES)
        for (int j = 0; j < LANES; j++)
            square[j] = fmaf(at[j], at[j], square[j]);
    for (int j = 0; j < end - at; j++)
        square[j] = fmaf(at[j], at[j], square[j]);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int j = 0; j < n; j++)
            square[j] += square[j + n];
    return 1.0f / sqrtf(square[0] / (float)n_in + eps);
}

void ft_gemm_f_values(const ft_gemm_f_row *row, uint32_t begin, uint32_t n, float *restrict out)
{
    const float *x = row->x + begin;
    const float factor = row->factor;
    if (row->weight) {
        const float *weight = row->weight + begin;
        for (uint32_t i = 0; i < n; i++)
            out[i] = x[i] * factor * weight[i];
    } else if (row->up) {
        const float *up = row->up + begin;
        for (uint32_t i = 0; i < n; i++)
            out[i] = x[i] / (1.0f + ft_gemm_f_exp(0.0f - x[i])) * up[i];
    } else {
        memcpy(out, x, n * sizeof *out);
    }
}

void ft_gemm_f_quantize(ft_gemm_quantize_fn *quantize, const ft_gemm_f_row *row,
                        ft_gemm_f_range range, ft_gemm_block *out, size_t stride)
{
    float y[FT_GEMM_F_BLOCKS * 32];
    if (!row->weight && !row->up) {
        quantize(row->x + (size_t)range.begin * 32, range.end - range.begin,
                 out + range.begin * stride, stride);
        return;
    }
    for (uint32_t b = range.begin; b < range.end; b += FT_GEMM_F_BLOCKS) {
        uint32_t n = range.end - b < FT_GEMM_F_BLOCKS ? range.end - b : FT_GEMM_F_BLOCKS;
        ft_gemm_f_values(row, b * 32, n * 32, y);
        quantize(y, n, out + b * stride, stride);
    }
}

/* To nearest even; what is not a number stays so. */
static inline uint32_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 64;
    return (bits & 0x7fffffff) > 0x7f800000 ? nan : rounded;
}

void ft_gemm_f_put(enum ggml_type form, const ft_gemm_f_row *row, ft_gemm_f_range range,
                   uint32_t *out, size_t stride)
{
    const uint32_t values = form == GGML_TYPE_BF16 ? 2 : 1;
    float y[LANES];
    uint32_t unit[LANES];
    for (uint32_t begin = range.begin; begin < range.end; begin += LANES / values) {
        uint32_t left = range.end - begin, n = left < LANES / values ? left : LANES / values;
        ft_gemm_f_values(row, begin * values, n * values, y);
        if (form == GGML_TYPE_BF16)
            for (uint32_t i = 0; i < n; i++)
                unit[i] = bf16_of(y[2 * i]) | bf16_of(y[2 * i + 1]) << 16;
        else
            memcpy(unit, y, n * sizeof *unit);
        for (uint32_t i = 0; i < n; i++)
            out[(begin + i) * stride] = unit[i];
    }
}
