/* SPDX-License-Identifier: Apache-2.0
 *
 * What each tuning constant and each mechanism is worth, and what edges' choices cost over the best
 * ones, on a virtual clock. Called by one thread while no other runs: it replaces the program's
 * constants (base/tuning.h). */
#ifndef FT_BENCH_ABLATE_H
#define FT_BENCH_ABLATE_H

#include <jansson.h>

#include "base/progress.h"
#include "bench/bench.h"

#define FT_BENCH_ABLATE_LIVES 256

typedef struct ft_bench_ablate_opts {
    const char *target, *draft, *prompts; /* files, for the conditions of edges; NULL: none */
    const char *config;            /* of the simulator, for the conditions of servers; NULL: none */
    const char *only;              /* parts of "room.group.name", with commas between; NULL: all */
    const char *conditions;        /* names, with commas between them; NULL: all */
    int64_t texts, tokens;         /* texts of each temperature, and tokens of each at most */
    int64_t lives;                 /* seeds of a change in a condition at most */
    bool regret;                   /* edges' own choices against fixed ones, nothing else */
    int64_t threads;               /* of the models; 0: all cores */
    ft_progress loading, progress; /* of a model; in texts */
    ft_bench_stop stop;
    void (*on_row)(void *ctx, const json_t *row); /* once it is measured; NULL is legal */
    void *ctx;
} ft_bench_ablate_opts;

/* {conditions: [...], rows: [...]}, as docs/BENCHMARKS.md says. FT_CANCELLED: it was stopped;
 * FT_INVALID: nothing to do; errors of files and engine; then *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_ablate(const ft_bench_ablate_opts *opts, ft_error *err,
                                         json_t **report);

#endif
