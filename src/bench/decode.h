/* SPDX-License-Identifier: Apache-2.0
 *
 * Greedy decoding by this engine and by libllama. Called by one thread. */
#ifndef FT_BENCH_DECODE_H
#define FT_BENCH_DECODE_H

#include "bench/bench.h"

#define FT_BENCH_DECODE_PROMPT_MAX 512

typedef struct ft_bench_decode_opts {
    const ft_bench_opts *common;
    const char *streams;         /* a list of numbers: streams decoded at once, a row each */
    int64_t n_predict, n_prompt; /* tokens a stream; n_prompt: FT_BENCH_DECODE_PROMPT_MAX at most */
} ft_bench_decode_opts;

/* Adds "rows", "n" and "machine" to the report. FT_INVALID: the list; errors of engine and
 * libllama. */
FT_WARN_UNUSED ft_status ft_bench_decode(const ft_bench_decode_opts *opts, const ft_model *model,
                                         json_t *report, ft_error *err);

#endif
