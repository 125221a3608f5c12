// SPDX-License-Identifier: Apache-2.0
// Builds graphs and keeps the last few by shape. Owned by the engine's thread.
//
// On the CPU alone, an allocator, reserved at the largest shape, lays out all graphs of a kind in one
// buffer, so that a cached graph's addresses stay right while others run between its uses; should the
// buffer grow all the same, all graphs are forgotten. Graphs with and without logits have different
// nodes, hence an allocator each (reserving one anew at each change would allocate). Once every slot
// has been used, fetching a graph allocates nothing.
//
// With devices ggml's scheduler splits a graph between them. It knows one graph at a time, so that only
// the last one is kept. Each node is told where to run, which is where its layer's weights are: left
// to itself the scheduler would ask the devices, and ggml's RPC devices say yes to anything.
#include "engine/graph.h"

#include <assert.h>
#include <stdlib.h>

#include "ggml-alloc.h"

struct ft_graph_cache {
    ft_graph_cache_opts opts;
    size_t n_nodes;
    size_t mem_bytes;           /* of one graph's description */
    ggml_gallocr_t galloc[2];   /* on the CPU alone; without, with logits */
    ggml_backend_sched_t sched; /* with devices */
    uint64_t clock, n_built;
    ft_graph slots[FT_GRAPH_SLOTS];
};

static struct ggml_context *new_context(const ft_graph_cache *cache)
{
    return ggml_init((struct ggml_init_params){.mem_size = cache->mem_bytes, .no_alloc = true});
}

/* ---- building ---- */

/* Tells the scheduler where to run what was added since the last call. Inputs are left to it: it
 * keeps them on the host and copies them to where they are read. */
static void place_added(ft_build *b)
{
    struct ggml_tensor *t =
        b->placed ? ggml_get_next_tensor(b->ctx, b->placed) : ggml_get_first_tensor(b->ctx);
    for (; t; t = ggml_get_next_tensor(b->ctx, t)) {
        if (b->sched && t->op != GGML_OP_NONE)
            ggml_backend_sched_set_tensor_backend(b->sched, t, b->backends->at[b->place]);
        b->placed = t;
    }
}

void ft_build_enter_layer(ft_build *b, uint32_t il)
{
    place_added(b);
    b->place = il < b->hparams->n_layer ? ft_model_where_layer(b->model, il)
                                        : ft_model_where_head(b->model);
}

static void build(ft_graph_cache *cache, ft_graph *g, uint32_t n_rows, uint32_t n_out)
{
    ggml_reset(g->ctx);
    ft_build b = {.ctx = g->ctx,
                  .hparams = ft_model_hparams(cache->opts.model),
                  .weights = ft_model_weights(cache->opts.model),
                  .route = cache->opts.route,
                  .slot = g->slot,
                  .n_rows = n_rows,
                  .n_out = n_out,
                  .model = cache->opts.model,
                  .backends = cache->opts.backends,
                  .sched = cache->sched,
                  .place = ft_model_where_embedding(cache->opts.model)};
    b.graph = ggml_new_graph_custom(g->ctx, cache->n_nodes, false);
    b.tokens = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n_rows);
    ggml_set_input(b.tokens);
    if (n_out) {
        b.out_ids = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n_out);
        ggml_set_input(b.out_ids);
    }
    struct ggml_tensor *result = ft_family_build(&b);
    place_added(&b);
    ggml_set_output(result);
    ggml_build_forward_expand(b.graph, result);
    g->graph = b.graph;
    g->tokens = b.tokens;
    g->out_ids = b.out_ids;
    g->logits = n_out ? result : NULL;
    g->n_rows = n_rows;
    g->n_out = n_out;
}

/* ---- reserving ---- */

/* Operators that only name memory run nowhere. */
static bool runs(const struct ggml_tensor *t)
{
    return t->op != GGML_OP_NONE && t->op != GGML_OP_VIEW && t->op != GGML_OP_RESHAPE &&
           t->op != GGML_OP_PERMUTE && t->op != GGML_OP_TRANSPOSE;
}

/* Every device must be able to run what was placed on it. */
static ft_status check_ops(ft_graph_cache *cache, struct ggml_cgraph *graph, ft_error *err)
{
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor *t = ggml_graph_node(graph, i);
        ggml_backend_t backend = ggml_backend_sched_get_tensor_backend(cache->sched, t);
        if (backend && runs(t) && !ggml_backend_supports_op(backend, t))
            return ft_error_set(err, FT_UNSUPPORTED,
                                "engine: device %s has no %s of %s for this model (head size %u): "
                                "keep its layers off it with --device or -ngl",
                                ggml_backend_dev_name(ggml_backend_get_device(backend)),
                                ggml_op_desc(t),
                                ggml_type_name(t->src[0] ? t->src[0]->type : t->type),
                                ft_model_hparams(cache->opts.model)->head_dim);
    }
    return FT_OK;
}

static ft_status reserve(ft_graph_cache *cache, int kind, ft_error *err)
{
    ft_graph largest = {.ctx = new_context(cache), .slot = FT_GRAPH_LARGEST};
    ft_status status = FT_OK;
    if (!largest.ctx)
        return FT_NOMEM;
    if (cache->sched)
        ggml_backend_sched_reset(cache->sched);
    build(cache, &largest, cache->opts.max_rows, kind ? cache->opts.max_out : 0);
    if (cache->sched)
        status = check_ops(cache, largest.graph, err);
    if (status == FT_OK &&
        !(cache->sched ? ggml_backend_sched_reserve(cache->sched, largest.graph)
                       : ggml_gallocr_reserve(cache->galloc[kind], largest.graph)))
        status = FT_NOMEM;
    ggml_free(largest.ctx);
    return status;
}

/* The scheduler wants the CPU last, and names a backend once. */
static ggml_backend_sched_t new_sched(const ft_graph_cache *cache)
{
    const ft_backends *b = cache->opts.backends;
    ggml_backend_t list[FT_PLACES_MAX];
    int n = 0;
    for (size_t i = 1; i < b->n; i++)
        if (b->at[i])
            list[n++] = b->at[i];
    list[n++] = b->at[0];
    return ggml_backend_sched_new(list, NULL, n, cache->n_nodes, false, false);
}

ft_status ft_graph_cache_create(const ft_graph_cache_opts *opts, ft_error *err,
                                ft_graph_cache **out)
{
    *out = NULL;
    ft_graph_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return FT_NOMEM;
    uint32_t n_layer = ft_model_hparams(opts->model)->n_layer;
    cache->opts = *opts;
    for (uint32_t i = 0; i < FT_GRAPH_SLOTS; i++)
        cache->slots[i].slot = i;
    /* Norms, projections, FFN and residuals of a layer take under 40 nodes, views and weights
     * included; the rest of the model under 64. */
    cache->n_nodes = (size_t)n_layer * (40 + opts->nodes_per_layer) + 64;
    cache->mem_bytes =
        cache->n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(cache->n_nodes, false);
    if (opts->backends->devices)
        cache->sched = new_sched(cache);
    for (int kind = 0; kind < 2 && !opts->backends->devices; kind++)
        cache->galloc[kind] =
            ggml_gallocr_new(ggml_backend_get_default_buffer_type(opts->backends->at[0]));
    bool made = cache->sched || (cache->galloc[0] && cache->galloc[1]);
    ft_status status = made ? reserve(cache, 0, err) : FT_NOMEM;
    if (status == FT_OK)
        status = reserve(cache, 1, err);
    if (status != FT_OK) {
        ft_graph_cache_destroy(cache);
        return status;
    }
    *out = cache;
    return FT_OK;
}

void ft_graph_cache_destroy(ft_graph_cache *cache)
{
    if (!cache)
        return;
    ggml_backend_sched_free(cache->sched);
    for (int i = 0; i < FT_GRAPH_SLOTS; i++)
        ggml_free(cache->slots[i].ctx);
    for (int kind = 0; kind < 2; kind++)
        ggml_gallocr_free(cache->galloc[kind]);
    free(cache);
}

size_t ft_graph_cache_bytes_on(const ft_graph_cache *cache, uint32_t place)
{
    if (cache->sched)
        return cache->opts.backends->at[place] ? ggml_backend_sched_get_buffer_size(
                                                     cache->sched, cache->opts.backends->at[place])
                                               : 0;
    return place ? 0
                 : ggml_gallocr_get_buffer_size(cache->galloc[0], 0) +
                       ggml_gallocr_get_buffer_size(cache->galloc[1], 0);
}

size_t ft_graph_cache_bytes(const ft_graph_cache *cache)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < cache->opts.backends->n; i++)
        bytes += ft_graph_cache_bytes_on(cache, i);
    return bytes;
}

uint64_t ft_graph_cache_built(const ft_graph_cache *cache)
{
    return cache->n_built;
}

/* ---- fetching ---- */

static void forget_all(ft_graph_cache *cache)
{
    for (int i = 0; i < FT_GRAPH_SLOTS;
         i++) /* the first ones come first again: their memory is warm */
        cache->slots[i].n_rows = cache->slots[i].last_used = 0;
}

static bool fits(const ft_graph_cache *cache, const ft_graph *g, uint32_t n_rows, uint32_t n_out)
{
    const ft_attn_route_ops *route = cache->opts.route;
    return g->n_rows == n_rows && g->n_out == n_out &&
           (!route->fits || route->fits(route->ctx, g->slot));
}

static bool lay_out(ft_graph_cache *cache, ft_graph *g, uint32_t n_rows, uint32_t n_out)
{
    if (cache->sched) {
        forget_all(cache);
        ggml_backend_sched_reset(cache->sched);
        build(cache, g, n_rows, n_out);
        return ggml_backend_sched_alloc_graph(cache->sched, g->graph);
    }
    size_t bytes = ft_graph_cache_bytes(cache);
    build(cache, g, n_rows, n_out);
    bool ok = ggml_gallocr_alloc_graph(cache->galloc[n_out > 0], g->graph);
    if (!ok || ft_graph_cache_bytes(cache) != bytes) {
        forget_all(cache);
        g->n_rows = n_rows;
    }
    return ok;
}

ft_graph *ft_graph_cache_get(ft_graph_cache *cache, uint32_t n_rows, uint32_t n_out)
{
    ft_graph *oldest = &cache->slots[0];
    for (int i = 0; i < FT_GRAPH_SLOTS; i++) {
        ft_graph *g = &cache->slots[i];
        if (fits(cache, g, n_rows, n_out)) {
            g->last_used = ++cache->clock;
            return g;
        }
        oldest = g->last_used < oldest->last_used ? g : oldest;
    }
    oldest->n_rows = 0;
    if (!oldest->ctx && !(oldest->ctx = new_context(cache)))
        return NULL;
    bool ok = lay_out(cache, oldest, n_rows, n_out);
    cache->n_built++;
    oldest->last_used = ++cache->clock;
    if (!ok)
        oldest->n_rows = 0;
    return ok ? oldest : NULL;
}

enum ggml_status ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph)
{
    if (cache->sched)
        return ggml_backend_sched_graph_compute(cache->sched, graph->graph);
    return ggml_backend_graph_compute(cache->opts.backends->at[0], graph->graph);
}
