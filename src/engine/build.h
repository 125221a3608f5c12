/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph under construction. A family (families.h) and an attention route (route.h) add nodes to
 * it; graph.c begins and ends it. Owned by the engine's thread.
 */
#ifndef FT_ENGINE_BUILD_H
#define FT_ENGINE_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/backends.h"
#include "ggml.h"
#include "model/model.h"

typedef struct ft_build ft_build;

/* How attention is added to the graph. `attend` adds the nodes that write K and V of layer `il`. If
 * `output` is true, it also adds attention and returns the result [n_head * head_dim, n_rows];
 * otherwise it returns any node that depends on the writing. q, k, v: [heads * head_dim, n_rows],
 * maybe views, before bias, norm and RoPE. `fits` says whether the graph with number `slot` can be
 * used for the present batch, too. It is for routes whose graph depends on more than the number of
 * rows; NULL: the graph can always be used. */
typedef struct ft_attn_route_ops {
    struct ggml_tensor *(*attend)(ft_build *build, uint32_t il, struct ggml_tensor *q,
                                  struct ggml_tensor *k, struct ggml_tensor *v, bool output);
    bool (*fits)(void *ctx, uint32_t slot);
    void *ctx;
} ft_attn_route_ops;

struct ft_build {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    const ft_hparams *hparams;
    const ft_weights *weights;
    const ft_attn_route_ops *route;
    /* number of the graph; FT_GRAPH_LARGEST: built to learn the largest memory need */
    uint32_t slot;
    uint32_t n_rows, n_out;
    struct ggml_tensor *tokens;  /* I32 [n_rows], input */
    struct ggml_tensor *out_ids; /* I32 [n_out], input; NULL if n_out is 0 */
    /* Private to build.c: where nodes added since `placed` run. */
    const ft_model *model;
    const ft_backends *backends;
    ggml_backend_sched_t sched;
    struct ggml_tensor *placed;
    uint32_t place;
};

/* Nodes added from now on run where layer il's weights are (il = n_layer: the output head's). */
void ft_build_enter_layer(ft_build *build, uint32_t il);
/* Tells the scheduler where the nodes added since the last call run. */
void ft_build_place_added(ft_build *build);

#endif
