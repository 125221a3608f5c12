/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows for products with packed float weights (F32, F16, BF16: model/pack.h), for gemm.c. They are
 * multiplied as F32 with F32 and F16 weights, and rounded to bf16, as ggml does, with BF16 ones: the
 * processor's dot product takes pairs of bf16. Sums are f32, in one order for any number of rows and on
 * all machines, so results are the same bits everywhere; but for numbers below 2^-126, which that
 * dot product takes for 0.
 */
#ifndef FT_ENGINE_GEMM_F_H
#define FT_ENGINE_GEMM_F_H

#include <stddef.h>
#include <stdint.h>

#include "ggml.h"

/* A row in memory is units of 4 bytes: a float, or a pair of bf16 (the first in the low half). Units of
 * the rows of a group alternate: [units of a row][rows of the group]. form: GGML_TYPE_F32 or _BF16. */
size_t ft_gemm_f_units(enum ggml_type form, uint32_t n_in);

typedef struct ft_gemm_f_row {
    const float *x;      /* values are x, */
    const float *weight; /* or, unless NULL, x * factor * weight, */
    float factor;
    const float *up; /* or, unless NULL, silu(x) * up */
} ft_gemm_f_row;

/* 1 / sqrt(mean(x^2) + eps) */
float ft_gemm_f_rms_factor(const float *x, uint32_t n_in, float eps);

typedef struct ft_gemm_f_range {
    uint32_t begin, end;
} ft_gemm_f_range;

/* Writes a range of a row's units; out: of the whole row, `stride` units apart. */
void ft_gemm_f_put(enum ggml_type form, const ft_gemm_f_row *row, ft_gemm_f_range range,
                   uint32_t *out, size_t stride);

#endif
