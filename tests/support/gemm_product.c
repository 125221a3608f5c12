// SPDX-License-Identifier: Apache-2.0
// Products as operators of a graph of their own. Stateless.
#include "support/gemm_product.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/gemm.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "model/pack.h"

gemm_matrix gemm_matrix_alloc(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    size_t bytes = ggml_row_size(type, n_in) * (size_t)n_out;
    gemm_matrix m = {.type = type, .n_in = n_in, .n_out = n_out, .plain = malloc(bytes)};
    m.packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
    m.values = malloc((size_t)(n_in * n_out) * sizeof *m.values);
    return m;
}

void gemm_matrix_free(gemm_matrix *m)
{
    free(m->plain);
    free(m->packed);
    free(m->values);
}

void gemm_product_run(const gemm_product *p, float *y)
{
    struct ggml_init_params params = {.mem_size = 1 << 20, .no_alloc = true};
    struct ggml_context *in = ggml_init(params), *ctx = ggml_init(params);
    struct ggml_tensor *w = ggml_new_tensor_2d(in, p->m->type, p->m->n_in, p->m->n_out);
    struct ggml_tensor *x = ggml_new_tensor_2d(in, GGML_TYPE_F32, p->m->n_in, p->n_rows);
    struct ggml_tensor *r = ggml_new_tensor_2d(in, GGML_TYPE_F32, p->m->n_out, p->n_rows);
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, p->threads);
    ggml_backend_buffer_t inputs = ggml_backend_alloc_ctx_tensors(in, cpu);
    memcpy(w->data, p->packed ? p->m->packed : p->m->plain, ggml_nbytes(w));
    memcpy(x->data, p->x, ggml_nbytes(x));
    if (p->residual)
        memcpy(r->data, p->residual, ggml_nbytes(r));
    struct ggml_tensor *out;
    if (p->packed) {
        ft_pack_mark(w);
        ft_gemm_rows rows = ft_gemm_make(ctx, ft_gemm_rows_type(w->type), x);
        out = ft_gemm(ctx, w, &rows, p->residual ? r : NULL);
    } else {
        out = ggml_mul_mat(ctx, w, x);
    }
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, cpu);
    assert_int_equal(ggml_backend_graph_compute(cpu, graph), GGML_STATUS_SUCCESS);
    memcpy(y, out->data, ggml_nbytes(out));
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(inputs);
    ggml_backend_free(cpu);
    ggml_free(ctx);
    ggml_free(in);
}
