/* SPDX-License-Identifier: Apache-2.0
 *
 * One operator, once for each layer of the model, as a graph on ggml's CPU backend. So a round
 * reads as much memory as a pass does, and the caches hold no more than in a pass. Used by one
 * thread. */
#ifndef FT_BENCH_GRAPH_H
#define FT_BENCH_GRAPH_H

#include "bench/bench.h"
#include "ggml-backend.h"
#include "ggml.h"

/* Backend and threads that both sides' graphs run on. */
typedef struct ft_bench_cpu {
    ggml_backend_t backend;
    struct ggml_threadpool *pool;
} ft_bench_cpu;
/* FT_NOMEM. close is legal after a failure, too. */
FT_WARN_UNUSED ft_status ft_bench_cpu_open(int n_threads, ft_error *err, ft_bench_cpu *out);
void ft_bench_cpu_close(ft_bench_cpu *cpu);

typedef struct ft_bench_graph {
    const ft_bench_cpu *cpu;
    struct ggml_context *inputs, *ctx; /* descriptions; their data lie in buffers */
    struct ggml_cgraph *graph;
    uint32_t n_ops; /* added */
    ggml_backend_buffer_t input_buffer, buffer;
    void (*before)(void *ctx); /* called before every run, outside the timing; NULL: nothing */
    void *before_ctx;
} ft_bench_graph;
/* Empty, for at most n_nodes operators. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_graph_open(const ft_bench_cpu *cpu, size_t n_nodes, ft_error *err,
                                             ft_bench_graph *out);
/* Gives memory to the tensors of `inputs`, each filled with small numbers of its type. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_graph_fill(ft_bench_graph *g, ft_error *err);
/* Adds an operator made in ctx. */
void ft_bench_graph_add(ft_bench_graph *g, struct ggml_tensor *result);
/* Gives memory to the results. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_graph_ready(ft_bench_graph *g, ft_error *err);
void ft_bench_graph_close(ft_bench_graph *g);
/* For ft_bench_side. FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_bench_graph_round(void *graph, double *seconds, ft_error *err);

#endif
