/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products and attention by themselves, ours and ggml's. Called by one thread. */
#ifndef FT_BENCH_KERNELS_H
#define FT_BENCH_KERNELS_H

#include "bench/bench.h"

typedef struct ft_bench_kernels_opts {
    const ft_bench_opts *common;
    const char *rows, *ctx; /* lists of numbers: rows of a product, tokens that attention reads */
} ft_bench_kernels_opts;

/* Adds "rows" and "machine" to the report. FT_INVALID: a list, a model that is not on the CPU;
 * errors of ggml. */
FT_WARN_UNUSED ft_status ft_bench_kernels(const ft_bench_kernels_opts *opts, const ft_model *model,
                                          json_t *report, ft_error *err);

#endif
