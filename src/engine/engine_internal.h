/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine's state, for the files that make it up: engine.c, and warm.c, which runs passes to time them
 * before anybody waits. Everything is owned by the engine's thread. */
#ifndef FT_ENGINE_ENGINE_INTERNAL_H
#define FT_ENGINE_ENGINE_INTERNAL_H

#include "base/clock.h"
#include "engine/backends.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/graph.h"
#include "engine/kv.h"
#include "engine/pace.h"
#include "engine/route.h"
#include "engine/store.h"

struct ft_engine {
    const ft_model *model;
    uint32_t max_logits;
    ft_kv kv;
    ft_kv_store store;
    ft_batch batch;
    ft_rope_opts rope;
    ft_route *route;
    ft_graph_cache *graphs;
    ft_backends backends;
    ft_clock clock; /* the machine's: it times passes, which decides threads and nothing else */
    ft_pace pace, head_pace;
    int warm_threads;    /* of a pass that only warms it; 0: pace says */
    bool warm_cold;      /* whose time says nothing */
    int64_t warm_end_us; /* when it is given up */
    int64_t give_up_us;  /* when the present pass is given up; 0: never */
    const float *kept;   /* rows of the last pass, [batch.n_out, n_embd]; NULL with devices */
    const float *logits; /* of some of them, [any, n_vocab]; with devices of all */
    float *fetched;      /* [max_logits, n_vocab], where they come from a device; else NULL */
    uint32_t *asked;     /* [n_asked] the rows that have logits, in the order of `logits` */
    uint32_t *at;        /* [max_logits] of each row, its place in `asked` and one; 0: none */
    uint32_t n_asked;
    uint64_t forwards, rows, heads, head_rows;
};

/* No row of the last pass has logits, or could have them, any more. */
void ft_engine_forget(ft_engine *engine);

#endif
