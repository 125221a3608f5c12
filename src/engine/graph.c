// SPDX-License-Identifier: Apache-2.0
// Builds graphs and keeps the last few by shape. Owned by the engine's thread.
//
// One allocator, reserved at the largest shape, lays out all graphs in one buffer that never grows
// afterwards, so that a cached graph's addresses stay right while others run between its uses. Graphs
// with and without logits have different nodes: the allocator is reserved anew when the kind changes.
#include "engine/graph.h"

#include <assert.h>
#include <stdlib.h>

#include "ggml-alloc.h"

#define SLOTS 16 /* shapes kept; a step's batch changes shape within few sizes */

struct ft_graph_cache {
    ft_graph_cache_opts opts;
    size_t n_nodes;
    size_t mem_bytes; /* of one graph's description */
    ggml_gallocr_t galloc;
    int reserved_kind; /* 1 with logits, 0 without, -1 none */
    uint64_t clock;
    ft_graph slots[SLOTS];
};

static struct ggml_context *new_context(const ft_graph_cache *cache)
{
    return ggml_init((struct ggml_init_params){.mem_size = cache->mem_bytes, .no_alloc = true});
}

static void build(ft_graph_cache *cache, ft_graph *g, uint32_t n_rows, uint32_t n_out)
{
    ggml_reset(g->ctx);
    ft_build b = {.ctx = g->ctx,
                  .hparams = ft_model_hparams(cache->opts.model),
                  .weights = ft_model_weights(cache->opts.model),
                  .route = cache->opts.route,
                  .n_rows = n_rows,
                  .n_out = n_out};
    b.graph = ggml_new_graph_custom(g->ctx, cache->n_nodes, false);
    b.tokens = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n_rows);
    ggml_set_input(b.tokens);
    if (n_out) {
        b.out_ids = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n_out);
        ggml_set_input(b.out_ids);
    }
    struct ggml_tensor *result = ft_family_build(&b);
    ggml_set_output(result);
    ggml_build_forward_expand(b.graph, result);
    g->graph = b.graph;
    g->tokens = b.tokens;
    g->out_ids = b.out_ids;
    g->logits = n_out ? result : NULL;
    g->n_rows = n_rows;
    g->n_out = n_out;
}

static bool reserve(ft_graph_cache *cache, int kind)
{
    ft_graph largest = {.ctx = new_context(cache)};
    if (!largest.ctx)
        return false;
    build(cache, &largest, cache->opts.max_rows, kind ? cache->opts.max_out : 0);
    bool ok = ggml_gallocr_reserve(cache->galloc, largest.graph);
    ggml_free(largest.ctx);
    cache->reserved_kind = ok ? kind : -1;
    return ok;
}

ft_status ft_graph_cache_create(const ft_graph_cache_opts *opts, ft_graph_cache **out)
{
    *out = NULL;
    ft_graph_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return FT_NOMEM;
    uint32_t n_layer = ft_model_hparams(opts->model)->n_layer;
    cache->opts = *opts;
    /* Norms, projections, FFN and residuals of a layer take under 40 nodes, views included; the rest
     * of the model under 64. */
    cache->n_nodes = (size_t)n_layer * (40 + opts->nodes_per_layer) + 64;
    cache->mem_bytes =
        cache->n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(cache->n_nodes, false);
    cache->galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(opts->backend));
    if (!cache->galloc || !reserve(cache, 0) || !reserve(cache, 1)) {
        ft_graph_cache_destroy(cache);
        return FT_NOMEM;
    }
    *out = cache;
    return FT_OK;
}

void ft_graph_cache_destroy(ft_graph_cache *cache)
{
    if (!cache)
        return;
    for (int i = 0; i < SLOTS; i++)
        ggml_free(cache->slots[i].ctx);
    ggml_gallocr_free(cache->galloc);
    free(cache);
}

size_t ft_graph_cache_bytes(const ft_graph_cache *cache)
{
    return ggml_gallocr_get_buffer_size(cache->galloc, 0);
}

static void forget_all(ft_graph_cache *cache)
{
    for (int i = 0; i < SLOTS; i++)
        cache->slots[i].n_rows = 0;
}

ft_graph *ft_graph_cache_get(ft_graph_cache *cache, uint32_t n_rows, uint32_t n_out)
{
    ft_graph *oldest = &cache->slots[0];
    for (int i = 0; i < SLOTS; i++) {
        ft_graph *g = &cache->slots[i];
        if (cache->opts.reuse && g->n_rows == n_rows && g->n_out == n_out) {
            g->last_used = ++cache->clock;
            return g;
        }
        oldest = g->last_used < oldest->last_used ? g : oldest;
    }
    int kind = n_out > 0;
    oldest->n_rows = 0;
    if (!oldest->ctx && !(oldest->ctx = new_context(cache)))
        return NULL;
    if (cache->reserved_kind != kind && cache->opts.reuse && !reserve(cache, kind))
        return NULL;
    size_t bytes = ft_graph_cache_bytes(cache);
    build(cache, oldest, n_rows, n_out);
    bool ok = ggml_gallocr_alloc_graph(cache->galloc, oldest->graph);
    if (!ok || ft_graph_cache_bytes(cache) != bytes) {
        uint32_t n = oldest->n_rows;
        forget_all(cache);
        oldest->n_rows = ok ? n : 0;
    }
    oldest->last_used = ++cache->clock;
    return ok ? oldest : NULL;
}
