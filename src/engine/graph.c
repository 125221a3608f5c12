// SPDX-License-Identifier: Apache-2.0
// Builds graphs and keeps the last few by shape. Owned by the engine's thread.
//
// On the CPU alone, one allocator, reserved at the largest shape, lays out all graphs of a kind in
// one buffer. So the addresses of a cached graph stay valid while others run. If the buffer should
// grow all the same, all graphs are forgotten. There are three kinds with different nodes: graphs
// that keep rows, graphs that do not, and the output head's. Each kind has its own allocator,
// because reserving one anew at each change would allocate, and because kept rows must stay while
// the output head runs. Memory for descriptions of graphs is taken at the start (address space
// until it is used), so fetching a graph allocates nothing.
//
// With devices, ggml's scheduler splits a graph between them. It knows one graph at a time, so only
// the last one is kept, and the output head is part of it. Each node is told where to run: at the
// place of its layer's weights. Otherwise the scheduler would ask the devices, and ggml's RPC
// devices accept everything.
#include "engine/graph.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/families.h"
#include "ggml-alloc.h"

#define HEAD_NODES 16 /* inputs, weights and views included */

typedef enum graph_kind { KIND_WRITES, KIND_ROWS, KIND_HEAD, N_KINDS } graph_kind;

struct ft_graph_cache {
    ft_graph_cache_opts opts;
    size_t n_nodes;
    ggml_gallocr_t galloc[N_KINDS]; /* on the CPU alone */
    ggml_backend_sched_t sched;     /* with devices */
    uint64_t clock, n_built;
    ft_graph slots[FT_GRAPH_SLOTS];
    ft_graph heads[FT_GRAPH_HEADS];
};

/* For a graph's description. */
static struct ggml_context *new_context(const ft_graph_cache *cache, graph_kind kind)
{
    size_t n = kind == KIND_HEAD ? HEAD_NODES : cache->n_nodes;
    size_t bytes = n * ggml_tensor_overhead() + ggml_graph_overhead_custom(n, false);
    return ggml_init((struct ggml_init_params){.mem_size = bytes, .no_alloc = true});
}

/* ---- building ---- */

static ft_build begin_build(const ft_graph_cache *cache, ft_graph *g, size_t n_nodes)
{
    ggml_reset(g->ctx);
    return (ft_build){.ctx = g->ctx,
                      .graph = ggml_new_graph_custom(g->ctx, n_nodes, false),
                      .hparams = ft_model_hparams(cache->opts.model),
                      .weights = ft_model_weights(cache->opts.model),
                      .route = cache->opts.route,
                      .slot = g->slot,
                      .model = cache->opts.model,
                      .backends = cache->opts.backends,
                      .sched = cache->sched,
                      .place = ft_model_where_embedding(cache->opts.model)};
}

static void end_build(ft_build *b, ft_graph *g, struct ggml_tensor *result)
{
    ft_build_place_added(b);
    ggml_set_output(result);
    ggml_build_forward_expand(b->graph, result);
    g->graph = b->graph;
    g->tokens = b->tokens;
    g->out_ids = b->out_ids;
    g->result = b->n_out ? result : NULL;
    g->n_rows = b->n_rows;
    g->n_out = b->n_out;
}

static void build_layers(ft_graph_cache *cache, ft_graph *g, uint32_t n_rows, uint32_t n_out)
{
    ft_build b = begin_build(cache, g, cache->n_nodes);
    b.n_rows = n_rows;
    b.n_out = n_out;
    b.tokens = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n_rows);
    ggml_set_input(b.tokens);
    if (n_out) {
        b.out_ids = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n_out);
        ggml_set_input(b.out_ids);
    }
    struct ggml_tensor *result = ft_family_build(&b);
    if (n_out && cache->sched)
        result = ft_family_build_head(&b, result);
    g->rows = NULL;
    end_build(&b, g, result);
}

static void build_head(ft_graph_cache *cache, ft_graph *g, uint32_t n)
{
    ft_build b = begin_build(cache, g, HEAD_NODES);
    b.n_rows = b.n_out = n;
    g->rows = ggml_new_tensor_2d(g->ctx, GGML_TYPE_F32, b.hparams->n_embd, n);
    ggml_set_input(g->rows);
    end_build(&b, g, ft_family_build_head(&b, g->rows));
}

/* The graph of the output head for n_out rows, or of a pass of n_rows. */
static void build(ft_graph_cache *cache, graph_kind kind, ft_graph *g, uint32_t n_rows,
                  uint32_t n_out)
{
    if (kind == KIND_HEAD)
        build_head(cache, g, n_out);
    else
        build_layers(cache, g, n_rows, n_out);
}

/* ---- reserving ---- */

/* Operators that only name memory are not run. */
static bool runs(const struct ggml_tensor *t)
{
    return t->op != GGML_OP_NONE && t->op != GGML_OP_VIEW && t->op != GGML_OP_RESHAPE &&
           t->op != GGML_OP_PERMUTE && t->op != GGML_OP_TRANSPOSE;
}

/* Checks that every device can run the nodes that were placed on it. */
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

static ft_status reserve(ft_graph_cache *cache, graph_kind kind, ft_error *err)
{
    ft_graph largest = {.ctx = new_context(cache, kind), .slot = FT_GRAPH_LARGEST};
    ft_status status = FT_OK;
    if (!largest.ctx)
        return FT_NOMEM;
    if (cache->sched)
        ggml_backend_sched_reset(cache->sched);
    build(cache, kind, &largest, cache->opts.max_rows,
          kind == KIND_WRITES ? 0 : cache->opts.max_out);
    if (cache->sched)
        status = check_ops(cache, largest.graph, err);
    if (status == FT_OK &&
        !(cache->sched ? ggml_backend_sched_reserve(cache->sched, largest.graph)
                       : ggml_gallocr_reserve(cache->galloc[kind], largest.graph)))
        status = FT_NOMEM;
    ggml_free(largest.ctx);
    return status;
}

/* The scheduler needs the CPU last and each backend once. */
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

static bool make_contexts(ft_graph_cache *cache)
{
    bool made = true;
    for (int i = 0; i < FT_GRAPH_SLOTS; i++)
        made = (cache->slots[i].ctx = new_context(cache, KIND_ROWS)) != NULL && made;
    for (int i = 0; i < FT_GRAPH_HEADS; i++)
        made = (cache->heads[i].ctx = new_context(cache, KIND_HEAD)) != NULL && made;
    return made;
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
    int n_kinds = opts->backends->devices ? KIND_HEAD : N_KINDS;
    bool made = true;
    if (opts->backends->devices)
        made = (cache->sched = new_sched(cache)) != NULL;
    for (int i = 0; i < n_kinds && !cache->sched && made; i++)
        made = (cache->galloc[i] = ggml_gallocr_new(
                    ggml_backend_get_default_buffer_type(opts->backends->at[0]))) != NULL;
    ft_status status = made ? FT_OK : FT_NOMEM;
    for (int i = 0; i < n_kinds && status == FT_OK; i++)
        status = reserve(cache, (graph_kind)i, err);
    if (status == FT_OK && !cache->sched && !make_contexts(cache))
        status = FT_NOMEM;
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
    for (int i = 0; i < FT_GRAPH_HEADS; i++)
        ggml_free(cache->heads[i].ctx);
    for (int i = 0; i < N_KINDS; i++)
        ggml_gallocr_free(cache->galloc[i]);
    free(cache);
}

size_t ft_graph_cache_bytes_on(const ft_graph_cache *cache, uint32_t place)
{
    if (cache->sched)
        return cache->opts.backends->at[place] ? ggml_backend_sched_get_buffer_size(
                                                     cache->sched, cache->opts.backends->at[place])
                                               : 0;
    size_t bytes = 0;
    for (int i = 0; i < N_KINDS && place == 0; i++)
        bytes += ggml_gallocr_get_buffer_size(cache->galloc[i], 0);
    return bytes;
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
    /* start with the first slots again: their memory is warm */
    for (int i = 0; i < FT_GRAPH_SLOTS; i++)
        cache->slots[i].n_rows = cache->slots[i].last_used = 0;
    for (int i = 0; i < FT_GRAPH_HEADS; i++)
        cache->heads[i].n_rows = cache->heads[i].last_used = 0;
}

static bool fits(const ft_graph_cache *cache, const ft_graph *g, uint32_t n_rows, uint32_t n_out)
{
    const ft_attn_route_ops *route = cache->opts.route;
    return g->n_rows == n_rows && g->n_out == n_out &&
           (g->rows || !route->fits || route->fits(route->ctx, g->slot));
}

static bool lay_out(ft_graph_cache *cache, graph_kind kind, ft_graph *g, uint32_t n_rows,
                    uint32_t n_out)
{
    if (cache->sched) {
        forget_all(cache);
        ggml_backend_sched_reset(cache->sched);
        build(cache, kind, g, n_rows, n_out);
        return ggml_backend_sched_alloc_graph(cache->sched, g->graph);
    }
    size_t bytes = ft_graph_cache_bytes(cache);
    build(cache, kind, g, n_rows, n_out);
    bool ok = ggml_gallocr_alloc_graph(cache->galloc[kind], g->graph);
    if (!ok || ft_graph_cache_bytes(cache) != bytes) {
        forget_all(cache);
        g->n_rows = n_rows;
    }
    return ok;
}

/* Returns the graph of a shape, from the slots of its kind. */
static ft_graph *get(ft_graph_cache *cache, graph_kind kind, uint32_t n_rows, uint32_t n_out)
{
    ft_graph *slots = kind == KIND_HEAD ? cache->heads : cache->slots, *oldest = slots;
    int n = kind == KIND_HEAD ? FT_GRAPH_HEADS : FT_GRAPH_SLOTS;
    for (int i = 0; i < n; i++) {
        ft_graph *g = &slots[i];
        if (fits(cache, g, n_rows, n_out)) {
            g->last_used = ++cache->clock;
            return g;
        }
        oldest = g->last_used < oldest->last_used ? g : oldest;
    }
    oldest->n_rows = 0;
    if (!oldest->ctx && !(oldest->ctx = new_context(cache, kind)))
        return NULL;
    bool ok = lay_out(cache, kind, oldest, n_rows, n_out);
    cache->n_built++;
    oldest->last_used = ++cache->clock;
    if (!ok)
        oldest->n_rows = 0;
    return ok ? oldest : NULL;
}

ft_graph *ft_graph_cache_get(ft_graph_cache *cache, uint32_t n_rows, uint32_t n_out)
{
    return get(cache, n_out ? KIND_ROWS : KIND_WRITES, n_rows, n_out);
}

ft_graph *ft_graph_cache_get_head(ft_graph_cache *cache, uint32_t n)
{
    assert(!cache->sched);
    return get(cache, KIND_HEAD, n, n);
}

enum ggml_status ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph)
{
    if (cache->sched)
        return ggml_backend_sched_graph_compute(cache->sched, graph->graph);
    return ggml_backend_graph_compute(cache->opts.backends->at[0], graph->graph);
}
