/* SPDX-License-Identifier: Apache-2.0
 *
 * Users who chat, at servers that run already: how many tokens a second they get from each of
 * several fleets, such as one server and two behind a proxy. Called by one thread. */
#ifndef FT_BENCH_FLEET_H
#define FT_BENCH_FLEET_H

#include <jansson.h>
#include <stdio.h>

#include "bench/bench.h"
#include "spec/sampling.h"
#include "wire/client.h"

#define FT_BENCH_FLEETS_MAX 4

typedef struct ft_bench_fleet_opts {
    const char *model;        /* file of a target with the fleets' texts: it tells them once */
    const char *draft;        /* file */
    const char *prompts;      /* file: what users say */
    const char *servers;      /* addresses of fleets, as "A,B" */
    ft_wire_client_opts wire; /* to each fleet; its address is not read */
    int64_t devices, chats, turns;
    int64_t n;            /* tokens of a text at most */
    int64_t draft_tok;    /* of each draft, a chain */
    int64_t ctx;          /* tokens of a chat at most */
    double speed;         /* promised, tokens/s; 0: nothing is promised */
    double think_s;       /* mean */
    double rtt_ms;        /* of the devices' links */
    double draft_ms;      /* of a device's draft forward */
    double warm_s;        /* users begin within it; not counted */
    double measure_s;     /* of each round and fleet */
    int64_t rounds;       /* the fleets take turns */
    ft_sampling sampling; /* its seed is also that of chats and pauses */
    FILE *text, *log;     /* the figures for a person, NULL: nowhere; and a line a round */
    ft_bench_stop stop;
} ft_bench_fleet_opts;

/* Runs the comparison that docs/BENCHMARKS.md describes. FT_CANCELLED: it was stopped; errors of
 * files, servers and edges; then *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_fleet(const ft_bench_fleet_opts *opts, ft_error *err,
                                        json_t **report);

#endif
