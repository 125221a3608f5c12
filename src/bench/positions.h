/* SPDX-License-Identifier: Apache-2.0
 *
 * Records positions (learn/positions.h): the target writes answers to prompts, and at each position
 * both models say what they think of it. Called by one thread. */
#ifndef FT_BENCH_POSITIONS_H
#define FT_BENCH_POSITIONS_H

#include "base/progress.h"
#include "bench/bench.h"
#include "learn/positions.h"
#include "model/vocab.h"
#include "spec/sampling.h"

/* An answer that the target wrote. All of it is borrowed. */
typedef struct ft_bench_answer {
    const ft_tokens *prompt,
        *text; /* text: what follows, with the end-of-text token, if it ended */
    ft_sampling sampling;
} ft_bench_answer;

typedef struct ft_bench_positions_opts {
    const char *target, *draft, *prompts;
    int64_t n_predict, max_prompts; /* tokens a text at most; prompts of the file, 0: all */
    int64_t n_ctx, n_threads;       /* prompts that do not fit are left out; 0: all cores */
    int64_t top_k, seed;
    double temperature[FT_POSITIONS_TEMPS]; /* [n_temperatures] a text of each for each prompt */
    double l[FT_POSITIONS_L];               /* [n_l] whole numbers */
    uint32_t n_temperatures, n_l;
    ft_progress loading, progress; /* of a model; in texts */
    /* Called for each text, in their order; NULL is legal. A failure ends the recording. */
    FT_WARN_UNUSED ft_status (*on_answer)(void *ctx, const ft_bench_answer *answer, ft_error *err);
    void *ctx;
    ft_bench_stop stop;
} ft_bench_positions_opts;

/* What there was until it was stopped; *skipped: prompts that were too long. FT_INVALID: an option,
 * vocabularies that differ, or no text; errors of files and engine. On failure *out is all-zero;
 * otherwise it needs a deinit. */
FT_WARN_UNUSED ft_status ft_bench_positions(const ft_bench_positions_opts *opts, ft_error *err,
                                            ft_positions *out, size_t *skipped);

#endif
