/* SPDX-License-Identifier: Apache-2.0
 *
 * A weight matrix as its file has it, packed, and as numbers; and products with it as operators of
 * a graph: ours on the packed one, ggml's on the plain one. */
#ifndef FT_TESTS_GEMM_PRODUCT_H
#define FT_TESTS_GEMM_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "ggml.h"

typedef struct gemm_matrix {
    enum ggml_type type;
    int64_t n_in, n_out;
    void *plain, *packed;
    float *values; /* [n_out, n_in], what the plain one stands for */
} gemm_matrix;

/* Memory for all three; who calls fills them. packed is aligned as a model's is. */
gemm_matrix gemm_matrix_alloc(enum ggml_type type, int64_t n_in, int64_t n_out);
void gemm_matrix_free(gemm_matrix *m);

/* y [n_rows, n_out] = x [n_rows, n_in] m^T (+ residual [n_rows, n_out], unless NULL). */
typedef struct gemm_product {
    const gemm_matrix *m;
    bool packed; /* our product, else ggml's, which takes no residual */
    int64_t n_rows;
    const float *x, *residual;
    int threads;
} gemm_product;

void gemm_product_run(const gemm_product *p, float *y);

#endif
