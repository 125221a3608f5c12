/* SPDX-License-Identifier: Apache-2.0
 *
 * What prompts cost: for this engine, for libllama, and in the server. Called by one thread. */
#ifndef FT_BENCH_PREFILL_H
#define FT_BENCH_PREFILL_H

#include "bench/bench.h"

#define FT_BENCH_PREFILL_MAX 65536 /* tokens of a prompt */

typedef struct ft_bench_prefill_opts {
    const ft_bench_opts *common;
    const char *lengths; /* a list of numbers: tokens of the prompts that are read, a row each */
    int64_t n_prefix;    /* tokens of the text that comes back */
    int64_t n_sessions;  /* that are being served as a prompt arrives */
    int64_t n_long;      /* tokens of the prompt that arrives */
    int64_t budget_ms;   /* the verifier's: a prompt may delay a round by so much */
} ft_bench_prefill_opts;

/* Adds "rows", "machine", "returning" and "arrival" (bench/prefill_server.h) to the report.
 * FT_INVALID: the list; errors of engine, verifier and libllama. */
FT_WARN_UNUSED ft_status ft_bench_prefill(const ft_bench_prefill_opts *opts, const ft_model *model,
                                          json_t *report, ft_error *err);

#endif
