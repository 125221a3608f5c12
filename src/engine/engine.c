// SPDX-License-Identifier: Apache-2.0
// The engine: one model, one KV pool, one owner thread. A forward pass checks all segments, makes
// their nodes pending, flattens them into rows, fetches the graph of that shape, fills its inputs
// and runs it. ggml asserts on bad input, so everything is checked before ggml is called. A pass
// that fails removes the new nodes again.
//
// On the CPU a pass ends with the rows that are the output head's input. They stay in the memory of
// the pass's graph. The output head is a separate graph; it runs for all these rows at once, or for
// those that are asked for.
//
// When other programs hold cores of the CPU, a pass uses one thread (pace.h). A pass on devices
// always uses all threads that it was given, because its time says nothing about the cores. A
// warmed engine (warm.c) has measured both before its first pass.
#include "engine/engine_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "engine/attn_layout.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "model/peers.h"

#define DEFAULT_BATCH_TOK 512
#define MAX_BATCH_TOK     65536

/* ---- creation ---- */

static bool all_in_memory(const ft_model *model)
{
    const ft_weights *w = ft_model_weights(model);
    bool all = w->tok_embd->data && w->output->data;
    for (uint32_t i = 0; i < ft_model_hparams(model)->n_layer; i++)
        all = all && w->layers[i].wdown->data;
    return all;
}

static ft_status check_opts(const ft_engine_opts *opts, ft_error *err)
{
    if (!opts->model)
        return ft_error_set(err, FT_INVALID, "engine: no model");
    if (opts->kv_tok == 0 || opts->kv_tok > (1u << 30))
        return ft_error_set(err, FT_INVALID,
                            "engine: a KV pool of %u tokens; 1 to 2^30 are allowed", opts->kv_tok);
    if (opts->max_batch_tok > MAX_BATCH_TOK)
        return ft_error_set(err, FT_INVALID, "engine: a batch of %u tokens; at most %u are allowed",
                            opts->max_batch_tok, MAX_BATCH_TOK);
    if (!opts->streamed && !all_in_memory(opts->model))
        return ft_error_set(err, FT_INVALID,
                            "engine: weights have no memory, and nothing reads them");
    uint32_t dim = ft_model_hparams(opts->model)->head_dim;
    if (dim % ft_attn_type_multiple(opts->kv_type) != 0)
        return ft_error_set(
            err, FT_INVALID,
            "engine: this KV cache type needs a head size that is a multiple of %u, "
            "and this model's is %u: use f16",
            ft_attn_type_multiple(opts->kv_type), dim);
    return FT_OK;
}

/* ggml asks this between operations; true ends the pass. */
/* Our kernel on the CPU, ggml's operators on devices, unless one is asked for. */
static ft_status create_route(ft_engine *engine, ft_error *err)
{
    const ft_kv_store *store = &engine->store;
    ft_route_opts opts = {engine->model, store, &engine->batch,
                          (uint32_t)engine->backends.n_threads};
    if (engine->streamed && store->any_rows)
        return ft_error_set(err, FT_INVALID,
                            "engine: a model that is not all in memory needs our attention kernel: "
                            "attention cannot run by ggml's operators or on devices");
    if (store->any_rows && store->any_tiled)
        return ft_route_mixed_create(&opts, &engine->route);
    return store->any_rows ? ft_route_portable_create(&opts, &engine->route)
                           : ft_route_cpu_create(&opts, &engine->route);
}

static ft_status create_graphs(ft_engine *engine, ft_error *err)
{
    ft_streamed *weights = engine->streamed;
    uint32_t first;
    ft_graph_cache_opts graphs = {.model = engine->model,
                                  .backends = &engine->backends,
                                  .route = &engine->route->ops,
                                  .max_rows = engine->batch.max_rows,
                                  .max_out = engine->max_logits,
                                  .nodes_per_layer = engine->route->nodes_per_layer,
                                  .by_layer = weights != NULL};
    engine->asked = calloc(engine->max_logits, sizeof *engine->asked);
    engine->at = calloc(engine->max_logits, sizeof *engine->at);
    if (!engine->asked || !engine->at)
        return FT_NOMEM;
    if (ft_model_where_head(engine->model)) {
        size_t n_vocab = ft_model_hparams(engine->model)->n_vocab;
        engine->fetched = malloc(engine->max_logits * n_vocab * sizeof(float));
        if (!engine->fetched)
            return FT_NOMEM;
    }
    if (weights && ft_streamed_n_head_parts(weights) > 0)
        graphs.part = ft_streamed_head_part(weights, 0, &first);
    ft_status status = ft_graph_cache_create(&graphs, err, &engine->graphs);
    if (status != FT_OK || !weights)
        return status;
    ft_layers_opts layers = {.hp = ft_model_hparams(engine->model),
                             .weights = weights,
                             .graphs = engine->graphs,
                             .turn = engine->turn,
                             .clock = &engine->clock,
                             .max_rows = engine->batch.max_rows,
                             .max_out = engine->max_logits};
    return ft_layers_init(&engine->layers, &layers);
}

static ft_status create_parts(ft_engine *engine, const ft_engine_opts *opts, ft_error *err)
{
    const ft_hparams *hp = ft_model_hparams(opts->model);
    uint32_t max_rows = opts->max_batch_tok ? opts->max_batch_tok : DEFAULT_BATCH_TOK;
    uint32_t n_blocks = (opts->kv_tok + FT_KV_BLOCK_TOK - 1) / FT_KV_BLOCK_TOK;
    const int n_threads = ft_cpu_threads(opts->n_threads);
    engine->max_logits =
        opts->max_logits && opts->max_logits < max_rows ? opts->max_logits : max_rows;
    engine->streamed = opts->streamed;
    engine->turn = opts->turn;
    engine->rope = ft_route_rope(opts->model);
    engine->clock = ft_clock_monotonic();
    ft_pace_init(&engine->pace, n_threads);
    ft_pace_init(&engine->head_pace, n_threads);
    ft_status status = ft_backends_init(&engine->backends, opts->model, n_threads, err);
    if (status != FT_OK)
        return status;
    ggml_backend_cpu_set_abort_callback(engine->backends.at[0], ft_engine_between_operations,
                                        engine);
    status = ft_kv_init(&engine->kv, n_blocks, ft_kv_store_move, &engine->store);
    if (status == FT_OK) /* of all trees of a pass, each with a root and a node at least */
        status = ft_kv_add_shapes(&engine->kv, max_rows / 2);
    ft_kv_store_opts store = {.model = engine->model,
                              .backends = &engine->backends,
                              .all_rows = opts->route == FT_ATTN_PORTABLE,
                              .kv_type = opts->kv_type,
                              .n_blocks = n_blocks};
    if (status == FT_OK)
        status = ft_kv_store_init(&engine->store, &store);
    if (status == FT_OK && !ft_kv_store_type_works(&engine->store))
        return ft_error_set(err, FT_INVALID,
                            "engine: a device cannot hold this KV cache type: use f16");
    if (status == FT_OK && opts->route == FT_ATTN_CPU && engine->store.any_rows)
        return ft_error_set(
            err, FT_INVALID,
            "engine: the CPU attention kernel does not run on devices: keep layers off them");
    if (status == FT_OK)
        status = ft_batch_init(&engine->batch, max_rows, hp->n_rot);
    if (status == FT_OK)
        status = create_route(engine, err);
    if (status == FT_OK)
        status = create_graphs(engine, err);
    return status;
}

static void log_memory(const ft_engine *engine)
{
    ft_place_memory at[FT_PLACES_MAX];
    size_t n = ft_engine_get_memory(engine, at, FT_PLACES_MAX);
    for (size_t i = 0; i < n && n > 1; i++)
        FT_LOGI("engine", "place=%s weights_mb=%.0f kv_mb=%.0f compute_mb=%.0f", at[i].name,
                (double)at[i].weight_bytes / 1e6, (double)at[i].kv_bytes / 1e6,
                (double)at[i].compute_bytes / 1e6);
}

ft_status ft_engine_create(const ft_engine_opts *opts, ft_error *err, ft_engine **out)
{
    *out = NULL;
    ft_status status = check_opts(opts, err);
    if (status != FT_OK)
        return status;
    ft_aborts_tame();
    ft_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return ft_error_set(err, FT_NOMEM, "engine: out of memory");
    engine->model = opts->model;
    status = create_parts(engine, opts, err);
    if (status != FT_OK) {
        ft_engine_destroy(engine);
        if (status == FT_IO)
            return ft_error_set(err, status, "engine: the system has no random numbers");
        if (status != FT_NOMEM)
            return status; /* err is set already */
        return ft_error_set(err, status,
                            "engine: no memory for a KV pool of %u tokens and its "
                            "compute buffers: pass a smaller context",
                            opts->kv_tok);
    }
    log_memory(engine);
    ft_peers_watch();
    *out = engine;
    return FT_OK;
}

void ft_engine_destroy(ft_engine *engine)
{
    if (!engine)
        return;
    ft_layers_deinit(&engine->layers);
    ft_graph_cache_destroy(engine->graphs);
    if (engine->route)
        engine->route->destroy(engine->route);
    ft_batch_deinit(&engine->batch);
    ft_kv_store_deinit(&engine->store);
    ft_kv_deinit(&engine->kv);
    ft_backends_deinit(&engine->backends);
    free(engine->fetched);
    free(engine->asked);
    free(engine->at);
    free(engine);
}

/* ---- forward ---- */

static ft_status check_segment(ft_engine *engine, const ft_segment *s, ft_error *err)
{
    uint32_t n_vocab = ft_model_hparams(engine->model)->n_vocab;
    if (!s->seq || s->seq->engine != engine)
        return ft_error_set(err, FT_INVALID, "engine: a segment's sequence is not this engine's");
    if (s->n == 0 || !s->tokens)
        return ft_error_set(err, FT_INVALID, "engine: a segment has no tokens");
    if (s->seq->batch == engine->batch.number)
        return ft_error_set(err, FT_INVALID, "engine: two segments of one sequence in a batch");
    s->seq->batch = engine->batch.number;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= n_vocab)
            return ft_error_set(err, FT_INVALID, "engine: token %d is not in the vocabulary of %u",
                                s->tokens[i], n_vocab);
    return ft_kv_seq_validate(&s->seq->kv, s->parent, s->n, err);
}

static ft_status check_segments(ft_engine *engine, const ft_segment *segments, size_t n,
                                ft_error *err)
{
    uint64_t rows = 0, out = 0, blocks = 0;
    engine->batch.number++;
    if (n == 0 || n > engine->batch.max_rows)
        return ft_error_set(err, FT_INVALID, "engine: %zu segments in a batch; 1 to %u are allowed",
                            n, engine->batch.max_rows);
    for (size_t i = 0; i < n; i++) {
        rows += segments[i].n;
        if (rows > engine->batch.max_rows)
            return ft_error_set(err, FT_INVALID, "engine: a batch of more than %u tokens",
                                engine->batch.max_rows);
        ft_status status = check_segment(engine, &segments[i], err);
        if (status != FT_OK)
            return status;
        out += ft_want_count(segments[i].want, segments[i].n);
        blocks += ft_kv_seq_need(&segments[i].seq->kv, segments[i].n);
    }
    if (out > engine->max_logits)
        return ft_error_set(
            err, FT_INVALID,
            "engine: logits of %llu rows are wanted; at most %u at a time are allowed",
            (unsigned long long)out, engine->max_logits);
    if (blocks > ft_kv_available(&engine->kv))
        return ft_error_set(err, FT_EXHAUSTED,
                            "engine: the KV pool is full: %llu blocks needed, %u "
                            "free",
                            (unsigned long long)blocks, ft_kv_available(&engine->kv));
    for (size_t i = 0; i < n; i++)
        if (ft_kv_seq_reserve(&segments[i].seq->kv, segments[i].n) != FT_OK)
            return ft_error_set(err, FT_NOMEM, "engine: out of memory for a block table");
    return FT_OK;
}

/* A pass; `head`: also compute the logits of all wanted rows. */
static ft_status forward(ft_engine *engine, ft_segment *segments, size_t n, bool head,
                         ft_error *err)
{
    ft_error why = {0};
    ft_status status = check_segments(engine, segments, n, err);
    if (status != FT_OK)
        return status;
    ft_batch_clear(&engine->batch);
    for (size_t i = 0; i < n; i++) {
        ft_kv_seq *seq = &segments[i].seq->kv;
        ft_kv_seq_extend(seq, segments[i].parent, segments[i].n);
        ft_kv_seq_set_tokens(seq, segments[i].tokens, segments[i].n);
        ft_batch_add(&engine->batch, &segments[i], seq, &engine->rope);
    }
    status = ft_engine_run_batch(engine, &why);
    if (status == FT_OK && head && engine->kept)
        status = ft_engine_run_head(engine, NULL, engine->batch.n_out);
    if (status != FT_OK) {
        ft_engine_forget(engine);
        for (size_t i = 0; i < n; i++)
            ft_kv_seq_retract(&segments[i].seq->kv, segments[i].n);
        return ft_error_set(err, status, "engine: the forward pass failed: %s",
                            why.message[0] ? why.message : ft_status_text(status));
    }
    engine->forwards++;
    engine->rows += engine->batch.n_rows;
    return FT_OK;
}

ft_status ft_engine_forward(ft_engine *engine, ft_segment *segments, size_t n, ft_error *err)
{
    return forward(engine, segments, n, true, err);
}

ft_status ft_engine_forward_rows(ft_engine *engine, ft_segment *segments, size_t n, ft_error *err)
{
    return forward(engine, segments, n, false, err);
}

ft_status ft_engine_head(ft_engine *engine, const uint32_t *rows, size_t n, ft_error *err)
{
    if (n > engine->max_logits)
        return ft_error_set(
            err, FT_INVALID,
            "engine: logits of %zu rows are wanted; at most %u at a time are allowed", n,
            engine->max_logits);
    for (size_t i = 0; i < n; i++)
        if (rows[i] >= engine->batch.n_out)
            return ft_error_set(
                err, FT_INVALID,
                "engine: row %u does not exist: the last pass kept %u rows for logits", rows[i],
                engine->batch.n_out);
    if (!engine->kept)
        return FT_OK; /* the pass has computed all of them */
    ft_status status = ft_engine_run_head(engine, rows, (uint32_t)n);
    return status == FT_OK ? FT_OK
                           : ft_error_set(err, status, "engine: the output head failed: %s",
                                          ft_status_text(status));
}

const float *ft_engine_logits(const ft_engine *engine, uint32_t row)
{
    assert(row < engine->batch.n_out);
    if (engine->at[row] == 0)
        return NULL;
    size_t n_vocab = ft_model_hparams(engine->model)->n_vocab;
    return engine->logits + (engine->at[row] - 1) * n_vocab;
}

/* ---- what it is and has ---- */

void ft_engine_get_stats(const ft_engine *engine, ft_engine_stats *out)
{
    *out = (ft_engine_stats){.blocks = engine->kv.n_blocks,
                             .blocks_free = ft_kv_available(&engine->kv),
                             .blocks_cached = engine->kv.prefix.n_idle,
                             .prefix_lookup_tok = engine->kv.lookup_tok,
                             .prefix_hit_tok = engine->kv.hit_tok,
                             .prefix_evicted = engine->kv.prefix.evicted,
                             .kv_bytes = ft_kv_store_bytes(&engine->store),
                             .compute_bytes = ft_graph_cache_bytes(engine->graphs) +
                                              engine->route->bytes + engine->layers.bytes,
                             .n_seqs = engine->kv.n_seqs,
                             .forwards = engine->forwards,
                             .rows = engine->rows,
                             .alone = engine->alone,
                             .compute_us = engine->compute_us,
                             .n_threads = engine->backends.n_threads,
                             .heads = engine->heads,
                             .head_rows = engine->head_rows,
                             .graphs = ft_graph_cache_built(engine->graphs)};
}

size_t ft_engine_get_memory(const ft_engine *engine, ft_place_memory *out, size_t max)
{
    size_t n = 0;
    for (uint32_t i = 0; i < engine->backends.n; i++) {
        if (!engine->backends.at[i])
            continue;
        if (n < max)
            out[n] = (ft_place_memory){
                .name = ggml_backend_dev_name(ggml_backend_get_device(engine->backends.at[i])),
                .weight_bytes = ft_model_bytes_on(engine->model, i),
                .kv_bytes = ft_kv_store_bytes_on(&engine->store, i),
                .compute_bytes = ft_graph_cache_bytes_on(engine->graphs, i) +
                                 (i ? 0 : engine->route->bytes + engine->layers.bytes),
            };
        n++;
    }
    return n;
}

const ft_model *ft_engine_model(const ft_engine *engine)
{
    return engine->model;
}

uint32_t ft_engine_max_batch_tok(const ft_engine *engine)
{
    return engine->batch.max_rows;
}

uint32_t ft_engine_max_logits(const ft_engine *engine)
{
    return engine->max_logits;
}
