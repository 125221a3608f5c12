/* SPDX-License-Identifier: Apache-2.0
 *
 * What an instruction set brings to products with packed weights. The one there is needs AVX-512 with
 * VNNI (gemm_vnni.c); weights are packed only in builds that have it (ft_pack_pays).
 */
#ifndef FT_ENGINE_GEMM_KERNEL_H
#define FT_ENGINE_GEMM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml.h"

#define FT_GEMM_GROUP 8 /* rows that are multiplied at a time: their sums fill the registers */

/* 32 values of a row: q * scale. Weights are stored as unsigned numbers, so that the dot product
 * starts at minus their offset times the sum of q. */
typedef struct ft_gemm_block {
    int8_t q[32];
    float scale;
    int32_t start8, start128; /* -8 and -128 times the sum of q */
    float sum;                /* scale times the sum of q, for weights with a minimum */
} ft_gemm_block;

/* One tile of 16 outputs for a group of rows. */
typedef struct ft_gemm_tile {
    const uint8_t *weights;    /* the packed tile */
    uint32_t n_blocks, n_rows; /* 1 <= n_rows <= FT_GEMM_GROUP */
    const ft_gemm_block *rows; /* [n_blocks, n_rows] */
    const float *residual;     /* [n_rows, 16], stride floats apart; NULL: none */
    float *out;                /* likewise */
    size_t residual_stride, out_stride;
} ft_gemm_tile;

typedef struct ft_gemm_kernel {
    /* One row to blocks, `stride` blocks apart. */
    void (*quantize)(const float *x, uint32_t n_blocks, ft_gemm_block *out, size_t stride);
    void (*quantize_norm)(const float *x, const float *weight, float eps, uint32_t n_blocks,
                          ft_gemm_block *out, size_t stride);
    void (*quantize_swiglu)(const float *gate, const float *up, uint32_t n_blocks,
                            ft_gemm_block *out, size_t stride);
    /* By weight type: Q8_0, Q4_0, Q4_1 or IQ4_NL. */
    void (*tile)(enum ggml_type type, const ft_gemm_tile *tile);
} ft_gemm_kernel;

/* NULL if this build has none. */
const ft_gemm_kernel *ft_gemm_kernel_get(void);

#endif
