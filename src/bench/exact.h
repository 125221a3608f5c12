/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts by speculation over the real wire, by the target alone and by libllama; under a constraint
 * also without drafts, and with a server that is killed. Called by one thread. */
#ifndef FT_BENCH_EXACT_H
#define FT_BENCH_EXACT_H

#include <jansson.h>

#include "base/progress.h"
#include "bench/bench.h"
#include "engine/load.h"

typedef struct ft_bench_exact_opts {
    const char *model, *draft, *prompts;
    const char *schema; /* file: the texts are JSON of this schema, and libllama has none; NULL:
                           any text */
    int64_t limit;      /* prompts, spread over the file; 0: all */
    int64_t n, ctx;     /* tokens a text at most; of a context, longer prompts are left out */
    int64_t threads;    /* 0: all cores */
    double temp, top_p, min_p;
    int64_t top_k, seed;          /* these five: of the sampled texts */
    int64_t budget, depth, width; /* of the draft trees */
    bool libllama;                /* compare the greedy texts with its */
    ft_device_opts device, device_draft;
    ft_progress progress; /* in prompts */
    ft_bench_stop stop;
} ft_bench_exact_opts;

/* {model, type, prompts, tokens, mismatches_plain, mismatches_libllama, mismatches, ...}; with a
 * schema also {mismatches_undrafted, mismatches_killed, killed}. If it was stopped, they are about
 * the prompts so far. Errors of files, engine, wire and libllama leave *report NULL. */
FT_WARN_UNUSED ft_status ft_bench_exact(const ft_bench_exact_opts *opts, ft_error *err,
                                        json_t **report);

#endif
