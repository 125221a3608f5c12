/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of llama.cpp, plain or by one of its ways of speculation, for a child process
 * (bench/child.h). It loads the module of theirs/speculation.h. */
#ifndef FT_BENCH_LOCAL_THEIRS_H
#define FT_BENCH_LOCAL_THEIRS_H

#include <stdint.h>
#include <stdio.h>

#include "bench/local_methods.h"
#include "model/vocab.h"

typedef struct ft_bench_local_theirs_opts {
    const char *model, *draft;
    const ft_bench_local_method *method;
    const ft_tokens *const *prompts; /* [n_prompts] */
    size_t n_prompts;
    uint32_t n, n_ctx; /* tokens of an answer at most, of the context */
    int n_threads;     /* 0: all cores */
    double temperature;
    uint32_t seed;
} ft_bench_local_theirs_opts;

/* Writes an object as `run --prompts --json` does, with those keys that bench local reads; `text`
 * is the numbers of the tokens. Returns the exit status; an error goes to standard error. */
int ft_bench_local_theirs(const ft_bench_local_theirs_opts *opts, FILE *out);

#endif
