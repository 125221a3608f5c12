/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with packed weights (model/pack.h) as operators of a ggml graph on the CPU backend: one
 * operator makes rows of the type that the weights take, once for all weights that read them, and one a
 * weight multiplies.
 *
 * 8-bit rows (for quantized weights): values are rounded in blocks of 32 with one f32 scale; products
 * within a block are exact integers; blocks are summed in f32 in their order. Float rows (for float
 * weights): values stay F32, or are rounded to BF16 for BF16 weights; products are summed in f32 in
 * one order. So a row's result is bit for bit the same whatever other rows are in the batch and
 * however many threads there are.
 */
#ifndef FT_ENGINE_GEMM_H
#define FT_ENGINE_GEMM_H

#include <stdint.h>

#include "ggml.h"

#define FT_GEMM_READERS 8 /* products that one set of rows can serve */

/* Rows in a graph. */
typedef struct ft_gemm_rows {
    struct ggml_tensor *data; /* NULL: none. Its type is the rows' */
    uint32_t n_in, n_rows;
    uint32_t n_readers;
} ft_gemm_rows;

/* The type of rows that packed weights of a type are multiplied with: I8, F32 or BF16. */
enum ggml_type ft_gemm_rows_type(enum ggml_type weights);

/* Rows x: F32 [n_in, n_rows], rows maybe apart; n_in a multiple of 32 for I8, of 2 for BF16. */
ft_gemm_rows ft_gemm_make(struct ggml_context *ctx, enum ggml_type type, struct ggml_tensor *x);
/* Of x / sqrt(mean(x^2) + eps) * weight. eps: borrowed as long as the graph. */
ft_gemm_rows ft_gemm_make_norm(struct ggml_context *ctx, enum ggml_type type, struct ggml_tensor *x,
                               struct ggml_tensor *weight, const float *eps);
/* Of silu(gate) * up, gate_up: F32 [2 n_in, n_rows], gate first. */
ft_gemm_rows ft_gemm_make_swiglu(struct ggml_context *ctx, enum ggml_type type,
                                 struct ggml_tensor *gate_up);

/* weight rows + residual (NULL: none), F32 [n_out, n_rows]. weight is packed, rows are of its type. */
struct ggml_tensor *ft_gemm(struct ggml_context *ctx, struct ggml_tensor *weight,
                            ft_gemm_rows *rows, struct ggml_tensor *residual);

/* ggml's own product of a weight that is not packed with rows x: F32 [n_in, n_rows]. Where its kernel
 * would round a row differently among others, rows are laid out as matrices of one row each, which go
 * through its one-row kernel. */
struct ggml_tensor *ft_gemm_ggml(struct ggml_context *ctx, struct ggml_tensor *weight,
                                 struct ggml_tensor *x);

/* Rows of a packed weight that has them (ft_pack_has_rows), by their numbers: ids I32 [n_rows], each
 * below n_out. F32 [n_in, n_rows]. */
struct ggml_tensor *ft_gemm_get_rows(struct ggml_context *ctx, struct ggml_tensor *weight,
                                     struct ggml_tensor *ids);

#endif
