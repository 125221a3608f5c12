/* SPDX-License-Identifier: Apache-2.0
 *
 * The serving comparison: serves the same prompts in several ways (load_cells.h) and measures what
 * the server's core does with its time. Called by one thread. */
#ifndef FT_BENCH_SERVING_H
#define FT_BENCH_SERVING_H

#include <jansson.h>
#include <stdio.h>

#include "bench/load_cells.h"
#include "bench/serving_settings.h"

/* Which prompts of the file. */
typedef struct ft_bench_serving_set {
    int64_t limit;   /* spread over the file; 0: all */
    int64_t each;    /* not 0: so many of each category instead */
    int64_t longest; /* longer ones are left out, in tokens */
} ft_bench_serving_set;

/* How many forwards a device drafts: until one more would bring less than its time is worth, or
 * always `depth`. */
typedef enum ft_bench_depth { FT_BENCH_DEPTH_LATENCY, FT_BENCH_DEPTH_FIXED } ft_bench_depth;
extern const char *const ft_bench_depth_name[]; /* ends with NULL */

/* How devices, and the server, draft. */
typedef struct ft_bench_serving_drafts {
    int64_t budget, width;
    ft_proactive proactive;
    ft_bench_depth rule;           /* of devices that fill no pipeline */
    const ft_predictor *predictor; /* of mode edge+predictor; borrowed; NULL: none */
    uint32_t server_depth;         /* of server-spec, with `budget`; 0: both are found by trying */
} ft_bench_serving_drafts;

typedef struct ft_bench_serving_opts {
    const char *model, *draft, *prompts; /* files */
    const char *server_draft;            /* of server-spec; NULL: draft */
    const char *memory;                  /* of each server, as serve's flag; NULL: any */
    ft_bench_serving_set set;
    ft_bench_serving_drafts drafts;
    ft_sampling sampling;
    double temp;       /* its temperature, as it was written */
    int64_t n, rounds; /* tokens a text; times that all is measured */
    bool mode[FT_BENCH_LOAD_MODES];
    uint32_t rtt_us[FT_BENCH_LOAD_RTTS_MAX], n_rtt;
    ft_bench_serving_sweep sweep;
    ft_line_rate up, down; /* of each device's link */
    double ratio;          /* a device's forward over a verification of the server's */
    ft_bench_load_price price;
    const char *schema;   /* file: ft_bench_serving_schema; NULL: the comparison of modes */
    const char *timeline; /* file for what was done when in the first round; NULL: none */
    FILE *text;           /* the figures for a person go there; NULL: nowhere */
    ft_bench_stop stop;
} ft_bench_serving_opts;

/* Runs the comparison that docs/BENCHMARKS.md describes. Sets the process's timer slack and keeps
 * it off the server's core. FT_INVALID: the lists give too many settings. FT_CANCELLED: it was
 * stopped; errors of files, server, edges; then *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_serving(const ft_bench_serving_opts *opts, ft_error *err,
                                          json_t **report);

#endif
