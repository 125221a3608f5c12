// SPDX-License-Identifier: Apache-2.0
// Passes before the first user waits: one that reads all weights, and a few of growing size on all
// threads and on one. pace.h starts with their times. They run on a sequence of their own in an
// engine without others. They leave only those times and the graphs that they needed. Owned by the
// engine's thread. Times of real batches are not predicted from them; real times replace them.
//
// Where an earlier process has left the times, there is the first pass alone. Where weights are
// read in every pass there is one pass, of one row.
#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "engine/engine_internal.h"
#include "engine/warm_kept.h"

/* Rows of the largest pass, 4^(FT_WARM_PASSES - 1); between the sizes: estimated. */
#define WARM_ROWS 64
/* A pass over weights that are read takes seconds, and who drafts for it should know. */
#define STREAMED_LIMIT_US 20000000

static ft_status warm_pass(ft_engine *engine, ft_seq *seq, uint32_t n, int n_threads, ft_error *err)
{
    const uint32_t n_vocab = ft_model_hparams(engine->model)->n_vocab;
    const uint64_t want = n <= engine->max_logits ? UINT64_MAX >> (64 - n) : 1;
    int32_t tokens[WARM_ROWS];
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((i + 1) * (n_vocab / (WARM_ROWS + 1)));
    ft_segment segment = {.seq = seq, .n = n, .tokens = tokens, .want = &want};
    engine->warm_threads = n_threads;
    ft_status status = ft_engine_forward(engine, &segment, 1, err);
    engine->warm_threads = 0;
    ft_seq_truncate(seq, 0);
    return status;
}

typedef struct warming {
    ft_seq *seq;
    const ft_clock *clock;
    ft_warm *out;
    bool known; /* *out holds an earlier process's times */
} warming;

/* Measures a size on all threads and on one. */
static ft_status warm_size(ft_engine *engine, const warming *w, uint32_t n, ft_error *err)
{
    const int both[] = {engine->backends.n_threads, 1};
    const bool one = both[0] == 1 || engine->backends.devices || engine->streamed;
    const size_t n_both = one ? 1 : 2;
    int64_t us[2] = {0};
    for (size_t i = 0; i < n_both; i++) {
        int64_t began_us = ft_clock_now_us(w->clock);
        ft_status status = warm_pass(engine, w->seq, n, both[i], err);
        us[i] = ft_clock_now_us(w->clock) - began_us;
        if (status != FT_OK)
            return status;
    }
    const uint32_t at = w->out->n++;
    w->out->rows[at] = n;
    w->out->all_us[at] = us[0];
    w->out->alone_us[at] = us[1];
    w->out->us[at] = one || us[0] < us[1] ? us[0] : us[1];
    return FT_OK;
}

/* As if the passes had been measured. */
static void prime(ft_engine *engine, const ft_warm *warm)
{
    for (uint32_t i = 0; i < warm->n; i++) {
        const uint64_t n = warm->rows[i];
        const ft_pace_size size = ft_engine_pass_size(engine, warm->rows[i], n * (n + 1) / 2);
        ft_pace_prime(&engine->pace, &size, engine->backends.n_threads, warm->all_us[i]);
        if (warm->alone_us[i] > 0)
            ft_pace_prime(&engine->pace, &size, 1, warm->alone_us[i]);
    }
}

/* The first pass only reads the weights; its time is not used. */
static ft_status warm_sizes(ft_engine *engine, const warming *w, ft_error *err)
{
    const uint32_t room = ft_kv_available(&engine->kv) * FT_KV_BLOCK_TOK;
    ft_status status = FT_OK;
    engine->warm_cold = true;
    if (!engine->streamed) /* others are read in every pass */
        status = warm_pass(engine, w->seq, 1, engine->backends.n_threads, err);
    engine->warm_cold = false;
    if (w->known) {
        prime(engine, w->out);
        return status;
    }
    const int64_t until_us = ft_clock_now_us(&engine->clock) + FT_WARM_US;
    for (uint32_t i = 0; i < FT_WARM_PASSES && status == FT_OK; i++) {
        const uint32_t n = FT_WARM_ROWS(i);
        if (n > engine->batch.max_rows || n > room || ft_clock_now_us(&engine->clock) >= until_us)
            break;
        status = warm_size(engine, w, n, err);
    }
    return status;
}

/* What times depend on. */
static uint64_t subject_of(const ft_engine *engine, const ft_kept_place *kept)
{
    const ft_model_products products = ft_model_get_memory(engine->model).products;
    const uint64_t numbers[] = {ft_model_fingerprint(engine->model),
                                (uint64_t)engine->backends.n_threads, engine->max_logits,
                                engine->batch.max_rows};
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, numbers, sizeof numbers);
    hash = ft_fnv64(hash, &products, sizeof products);
    return ft_fnv64(hash, kept->of, strlen(kept->of));
}

ft_status ft_engine_warm(ft_engine *engine, const ft_clock *clock, const ft_kept_place *kept,
                         ft_error *err, ft_warm *out)
{
    const uint64_t forwards = engine->forwards, rows = engine->rows, heads = engine->heads,
                   head_rows = engine->head_rows;
    const int64_t began_us = ft_clock_now_us(&engine->clock);
    ft_warm unread;
    ft_error failure = {0};
    warming w = {.clock = clock ? clock : &engine->clock, .out = out ? out : &unread};
    *w.out = (ft_warm){0};
    ft_status status = ft_seq_create(engine, err, &w.seq);
    if (status != FT_OK)
        return status;
    if (engine->streamed || engine->backends.devices)
        kept = NULL;
    const uint64_t subject = kept && kept->folder ? subject_of(engine, kept) : 0;
    w.known = ft_warm_kept_load(kept, subject, w.out);
    engine->warm_end_us = began_us + (engine->streamed ? STREAMED_LIMIT_US : FT_WARM_LIMIT_US);
    status = warm_sizes(engine, &w, &failure);
    ft_seq_destroy(w.seq);
    ft_engine_forget(engine);
    engine->forwards = forwards;
    engine->rows = rows;
    engine->heads = heads;
    engine->head_rows = head_rows;
    if (status != FT_OK && status != FT_TIMEOUT) {
        if (err)
            *err = failure;
        return status;
    }
    if (status == FT_OK && !w.known)
        ft_warm_kept_save(kept, subject, w.out);
    FT_LOGI("engine", "warm ms=%.0f rows=%u%s",
            (double)(ft_clock_now_us(&engine->clock) - began_us) / 1e3,
            w.out->n ? w.out->rows[w.out->n - 1] : 0,
            status == FT_TIMEOUT ? " given_up=1"
            : w.known            ? " known=1"
                                 : "");
    return FT_OK;
}
