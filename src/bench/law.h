/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether what verification rules let through has the target's law: many rounds on the same logits.
 * Called by one thread. */
#ifndef FT_BENCH_LAW_H
#define FT_BENCH_LAW_H

#include <jansson.h>

#include "base/progress.h"
#include "bench/bench.h"
#include "bench/law_prefix.h"

#define FT_BENCH_LAW_TEMPS 8

typedef struct ft_bench_law_opts {
    const char *target, *draft, *prompts;
    int64_t prefixes, rounds;         /* texts; rounds behind each */
    double temps[FT_BENCH_LAW_TEMPS]; /* [n_temps] above 0 */
    uint32_t n_temps;
    const char *l; /* a list, each up to FT_RATIO_L_MAX */
    int64_t top_k; /* 1 to FT_LAW_TOP_K_MAX */
    int64_t n_ctx, n_threads, seed;
    ft_progress loading, progress; /* of a model; in parts of the work */
    ft_bench_stop stop;
} ft_bench_law_opts;

/* {prefixes, rounds, top_k, rows: [{method, l, temperature, tv_first, tv_second, tv_direct,
 * tv_direct_second, p_first, p_second, entropy, entropy_target}]}; `exact` has no l. If it was
 * stopped, rows are of the prefixes that were done. FT_INVALID: an option, vocabularies that
 * differ; FT_NOMEM; errors of files and engine; then *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_law(const ft_bench_law_opts *opts, ft_error *err,
                                      json_t **report);

#endif
