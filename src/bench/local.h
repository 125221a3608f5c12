/* SPDX-License-Identifier: Apache-2.0
 *
 * Speculation on one machine: ours by default, with each fixed choice, and llama.cpp's, each a
 * process of its own on all cores. Called by one thread, before the process has others: it
 * forks. */
#ifndef FT_BENCH_LOCAL_H
#define FT_BENCH_LOCAL_H

#include <jansson.h>

#include "base/progress.h"
#include "bench/bench.h"
#include "bench/local_figures.h"
#include "bench/local_methods.h"

typedef struct ft_bench_local_opts {
    const char *model, *draft;
    const char *prompts;    /* a file of them */
    const char *categories; /* "a,b": only prompts of these; NULL: of all */
    int64_t limit;          /* prompts at most; 0: all */
    int64_t answers;        /* of a process */
    bool method[FT_BENCH_LOCAL_METHODS];
    int64_t n, n_ctx, rounds, n_threads, seed;
    double temp;
    ft_progress progress;
    ft_bench_stop stop;
} ft_bench_local_opts;

/* {command, model, rows, ratio, regret, ...}: docs/BENCHMARKS.md. Errors of the files and
 * FT_CANCELLED leave *report NULL. A method that fails has a row that says why. */
FT_WARN_UNUSED ft_status ft_bench_local(const ft_bench_local_opts *opts, ft_error *err,
                                        json_t **report);

#endif
