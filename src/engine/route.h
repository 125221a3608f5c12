/* SPDX-License-Identifier: Apache-2.0
 *
 * How attention gets into the graph: through our CPU kernel as custom operators (route_cpu.c),
 * through ggml's operators alone (route_portable.c), or through both, by layer (route_mixed.c).
 * Owned by the engine's thread.
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
    /* Called before the graph of the batch is fetched. */
    void (*begin)(ft_route *route);
    /* Called after the graph is fetched and before it runs: fills the inputs that attend added to
     * graph number `slot`. False: out of memory. */
    bool (*set_inputs)(ft_route *route, uint32_t slot);
    void (*destroy)(ft_route *route);
    size_t bytes;             /* bytes of its scratch memory */
    uint32_t nodes_per_layer; /* most nodes that attend adds in a layer */
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
/* Mixed: our kernel for layers whose K and V are tiled, ggml's operators for the others. */
FT_WARN_UNUSED ft_status ft_route_mixed_create(const ft_route_opts *opts, ft_route **out);

/* The model's RoPE options, with the factors in host memory. */
ft_rope_opts ft_route_rope(const ft_model *model);

#endif
