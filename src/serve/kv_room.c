// SPDX-License-Identifier: Apache-2.0
// Who gives way when KV blocks are short. A session that gives way loses its KV only: its text stays,
// and its next round computes the KV again, with the same result. Owned by the engine thread.
//
// Who gives way, in this order: detached sessions (longest gone first), idle ones (least recently
// used first), and, for the oldest work alone, waiting ones (youngest first). The oldest work
// therefore always runs: one session fits in an empty pool (ft_verifier_create sees to it).
#include "base/log.h"
#include "serve/internal.h"

static uint32_t blocks_free(const ft_verifier *v)
{
    ft_engine_stats es;
    ft_engine_get_stats(v->engine, &es);
    return es.blocks_free;
}

uint32_t ft_kv_blocks_for(const ft_verifier *v, uint32_t n_tok)
{
    uint64_t rows = (uint64_t)n_tok + v->opts.max_tree + 1;
    return (uint32_t)((rows + FT_KV_BLOCK_TOK - 1) / FT_KV_BLOCK_TOK) + 1;
}

ft_status ft_kv_admit(const ft_verifier *v, uint32_t n_tok, ft_error *err)
{
    ft_engine_stats es;
    uint64_t wanted = ft_kv_blocks_for(v, n_tok);
    ft_engine_get_stats(v->engine, &es);
    for (const ft_sess *s = v->sessions; s; s = s->next)
        if (s->handle && s->finish == FT_FINISH_NONE)
            wanted += ft_kv_blocks_for(v, s->len);
    if (wanted > (uint64_t)FT_KV_OVERCOMMIT * es.blocks)
        return ft_error_set(err, FT_EXHAUSTED,
                            "serve: no KV room for a prompt of %u tokens now: try again later",
                            n_tok);
    return FT_OK;
}

static void release(ft_verifier *v, ft_sess *s)
{
    FT_LOGD("serve", "session=%llu gives way tokens=%u", (unsigned long long)s->serial,
            ft_seq_n_past(s->seq));
    ft_seq_truncate(s->seq, 0);
    s->want_kv = false;
    v->stats.kv_released++;
}

/* The next session without work that holds KV, NULL: none. */
static ft_sess *next_workless(const ft_verifier *v)
{
    ft_sess *best = NULL;
    for (ft_sess *s = v->sessions; s; s = s->next) {
        sess_state state = ft_sess_state(s);
        if ((state != SESS_DETACHED && state != SESS_IDLE) || ft_seq_n_past(s->seq) == 0)
            continue;
        bool gone = !s->handle, best_gone = best && !best->handle;
        int64_t since = gone ? s->detached_at_us : s->used_at_us;
        int64_t best_since = !best ? 0 : best_gone ? best->detached_at_us : best->used_at_us;
        if (!best || gone > best_gone || (gone == best_gone && since < best_since))
            best = s;
    }
    return best;
}

/* The youngest work behind the first that holds KV gives way and leaves the pass. */
static bool release_youngest(ft_verifier *v, need *needs, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        if (ft_seq_n_past(needs[i].session->seq) == 0)
            continue;
        bool wanted = needs[i].session->want_kv;
        release(v, needs[i].session);
        needs[i].session->want_kv = wanted; /* still work */
        needs[i].out = true;
        return true;
    }
    return false;
}

uint32_t ft_kv_make_room(ft_verifier *v, need *needs, size_t n)
{
    uint32_t promised = 0;
    for (size_t i = 0; i < n; i++) {
        ft_sess *victim;
        while (!needs[i].out && (uint64_t)promised + needs[i].blocks > blocks_free(v)) {
            if ((victim = next_workless(v)) != NULL)
                release(v, victim);
            else if (i > 0 || !release_youngest(v, needs, n))
                needs[i].out = true;
        }
        if (!needs[i].out)
            promised += needs[i].blocks;
    }
    return blocks_free(v);
}
