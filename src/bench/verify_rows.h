/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifying many sessions' trees: this engine against libllama. Called by one thread. */
#ifndef FT_BENCH_VERIFY_ROWS_H
#define FT_BENCH_VERIFY_ROWS_H

#include "bench/bench.h"

typedef struct ft_bench_verify_opts {
    const ft_bench_opts *common;
    const char *sessions, *ctx, *tree; /* lists of numbers: sessions, tokens of a context, nodes */
    const char *shape;                 /* "tree", "chain" or "tree,chain" */
    const char *vs;                    /* the other side: "libllama" or "none" */
    const char *logits;                /* ours: "walk" or "all" */
    double limit_s;                    /* a pass of libllama that takes longer is given up */
    double memory_gb;                  /* that the program may take; 0: what the machine has free */
} ft_bench_verify_opts;

/* Adds "rows" and "machine" to the report. FT_INVALID: an option; errors of engine and
 * libllama. */
FT_WARN_UNUSED ft_status ft_bench_verify(const ft_bench_verify_opts *opts, const ft_model *model,
                                         json_t *report, ft_error *err);

#endif
