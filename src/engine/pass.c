// SPDX-License-Identifier: Apache-2.0
// How a batch is computed: on how many threads, in how many attempts, whole or layer by layer, and
// which rows then have logits. It may be interrupted or given up between two operations. All of it
// belongs to the engine's thread.
#include <string.h>

#include "engine/engine_internal.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

/* Whether another engine, which goes first, is in the midst of a pass that takes several turns. */
static bool beside_another(const ft_engine *engine)
{
    return !engine->streamed && ft_turn_in_series(engine->turn);
}

bool ft_engine_between_operations(void *ctx)
{
    ft_engine *engine = ctx;
    if (beside_another(engine) && engine->pass_threads > 1)
        return true;
    if (engine->pass_threads == 1 && !engine->streamed && ft_turn_wanted(engine->turn))
        ft_turn_interrupt(engine->turn);
    return engine->give_up_us && ft_clock_now_us(&engine->clock) > engine->give_up_us;
}

/* Reading the weights once takes about as long as multiplying this many rows with them. */
#define READ_ROWS 8
/* A multiplication of attention, in floats, takes as long as two with rounded weights. */
#define SEEN_COST 2

ft_pace_size ft_engine_pass_size(const ft_engine *engine, uint32_t n_rows, uint64_t n_seen)
{
    const ft_hparams *hp = ft_model_hparams(engine->model);
    double n_embd = hp->n_embd, n_q = (double)hp->n_head * hp->head_dim;
    double n_kv = (double)hp->n_head_kv * hp->head_dim;
    double row = hp->n_layer * n_embd * (2 * n_q + 2 * n_kv + 3.0 * hp->n_ff);
    return (ft_pace_size){.n_rows = n_rows,
                          .work = (READ_ROWS + (double)n_rows) * row +
                                  (double)n_seen * SEEN_COST * 2 * hp->n_layer * n_q};
}

static ft_pace_size size_of(const ft_engine *engine)
{
    return ft_engine_pass_size(engine, engine->batch.n_rows, engine->batch.n_seen);
}

/* The number of threads of the next pass, and the time that it has taken on them. */
static int threads_of(const ft_engine *engine, const ft_pace *pace, const ft_pace_size *size)
{
    if (engine->warm_threads)
        return engine->warm_threads;
    return engine->backends.devices ? engine->backends.n_threads : ft_pace_threads(pace, size);
}

/* Counts a pass, or a head, for the statistics. */
static void count_time(ft_engine *engine, int64_t us)
{
    if (!engine->warm_threads)
        engine->compute_us += (uint64_t)us;
}

static void count_threads(ft_engine *engine, int n_threads)
{
    engine->alone += !engine->warm_threads && n_threads == 1 && engine->backends.n_threads > 1;
}

static void saw_pass(const ft_engine *engine, ft_pace *pace, const ft_pace_size *size,
                     int n_threads, int64_t us)
{
    if (!engine->warm_threads)
        ft_pace_observe(pace, size, n_threads, us);
    else if (!engine->warm_cold)
        ft_pace_prime(pace, size, n_threads, us);
}

/* One attempt on n_threads threads. FT_TIMEOUT: given up, and it has no effect. Inputs are written
 * each time, because a pass reuses their memory. */
static ft_status attempt(ft_engine *engine, ft_graph *g, const ft_pace_size *size, int n_threads)
{
    const ft_batch *batch = &engine->batch;
    ggml_backend_tensor_set(g->tokens, batch->token, 0, batch->n_rows * sizeof(int32_t));
    if (g->out_ids)
        ggml_backend_tensor_set(g->out_ids, batch->out, 0, batch->n_out * sizeof(int32_t));
    if (!engine->route->set_inputs(engine->route, g->slot))
        return FT_NOMEM;
    ft_turn_take(engine->turn, false);
    if (beside_another(engine))
        n_threads = 1;
    int64_t limit_us =
        engine->backends.devices ? 0 : ft_pace_limit_us(&engine->pace, size, n_threads);
    int64_t start_us = ft_clock_now_us(&engine->clock);
    engine->give_up_us = engine->warm_threads ? engine->warm_end_us
                         : limit_us           ? start_us + limit_us
                                              : 0;
    ggml_backend_cpu_set_n_threads(engine->backends.at[0], n_threads);
    engine->pass_threads = n_threads;
    ft_status status = ft_graph_cache_compute(engine->graphs, g);
    engine->pass_threads = 0;
    const int64_t us = ft_clock_now_us(&engine->clock) - start_us;
    count_time(engine, us);
    if (status == FT_OK)
        count_threads(engine, n_threads);
    if (!beside_another(engine)) /* else the time is partly the other's */
        saw_pass(engine, &engine->pace, size, n_threads, us);
    ft_turn_give_back(engine->turn);
    return status;
}

/* Sets which rows `logits` holds from now on. rows == NULL: the first n. */
static void set_asked(ft_engine *engine, const uint32_t *rows, uint32_t n)
{
    for (uint32_t i = 0; i < engine->n_asked; i++)
        engine->at[engine->asked[i]] = 0;
    for (uint32_t i = 0; i < n; i++) {
        engine->asked[i] = rows ? rows[i] : i;
        engine->at[engine->asked[i]] = i + 1;
    }
    engine->n_asked = n;
}

void ft_engine_forget(ft_engine *engine)
{
    engine->batch.n_out = 0;
    set_asked(engine, NULL, 0);
}

/* Stores the result of a pass. With devices: logits of all rows, copied to the host if they are on
 * a device. Otherwise: input rows of the output head. */
static void take_result(ft_engine *engine, const struct ggml_tensor *result)
{
    set_asked(engine, NULL, engine->backends.devices ? engine->batch.n_out : 0);
    engine->kept = engine->logits = NULL;
    if (!result)
        return;
    if (!engine->backends.devices) {
        engine->kept = result->data;
    } else if (ggml_backend_buffer_is_host(result->buffer)) {
        engine->logits = result->data;
    } else {
        ggml_backend_tensor_get(result, engine->fetched, 0, ggml_nbytes(result));
        engine->logits = engine->fetched;
    }
    engine->head_rows += engine->n_asked;
}

/* The same where not all weights are in memory. Another attempt would read them anew, so only a
 * layer is given up. Threads are chosen by the time without reading. */
static ft_status run_by_layer(ft_engine *engine, ft_error *err)
{
    const ft_pace_size size = size_of(engine);
    const int n_threads = threads_of(engine, &engine->pace, &size);
    const bool warm = engine->warm_threads > 0;
    ft_layers_pass pass = {.route = engine->route,
                           .cpu = engine->backends.at[0],
                           .give_up_us = &engine->give_up_us,
                           .n_threads = n_threads,
                           .limit_us = warm ? 0 : ft_pace_limit_us(&engine->pace, &size, n_threads),
                           .alone_us = ft_pace_alone_us(&engine->pace, &size),
                           .until_us = warm ? engine->warm_end_us : 0};
    ft_status status = ft_layers_run(&engine->layers, &engine->batch, &pass, err);
    if (status != FT_OK)
        return status;
    count_time(engine, pass.compute_us);
    count_threads(engine, pass.n_threads);
    /* With more threads the rest would have taken at least the limit. */
    saw_pass(engine, &engine->pace, &size, n_threads,
             pass.n_threads < n_threads ? pass.limit_us : pass.compute_us);
    engine->logits = engine->layers.logits;
    engine->kept = engine->logits || engine->batch.n_out == 0 ? NULL : engine->layers.out;
    set_asked(engine, NULL, engine->logits ? engine->batch.n_out : 0);
    engine->head_rows += engine->n_asked;
    return FT_OK;
}

ft_status ft_engine_run_batch(ft_engine *engine, ft_error *err)
{
    const ft_batch *batch = &engine->batch;
    ft_status moved = ft_kv_store_flush(&engine->store);
    if (moved != FT_OK)
        return moved;
    if (engine->streamed)
        return run_by_layer(engine, err);
    engine->route->begin(engine->route);
    ft_graph *g = ft_graph_cache_get(engine->graphs, batch->n_rows, batch->n_out);
    if (!g)
        return FT_NOMEM;
    const ft_pace_size size = size_of(engine);
    ft_status status = attempt(engine, g, &size, threads_of(engine, &engine->pace, &size));
    if (status == FT_TIMEOUT && !engine->warm_threads) {
        engine->route->begin(engine->route);
        status = attempt(engine, g, &size, 1);
    }
    if (status == FT_OK)
        take_result(engine, g->result);
    return status;
}

ft_status ft_engine_run_head(ft_engine *engine, const uint32_t *rows, uint32_t n)
{
    const ft_hparams *hp = ft_model_hparams(engine->model);
    const ft_pace_size size = {.n_rows = n,
                               .work = (READ_ROWS + (double)n) * hp->n_embd * hp->n_vocab};
    if (n == 0) {
        set_asked(engine, NULL, 0);
        return FT_OK;
    }
    ft_graph *g = ft_graph_cache_get_head(engine->graphs, n);
    if (!g)
        return FT_NOMEM;
    set_asked(engine, rows, n);
    for (uint32_t i = 0; i < n; i++)
        ggml_backend_tensor_set(g->rows, engine->kept + (size_t)engine->asked[i] * hp->n_embd,
                                i * g->rows->nb[1], g->rows->nb[1]);
    int n_threads = threads_of(engine, &engine->head_pace, &size);
    ft_turn_take(engine->turn, engine->streamed != NULL);
    int64_t start_us = ft_clock_now_us(&engine->clock);
    engine->give_up_us = 0;
    ggml_backend_cpu_set_n_threads(engine->backends.at[0], n_threads);
    ft_status status = ft_graph_cache_compute(engine->graphs, g);
    const int64_t us = ft_clock_now_us(&engine->clock) - start_us;
    count_time(engine, us);
    saw_pass(engine, &engine->head_pace, &size, n_threads, us);
    ft_turn_give_back(engine->turn);
    engine->logits = g->result->data;
    if (status != FT_OK) {
        set_asked(engine, NULL, 0);
        return status;
    }
    engine->heads++;
    engine->head_rows += engine->n_asked;
    return FT_OK;
}
