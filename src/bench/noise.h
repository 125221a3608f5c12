/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a draft's choice is the target's token, with shared noise and with its own. Called by
 * one thread. */
#ifndef FT_BENCH_NOISE_H
#define FT_BENCH_NOISE_H

#include <jansson.h>

#include "base/progress.h"
#include "bench/bench.h"
#include "spec/draft_source.h"

#define FT_BENCH_NOISE_RANKED FT_DRAFT_RANKED /* as the drafter normalizes over */

typedef struct ft_bench_noise_opts {
    const char *target, *draft, *prompts;
    int64_t n_predict, max_prompts; /* tokens a prompt at most; prompts of the file, 0: all */
    int64_t n_ctx, n_threads;       /* prompts that do not fit are left out; 0: all cores */
    double temp, top_p, min_p;
    int64_t top_k, seed;
    double text_temp;              /* at which the target writes the text; < 0: temp */
    ft_progress loading, progress; /* of a model; in prompts */
    ft_bench_stop stop;
} ft_bench_noise_opts;

/* {prompts, skipped, tokens, temperature, text_temperature, shared, independent, most_probable,
 * overlap, ranked, sharpness, tail, draw_us}, which covers what there was until it was stopped.
 * FT_INVALID: an option, vocabularies that differ; errors of files and engine; then *report is
 * NULL. */
FT_WARN_UNUSED ft_status ft_bench_noise(const ft_bench_noise_opts *opts, ft_error *err,
                                        json_t **report);

#endif
