/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP port that forwards to another over a slow line: for programs whose protocol is not ours.
 * Each way bytes are sent over a line of a rate, which all connections share, and then held for
 * half a round trip; they stay in order. Both ends are on this machine's loopback. It has threads
 * of its own; the calls are one thread's. */
#ifndef FT_BENCH_LOAD_RELAY_H
#define FT_BENCH_LOAD_RELAY_H

#include <stdint.h>

#include "base/line.h"
#include "base/status.h"

typedef struct ft_bench_load_relay ft_bench_load_relay;

/* Listens on a free port (*port) and forwards each connection to to_port, at first without any
 * delay. FT_IO, FT_EXHAUSTED, FT_NOMEM leave *out NULL. */
FT_WARN_UNUSED ft_status ft_bench_load_relay_start(uint16_t to_port, ft_error *err,
                                                   ft_bench_load_relay **out, uint16_t *port);
/* Ends all connections. NULL is legal. */
void ft_bench_load_relay_stop(ft_bench_load_relay *relay);

/* For bytes that come from now on: the delay each way, and the rates to the port and back. */
void ft_bench_load_relay_slow_down(ft_bench_load_relay *relay, int64_t delay_us,
                                   const ft_line_rate *to, const ft_line_rate *back);

/* Sums since the start. */
typedef struct ft_bench_load_relay_stats {
    uint64_t answers; /* times that bytes came back after bytes to the port */
    uint64_t to_bytes, back_bytes;
} ft_bench_load_relay_stats;
ft_bench_load_relay_stats ft_bench_load_relay_count(ft_bench_load_relay *relay);

#endif
