/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods of bench memory. A method may have several variants, such as lengths of a chain: each
 * runs once, and the fastest one goes on. Pure; any thread.
 */
#ifndef FT_BENCH_MEMORY_METHODS_H
#define FT_BENCH_MEMORY_METHODS_H

#include <stddef.h>
#include <stdint.h>

#define FT_BENCH_MEMORY_VARIANTS 4

typedef enum ft_bench_memory_kind {
    FT_BENCH_MEMORY_OURS,  /* run --memory; its text must be the resident target's */
    FT_BENCH_MEMORY_DRAFT, /* the draft model alone: a floor */
    FT_BENCH_MEMORY_LLAMA  /* libllama */
} ft_bench_memory_kind;

typedef struct ft_bench_memory_method {
    const char *name;
    ft_bench_memory_kind kind;
    uint32_t n_variants;                         /* > 0 */
    const char *flags[FT_BENCH_MEMORY_VARIANTS]; /* of `run`, a blank between two */
    uint32_t chain[FT_BENCH_MEMORY_VARIANTS];    /* LLAMA: drafted tokens a pass; 0: no draft */
} ft_bench_memory_method;

extern const ft_bench_memory_method ft_bench_memory_methods[];
extern const size_t ft_bench_n_memory_methods;
#define FT_BENCH_MEMORY_METHODS 24 /* at most */

#endif
