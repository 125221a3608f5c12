/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass as ggml graphs. Families (families.c) build the layers, an attention route
 * (route.h) builds attention. Built graphs are cached by shape. On the CPU the output head is a
 * separate graph, so that it can run later and only for the rows that turn out to matter.
 *
 * If not all layers are in memory (layers.h), each layer is a graph of its own, built anew for each
 * pass: the addresses of its weights change. So is each part of a streamed output head.
 */
#ifndef FT_ENGINE_GRAPH_H
#define FT_ENGINE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/build.h"

/* Shapes kept at most. Building a graph takes 60-150 us, 2-5 % of a pass over few rows of a small
 * model, so all shapes of one session's trees should fit. For more rows it matters less. */
#define FT_GRAPH_SLOTS   64
#define FT_GRAPH_LARGEST FT_GRAPH_SLOTS
/* Graphs of the output head, one for each number of rows: three operators, built in a few us. */
#define FT_GRAPH_HEADS 16
/* Descriptions of graphs take so many bytes at most, but FT_GRAPH_SLOTS_LEAST shapes are kept. With
 * half as many bytes, models of over 47 layers keep fewer than 32 shapes. */
#define FT_GRAPH_BYTES       ((size_t)64 << 20)
#define FT_GRAPH_SLOTS_LEAST 8

/* A built and allocated graph. */
typedef struct ft_graph {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *tokens, *out_ids; /* out_ids: NULL if n_out is 0 */
    /* input rows of the graphs of the output head and of a single layer; else NULL */
    struct ggml_tensor *rows;
    /* NULL if n_out is 0. In the output head's graph, and with devices in every graph: logits.
     * Otherwise the rows that want logits. A single layer: x behind it, of all rows but in the last
     * layer. They stay valid until a graph of the same kind runs. */
    struct ggml_tensor *result;
    uint32_t n_rows, n_out;
    uint32_t slot;
    uint64_t last_used;
} ft_graph;

typedef struct ft_graph_cache ft_graph_cache;

/* How many shapes are kept, if the description of one graph takes so many bytes. */
uint32_t ft_graph_slots(size_t graph_bytes);

typedef struct ft_graph_cache_opts {
    const ft_model *model;
    const ft_backends *backends;
    const ft_attn_route_ops *route;
    uint32_t max_rows, max_out;
    uint32_t nodes_per_layer; /* most nodes that the route adds in a layer */
    bool by_layer;            /* graphs of single layers; there are no devices */
    /* by_layer: the largest part of the output head, if it comes in parts; else NULL */
    struct ggml_tensor *part;
} ft_graph_cache_opts;

/* Reserves compute memory for the largest shapes. FT_NOMEM, FT_UNSUPPORTED (a device lacks an
 * operator that a layer on it needs). */
FT_WARN_UNUSED ft_status ft_graph_cache_create(const ft_graph_cache_opts *opts, ft_error *err,
                                               ft_graph_cache **out);
void ft_graph_cache_destroy(ft_graph_cache *cache);
/* Returns the graph for a shape, ready for its inputs; NULL: out of memory. Borrowed until the next
 * call. */
ft_graph *ft_graph_cache_get(ft_graph_cache *cache, uint32_t n_rows, uint32_t n_out);
/* Returns the output head's graph for n rows, likewise. Not with devices: there the head is part of
 * the main graph. */
ft_graph *ft_graph_cache_get_head(ft_graph_cache *cache, uint32_t n);
/* With by_layer: returns the graph of one layer. Its rows are F32 [n_embd, n_rows]. */
ft_graph *ft_graph_cache_get_layer(ft_graph_cache *cache, uint32_t il, uint32_t n_rows,
                                   uint32_t n_out);
/* With by_layer: returns the graph of a part of the output head's rows, for n rows of the pass.
 * `part` has memory now. */
ft_graph *ft_graph_cache_get_part(ft_graph_cache *cache, struct ggml_tensor *part, uint32_t n);
/* Runs the graph that was returned last. FT_TIMEOUT: the backend's abort callback ended it;
 * FT_NOMEM; FT_INTERNAL: a device or a kernel failed. */
FT_WARN_UNUSED ft_status ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph);
/* Graphs built for passes since creation. */
uint64_t ft_graph_cache_built(const ft_graph_cache *cache);
/* Compute memory at one place; in total. */
size_t ft_graph_cache_bytes_on(const ft_graph_cache *cache, uint32_t place);
size_t ft_graph_cache_bytes(const ft_graph_cache *cache);

#endif
