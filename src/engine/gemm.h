/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with packed weights (model/pack.h), as operators of a ggml graph on the CPU backend. One
 * operator converts rows to the type that the weights take, once for all weights that read them.
 * Then one operator for each weight multiplies.
 *
 * 8-bit rows (for quantized weights): values are rounded in blocks of 32 with one f32 scale;
 * products within a block are exact integers; blocks are summed in f32 in their order. Float rows
 * (for float weights): values stay F32, or are rounded to BF16 for BF16 weights; products are
 * summed in f32 in one fixed order. So a row's result is the same, bit for bit, with any other rows
 * in the batch and with any number of threads.
 */
#ifndef FT_ENGINE_GEMM_H
#define FT_ENGINE_GEMM_H

#include <stdint.h>

#include "ggml.h"

#define FT_GEMM_READERS 8 /* products that can read one set of rows */

/* Rows in a graph, converted for products. */
typedef struct ft_gemm_rows {
    struct ggml_tensor *data; /* NULL: none. Its type is the rows' type */
    uint32_t n_in, n_rows;
    uint32_t n_readers;
} ft_gemm_rows;

/* The row type for packed weights of a type: I8, F32 or BF16. */
enum ggml_type ft_gemm_rows_type(enum ggml_type weights);

/* Converts x: F32 [n_in, n_rows], maybe with gaps between rows. n_in is a multiple of 32 for I8, of
 * 2 for BF16. */
ft_gemm_rows ft_gemm_make(struct ggml_context *ctx, enum ggml_type type, struct ggml_tensor *x);
/* Converts x / sqrt(mean(x^2) + eps) * weight. eps must live as long as the graph. */
ft_gemm_rows ft_gemm_make_norm(struct ggml_context *ctx, enum ggml_type type, struct ggml_tensor *x,
                               struct ggml_tensor *weight, const float *eps);
/* Converts silu(gate) * up. gate_up: F32 [2 n_in, n_rows], gate first. */
ft_gemm_rows ft_gemm_make_swiglu(struct ggml_context *ctx, enum ggml_type type,
                                 struct ggml_tensor *gate_up);

/* weight x rows + residual (NULL: none), F32 [n_out, n_rows]. weight is packed; rows have the type
 * that it takes. */
struct ggml_tensor *ft_gemm(struct ggml_context *ctx, struct ggml_tensor *weight,
                            ft_gemm_rows *rows, struct ggml_tensor *residual);

/* ggml's own product of an unpacked weight with x: F32 [n_in, n_rows]. If ggml's kernel would round
 * a row differently beside other rows, each row becomes a matrix of its own, so that ggml uses its
 * one-row kernel. */
struct ggml_tensor *ft_gemm_ggml(struct ggml_context *ctx, struct ggml_tensor *weight,
                                 struct ggml_tensor *x);

/* Looks up rows of a packed weight (ft_pack_has_rows) by number: ids I32 [n_rows], each below
 * n_out. Returns F32 [n_in, n_rows]. */
struct ggml_tensor *ft_gemm_get_rows(struct ggml_context *ctx, struct ggml_tensor *weight,
                                     struct ggml_tensor *ids);

#endif
