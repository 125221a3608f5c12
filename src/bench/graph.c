// SPDX-License-Identifier: Apache-2.0
// Graphs of one repeated operator. Results are far apart in memory, so that no operator waits for
// the one before it.
#include "bench/graph.h"

#include <stdlib.h>

#include "ggml-cpu.h"

ft_status ft_bench_cpu_open(int n_threads, ft_error *err, ft_bench_cpu *out)
{
    struct ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
    out->backend = ggml_backend_cpu_init();
    out->pool = ggml_threadpool_new(&params);
    if (!out->backend || !out->pool)
        return ft_error_set(err, FT_NOMEM, "out of memory for ggml's CPU backend");
    ggml_backend_cpu_set_n_threads(out->backend, n_threads);
    ggml_backend_cpu_set_threadpool(out->backend, out->pool);
    return FT_OK;
}

void ft_bench_cpu_close(ft_bench_cpu *cpu)
{
    ggml_backend_free(cpu->backend);
    ggml_threadpool_free(cpu->pool);
    *cpu = (ft_bench_cpu){0};
}

ft_status ft_bench_graph_open(const ft_bench_cpu *cpu, size_t n_nodes, ft_error *err,
                              ft_bench_graph *out)
{
    const struct ggml_init_params params = {.mem_size = n_nodes * ggml_tensor_overhead() +
                                                        ggml_graph_overhead_custom(n_nodes, false),
                                            .no_alloc = true};
    *out = (ft_bench_graph){.cpu = cpu};
    out->inputs = ggml_init(params);
    out->ctx = ggml_init(params);
    if (!out->inputs || !out->ctx)
        return ft_error_set(err, FT_NOMEM, "out of memory for a graph");
    out->graph = ggml_new_graph_custom(out->ctx, n_nodes, false);
    return FT_OK;
}

static void fill_tensor(struct ggml_tensor *t)
{
    size_t n = (size_t)ggml_nelements(t);
    if (t->type == GGML_TYPE_F32)
        for (size_t i = 0; i < n; i++)
            ((float *)t->data)[i] = (float)(i * 2654435761u >> 20 & 1023) / 1024.0f - 0.5f;
    if (t->type == GGML_TYPE_F16)
        for (size_t i = 0; i < n; i++)
            ((ggml_fp16_t *)t->data)[i] = (ggml_fp16_t)(0x2800 + (i * 2654435761u >> 20 & 1023));
    if (t->type == GGML_TYPE_I8) /* small positive numbers as f16, as bf16 and as scaled bytes */
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)t->data)[i] = i % 2 ? 0x28 : (uint8_t)(i * 2654435761u >> 20);
}

ft_status ft_bench_graph_fill(ft_bench_graph *g, ft_error *err)
{
    g->input_buffer = ggml_backend_alloc_ctx_tensors(g->inputs, g->cpu->backend);
    if (!g->input_buffer)
        return ft_error_set(err, FT_NOMEM, "out of memory for a graph's inputs");
    for (struct ggml_tensor *t = ggml_get_first_tensor(g->inputs); t;
         t = ggml_get_next_tensor(g->inputs, t))
        fill_tensor(t);
    return FT_OK;
}

void ft_bench_graph_add(ft_bench_graph *g, struct ggml_tensor *result)
{
    ggml_build_forward_expand(g->graph, result);
    g->n_ops++;
}

ft_status ft_bench_graph_ready(ft_bench_graph *g, ft_error *err)
{
    g->buffer = ggml_backend_alloc_ctx_tensors(g->ctx, g->cpu->backend);
    return g->buffer ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory for a graph's results");
}

void ft_bench_graph_close(ft_bench_graph *g)
{
    ggml_backend_buffer_free(g->buffer);
    ggml_backend_buffer_free(g->input_buffer);
    ggml_free(g->ctx);
    ggml_free(g->inputs);
    *g = (ft_bench_graph){0};
}

ft_status ft_bench_graph_round(void *graph, double *seconds, ft_error *err)
{
    ft_bench_graph *g = graph;
    if (g->before)
        g->before(g->before_ctx);
    double begin = ft_bench_now_s();
    enum ggml_status status = ggml_backend_graph_compute(g->cpu->backend, g->graph);
    *seconds = ft_bench_now_s() - begin;
    return status == GGML_STATUS_SUCCESS
               ? FT_OK
               : ft_error_set(err, FT_INTERNAL, "ggml: the graph ends with status %d", status);
}
