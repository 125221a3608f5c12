// SPDX-License-Identifier: Apache-2.0
// Who gives way when KV blocks are short. A session that gives way loses its KV only: its text stays,
// and its next round computes the KV again, with the same result. Owned by the engine thread.
//
// Blocks are taken in this order:
//   1. free ones, and cached ones that no session holds, least recently used first (the engine does
//      that by itself and counts both as free);
//   2. of detached sessions, longest gone first;
//   3. of idle sessions, least recently used first;
//   4. for the oldest work alone, of others that wait, youngest first.
// What a session gives up stays cached until somebody takes it, so that short pressure costs little.
// The oldest work always runs, because one session fits in an empty pool (ft_verifier_create sees to
// it), and it stays the oldest until it is done, so that nobody can take its KV before: sessions end,
// whatever their number, and nobody waits for ever. A session that does not fit holds nothing that it
// was given for this pass.
//
// A text is not let in that would make the open ones need FT_KV_OVERCOMMIT times the pool.
#include <string.h>

#include "base/log.h"
#include "base/secret.h"
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

/* ---- the prefix cache ---- */

uint64_t ft_kv_tenant(const ft_verifier *v, const char *credential)
{
    if (v->opts.no_prefix_cache)
        return 0;
    uint64_t tenant = ft_siphash(v->tenant_key, credential, strlen(credential));
    return tenant ? tenant : 1;
}

void ft_kv_attach(ft_sess *s)
{
    if (ft_seq_n_past(s->seq) == 0)
        (void)ft_seq_attach(s->seq, s->text, s->len);
}

/* ---- giving way ---- */

static void release(ft_verifier *v, ft_sess *s)
{
    FT_LOGD("serve", "session=%llu gives way tokens=%u", (unsigned long long)s->serial,
            ft_seq_n_past(s->seq));
    ft_seq_truncate(s->seq, 0);
    s->want_kv = false;
    s->prefix_counted = false;
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

/* Whether a need has its blocks beside those that are promised. Blocks that it attaches are no longer
 * free, but it would have needed as many. */
static bool fits(const ft_verifier *v, const need *n, uint32_t promised, uint32_t *blocks)
{
    ft_sess *s = n->session;
    ft_kv_attach(s);
    uint32_t missing = ft_sess_missing(s) + n->rows;
    *blocks = ft_seq_blocks_needed(s->seq, missing);
    return (uint64_t)promised + *blocks <= blocks_free(v);
}

uint32_t ft_kv_make_room(ft_verifier *v, need *needs, size_t n)
{
    uint32_t promised = 0;
    for (size_t i = 0; i < n; i++) {
        ft_sess *victim, *s = needs[i].session;
        bool empty = ft_seq_n_past(s->seq) == 0;
        uint32_t blocks = 0;
        while (!needs[i].out && !fits(v, &needs[i], promised, &blocks)) {
            if ((victim = next_workless(v)) != NULL)
                release(v, victim);
            else if (i > 0 || !release_youngest(v, needs, n))
                needs[i].out = true;
        }
        if (!needs[i].out)
            promised += blocks;
        else if (empty)
            ft_seq_truncate(s->seq, 0);
    }
    return blocks_free(v);
}
