// SPDX-License-Identifier: Apache-2.0
// Memory that an engine needs. The bounds of activations count each row of a layer once for each
// operator that can hold one at the same time as others; ggml's allocator reuses more. No state.
#include "engine/need.h"

#include "engine/attn.h"
#include "engine/attn_layout.h"
#include "engine/graph.h"
#include "engine/kv.h"
#include "engine/layers.h"

/* Descriptions of graphs: nodes of a layer, and of the rest, as graph.c has them. */
#define NODES_A_LAYER 42
#define NODES_MORE    64
#define NODES_HEAD    16
#define NODE_BYTES    512 /* a tensor's description and its places in the graph and its hash set */

static uint32_t blocks_of(const ft_engine_size *size)
{
    return (size->kv_tok + FT_KV_BLOCK_TOK - 1) / FT_KV_BLOCK_TOK;
}

uint64_t ft_engine_kv_bytes(const ft_engine_size *size)
{
    const ft_hparams *hp = size->hp;
    const uint64_t blocks = blocks_of(size);
    const uint64_t page = ft_attn_page_bytes(size->kv_type, hp->head_dim);
    return 2 * hp->n_layer * blocks * hp->n_head_kv * page;
}

/* Floats of a row while a layer is computed: x, its norm, Q, K and V, attention; then the two
 * halves of the FFN and their product, and the result. */
static uint64_t row_floats(const ft_hparams *hp)
{
    const uint64_t n_q = (uint64_t)hp->n_head * hp->head_dim;
    const uint64_t n_kv = (uint64_t)hp->n_head_kv * hp->head_dim;
    return 4ull * hp->n_embd + 2 * n_q + 2 * n_kv + 4ull * hp->n_ff;
}

static uint64_t attention_bytes(const ft_engine_size *size)
{
    const ft_hparams *hp = size->hp;
    const ft_attn_geometry geo = {.n_head = hp->n_head,
                                  .n_head_kv = hp->n_head_kv,
                                  .head_dim = hp->head_dim,
                                  .n_rot = hp->n_rot};
    ft_attn_plan *plan;
    const uint32_t max_pos = blocks_of(size) * FT_KV_BLOCK_TOK;
    if (ft_attn_plan_create(&geo, size->rows, max_pos, size->n_threads, &plan) != FT_OK)
        return UINT64_MAX / 4; /* there is no memory for it now */
    const uint64_t bytes = ft_attn_plan_bytes(plan);
    ft_attn_plan_destroy(plan);
    return bytes;
}

static uint64_t graph_bytes(const ft_engine_size *size)
{
    const uint64_t layers = size->by_layer ? 1 : size->hp->n_layer;
    const uint64_t graph = (layers * NODES_A_LAYER + NODES_MORE) * NODE_BYTES;
    const uint64_t head = NODES_HEAD * NODE_BYTES;
    return size->by_layer ? graph + head : ft_graph_slots(graph) * graph + FT_GRAPH_HEADS * head;
}

uint64_t ft_engine_pass_bytes(const ft_engine_size *size)
{
    const ft_hparams *hp = size->hp;
    const uint64_t rows = size->rows, out = size->out;
    const uint64_t vocab = size->part_vocab ? size->part_vocab : hp->n_vocab;
    const uint64_t kinds = size->by_layer ? 1 : 2; /* with rows that want logits, and without */
    const uint64_t work = rows * row_floats(hp) * sizeof(float);
    const uint64_t head = out * (3ull * hp->n_embd + vocab) * sizeof(float);
    const uint64_t lists = rows * (hp->n_rot + 16ull) * sizeof(float) + out * 8;
    const uint64_t shapes = rows / 2 * sizeof(ft_kv_shape);
    const uint64_t layers =
        size->by_layer ? ft_layers_bytes(hp, size->rows, size->out, size->part_vocab > 0) : 0;
    return kinds * work + head + lists + shapes + layers + attention_bytes(size) +
           graph_bytes(size);
}
