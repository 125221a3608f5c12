// SPDX-License-Identifier: Apache-2.0
// Builds graphs and keeps the last few by shape. Owned by the engine's thread.
//
// On the CPU alone, one allocator, reserved at the largest shape, lays out all graphs of a kind in
// one buffer. So the addresses of a cached graph stay valid while others run. If the buffer should
// grow all the same, all graphs are forgotten. There are five kinds with different nodes: graphs
// that keep rows, graphs that do not, and the output head's; by layer, a layer's and that of a part
// of the head. Each kind has its own allocator, because reserving one anew at each change would
// allocate, and because kept rows must stay while the output head runs. Memory for descriptions of
// graphs is taken at the start (address space until it is used), so fetching a graph allocates
// nothing.
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
/* Norms, projections, FFN and residuals of a layer take fewer, views and weights included. */
#define LAYER_NODES 40
#define MORE_NODES  64 /* the rest of the model takes fewer */

typedef enum graph_kind {
    KIND_WRITES,
    KIND_ROWS,
    KIND_HEAD,
    KIND_LAYER,
    KIND_PART,
    N_KINDS
} graph_kind;

/* A shape. What is not of its kind is 0. */
typedef struct wanted {
    graph_kind kind;
    uint32_t n_rows, n_out;
    uint32_t il;                /* of a layer */
    struct ggml_tensor *output; /* of the head or of a part of it */
} wanted;

struct ft_graph_cache {
    ft_graph_cache_opts opts;
    size_t n_nodes;
    ggml_gallocr_t galloc[N_KINDS]; /* on the CPU alone */
    ggml_backend_sched_t sched;     /* with devices */
    uint64_t clock, n_built;
    int n_slots; /* in use */
    ft_graph slots[FT_GRAPH_SLOTS];
    ft_graph heads[FT_GRAPH_HEADS];
    ft_graph layer, part; /* the last ones */
};

static bool is_head(graph_kind kind)
{
    return kind == KIND_HEAD || kind == KIND_PART;
}

uint32_t ft_graph_slots(size_t graph_bytes)
{
    const size_t n = FT_GRAPH_BYTES / graph_bytes;
    return n > FT_GRAPH_SLOTS         ? FT_GRAPH_SLOTS
           : n < FT_GRAPH_SLOTS_LEAST ? FT_GRAPH_SLOTS_LEAST
                                      : (uint32_t)n;
}

static size_t description_bytes(size_t n_nodes)
{
    return n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false);
}

/* For a graph's description. */
static struct ggml_context *new_context(const ft_graph_cache *cache, graph_kind kind)
{
    const size_t bytes = description_bytes(is_head(kind) ? HEAD_NODES : cache->n_nodes);
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

/* Makes the inputs of a pass. */
static void add_inputs(ft_build *b, const wanted *want)
{
    b->n_rows = want->n_rows;
    b->n_out = want->n_out;
    if (want->n_out) {
        b->out_ids = ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, want->n_out);
        ggml_set_input(b->out_ids);
    }
}

static void build_layers(ft_graph_cache *cache, ft_graph *g, const wanted *want)
{
    ft_build b = begin_build(cache, g, cache->n_nodes);
    add_inputs(&b, want);
    b.tokens = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, want->n_rows);
    ggml_set_input(b.tokens);
    struct ggml_tensor *result = ft_family_build_embedding(&b);
    for (uint32_t il = 0; il < b.hparams->n_layer; il++)
        result = ft_family_build_layer(&b, il, result);
    if (want->n_out && cache->sched)
        result = ft_family_build_head(&b, b.weights->output, result);
    g->rows = NULL;
    end_build(&b, g, result);
}

static void add_rows(ft_build *b, ft_graph *g)
{
    g->rows = ggml_new_tensor_2d(g->ctx, GGML_TYPE_F32, b->hparams->n_embd, b->n_rows);
    ggml_set_input(g->rows);
}

static void build_layer(ft_graph_cache *cache, ft_graph *g, const wanted *want)
{
    ft_build b = begin_build(cache, g, cache->n_nodes);
    const bool last = want->il + 1 == b.hparams->n_layer;
    add_inputs(&b, want);
    add_rows(&b, g);
    struct ggml_tensor *result = ft_family_build_layer(&b, want->il, g->rows);
    end_build(&b, g, result);
    g->result = last && want->n_out == 0 ? NULL : result;
    g->out_ids = last ? b.out_ids : NULL; /* others have no reader, and so no memory */
}

static void build_head(ft_graph_cache *cache, ft_graph *g, const wanted *want)
{
    ft_build b = begin_build(cache, g, HEAD_NODES);
    b.n_rows = b.n_out = want->n_out;
    add_rows(&b, g);
    end_build(&b, g, ft_family_build_head(&b, want->output, g->rows));
}

static void build(ft_graph_cache *cache, ft_graph *g, const wanted *want)
{
    if (is_head(want->kind))
        build_head(cache, g, want);
    else if (want->kind == KIND_LAYER)
        build_layer(cache, g, want);
    else
        build_layers(cache, g, want);
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

static ft_status reserve(ft_graph_cache *cache, const wanted *want, ft_error *err)
{
    ft_graph largest = {.ctx = new_context(cache, want->kind), .slot = FT_GRAPH_LARGEST};
    ft_status status = FT_OK;
    if (!largest.ctx)
        return FT_NOMEM;
    if (cache->sched)
        ggml_backend_sched_reset(cache->sched);
    build(cache, &largest, want);
    if (cache->sched)
        status = check_ops(cache, largest.graph, err);
    if (status == FT_OK &&
        !(cache->sched ? ggml_backend_sched_reserve(cache->sched, largest.graph)
                       : ggml_gallocr_reserve(cache->galloc[want->kind], largest.graph)))
        status = FT_NOMEM;
    ggml_free(largest.ctx);
    return status;
}

/* Whether graphs of this kind are made. */
static bool has_kind(const ft_graph_cache *cache, graph_kind kind)
{
    const bool part = cache->opts.part != NULL;
    if (cache->opts.by_layer)
        return kind == KIND_LAYER || kind == (part ? KIND_PART : KIND_HEAD);
    return kind <= (cache->sched ? KIND_ROWS : KIND_HEAD);
}

static ft_status reserve_kind(ft_graph_cache *cache, graph_kind kind, ft_error *err)
{
    const ft_graph_cache_opts *opts = &cache->opts;
    wanted want = {.kind = kind, .n_rows = opts->max_rows, .n_out = opts->max_out};
    ft_status status = FT_OK;
    if (kind == KIND_WRITES)
        want.n_out = 0;
    if (is_head(kind))
        want.output = opts->part ? opts->part : ft_model_weights(opts->model)->output;
    if (kind != KIND_LAYER)
        return reserve(cache, &want, err);
    for (; want.il < ft_model_hparams(opts->model)->n_layer && status == FT_OK; want.il++)
        status = reserve(cache, &want, err);
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
    for (int i = 0; i < cache->n_slots && has_kind(cache, KIND_ROWS); i++)
        made = (cache->slots[i].ctx = new_context(cache, KIND_ROWS)) != NULL && made;
    for (int i = 0; i < FT_GRAPH_HEADS && has_kind(cache, KIND_HEAD); i++)
        made = (cache->heads[i].ctx = new_context(cache, KIND_HEAD)) != NULL && made;
    if (has_kind(cache, KIND_LAYER))
        made = (cache->layer.ctx = new_context(cache, KIND_LAYER)) != NULL && made;
    if (has_kind(cache, KIND_PART))
        made = (cache->part.ctx = new_context(cache, KIND_PART)) != NULL && made;
    return made;
}

ft_status ft_graph_cache_create(const ft_graph_cache_opts *opts, ft_error *err,
                                ft_graph_cache **out)
{
    *out = NULL;
    ft_graph_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return FT_NOMEM;
    const uint32_t n_layer = opts->by_layer ? 1 : ft_model_hparams(opts->model)->n_layer;
    cache->opts = *opts;
    for (uint32_t i = 0; i < FT_GRAPH_SLOTS; i++)
        cache->slots[i].slot = i;
    cache->n_nodes = (size_t)n_layer * (LAYER_NODES + opts->nodes_per_layer) + MORE_NODES;
    cache->n_slots = (int)ft_graph_slots(description_bytes(cache->n_nodes));
    bool made = true;
    if (opts->backends->devices)
        made = (cache->sched = new_sched(cache)) != NULL;
    for (int i = 0; i < N_KINDS && !cache->sched && made; i++)
        if (has_kind(cache, (graph_kind)i))
            made = (cache->galloc[i] = ggml_gallocr_new(
                        ggml_backend_get_default_buffer_type(opts->backends->at[0]))) != NULL;
    ft_status status = made ? FT_OK : FT_NOMEM;
    for (int i = 0; i < N_KINDS && status == FT_OK; i++)
        if (has_kind(cache, (graph_kind)i))
            status = reserve_kind(cache, (graph_kind)i, err);
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
    ggml_free(cache->layer.ctx);
    ggml_free(cache->part.ctx);
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
        bytes += cache->galloc[i] ? ggml_gallocr_get_buffer_size(cache->galloc[i], 0) : 0;
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

static bool lay_out(ft_graph_cache *cache, ft_graph *g, const wanted *want)
{
    if (cache->sched) {
        forget_all(cache);
        ggml_backend_sched_reset(cache->sched);
        build(cache, g, want);
        return ggml_backend_sched_alloc_graph(cache->sched, g->graph);
    }
    size_t bytes = ft_graph_cache_bytes(cache);
    build(cache, g, want);
    bool ok = ggml_gallocr_alloc_graph(cache->galloc[want->kind], g->graph);
    if (!ok || ft_graph_cache_bytes(cache) != bytes) {
        forget_all(cache);
        g->n_rows = want->n_rows;
    }
    return ok;
}

/* Returns the graph of a shape, from the slots of its kind. */
static ft_graph *get(ft_graph_cache *cache, const wanted *want)
{
    const bool head = want->kind == KIND_HEAD;
    ft_graph *slots = head ? cache->heads : cache->slots, *oldest = slots;
    const int n = head ? FT_GRAPH_HEADS : cache->n_slots;
    for (int i = 0; i < n; i++) {
        ft_graph *g = &slots[i];
        if (fits(cache, g, want->n_rows, want->n_out)) {
            g->last_used = ++cache->clock;
            return g;
        }
        oldest = g->last_used < oldest->last_used ? g : oldest;
    }
    oldest->n_rows = 0;
    if (!oldest->ctx && !(oldest->ctx = new_context(cache, want->kind)))
        return NULL;
    bool ok = lay_out(cache, oldest, want);
    cache->n_built++;
    oldest->last_used = ++cache->clock;
    if (!ok)
        oldest->n_rows = 0;
    return ok ? oldest : NULL;
}

ft_graph *ft_graph_cache_get(ft_graph_cache *cache, uint32_t n_rows, uint32_t n_out)
{
    return get(cache, &(wanted){n_out ? KIND_ROWS : KIND_WRITES, n_rows, n_out, 0, NULL});
}

ft_graph *ft_graph_cache_get_head(ft_graph_cache *cache, uint32_t n)
{
    assert(!cache->sched);
    return get(cache, &(wanted){KIND_HEAD, n, n, 0, ft_model_weights(cache->opts.model)->output});
}

ft_graph *ft_graph_cache_get_layer(ft_graph_cache *cache, uint32_t il, uint32_t n_rows,
                                   uint32_t n_out)
{
    const wanted want = {KIND_LAYER, n_rows, n_out, il, NULL};
    cache->n_built++;
    return lay_out(cache, &cache->layer, &want) ? &cache->layer : NULL;
}

ft_graph *ft_graph_cache_get_part(ft_graph_cache *cache, struct ggml_tensor *part, uint32_t n)
{
    const wanted want = {KIND_PART, n, n, 0, part};
    cache->n_built++;
    return lay_out(cache, &cache->part, &want) ? &cache->part : NULL;
}

static ft_status status_of(enum ggml_status status)
{
    switch (status) {
    case GGML_STATUS_SUCCESS:
        return FT_OK;
    case GGML_STATUS_ABORTED:
        return FT_TIMEOUT;
    case GGML_STATUS_ALLOC_FAILED:
        return FT_NOMEM;
    default:
        return FT_INTERNAL;
    }
}

ft_status ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph)
{
    const ft_backends *backends = cache->opts.backends;
    return status_of(cache->sched ? ft_backends_compute_spread(backends, cache->sched, graph->graph)
                                  : ft_backends_compute(backends, 0, graph->graph));
}
