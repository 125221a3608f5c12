/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of rows for products, used by gemm.c, and rows for packed float weights (F32, F16,
 * BF16: model/pack.h). With
 * F32 and F16 weights, rows are multiplied as F32. With BF16 weights they are rounded to bf16, as
 * ggml does, because the processor's dot product takes pairs of bf16. Sums are f32, in one order
 * for any number of rows and on all machines. So results are the same bits everywhere, except for
 * numbers below 2^-126, which that dot product takes as 0.
 */
#ifndef FT_ENGINE_GEMM_F_H
#define FT_ENGINE_GEMM_F_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/gemm_kernel.h"

/* A row in memory consists of units of 4 bytes: a float, or a pair of bf16 (the first in the low
 * half). The units of a group's rows alternate: [units of a row][rows of the group]. form:
 * GGML_TYPE_F32 or GGML_TYPE_BF16. */
size_t ft_gemm_f_units(enum ggml_type form, uint32_t n_in);

typedef struct ft_gemm_f_row {
    const float *x;      /* the values are x, */
    const float *weight; /* or, unless NULL, x * factor * weight, */
    float factor;
    const float *up; /* or, unless NULL, silu(x) * up */
} ft_gemm_f_row;

/* e^x to within 2 units in the last place: 2^n e^r, |r| <= ln 2 / 2, with e^r by its series to r^6
 * / 720. x is clamped so that 2^n and the result are normal numbers. Beyond that range silu needs
 * no more precision. All kernels compute e^x in these steps. */
static inline float ft_gemm_f_exp(float x)
{
    x = x > -87.0f ? x : -87.0f;
    x = x < 87.0f ? x : 87.0f;
    float n = rintf(x * 0x1.715476p+0f);
    float r = fmaf(-n, 0x1.62e400p-1f, x), y = 1.0f / 720, power;
    r = fmaf(-n, 0x1.7f7d1cp-20f, r);
    y = fmaf(y, r, 1.0f / 120);
    y = fmaf(y, r, 1.0f / 24);
    y = fmaf(y, r, 1.0f / 6);
    y = fmaf(y, r, 0.5f);
    y = fmaf(y, r, 1.0f);
    y = fmaf(y, r, 1.0f);
    int32_t bits = ((int32_t)n + 127) * (1 << 23); /* 2^n, made by its exponent bits */
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

/* 1 / sqrt(mean(x^2) + eps), summed in one order for all readers of the row. */
float ft_gemm_f_rms_factor(const float *x, uint32_t n_in, float eps);

typedef struct ft_gemm_f_range {
    uint32_t begin, end;
} ft_gemm_f_range;

/* Writes a row's values [begin, begin + n). */
void ft_gemm_f_values(const ft_gemm_f_row *row, uint32_t begin, uint32_t n, float *restrict out);

/* Blocks whose values are made at a time: as many as AVX2 quantizes at once. */
#define FT_GEMM_F_BLOCKS 8
/* Converts a range of a row's blocks to 8-bit values. out: the row's first block; blocks are
 * `stride` blocks apart. */
void ft_gemm_f_quantize(ft_gemm_quantize_fn *quantize, const ft_gemm_f_row *row,
                        ft_gemm_f_range range, ft_gemm_block *out, size_t stride);

/* Writes a range of a row's units. out: the start of the whole row; units are `stride` units
 * apart. */
void ft_gemm_f_put(enum ggml_type form, const ft_gemm_f_row *row, ft_gemm_f_range range,
                   uint32_t *out, size_t stride);

#endif
