/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers a file of tasks in several ways, with the server on a core of its own: what a pipeline of
 * batches is worth (Zhu et al., IV-A). Called by one thread. */
#ifndef FT_BENCH_BATCH_H
#define FT_BENCH_BATCH_H

#include <jansson.h>

#include "bench/bench.h"
#include "edge/batch_planner.h"
#include "spec/sampling.h"

typedef enum ft_bench_batch_mode {
    FT_BENCH_BATCH_PIPELINE,    /* all batches are under way */
    FT_BENCH_BATCH_NO_PIPELINE, /* the same batches, one at a time */
    FT_BENCH_BATCH_NO_BATCHING, /* one task at a time */
    FT_BENCH_BATCH_AD,          /* no drafts: the server decodes all tasks */
    FT_BENCH_BATCH_MODES
} ft_bench_batch_mode;
extern const char *const ft_bench_batch_name[FT_BENCH_BATCH_MODES];

typedef struct ft_bench_batch_opts {
    const char *model, *draft, *tasks; /* files */
    const char *costs[FT_STATIONS];    /* files of fit verify-time; NULL: a trial measures them */
    bool mode[FT_BENCH_BATCH_MODES];   /* at least one */
    uint32_t batch;                    /* tasks of a batch at most; 0: as planned */
    int64_t length;                    /* drafted tokens a round; < 0: as planned */
    uint32_t n_ctx;                    /* tokens of a text at most */
    int64_t rounds;                    /* times that each mode answers all tasks */
    ft_sampling sampling;              /* seed: of tasks without one */
    ft_bench_stop stop;
} ft_bench_batch_opts;

/* By how much a pipeline of two stages that take so long can be shorter than both one after the
 * other: the longer one remains. */
double ft_bench_batch_bound(double draft_s, double verify_s);

/* Runs what docs/BENCHMARKS.md describes. Keeps the process off the server's core. FT_CANCELLED: it
 * was stopped; errors of files, server, edge; then *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_batch(const ft_bench_batch_opts *opts, ft_error *err,
                                        json_t **report);

#endif
