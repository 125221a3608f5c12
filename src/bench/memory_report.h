/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of bench memory: rows, and the bound that nobody can be faster than. Pure; any
 * thread. */
#ifndef FT_BENCH_MEMORY_REPORT_H
#define FT_BENCH_MEMORY_REPORT_H

#include "bench/memory_run.h"
#include "bench/prompts.h"

/* What was measured. */
typedef struct ft_bench_memory_state {
    const ft_bench_memory_opts *o;
    uint64_t weights; /* bytes of the target's */
    ft_bench_memory_budget budget[FT_BENCH_MEMORY_BUDGETS];
    json_t *plan[FT_BENCH_MEMORY_BUDGETS]; /* of ours; NULL: it is refused */
    size_t n_budgets;
    ft_bench_prompts prompts;
    char **reference; /* [prompts.n, 2] the resident target's texts: greedy, drawn */
    double resident_ms, disk_median_mb_s;
    double *disk_mb_s; /* [n_disk] of the file, before each text; sorted at the end */
    uint32_t n_disk;
    ft_bench_memory_cell *cells; /* [n_budgets, methods] */
} ft_bench_memory_state;

static inline ft_bench_memory_cell *ft_bench_memory_cell_of(const ft_bench_memory_state *b,
                                                            size_t budget, size_t method)
{
    return &b->cells[budget * ft_bench_n_memory_methods + method];
}

/* Bytes of weights that a pass must read under a budget: those for which there is no room beside
 * what any program with this context and this draft needs. */
double ft_bench_memory_must_read(const json_t *plan, uint64_t weights, uint64_t budget);

/* The object of `--json`; NULL: no memory. */
json_t *ft_bench_memory_report(const ft_bench_memory_state *b);

#endif
