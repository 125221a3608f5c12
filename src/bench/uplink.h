/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of drafting over a thin uplink, beside the simulator that is fed with the times of the
 * same run. Called by one thread. */
#ifndef FT_BENCH_UPLINK_H
#define FT_BENCH_UPLINK_H

#include <jansson.h>

#include "bench/bench.h"
#include "sim/qsv.h"

#define FT_BENCH_UPLINK_LINKS      8
#define FT_BENCH_UPLINK_ROUNDS_MAX 16

typedef struct ft_bench_uplink_opts {
    const char *model, *draft, *prompts; /* files */
    bool method[FT_QSV_METHODS];         /* PLAIN, FIXED, POLICY, CHAIN and TREE can be measured */
    const ft_policy *policy;             /* of POLICY; borrowed */
    int64_t length, width, l;            /* of the other methods' drafts */
    ft_qsv_link link[FT_BENCH_UPLINK_LINKS];
    uint32_t n_links;
    double rtt_ms;            /* there and back, besides the time of bytes */
    int64_t n_prompts, n_ctx; /* prompts that do not fit are left out */
    int64_t n, rounds;        /* tokens a text; times that each is written */
    double temp;
    int64_t top_k, seed;
    ft_bench_stop stop;
} ft_bench_uplink_opts;

/* Runs what docs/BENCHMARKS.md describes. Sets the process's timer slack and keeps it off the
 * server's core. FT_CANCELLED: it was stopped; FT_INVALID; errors of files, server and edges; then
 * *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_uplink(const ft_bench_uplink_opts *opts, ft_error *err,
                                         json_t **report);

#endif
