/* SPDX-License-Identifier: Apache-2.0
 *
 * A verification server to measure: this program as a child process, `foretoken serve`, on a core
 * of its own, and the counters of its metrics page. Owned by one thread. */
#ifndef FT_BENCH_LOAD_SERVER_H
#define FT_BENCH_LOAD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "bench/bench.h"
#include "bench/load_set.h"
#include "engine/load.h"
#include "serve/stats.h"

typedef struct ft_bench_load_server_opts {
    const char *model, *draft;     /* draft: drafts on the server too; NULL: it does not */
    uint32_t depth, budget, width; /* of its drafts */
    bool draft_always;             /* also when they do not pay, and of all nodes */
    uint32_t ctx, kv_tok, max_sessions;
    uint32_t threads;
    const char *policy; /* as serve's flag; NULL: fcfs, since most benches ask for no speed */
    const char *slo, *costs, *cache_type, *rules; /* as serve's flags; NULL: its defaults */
    const char *memory; /* its target is read from disk as far as this is too little; NULL: not */
    bool no_prefix_cache;
    const char *rpc; /* HOST:PORT of an rpc-server, which computes the last `offload` layers */
    uint32_t offload;
    const ft_device_opts *device; /* of its target; NULL: serve's defaults */
    uint32_t port;                /* of gRPC; 0: a free one */
    uint32_t timeline_mb;         /* it writes a timeline of so many MB at most; 0: none */
    int core;                     /* the server runs there and nowhere else; < 0: anywhere */
    ft_bench_stop stop;
} ft_bench_load_server_opts;

typedef struct ft_bench_load_server {
    pid_t pid; /* 0: none */
    char dir[32];
    char address[32]; /* of gRPC */
    int metrics_port;
    const float *slo_tokens_per_s; /* [n_slo] its classes, for counters by class; borrowed */
    uint32_t n_slo;                /* 0, as after the start: these are not read */
} ft_bench_load_server;

/* Sets ctx and kv_tok so that the KV of all texts of the set stays in the pool (each has up to
 * `text` tokens behind its prompt), beside n_sessions texts that are being written. */
void ft_bench_load_server_fit(ft_bench_load_server_opts *opts, const ft_bench_load_set *set,
                              uint32_t text, uint32_t n_sessions);

/* Starts it and waits until it listens. FT_UNAVAILABLE has the last line of its log. *out owes a
 * stop. */
FT_WARN_UNUSED ft_status ft_bench_load_server_start(const ft_bench_load_server_opts *opts,
                                                    ft_error *err, ft_bench_load_server *out);
/* Kills it, and starts it again with the same options at the same port. */
FT_WARN_UNUSED ft_status ft_bench_load_server_kill(const ft_bench_load_server_opts *opts,
                                                   ft_error *err, ft_bench_load_server *server);
/* Ends it and waits until it is gone; its files stay until the stop. path: of its timeline. */
void ft_bench_load_server_end(ft_bench_load_server *server, char path[64]);
/* Ends it and waits until it is gone. An all-zero server is legal. */
void ft_bench_load_server_stop(ft_bench_load_server *server);

/* Sums since the server's start. */
typedef struct ft_bench_load_counters {
    double at_s;             /* when they were read, of the monotonic clock */
    double cpu_s;            /* of the process, user and system */
    ft_verifier_stats stats; /* those by class only where the server's classes are set */
} ft_bench_load_counters;
/* FT_UNAVAILABLE: no answer; FT_NOT_FOUND, FT_CORRUPT: names the metric that could not be read. */
FT_WARN_UNUSED ft_status ft_bench_load_server_count(const ft_bench_load_server *server,
                                                    ft_error *err, ft_bench_load_counters *out);
/* b - a; and sums. */
ft_bench_load_counters ft_bench_load_counters_since(const ft_bench_load_counters *a,
                                                    const ft_bench_load_counters *b);
void ft_bench_load_counters_add(ft_bench_load_counters *sum, const ft_bench_load_counters *more);

/* Reserves the last core for the server and keeps this process off it. Call it before threads are
 * made. Returns how many cores this process has. *core: the server's; -1: there is only one
 * core. */
int ft_bench_load_split_cores(int *core);
/* Prints where server and edges run. */
void ft_bench_load_print_cores(int core, int driver_cores, FILE *out);
/* Prints that the servers' targets are read from disk. memory: of each server; NULL: nothing. */
void ft_bench_load_print_memory(const char *memory, FILE *out);

#endif
