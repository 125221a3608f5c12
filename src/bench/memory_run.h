/* SPDX-License-Identifier: Apache-2.0
 *
 * One text of bench memory, by one method, in a child process; and the row that the texts of a
 * method give. Used by one thread.
 */
#ifndef FT_BENCH_MEMORY_RUN_H
#define FT_BENCH_MEMORY_RUN_H

#include "bench/memory.h"

/* What is measured in each text. */
typedef enum ft_bench_memory_figure {
    FT_BENCH_MEMORY_MS, /* a token */
    FT_BENCH_MEMORY_TOKENS_PER_PASS,
    FT_BENCH_MEMORY_BYTES,       /* read, a token */
    FT_BENCH_MEMORY_MB_S,        /* while it reads */
    FT_BENCH_MEMORY_CPU_S,       /* a token */
    FT_BENCH_MEMORY_PEAK,        /* bytes in the cgroup */
    FT_BENCH_MEMORY_JOULES,      /* of the machine, a token */
    FT_BENCH_MEMORY_DRAFT_SHARE, /* of the time without loading and prompt */
    FT_BENCH_MEMORY_FIGURES
} ft_bench_memory_figure;

/* A text. */
typedef struct ft_bench_memory_text {
    double figure[FT_BENCH_MEMORY_FIGURES];
    char *text; /* owned; NULL: the method writes none that can be compared */
} ft_bench_memory_text;

typedef struct ft_bench_memory_job {
    const ft_bench_memory_method *method; /* NULL: the resident target */
    uint32_t variant;
    uint64_t budget_bytes;
    const char *prompt;
    bool sampled; /* at opts->temp; else greedy */
} ft_bench_memory_job;

/* Drops the page cache of the models, then runs the child. Where no cgroup may be made, ours runs
 * in none, and its peak is 0; libllama does not run (FT_FORBIDDEN). Other errors of
 * ft_bench_child_run; FT_CORRUPT: the child's object lacks a figure. *out is empty then. */
FT_WARN_UNUSED ft_status ft_bench_memory_run(const ft_bench_memory_opts *opts,
                                             const ft_bench_memory_job *job, ft_error *err,
                                             ft_bench_memory_text *out);

/* The plan of a budget: `run --dry-run --json`. */
FT_WARN_UNUSED ft_status ft_bench_memory_plan(const ft_bench_memory_opts *opts,
                                              uint64_t budget_bytes, ft_error *err, json_t **plan);

/* The texts of a method under a budget. */
typedef struct ft_bench_memory_cell {
    double sample[FT_BENCH_MEMORY_FIGURES][FT_BENCH_MEMORY_SAMPLES];
    uint32_t n;       /* samples */
    uint32_t variant; /* the fastest so far */
    bool differs;     /* some text is not the resident target's */
    char why[400];    /* "": it works; else why it does not, and nothing more is run */
} ft_bench_memory_cell;

/* Median of a figure; 0 without samples. */
double ft_bench_memory_median(const ft_bench_memory_cell *cell, ft_bench_memory_figure figure);

#endif
