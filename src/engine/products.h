/* SPDX-License-Identifier: Apache-2.0
 *
 * Who multiplies with a weight on the CPU: our products, which want it packed (engine/gemm.h), or
 * ggml's. The two round differently, so the choice shows in the last bits of logits. It follows
 * from the weight's type and the processor, never from a measurement: servers of one file that
 * choose alike give the same text bit for bit. One answer for all row counts, as a row's result
 * must not depend on the batch.
 */
#ifndef FT_ENGINE_PRODUCTS_H
#define FT_ENGINE_PRODUCTS_H

#include "model/model.h"
#include "model/pack.h"

/* As --kernels has it. */
typedef enum ft_products {
    FT_PRODUCTS_AUTO,   /* as ft_products_choose says */
    FT_PRODUCTS_PACKED, /* ours wherever they can */
    FT_PRODUCTS_GGML    /* ggml's */
} ft_products;

/* "auto" (NULL is the same), "packed" or "ggml"; else FT_INVALID. */
FT_WARN_UNUSED ft_status ft_products_parse(const char *name, ft_error *err, ft_products *out);
/* Tells the loader. */
void ft_products_apply(ft_products products, ft_model_opts *opts);

/* The rule of AUTO, an ft_pack_choice: ours wherever the processor has a kernel of ours for the
 * type that is more than plain C. */
bool ft_products_choose(enum ggml_type type, int64_t n_in, int64_t n_out);

/* What multiplies, as `foretoken info` and the wire's Info tell it: "packed q4_1 q8_0", or with
 * "ggml q4_0" and "device q6_K" behind it. Two models of one file with the same text, which names
 * packed types only, give the same logits bit for bit. */
#define FT_PRODUCTS_TEXT 96
void ft_products_text(const ft_model_products *products, char out[FT_PRODUCTS_TEXT]);

#endif
