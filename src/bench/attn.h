/* SPDX-License-Identifier: Apache-2.0
 * Attention by itself: our kernel over a block table, and ggml's flash attention over the same
 * number of tokens, each as a graph of one operator a layer. */
#ifndef FT_BENCH_ATTN_H
#define FT_BENCH_ATTN_H

#include "bench/graph.h"
#include "engine/engine.h"

typedef struct ft_bench_attn ft_bench_attn;
/* A chain of n_rows nodes behind n_ctx committed tokens of one sequence, in the model's shape. */
typedef struct ft_bench_attn_opts {
    const ft_model *model;
    const ft_bench_cpu *cpu;
    int n_threads;
    ft_kv_type kv_type; /* of ours; ggml's is f16 */
    uint32_t n_ctx, n_rows;
} ft_bench_attn_opts;
/* FT_NOMEM; FT_UNSUPPORTED (the type cannot hold heads of that size). */
FT_WARN_UNUSED ft_status ft_bench_attn_create(const ft_bench_attn_opts *opts, ft_error *err,
                                              ft_bench_attn **out);
void ft_bench_attn_destroy(ft_bench_attn *attn);
/* Borrowed. */
ft_bench_graph *ft_bench_attn_ours(ft_bench_attn *attn);
ft_bench_graph *ft_bench_attn_ggml(ft_bench_attn *attn);

#endif
