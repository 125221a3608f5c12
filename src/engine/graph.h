/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass as ggml graphs. Families (families.c) build the layers, an attention route
 * (route.h) builds attention. Built graphs are cached by shape. On the CPU the output head is a
 * separate graph, so that it can run later and only for the rows that turn out to matter.
 */
#ifndef FT_ENGINE_GRAPH_H
#define FT_ENGINE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/build.h"

/* Shapes kept. Building a graph takes 60-150 us, 2-5 % of a pass over few rows of a small model, so
 * all shapes of one session's trees should fit. For more rows it matters less. */
#define FT_GRAPH_SLOTS   64
#define FT_GRAPH_LARGEST FT_GRAPH_SLOTS
/* Graphs of the output head, one for each number of rows: three operators, built in a few us. */
#define FT_GRAPH_HEADS 16

/* A built and allocated graph. */
typedef struct ft_graph {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *tokens, *out_ids; /* out_ids: NULL if n_out is 0 */
    struct ggml_tensor *rows;             /* output head's graph: its input rows; else NULL */
    /* NULL if n_out is 0. In the output head's graph, and with devices in every graph: logits.
     * Otherwise the rows that want logits. They stay valid until a graph of the same kind runs. */
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
    uint32_t nodes_per_layer; /* most nodes that the route adds in a layer */
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
/* Runs the graph that was returned last. */
enum ggml_status ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph);
/* Graphs built for passes since creation. */
uint64_t ft_graph_cache_built(const ft_graph_cache *cache);
/* Compute memory at one place; in total. */
size_t ft_graph_cache_bytes_on(const ft_graph_cache *cache, uint32_t place);
size_t ft_graph_cache_bytes(const ft_graph_cache *cache);

#endif
