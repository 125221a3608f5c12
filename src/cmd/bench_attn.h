/* SPDX-License-Identifier: Apache-2.0
 * Attention by itself: our kernel over a block table, and ggml's flash attention over the same number of
 * tokens, each as a graph of one operator a layer. */
#ifndef FT_CMD_BENCH_ATTN_H
#define FT_CMD_BENCH_ATTN_H

#include "cmd/bench_graph.h"

typedef struct ft_bench_attn ft_bench_attn;
/* A chain of n_rows nodes behind n_ctx committed tokens of one sequence, in the model's shape. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_attn_create(const ft_model *model, const ft_bench_cpu *cpu,
                                              int n_threads, uint32_t n_ctx, uint32_t n_rows,
                                              ft_error *err, ft_bench_attn **out);
void ft_bench_attn_destroy(ft_bench_attn *attn);
/* Borrowed. */
ft_bench_graph *ft_bench_attn_ours(ft_bench_attn *attn);
ft_bench_graph *ft_bench_attn_ggml(ft_bench_attn *attn);

#endif
