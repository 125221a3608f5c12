/* SPDX-License-Identifier: Apache-2.0
 *
 * What prompts cost in the server, measured on its verifier in this process: a text that comes
 * back, and a long prompt that arrives beside other sessions. */
#ifndef FT_BENCH_PREFILL_SERVER_H
#define FT_BENCH_PREFILL_SERVER_H

#include <jansson.h>

#include "bench/bench.h"
#include "model/vocab.h"

#define FT_BENCH_SESSIONS_MAX 64

typedef struct ft_bench_prefill_server_opts {
    const ft_bench_opts *common;
    const ft_model *model;
    const ft_vocab *vocab;
    uint32_t n_prefix;   /* tokens of the text that comes back */
    uint32_t n_sessions; /* that are being served */
    uint32_t n_long;     /* tokens of the prompt that arrives */
    uint32_t budget_us;  /* the verifier's; 0: its default */
} ft_bench_prefill_server_opts;

/* Time to first token of a text of n_prefix tokens, cold and when it comes back with its answer and
 * a short question behind it: {cold_ms, returning_ms, ratio, cached_tokens, prompt_tokens,
 * rounds}. */
FT_WARN_UNUSED ft_status ft_bench_prefill_returning(const ft_bench_prefill_server_opts *opts,
                                                    ft_error *err, json_t **out);
/* Round times of n_sessions in a closed loop, before and while a prompt of n_long tokens is read:
 * {before: {p50_ms, p99_ms, n}, during: the same, growth_p99_ms, budget_ms, prompt_ms}. */
FT_WARN_UNUSED ft_status ft_bench_prefill_arrival(const ft_bench_prefill_server_opts *opts,
                                                  ft_error *err, json_t **out);

#endif
