/* SPDX-License-Identifier: Apache-2.0
 *
 * Interference (WISP 3.4, figure 4): what a short verification costs alone, and in one pass with a
 * long one. Called by one thread. */
#ifndef FT_BENCH_PREFILL_SOLO_H
#define FT_BENCH_PREFILL_SOLO_H

#include <jansson.h>

#include "bench/bench.h"

#define FT_BENCH_SOLO_MAX 8192 /* rows of the long one: a padded pass has twice as many */

/* Session A is new: all of its rows are computed. Session B, as figure 4 has it, has a cached
 * prefix of so many tokens and a draft of so many; its text's last token is a row, too. */
#define FT_BENCH_SOLO_CACHED 500
#define FT_BENCH_SOLO_DRAFT  5

typedef struct ft_bench_prefill_solo_opts {
    const ft_bench_opts *common;
    const ft_model *model;
    const char *lengths; /* a list of numbers: rows of A */
    const char *plot;    /* a file; NULL: none */
} ft_bench_prefill_solo_opts;

/* Sets "rows" of the report: for each length the time of A's pass alone, of B's alone, of both in
 * one pass, and of one pass in which B is padded to A's rows. FT_INVALID: the list or the plot's
 * path; FT_UNAVAILABLE: no gnuplot; errors of the engine. */
FT_WARN_UNUSED ft_status ft_bench_prefill_solo(const ft_bench_prefill_solo_opts *opts,
                                               json_t *report, ft_error *err);

#endif
