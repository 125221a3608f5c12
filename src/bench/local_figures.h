/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of bench local: what its answers say of a method, and of our own choice among
 * them. A prompt's time is the median of its answers in all rounds; the prompts of a figure count
 * alike. Pure; any thread. */
#ifndef FT_BENCH_LOCAL_FIGURES_H
#define FT_BENCH_LOCAL_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_BENCH_LOCAL_ROUNDS 32 /* at most */

/* An answer. */
typedef struct ft_bench_local_answer {
    bool known; /* it has tokens behind the first one (llama.cpp: behind its first pass) */
    bool first; /* of its process */
    double ms_per_token, ttft_ms;
    double start_ms; /* of a first one: from the start of the process to the first token */
    double rounds, round_tokens, drafted, accepted; /* of rounds with a draft */
} ft_bench_local_answer;

typedef struct ft_bench_local_table {
    size_t n_methods, n_prompts, n_rounds;
    ft_bench_local_answer *answers; /* [n_methods, n_prompts, n_rounds] */
} ft_bench_local_table;

static inline ft_bench_local_answer *ft_bench_local_at(const ft_bench_local_table *t, size_t method,
                                                       size_t prompt, size_t round)
{
    return &t->answers[(method * t->n_prompts + prompt) * t->n_rounds + round];
}

/* Median time of a token, ms, of first answers only if `first`. 0: not known. */
double ft_bench_local_ms(const ft_bench_local_table *t, size_t method, size_t prompt, bool first);

/* A row. All are 0 where they are not known. */
typedef struct ft_bench_local_row {
    size_t n; /* answers */
    double tokens_per_s, ttft_ms, start_ms;
    double tokens_per_round, accepted; /* a round with a draft; share of its tokens */
} ft_bench_local_row;
ft_bench_local_row ft_bench_local_row_of(const ft_bench_local_table *t, size_t method);

/* The fastest of some methods for a prompt; n_methods: no time of one of them is known. */
size_t ft_bench_local_best(const ft_bench_local_table *t, const bool *methods, size_t prompt,
                           bool first);
/* By how much a method is slower than the fastest of `methods`, chosen for each prompt: 0.03 is
 * 3 %. The best of several medians is a little below the truth, so a figure of 0 is hardly ever
 * seen. false: no prompt has both. */
bool ft_bench_local_regret(const ft_bench_local_table *t, size_t method, const bool *methods,
                           bool first, double *regret);

#endif
