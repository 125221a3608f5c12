/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ways in which attention gets into the graph: our CPU kernel as custom operators
 * (route_cpu.c), or ggml's operators alone (route_portable.c); and both at once, by layer
 * (route_mixed.c). Owned by the engine's thread.
 */
#ifndef FT_ENGINE_ROUTE_H
#define FT_ENGINE_ROUTE_H

#include "base/status.h"
#include "engine/batch.h"
#include "engine/graph.h"
#include "engine/store.h"

typedef struct ft_route ft_route;
struct ft_route {
    ft_attn_route_ops ops;
    /* Before the graph of the batch is fetched. */
    void (*begin)(ft_route *route);
    /* After that, before it runs: fills the inputs that attend added to graph number `slot`. False:
     * out of memory. */
    bool (*set_inputs)(ft_route *route, uint32_t slot);
    void (*destroy)(ft_route *route);
    size_t bytes;             /* of its scratch */
    uint32_t nodes_per_layer; /* that attend adds, at most */
};

typedef struct ft_route_opts {
    const ft_model *model;
    const ft_kv_store *store;
    const ft_batch *batch; /* the engine's one batch; max_rows is set */
    uint32_t n_threads;
} ft_route_opts;

/* All borrow what opts names. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_route_cpu_create(const ft_route_opts *opts, ft_route **out);
FT_WARN_UNUSED ft_status ft_route_portable_create(const ft_route_opts *opts, ft_route **out);
/* Layers whose K and V are tiled by our kernel, the others by ggml's operators. */
FT_WARN_UNUSED ft_status ft_route_mixed_create(const ft_route_opts *opts, ft_route **out);

/* The model's RoPE, with the factors in host memory. */
ft_rope_opts ft_route_rope(const ft_model *model);

#endif
