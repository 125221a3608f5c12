/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass as ggml graphs: what the families build (families.c), through which route
 * attention goes (route.h), and a cache of built graphs by shape. On the CPU the output head is a
 * graph of its own, so that it can be run for some rows after the others are known not to matter.
 */
#ifndef FT_ENGINE_GRAPH_H
#define FT_ENGINE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/backends.h"
#include "ggml.h"
#include "model/model.h"

/* Shapes kept. A graph takes 60-150 us to build, 2-5 % of a pass over few rows of a small model, so that
 * all shapes of one session's trees should be there; it matters less for more rows. */
#define FT_GRAPH_SLOTS   64
#define FT_GRAPH_LARGEST FT_GRAPH_SLOTS
/* Of the output head, by number of rows: three operators, built in a few us. */
#define FT_GRAPH_HEADS 16

typedef struct ft_build ft_build;

/* How attention enters the graph. `attend` adds what writes K and V of layer `il` and, if `output` is
 * true, attention, and returns it as [n_head * head_dim, n_rows] (else anything that depends on the
 * writing). q, k, v: [heads * head_dim, n_rows], maybe views, before bias, norm and RoPE.
 * `fits` says whether the graph that was built as number `slot` serves the present batch, too, where
 * a graph depends on more than its rows; NULL: it always does. */
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
    uint32_t slot; /* number of the graph; FT_GRAPH_LARGEST: to learn what the largest work takes */
    uint32_t n_rows, n_out;
    struct ggml_tensor *tokens;  /* I32 [n_rows], input */
    struct ggml_tensor *out_ids; /* I32 [n_out], input; NULL if n_out is 0 */
    /* The rest is graph.c's: where what was added since `placed` goes. */
    const ft_model *model;
    const ft_backends *backends;
    ggml_backend_sched_t sched;
    struct ggml_tensor *placed;
    uint32_t place;
};

/* What is added from now on runs where layer il's weights are (il = n_layer: the head's). */
void ft_build_enter_layer(ft_build *build, uint32_t il);

/* Adds the layers to the graph. Returns the rows that want logits, as the output head takes them,
 * [n_embd, n_out]; with n_out 0 only K and V are written, and the result is the last write. */
struct ggml_tensor *ft_family_build(ft_build *build);
/* Adds the head: of such rows, F32 [n_embd, n], the logits [n_vocab, n]. */
struct ggml_tensor *ft_family_build_head(ft_build *build, struct ggml_tensor *rows);

/* A built and allocated graph. */
typedef struct ft_graph {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *tokens, *out_ids; /* out_ids: NULL if n_out is 0 */
    struct ggml_tensor *rows;             /* of a graph of the head: what it is of; else NULL */
    /* NULL if n_out is 0. The head's, and with devices any graph's: logits; else the rows that want
     * them. They stay until a graph of the same kind runs. */
    struct ggml_tensor *result;
    uint32_t n_rows, n_out;
    uint32_t slot;
    uint64_t last_used;
} ft_graph;

typedef struct ft_graph_cache ft_graph_cache;

typedef struct ft_graph_cache_opts {
    const ft_model *model;
    const ft_backends *backends;
    const ft_attn_route_ops *route;
    uint32_t max_rows, max_out;
    uint32_t nodes_per_layer; /* at most, of the route */
} ft_graph_cache_opts;

/* Reserves compute memory for the largest shapes. FT_NOMEM; FT_UNSUPPORTED: a device cannot do what a
 * layer on it needs. */
FT_WARN_UNUSED ft_status ft_graph_cache_create(const ft_graph_cache_opts *opts, ft_error *err,
                                               ft_graph_cache **out);
void ft_graph_cache_destroy(ft_graph_cache *cache);
/* The graph for a shape, ready for its inputs; NULL if memory ran out. Borrowed until the next call. */
ft_graph *ft_graph_cache_get(ft_graph_cache *cache, uint32_t n_rows, uint32_t n_out);
/* The head's for n rows, likewise; not with devices, where the head is part of the graph. */
ft_graph *ft_graph_cache_get_head(ft_graph_cache *cache, uint32_t n);
/* Runs what was got last. */
enum ggml_status ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph);
/* Graphs that were built for passes since creation. */
uint64_t ft_graph_cache_built(const ft_graph_cache *cache);
/* Compute memory at a place, and everywhere. */
size_t ft_graph_cache_bytes_on(const ft_graph_cache *cache, uint32_t place);
size_t ft_graph_cache_bytes(const ft_graph_cache *cache);

#endif
