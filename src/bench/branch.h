/* SPDX-License-Identifier: Apache-2.0
 *
 * What it costs to go on with another branch of a draft tree (EdgeLLM III-B: engines that switch
 * contexts take 25 % longer). Called by one thread. */
#ifndef FT_BENCH_BRANCH_H
#define FT_BENCH_BRANCH_H

#include "bench/bench.h"

typedef struct ft_bench_branch_opts {
    const ft_bench_opts *common;
    const char *n_past; /* a list of numbers: tokens of text behind the tree, a row each */
    int64_t n_nodes;    /* of a tree, 4 to 256 */
} ft_bench_branch_opts;

/* Adds "rows" and "n" to the report. FT_INVALID: the list; errors of the engine. */
FT_WARN_UNUSED ft_status ft_bench_branch(const ft_bench_branch_opts *opts, const ft_model *model,
                                         json_t *report, ft_error *err);

#endif
