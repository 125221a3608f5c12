/* SPDX-License-Identifier: Apache-2.0
 * One row of bench verify: finds libllama's fastest way, then measures both sides, interleaved. A
 * side or way that memory has no room for is not opened; the row says so. */
#ifndef FT_BENCH_VERIFY_ROW_H
#define FT_BENCH_VERIFY_ROW_H

#include "bench/machine.h"
#include "bench/verify.h"

#define FT_BENCH_WHY_LEN 200

typedef struct ft_bench_row_opts {
    const ft_bench_opts *common;
    const ft_bench_machine *machine;
    const ft_bench_job *job;
    ft_bench_ours *ours;     /* NULL: measured before, or refused because memory has no room */
    ft_bench_walked *walked; /* of our last round; filled in unless `ours` is NULL */
    ft_bench_base *base;     /* NULL: without libllama */
    double limit_s;          /* of one pass of libllama */
    size_t limit_bytes;      /* that the whole command may take; 0: what the machine has */
} ft_bench_row_opts;

/* Seconds of our pass; 0: it could not be measured. */
typedef struct ft_bench_ours_s {
    double median, least;
} ft_bench_ours_s;

/* Fills row. ours: what was measured before where opts->ours is NULL. */
FT_WARN_UNUSED ft_status ft_bench_row_run(const ft_bench_row_opts *opts, json_t *row,
                                          ft_bench_ours_s ours, ft_error *err);

#endif
