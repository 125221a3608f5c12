/* SPDX-License-Identifier: Apache-2.0
 *
 * How many devices a real server holds at promised token speeds, by policy. Called by one
 * thread. */
#ifndef FT_BENCH_CAPACITY_H
#define FT_BENCH_CAPACITY_H

#include <jansson.h>
#include <stdio.h>

#include "bench/capacity_report.h"
#include "edge/edge.h"

#define FT_BENCH_TEXT_LEAST 8 /* tokens of a text */

/* Which numbers of devices are tried, and for how long. */
typedef struct ft_bench_capacity_probes {
    double epsilon;   /* share of texts that may be slower than promised */
    double precision; /* a search ends when the number of devices is known within this share */
    double probe_s;   /* seconds of a probe; more if it has too few texts */
    int64_t most;     /* devices */
} ft_bench_capacity_probes;

/* What the report calls how devices draft. */
typedef struct ft_bench_capacity_names {
    const char *draft, *predictor;
} ft_bench_capacity_names;

typedef struct ft_bench_capacity_opts {
    const char *model, *draft, *prompts;           /* files */
    const char *slo, *costs, *cache_type, *memory; /* as serve's flags; costs, memory: NULL: none */
    float tokens_per_s[FT_SLO_CLASSES];            /* [n_classes]: what slo says */
    uint32_t n_classes;
    int64_t limit, longest, shortest; /* prompts, 0: all; of them those of so many tokens */
    int64_t n;                        /* tokens a text at most */
    int64_t fixed;                    /* that devices of fcfs, sled and static draft */
    ft_edge_opts edge;                /* how wisp's and edf's draft; only that is read */
    ft_bench_capacity_names names;
    ft_sampling sampling;
    double temp;             /* its temperature, as it was written */
    double rtt_ms, draft_ms; /* of the link; of a device's draft forward */
    ft_bench_capacity_probes search;
    bool way[FT_BENCH_CAPACITY_WAYS], mixed, mixed_only; /* mixed: all classes together too */
    bool sweep;       /* also the share of slow texts over the number of devices */
    const char *plot; /* a file; NULL: none */
    FILE *text, *log; /* the figures for a person, NULL: nowhere; and a line a probe */
    ft_bench_stop stop;
} ft_bench_capacity_opts;

/* Runs the comparison that docs/BENCHMARKS.md describes. Sets the process's timer slack and keeps
 * it off the servers' core. FT_CANCELLED: it was stopped; errors of files, servers, edges, the
 * plot; then *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_capacity(const ft_bench_capacity_opts *opts, ft_error *err,
                                           json_t **report);

#endif
