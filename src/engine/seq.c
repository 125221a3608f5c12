// SPDX-License-Identifier: Apache-2.0
// Sequences: creates, copies, commits and truncates a text's block table in the engine's KV pool.
// Owned by the engine's thread. Computes nothing (engine.c does).
#include "engine/engine_internal.h"

#include <stdlib.h>

ft_status ft_seq_create(ft_engine *engine, ft_error *err, ft_seq **out)
{
    ft_seq *seq = malloc(sizeof *seq);
    *out = NULL;
    if (!seq)
        return ft_error_set(err, FT_NOMEM, "engine: out of memory");
    seq->engine = engine;
    seq->batch = 0;
    ft_kv_seq_init(&seq->kv, &engine->kv);
    *out = seq;
    return FT_OK;
}

void ft_seq_destroy(ft_seq *seq)
{
    if (!seq)
        return;
    ft_kv_seq_deinit(&seq->kv);
    free(seq);
}

/* A sequence made from another one by `copy`. */
static ft_status seq_from(const ft_seq *seq, ft_status (*copy)(const ft_kv_seq *, ft_kv_seq *),
                          ft_error *err, ft_seq **out)
{
    *out = NULL;
    ft_seq *made = malloc(sizeof *made);
    ft_status status = made ? copy(&seq->kv, &made->kv) : FT_NOMEM;
    if (status != FT_OK) {
        free(made);
        return ft_error_set(err, status, "engine: copy of a sequence: %s",
                            status == FT_NOMEM ? "out of memory" : "the KV pool is full");
    }
    made->engine = seq->engine;
    made->batch = 0;
    *out = made;
    return FT_OK;
}

ft_status ft_seq_fork(const ft_seq *seq, ft_error *err, ft_seq **out)
{
    return seq_from(seq, ft_kv_seq_fork, err, out);
}

ft_status ft_seq_dup(const ft_seq *seq, ft_error *err, ft_seq **out)
{
    return seq_from(seq, ft_kv_seq_dup, err, out);
}

void ft_seq_set_scope(ft_seq *seq, uint64_t scope)
{
    ft_kv_seq_set_scope(&seq->kv, scope);
}

uint32_t ft_seq_attach(ft_seq *seq, const int32_t *tokens, uint32_t n)
{
    return ft_kv_seq_attach(&seq->kv, tokens, n);
}

uint32_t ft_seq_n_past(const ft_seq *seq)
{
    return seq->kv.n_past;
}

uint32_t ft_seq_n_pending(const ft_seq *seq)
{
    return seq->kv.n_pending;
}

uint32_t ft_seq_blocks_needed(const ft_seq *seq, uint32_t n)
{
    return ft_kv_seq_need(&seq->kv, n);
}

ft_status ft_seq_commit(ft_seq *seq, const uint32_t *path, uint32_t n_path, const uint32_t *keep,
                        uint32_t n_keep, ft_error *err)
{
    return ft_kv_seq_commit(&seq->kv, path, n_path, keep, n_keep, err);
}

void ft_seq_truncate(ft_seq *seq, uint32_t n_past)
{
    ft_kv_seq_truncate(&seq->kv, n_past < seq->kv.n_past ? n_past : seq->kv.n_past);
}
