// SPDX-License-Identifier: Apache-2.0
// Attention by layer: our CPU kernel if K and V are tiled, ggml's operators if they are rows (on
// devices). Owned by the engine's thread.
#include <stdlib.h>

#include "engine/route.h"

typedef struct mixed_route {
    ft_route base;
    const ft_kv_store *store;
    ft_route *cpu, *portable;
} mixed_route;

static struct ggml_tensor *attend(ft_build *b, uint32_t il, struct ggml_tensor *q,
                                  struct ggml_tensor *k, struct ggml_tensor *v, bool output)
{
    const ft_attn_route_ops *self = b->route;
    const mixed_route *route = self->ctx;
    const ft_route *way = ft_kv_store_is_tiled(route->store, il) ? route->cpu : route->portable;
    b->route = &way->ops;
    struct ggml_tensor *result = way->ops.attend(b, il, q, k, v, output);
    b->route = self;
    return result;
}

static bool fits(void *ctx, uint32_t slot)
{
    const mixed_route *route = ctx;
    return route->portable->ops.fits(route->portable->ops.ctx, slot);
}

static void begin(ft_route *base)
{
    mixed_route *route = (mixed_route *)base;
    route->cpu->begin(route->cpu);
    route->portable->begin(route->portable);
}

static bool set_inputs(ft_route *base, uint32_t slot)
{
    mixed_route *route = (mixed_route *)base;
    return route->cpu->set_inputs(route->cpu, slot) &&
           route->portable->set_inputs(route->portable, slot);
}

static void destroy(ft_route *base)
{
    mixed_route *route = (mixed_route *)base;
    if (route->cpu)
        route->cpu->destroy(route->cpu);
    if (route->portable)
        route->portable->destroy(route->portable);
    free(route);
}

ft_status ft_route_mixed_create(const ft_route_opts *opts, ft_route **out)
{
    *out = NULL;
    mixed_route *route = calloc(1, sizeof *route);
    if (!route)
        return FT_NOMEM;
    route->store = opts->store;
    ft_status status = ft_route_cpu_create(opts, &route->cpu);
    if (status == FT_OK)
        status = ft_route_portable_create(opts, &route->portable);
    if (status != FT_OK) {
        destroy(&route->base);
        return status;
    }
    route->base = (ft_route){.ops = {attend, fits, route},
                             .begin = begin,
                             .set_inputs = set_inputs,
                             .destroy = destroy,
                             .bytes = route->cpu->bytes + route->portable->bytes,
                             .nodes_per_layer = route->portable->nodes_per_layer};
    *out = &route->base;
    return FT_OK;
}
