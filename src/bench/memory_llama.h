/* SPDX-License-Identifier: Apache-2.0
 *
 * libllama under a memory limit: it maps the file, and the kernel keeps of it what fits. Greedy,
 * one text; plain, or with a draft model in the loop of its speculative example. For a child
 * process (bench/child.h).
 */
#ifndef FT_BENCH_MEMORY_LLAMA_H
#define FT_BENCH_MEMORY_LLAMA_H

#include <stdint.h>
#include <stdio.h>

#include "engine/engine.h"

typedef struct ft_bench_memory_llama_opts {
    const char *model, *draft, *prompt;
    uint32_t n, n_ctx; /* tokens of the text, of the context */
    int n_threads;     /* 0: all cores */
    ft_kv_type kv;
    uint32_t chain; /* drafted tokens a pass; 0: no draft */
} ft_bench_memory_llama_opts;

/* Writes the object that `run --json` calls `decode`, and `passes` of the target in it, to out.
 * Returns the exit status; an error goes to standard error. */
int ft_bench_memory_llama(const ft_bench_memory_llama_opts *o, FILE *out);

#endif
