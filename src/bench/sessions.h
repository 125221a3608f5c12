/* SPDX-License-Identifier: Apache-2.0
 *
 * What an idle session costs a server: its memory, and the time of rounds beside many of them.
 * Called by one thread, before the process has others: it forks. */
#ifndef FT_BENCH_SESSIONS_H
#define FT_BENCH_SESSIONS_H

#include <jansson.h>
#include <stdint.h>

#include "bench/bench.h"

typedef struct ft_bench_sessions_opts {
    const char *model;
    int64_t idle;       /* sessions that have had one round and wait */
    int64_t active;     /* sessions that do one round after another, beside the idle ones */
    int64_t rounds;     /* of each active one */
    int64_t prompt_tok; /* of every session */
    int64_t threads;    /* of the server; 0: all cores */
    ft_bench_stop stop; /* asked between steps; NULL: never */
} ft_bench_sessions_opts;

/* {sessions, rss_bytes_per_session, kv_bytes_per_session, grpc_bytes_per_stream,
 * ours_bytes_per_session, round_ms_p50_of_N_active_alone, ...p99...,
 * round_ms_p99_beside_N_active...}: see docs/BENCHMARKS.md. FT_CANCELLED: by stop. FT_UNAVAILABLE:
 * a server could not be started. */
FT_WARN_UNUSED ft_status ft_bench_sessions(const ft_bench_sessions_opts *opts, ft_error *err,
                                           json_t **report);

/* Resident bytes of both servers and bytes of KV blocks that sessions hold, with n sessions on one
 * and n streams on the other. */
typedef struct ft_bench_sessions_point {
    uint32_t n;
    double rss, kv_bytes, bare_rss;
} ft_bench_sessions_point;

/* {sessions, rss_bytes_per_session, ...}: what each session between the two points took. fewer->n <
 * all->n. NULL: no memory. */
json_t *ft_bench_sessions_per_session(const ft_bench_sessions_point *fewer,
                                      const ft_bench_sessions_point *all);

#endif
