/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass layer by layer, for models whose weights are not all in memory (model/streamed.h). While a
 * layer is being read no thread of the pass runs, and whoever shares the turn may compute. Rows and
 * logits have the same bits as in a pass over resident layers.
 *
 * Owned by the engine's thread.
 */
#ifndef FT_ENGINE_LAYERS_H
#define FT_ENGINE_LAYERS_H

#include "base/clock.h"
#include "base/turn.h"
#include "engine/batch.h"
#include "engine/graph.h"
#include "engine/route.h"
#include "ggml-backend.h"
#include "model/streamed.h"

typedef struct ft_layers {
    ft_streamed *weights;   /* borrowed */
    ft_graph_cache *graphs; /* borrowed */
    ft_turn *turn;          /* borrowed; NULL: nobody shares the processor */
    const ft_clock *clock;  /* borrowed */
    uint32_t n_layer, n_embd, n_vocab;
    float *x;      /* [max_rows, n_embd] between two layers */
    float *out;    /* [max_out, n_embd] rows that want logits, behind the last layer */
    float *logits; /* [max_out, n_vocab]; NULL: the output head is resident */
    size_t bytes;  /* of these */
} ft_layers;

typedef struct ft_layers_opts {
    const ft_hparams *hp;   /* borrowed during init */
    ft_streamed *weights;   /* borrowed */
    ft_graph_cache *graphs; /* borrowed; by layer */
    ft_turn *turn;
    const ft_clock *clock;
    uint32_t max_rows, max_out;
} ft_layers_opts;

/* FT_NOMEM: nothing needs a deinit then. */
FT_WARN_UNUSED ft_status ft_layers_init(ft_layers *layers, const ft_layers_opts *opts);
/* All zeros are legal. */
void ft_layers_deinit(ft_layers *layers);
/* Bytes that init would allocate. part: the output head comes in parts. */
uint64_t ft_layers_bytes(const ft_hparams *hp, uint32_t max_rows, uint32_t max_out, bool part);

/* How a pass uses the processor. A layer that takes too long is computed again on one thread. If
 * the pass so loses more than all threads win, the layers behind it are computed on one, too. */
typedef struct ft_layers_pass {
    ft_route *route;     /* its `begin` is called before the first layer and each second attempt */
    ggml_backend_t cpu;  /* its abort callback looks at *give_up_us */
    int64_t *give_up_us; /* when to give up; 0: never */
    int n_threads;       /* in, out: 1 if the last layers were computed on one */
    int64_t limit_us;    /* of all layers; 0: none */
    int64_t alone_us;    /* with a limit: what the pass would take on one thread */
    uint32_t n_done;     /* layers computed so far */
    int64_t until_us;    /* when the pass as a whole is given up (FT_TIMEOUT); 0: never */
    int64_t compute_us;  /* out: the time without reading */
} ft_layers_pass;

/* Computes the batch: `out` of its rows, and `logits` if the output head comes in parts. Errors of
 * model/streamed.h, FT_NOMEM, FT_INTERNAL, FT_TIMEOUT. */
FT_WARN_UNUSED ft_status ft_layers_run(ft_layers *layers, const ft_batch *batch,
                                       ft_layers_pass *pass, ft_error *err);

#endif
