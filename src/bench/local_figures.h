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
    bool next;  /* the same, and an earlier process could leave it what it had learnt */
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

/* Some answers of a method to a prompt. */
typedef enum ft_bench_local_which {
    FT_BENCH_LOCAL_ALL,
    FT_BENCH_LOCAL_FIRST, /* of their processes */
    FT_BENCH_LOCAL_NEXT   /* first ones of processes that are not the method's first */
} ft_bench_local_which;

typedef enum ft_bench_local_half {
    FT_BENCH_LOCAL_EVEN, /* rounds */
    FT_BENCH_LOCAL_ODD,
    FT_BENCH_LOCAL_BOTH
} ft_bench_local_half;

typedef struct ft_bench_local_part {
    ft_bench_local_which which;
    ft_bench_local_half half;
} ft_bench_local_part;

/* Median time of a token, ms. 0: not known. */
double ft_bench_local_ms(const ft_bench_local_table *t, size_t method, size_t prompt,
                         ft_bench_local_part part);

/* A row. All are 0 where they are not known. */
typedef struct ft_bench_local_row {
    size_t n; /* answers */
    double tokens_per_s, ttft_ms, start_ms;
    double tokens_per_round, accepted; /* a round with a draft; share of its tokens */
} ft_bench_local_row;
ft_bench_local_row ft_bench_local_row_of(const ft_bench_local_table *t, size_t method);

/* The fastest of some methods for a prompt in these rounds; n_methods: no time of one of them is
 * known. */
size_t ft_bench_local_best(const ft_bench_local_table *t, const bool *methods, size_t prompt,
                           ft_bench_local_half half);
/* By how much these answers of a method are slower than those of the fastest of `methods`, chosen
 * for each prompt: 0.03 is 3 %. Which one is the fastest is decided by the even rounds for the odd
 * ones, and by the odd rounds for the even ones: the least of several noisy times is below the
 * truth, but a time that had no part in its choice is not. false: there are no such answers in a
 * half, or no times in the other one; so one round has no figure. */
bool ft_bench_local_regret(const ft_bench_local_table *t, size_t method, const bool *methods,
                           ft_bench_local_which which, double *regret);

#endif
