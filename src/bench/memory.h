/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of a target that is larger than the memory, by several methods, each a process of its own
 * in a memory cgroup. Called by one thread, before the process has others: it forks.
 */
#ifndef FT_BENCH_MEMORY_H
#define FT_BENCH_MEMORY_H

#include <jansson.h>

#include "base/progress.h"
#include "bench/bench.h"
#include "bench/memory_methods.h"

#define FT_BENCH_MEMORY_BUDGETS 8
#define FT_BENCH_MEMORY_SAMPLES 64 /* texts of a row at most */

typedef struct ft_bench_memory_budget {
    char name[24]; /* "25%" or "600M" */
    uint64_t bytes;
} ft_bench_memory_budget;

typedef struct ft_bench_memory_opts {
    const char *model, *draft;
    const char *packed;  /* the same target as `model pack` writes it, for ours; NULL: model */
    const char *prompt;  /* or, if not NULL: */
    const char *prompts; /* a file of them */
    int64_t limit;       /* prompts of the file */
    const char *budgets; /* "25%,50%,600M": a share of the target's weights, or bytes */
    bool method[FT_BENCH_MEMORY_METHODS]; /* which to measure */
    int64_t n, n_ctx, rounds, n_threads, seed;
    double temp; /* of the second text of each method, which is compared, not timed */
    ft_kv_type kv;
    ft_progress progress;
    ft_bench_stop stop;
} ft_bench_memory_opts;

/* {command, model, rows, ...}: docs/BENCHMARKS.md. FT_INVALID: the budgets, or the prompts do not
 * fit; errors of files; what the resident target says when it fails; FT_CANCELLED. They leave
 * *report NULL. */
FT_WARN_UNUSED ft_status ft_bench_memory(const ft_bench_memory_opts *opts, ft_error *err,
                                         json_t **report);

#endif
