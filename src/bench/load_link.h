/* SPDX-License-Identifier: Apache-2.0
 *
 * A delayed path to a verifier: wraps the links of another source and holds each message for half a
 * round trip, each way, in order. Counts what passes. The links are used like any other
 * (edge/link.h); a path outlives them. */
#ifndef FT_BENCH_LOAD_LINK_H
#define FT_BENCH_LOAD_LINK_H

#include <pthread.h>

#include "edge/link.h"

typedef struct ft_bench_load_traffic {
    /* Sent, Open, Close and the like not counted; an early draft counts where it was taken, its
     * bytes do always. */
    uint64_t drafts, draft_bytes;
    uint64_t verdicts, verdict_bytes;
} ft_bench_load_traffic;

typedef struct ft_bench_load_path {
    ft_link_source inner;
    int64_t delay_us; /* each way; 0: no thread, no copy. Links keep the value of their opening */
    /* Called in the generation's thread as it sends or receives; NULL is legal. */
    void (*on_draft)(void *ctx, const ft_msg_draft *draft);
    void (*on_verdict)(void *ctx, const ft_msg_verdict *verdict);
    void *ctx;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t gone;
    uint32_t n_links;
    ft_bench_load_traffic traffic;
} ft_bench_load_path;

/* delay_us, the callbacks and ctx may be set while there are no links. */
void ft_bench_load_path_init(ft_bench_load_path *path, ft_link_source inner);
/* Waits until its links' last messages are through. */
void ft_bench_load_path_deinit(ft_bench_load_path *path);
/* A source of links over this path. */
ft_link_source ft_bench_load_path_source(ft_bench_load_path *path);
/* Sums since init. Any thread. */
ft_bench_load_traffic ft_bench_load_path_traffic(ft_bench_load_path *path);

#endif
