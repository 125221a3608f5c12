/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of bench local. Pure; any thread. */
#ifndef FT_BENCH_LOCAL_REPORT_H
#define FT_BENCH_LOCAL_REPORT_H

#include "bench/local.h"
#include "bench/local_cache.h"
#include "bench/prompts.h"
#include "model/vocab.h"

#define FT_BENCH_LOCAL_ANSWERS 16 /* of a process, at most */
#define FT_BENCH_LOCAL_STARTS  2

typedef struct ft_bench_local_cell {
    bool answered; /* a process of it has ended */
    bool differs;  /* a prompt's text is not the same in all rounds */
    char why[400]; /* "": it works; else why it does not, and nothing more is run */
} ft_bench_local_cell;

/* What was measured. */
typedef struct ft_bench_local_state {
    const ft_bench_local_opts *o;
    ft_bench_prompts prompts;
    ft_tokens *tokens; /* [prompts.n] of each prompt */
    ft_bench_local_table table;
    ft_bench_local_cache cache; /* a folder for each method */
    /* From the start of a process to its first token, in each round: the first process with an
     * empty cache folder, and the next one. */
    double start_ms[FT_BENCH_LOCAL_STARTS][FT_BENCH_LOCAL_ROUNDS];
    char **texts; /* [methods, prompts.n] a method's first text for each; NULL: none */
    ft_bench_local_cell cells[FT_BENCH_LOCAL_METHODS];
} ft_bench_local_state;

/* Whether a method is llama.cpp's. */
static inline bool ft_bench_local_is_theirs(size_t method)
{
    return ft_bench_local_methods[method].kind >= FT_BENCH_LOCAL_THEIRS_PLAIN;
}

/* The object of `--json`; NULL: no memory. */
json_t *ft_bench_local_report(const ft_bench_local_state *b);

#endif
