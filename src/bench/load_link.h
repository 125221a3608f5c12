/* SPDX-License-Identifier: Apache-2.0
 *
 * A path to a verifier that takes time: wraps the links of another source. Each way a message is
 * sent over a line of a rate, which all links of the path share, and then held for half a round
 * trip; messages stay in order. Counts what passes. The links are used like any other
 * (edge/link.h); a path outlives them. */
#ifndef FT_BENCH_LOAD_LINK_H
#define FT_BENCH_LOAD_LINK_H

#include <pthread.h>

#include "base/line.h"
#include "edge/link.h"

typedef struct ft_bench_load_traffic {
    /* Sent, Open, Close and the like not counted; an early draft counts where it was taken, its
     * bytes do always. */
    uint64_t drafts, draft_bytes;
    uint64_t verdicts, verdict_bytes;
} ft_bench_load_traffic;

/* A Draft on a line with a rate: its bytes, and the time from sending it to its last byte, without
 * the delay. */
typedef struct ft_bench_load_sent {
    uint64_t bytes;
    int64_t us;
} ft_bench_load_sent;

typedef struct ft_bench_load_path {
    ft_link_source inner;
    int64_t delay_us; /* each way. Links keep the value of their opening */
    bool limited;     /* a line has a rate. Without, and without a delay: no thread, no copy */
    /* Called in the generation's thread as it sends or receives; NULL is legal. */
    void (*on_draft)(void *ctx, const ft_msg_draft *draft);
    void (*on_verdict)(void *ctx, const ft_msg_verdict *verdict);
    void *ctx;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t gone;
    uint32_t n_links;
    ft_line up, down;
    ft_bench_load_traffic traffic;
    ft_bench_load_sent last_draft;
} ft_bench_load_path;

/* delay_us, the callbacks and ctx may be set while there are no links. */
void ft_bench_load_path_init(ft_bench_load_path *path, ft_link_source inner);
/* Gives its lines these rates; a message takes the time of its bytes (ft_wire_message_bytes). While
 * there are no links. */
void ft_bench_load_path_limit(ft_bench_load_path *path, const ft_line_rate *up,
                              const ft_line_rate *down);
/* Waits until there are no links, and their last messages are through. */
void ft_bench_load_path_wait(ft_bench_load_path *path);
/* Waits, too. */
void ft_bench_load_path_deinit(ft_bench_load_path *path);
/* A source of links over this path. */
ft_link_source ft_bench_load_path_source(ft_bench_load_path *path);
/* Sums since init. Any thread. */
ft_bench_load_traffic ft_bench_load_path_traffic(ft_bench_load_path *path);
/* The last Draft that took the time of its bytes; all-zero: there was none. Any thread. */
ft_bench_load_sent ft_bench_load_path_last(ft_bench_load_path *path);
/* What a message takes in a stream (ft_wire_message_bytes); 0: no memory to find out. */
uint64_t ft_bench_load_message_bytes(const ft_client_msg *msg);

#endif
