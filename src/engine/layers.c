// SPDX-License-Identifier: Apache-2.0
// A pass layer by layer. Between two layers x is in memory of its own, because each layer's graph
// uses the same memory. All of it belongs to the engine's thread.
#include "engine/layers.h"

#include <stdlib.h>
#include <string.h>

#include "ggml-cpu.h"

/* All threads may lose this share of a pass on one thread, before the rest of the pass is computed
 * on one. On a quiet machine a few layers of 512 are given up, because the reader needs a core now
 * and then. */
#define MAY_LOSE 0.125
/* Beside its share of a pass's limit a layer may take this longer: threads are woken for each. */
#define LAYER_SLACK_US 2000

uint64_t ft_layers_bytes(const ft_hparams *hp, uint32_t max_rows, uint32_t max_out, bool part)
{
    const uint64_t rows = (uint64_t)max_rows + max_out, logits = part ? max_out : 0;
    return (rows * hp->n_embd + logits * hp->n_vocab) * sizeof(float);
}

ft_status ft_layers_init(ft_layers *layers, const ft_layers_opts *opts)
{
    const ft_hparams *hp = opts->hp;
    const bool part = ft_streamed_n_head_parts(opts->weights) > 0;
    *layers = (ft_layers){.weights = opts->weights,
                          .graphs = opts->graphs,
                          .turn = opts->turn,
                          .clock = opts->clock,
                          .n_layer = hp->n_layer,
                          .n_embd = hp->n_embd,
                          .n_vocab = hp->n_vocab,
                          .bytes = ft_layers_bytes(hp, opts->max_rows, opts->max_out, part)};
    layers->x = calloc((size_t)opts->max_rows * hp->n_embd, sizeof(float));
    layers->out = calloc((size_t)opts->max_out * hp->n_embd, sizeof(float));
    if (part)
        layers->logits = calloc((size_t)opts->max_out * hp->n_vocab, sizeof(float));
    if (layers->x && layers->out && (layers->logits || !part))
        return FT_OK;
    ft_layers_deinit(layers);
    return FT_NOMEM;
}

void ft_layers_deinit(ft_layers *layers)
{
    free(layers->x);
    free(layers->out);
    free(layers->logits);
    *layers = (ft_layers){0};
}

/* What a graph is computed on. */
typedef struct inputs {
    const float *rows;
    const int32_t *out_ids; /* if the graph wants them */
} inputs;

/* One attempt; it has an effect only if it comes to its end. Inputs are written each time, because
 * the graph reuses their memory. */
static ft_status attempt(ft_layers *l, ft_graph *g, const inputs *in, ft_layers_pass *pass)
{
    const bool limited = pass->limit_us > 0 && pass->n_threads > 1;
    memcpy(g->rows->data, in->rows, ggml_nbytes(g->rows));
    if (g->out_ids)
        memcpy(g->out_ids->data, in->out_ids, ggml_nbytes(g->out_ids));
    ft_turn_take(l->turn, true);
    const int64_t from_us = ft_clock_now_us(l->clock);
    *pass->give_up_us =
        limited ? from_us + pass->limit_us / l->n_layer + LAYER_SLACK_US : pass->until_us;
    ggml_backend_cpu_set_n_threads(pass->cpu, pass->n_threads);
    const ft_status status = ft_graph_cache_compute(l->graphs, g);
    *pass->give_up_us = 0;
    pass->compute_us += ft_clock_now_us(l->clock) - from_us;
    ft_turn_give_back(l->turn);
    return status;
}

/* Whether the pass has taken much longer so far than it would have on one thread. */
static bool all_lose(const ft_layers *l, const ft_layers_pass *pass)
{
    const double alone_us = (double)pass->alone_us;
    return (double)pass->compute_us > alone_us * (pass->n_done / (double)l->n_layer + MAY_LOSE);
}

static ft_status compute(ft_layers *l, ft_graph *g, const inputs *in, ft_layers_pass *pass)
{
    const int all = pass->n_threads;
    ft_status status = attempt(l, g, in, pass);
    if (status != FT_TIMEOUT || all == 1 || pass->limit_us == 0)
        return status;
    pass->n_threads = 1;
    pass->route->begin(pass->route); /* threads have claimed a part of the attention's work */
    status = attempt(l, g, in, pass);
    if (!all_lose(l, pass))
        pass->n_threads = all;
    return status;
}

static ft_status run_layer(ft_layers *l, uint32_t il, const ft_batch *batch, ft_layers_pass *pass)
{
    ft_graph *g = ft_graph_cache_get_layer(l->graphs, il, batch->n_rows, batch->n_out);
    if (!g)
        return FT_NOMEM;
    const inputs in = {l->x, batch->out};
    const ft_status status = compute(l, g, &in, pass);
    if (status == FT_OK && g->result)
        memcpy(il + 1 == l->n_layer ? l->out : l->x, g->result->data, ggml_nbytes(g->result));
    return status;
}

/* The logits of the output rows, for a part of the vocabulary. */
static ft_status run_part(ft_layers *l, uint32_t part, const ft_batch *batch, ft_layers_pass *pass)
{
    uint32_t first;
    struct ggml_tensor *w = ft_streamed_head_part(l->weights, part, &first);
    ft_graph *g = ft_graph_cache_get_part(l->graphs, w, batch->n_out);
    if (!g)
        return FT_NOMEM;
    const inputs in = {.rows = l->out};
    const ft_status status = compute(l, g, &in, pass);
    const size_t n = (size_t)w->ne[1];
    for (size_t i = 0; i < batch->n_out && status == FT_OK; i++)
        memcpy(l->logits + i * l->n_vocab + first, (const float *)g->result->data + i * n,
               n * sizeof(float));
    return status;
}

static ft_status run_layers(ft_layers *l, const ft_batch *batch, ft_layers_pass *pass,
                            ft_error *err)
{
    const uint32_t n_parts = batch->n_out ? ft_streamed_n_head_parts(l->weights) : 0;
    ft_status status = ft_streamed_embed(l->weights, batch->token, batch->n_rows, err, l->x);
    for (uint32_t il = 0; il < l->n_layer && status == FT_OK; il++) {
        status = ft_streamed_wait(l->weights, il, err);
        if (status != FT_OK)
            break;
        status = run_layer(l, il, batch, pass);
        pass->n_done++;
        ft_streamed_release(l->weights, il);
    }
    for (uint32_t part = 0; part < n_parts && status == FT_OK; part++) {
        status = ft_streamed_wait_head_part(l->weights, part, err);
        if (status != FT_OK)
            break;
        status = run_part(l, part, batch, pass);
        ft_streamed_release_head_part(l->weights, part);
    }
    return status;
}

ft_status ft_layers_run(ft_layers *layers, const ft_batch *batch, ft_layers_pass *pass,
                        ft_error *err)
{
    pass->compute_us = 0;
    pass->n_done = 0;
    pass->route->begin(pass->route);
    ft_streamed_begin(layers->weights, batch->n_out > 0);
    ft_turn_begin_series(layers->turn);
    const ft_status status = run_layers(layers, batch, pass, err);
    ft_turn_end_series(layers->turn);
    return status;
}
