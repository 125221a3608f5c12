/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of an engine, shared by engine.c, pass.c (how a batch is computed), seq.c (sequences)
 * and warm.c (timed passes before the first user). Everything is owned by the engine's thread. */
#ifndef FT_ENGINE_ENGINE_INTERNAL_H
#define FT_ENGINE_ENGINE_INTERNAL_H

#include "base/clock.h"
#include "engine/backends.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/graph.h"
#include "engine/kv.h"
#include "engine/layers.h"
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
    ft_turn *turn;    /* NULL: nobody shares the processor */
    int pass_threads; /* of the pass that is being computed and may be given up; 0: none */
    ft_layers layers;
    ft_streamed *streamed; /* weights that are not in memory; NULL: all are */
    /* the machine's; it times passes, and decides only threads */
    ft_clock clock;
    ft_pace pace, head_pace;
    int warm_threads;    /* threads of a pass that only warms up; 0: pace decides */
    bool warm_cold;      /* the time of this pass measures nothing */
    int64_t warm_end_us; /* when the warm-up is given up */
    int64_t give_up_us;  /* when the present pass is given up; 0: never */
    /* Rows of the last pass, [batch.n_out, n_embd]. NULL: it computed the logits of all wanted
     * rows, because devices hold a part of the model or the output head is not in memory. */
    const float *kept;
    const float *logits; /* [n_asked, n_vocab] */
    float *fetched;      /* [max_logits, n_vocab], copied from a device; else NULL */
    uint32_t *asked;     /* [n_asked] rows that have logits, in the order of `logits` */
    uint32_t *at;        /* [max_logits] for each row 1 + its index in `asked`; 0: none */
    uint32_t n_asked;
    uint64_t forwards, rows, heads, head_rows;
    uint64_t alone, compute_us; /* as ft_engine_stats has them; warm-up passes do not count */
};

struct ft_seq {
    ft_kv_seq kv;
    ft_engine *engine;
    uint64_t batch; /* number of the last batch that named this sequence */
};

/* ---- pass.c ---- */

/* Between two operations of a pass, on the thread that began it. True: give the pass up. Beside
 * another engine's pass it must be on one thread, since others would wait in a barrier while it is
 * interrupted. */
bool ft_engine_between_operations(void *engine);
/* Computes engine->batch. FT_NOMEM, FT_INTERNAL; of a streamed model its errors. */
/* Multiplications of a pass: matrices of the layers, and attention. n_seen: sum over rows of the
 * tokens that they attend to. (An output head on a device does not count: threads are not chosen
 * there.) */
ft_pace_size ft_engine_pass_size(const ft_engine *engine, uint32_t n_rows, uint64_t n_seen);
FT_WARN_UNUSED ft_status ft_engine_run_batch(ft_engine *engine, ft_error *err);
/* Runs the output head on n of the kept rows, on all if rows is NULL; n == 0: none has logits then.
 * It is never given up half-way: nearly all of it is one operator, whose work threads claim in
 * small pieces. FT_NOMEM, FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_engine_run_head(ft_engine *engine, const uint32_t *rows, uint32_t n);
/* No row of the last pass has logits any more, and none can be computed. */
void ft_engine_forget(ft_engine *engine);

#endif
