/* SPDX-License-Identifier: Apache-2.0
 *
 * What the serving comparison measures: a cell for each mode and round-trip time. Owned by one
 * thread. */
#ifndef FT_BENCH_LOAD_CELLS_H
#define FT_BENCH_LOAD_CELLS_H

#include "bench/bench.h"
#include "bench/load_drive.h"

typedef enum ft_bench_load_mode {
    FT_BENCH_LOAD_PLAIN,
    FT_BENCH_LOAD_SERVER_SPEC,
    FT_BENCH_LOAD_LAYER_SPLIT, /* decodes; some layers are computed behind a slow line */
    FT_BENCH_LOAD_EDGE,
    FT_BENCH_LOAD_PREDICTOR, /* edge, whose drafts end where a predictor says */
    FT_BENCH_LOAD_LOOKUP,    /* edge, whose drafts are looked up, without a draft model... */
    FT_BENCH_LOAD_BOTH,      /* ...or beside it (edge/edge.h) */
    FT_BENCH_LOAD_MISLED,    /* edge+lookup as `foretoken edge` does it, given a wrong prediction */
    FT_BENCH_LOAD_PROACTIVE, /* as SpecEdge 4.2 has it */
    FT_BENCH_LOAD_EARLY,     /* and sends drafts before the verdicts that they depend on */
    FT_BENCH_LOAD_PIPELINE,
    FT_BENCH_LOAD_MODES
} ft_bench_load_mode;

/* "edge+proactive". */
const char *ft_bench_load_mode_name(ft_bench_load_mode mode);

#define FT_BENCH_LOAD_RTTS_MAX 16
#define FT_BENCH_LOAD_RTT_NAME 24

/* A mode at one round-trip time. */
typedef struct ft_bench_load_cell {
    ft_bench_load_sample sum;          /* of all rounds */
    double per_s[FT_BENCH_ROUNDS_MAX]; /* tokens a second of the server's core, a round each */
    double itl_ms[FT_BENCH_ROUNDS_MAX];
    double forward_ms[FT_BENCH_ROUNDS_MAX]; /* the device's time */
    uint32_t n;                             /* rounds */
} ft_bench_load_cell;

/* What hardware costs, in dollars an hour. */
typedef struct ft_bench_load_price {
    double server, edge; /* the server; each device that drafts */
} ft_bench_load_price;

typedef struct ft_bench_load_report {
    const ft_bench_load_set *set;
    uint32_t batch;            /* sessions at a time; edge+pipeline has twice as many */
    ft_bench_load_price price; /* server 0: not known */
    bool mode[FT_BENCH_LOAD_MODES];
    uint32_t rtt_us[FT_BENCH_LOAD_RTTS_MAX], n_rtt;
    int driver_cores;
    bool by_category;  /* every wave is of one */
    double ratio;      /* asked for: T_forward / T_verify; 0: none */
    double forward_ms; /* of a device's draft model */
    double verify_ms;  /* of the batch that it was derived from; 0: it was not */
    ft_bench_load_cell cell[FT_BENCH_LOAD_MODES][FT_BENCH_LOAD_RTTS_MAX];
} ft_bench_load_report;

/* A round-trip time as a key of the figures: milliseconds. Returns `name`. */
const char *ft_bench_load_rtt_name(const ft_bench_load_report *report, uint32_t rtt,
                                   char name[FT_BENCH_LOAD_RTT_NAME]);

/* Frees the cells' lists. */
void ft_bench_load_report_deinit(ft_bench_load_report *report);
/* Adds the sample of a round to its cell, and keeps nothing of it. */
void ft_bench_load_report_count(ft_bench_load_report *report, ft_bench_load_mode mode, uint32_t rtt,
                                const ft_bench_load_sample *sample);
/* The same; *sample is empty then. */
void ft_bench_load_report_add(ft_bench_load_report *report, ft_bench_load_mode mode, uint32_t rtt,
                              ft_bench_load_sample *sample);

/* What a mode's hardware costs an hour: the server, a device for each session that drafts (SpecEdge
 * 5: twice the batch in edge+pipeline), and the device with layers. 0: not known. */
double ft_bench_load_dollars_per_h(const ft_bench_load_report *report, ft_bench_load_mode mode);

#endif
