/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge's side of layer splitting (SpecEdge 3 and 5.3): an rpc-server with one thread, which
 * computes some layers of a server's model, behind a slow line. Owned by one thread. */
#ifndef FT_BENCH_LOAD_SPLIT_H
#define FT_BENCH_LOAD_SPLIT_H

#include <sys/types.h>

#include "bench/bench.h"
#include "bench/load_relay.h"

typedef struct ft_bench_load_split {
    pid_t pid; /* 0: none */
    char log[40];
    ft_bench_load_relay *relay;
    char endpoint[32]; /* for serve --rpc; the line has no delay at first */
} ft_bench_load_split;

/* Starts it where this process may run, and waits until it listens. FT_UNAVAILABLE has the last
 * line of its log. *out owes a stop. */
FT_WARN_UNUSED ft_status ft_bench_load_split_start(ft_bench_stop stop, ft_error *err,
                                                   ft_bench_load_split *out);
/* The server that uses it has ended. All-zero is legal. */
void ft_bench_load_split_stop(ft_bench_load_split *split);

#endif
