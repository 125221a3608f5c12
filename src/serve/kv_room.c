// SPDX-License-Identifier: Apache-2.0
// Evicts sessions when KV blocks are short. An evicted session loses its KV only. Its text stays,
// and its next round computes the KV again, with the same result. The functions run on the engine
// thread. This file does not decide the order in which sessions are evicted (sched/evict.h does),
// or how much KV open texts may need (sched/admit.h does).
//
// Blocks are taken in this order:
//   1. free blocks;
//   2. cached blocks that no session holds, the least recently used first;
//   3. blocks of sessions, in the order of ft_evict_before.
// The engine does the first two by itself, and counts both kinds of blocks as free.
//
// The blocks of an evicted session stay cached until they are needed. So a brief shortage costs
// little. A session whose KV had to be computed then keeps it for a turn (sched/evict.h). The work
// that is next waits for the turns of others. Meanwhile no session without KV gets any, so these
// turns are the last before its own. Then it runs, because one session fits into an empty pool
// (ft_verifier_create checks this). So every session ends at some time, however many there are. A
// session that does not fit into this pass gives back the cached blocks that it took over for it.
#include "serve/kv_room.h"

#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "sched/admit.h"
#include "sched/evict.h"
#include "serve/slo.h"

static uint32_t blocks_free(const ft_verifier *v)
{
    ft_engine_stats es;
    ft_engine_get_stats(v->engine, &es);
    return es.blocks_free;
}

/* Blocks that a text of n_tok tokens with the largest tree needs. */
static uint32_t blocks_for(const ft_verifier *v, uint32_t n_tok)
{
    uint64_t rows = (uint64_t)n_tok + v->opts.max_tree + 1;
    return (uint32_t)((rows + FT_KV_BLOCK_TOK - 1) / FT_KV_BLOCK_TOK) + 1;
}

ft_status ft_kv_admit(const ft_verifier *v, const char *credential, uint32_t n_tok, ft_error *err)
{
    ft_engine_stats es;
    ft_admit_blocks wanted = {.all = blocks_for(v, n_tok),
                              .of_tenant = blocks_for(v, n_tok),
                              .n_tenants = ft_slo_tenants(v, credential)};
    ft_engine_get_stats(v->engine, &es);
    for (const ft_sess *s = v->sessions.first; s; s = s->next) {
        if (!s->handle || s->text.finish != FT_FINISH_NONE)
            continue;
        const uint32_t blocks = blocks_for(v, s->text.len);
        wanted.all += blocks;
        wanted.of_tenant += ft_secret_equal_str(ft_slo_credential(s), credential) ? blocks : 0;
    }
    if (!ft_admit_kv(&wanted, es.blocks))
        return ft_error_set(err, FT_EXHAUSTED,
                            "serve: the KV pool is too full for a text of %u tokens: try again "
                            "later",
                            n_tok);
    return FT_OK;
}

/* ---- the prefix cache ---- */

uint64_t ft_kv_scope(const ft_verifier *v, const char *credential)
{
    if (v->opts.no_prefix_cache)
        return 0;
    uint64_t scope = ft_siphash(v->tenants.salt, credential, strlen(credential));
    return scope ? scope : 1;
}

void ft_kv_attach(ft_sess *s)
{
    if (ft_seq_n_past(s->kv.seq) == 0)
        (void)ft_seq_attach(s->kv.seq, s->text.token, s->text.len);
}

/* ---- eviction ---- */

static void release(ft_verifier *v, ft_sess *s)
{
    FT_LOGD("serve", "session=%llu evicted tokens=%u", (unsigned long long)s->who.serial,
            ft_seq_n_past(s->kv.seq));
    ft_seq_truncate(s->kv.seq, 0);
    s->kv.want = false;
    s->kv.counted = s->kv.next = false;
    s->kv.spent_us = s->kv.turn_us = 0;
    v->stats.kv_released++;
}

/* Of the sessions that were considered so far, the one to evict first. */
typedef struct choice {
    ft_sess *session; /* NULL: none yet */
    ft_need *need;    /* its work in this pass; NULL: it has none */
    ft_holder holder;
} choice;

static ft_holder holder_of(const ft_sess *s)
{
    switch (ft_sess_state_of(s)) {
    case FT_SESS_WAITING:
    case FT_SESS_PREFILL:
        return (ft_holder){FT_HOLDER_WAITING, s->times.waits_us, s->kv.turn_us};
    case FT_SESS_IDLE:
        return (ft_holder){FT_HOLDER_IDLE, s->times.used_us, s->kv.turn_us};
    case FT_SESS_DETACHED:
    case FT_SESS_ENDED: /* holds nothing */
        break;
    }
    return (ft_holder){FT_HOLDER_DETACHED, s->times.detached_us, 0};
}

static void consider(choice *best, ft_sess *s, ft_need *n, bool for_next, int64_t now_us)
{
    const ft_holder holder = holder_of(s);
    if (ft_seq_n_past(s->kv.seq) == 0 || !ft_evict_may(&holder, for_next, now_us) ||
        (best->session && !ft_evict_before(&holder, &best->holder)))
        return;
    *best = (choice){.session = s, .need = n, .holder = holder};
}

/* Evicts one session to make room for needs[i]. If the evicted session has work, this work leaves
 * the pass. Returns false if no session may be evicted. */
static bool release_next(ft_verifier *v, ft_need *needs, size_t n, size_t i, int64_t now_us)
{
    choice best = {0};
    for (ft_sess *s = v->sessions.first; s; s = s->next) {
        ft_sess_state state = ft_sess_state_of(s);
        if (state == FT_SESS_DETACHED || state == FT_SESS_IDLE)
            consider(&best, s, NULL, i == 0, now_us);
    }
    for (size_t k = n; k-- > 1;)
        consider(&best, needs[k].session, &needs[k], i == 0, now_us);
    if (!best.session)
        return false;
    bool wanted = best.need && best.session->kv.want; /* its work still waits */
    release(v, best.session);
    best.session->kv.want = wanted;
    if (best.need)
        best.need->out = true;
    return true;
}

/* Whether there are enough free blocks for the need and for the `reserved` ones. *blocks: how many
 * blocks the need takes. First the session takes over cached blocks. These blocks are then no
 * longer free, but without them the session would need as many free blocks. */
static bool fits(const ft_verifier *v, const ft_need *n, uint32_t reserved, uint32_t *blocks)
{
    ft_sess *s = n->session;
    ft_kv_attach(s);
    uint32_t missing = ft_sess_missing(s) + n->rows;
    *blocks = ft_seq_blocks_needed(s->kv.seq, missing);
    return (uint64_t)reserved + *blocks <= blocks_free(v);
}

static ft_claim claim_of(const ft_sess *s)
{
    return (ft_claim){.missing = ft_sess_missing(s) > 0,
                      .since_us = s->times.waits_us,
                      .tenant_us = ft_slo_tenant_us(s)};
}

/* Moves the need that is next to the front. The others keep their order. */
static void bring_forward(ft_need *needs, size_t n)
{
    size_t at = 0;
    ft_claim first;
    for (size_t i = 0; i < n; i++) {
        const ft_claim claim = claim_of(needs[i].session);
        if (i > 0 && !ft_evict_next(&claim, &first))
            continue;
        at = i;
        first = claim;
    }
    if (n == 0)
        return;
    const ft_need next = needs[at];
    memmove(needs + 1, needs, at * sizeof *needs);
    needs[0] = next;
    next.session->kv.next |= first.missing;
}

uint32_t ft_kv_make_room(ft_verifier *v, ft_need *needs, size_t n, int64_t now_us)
{
    uint32_t reserved = 0;
    bring_forward(needs, n);
    for (size_t i = 0; i < n; i++) {
        ft_sess *s = needs[i].session;
        bool empty = ft_seq_n_past(s->kv.seq) == 0;
        uint32_t blocks = 0;
        needs[i].out |= needs[0].out && empty;
        while (!needs[i].out && !fits(v, &needs[i], reserved, &blocks))
            needs[i].out = !release_next(v, needs, n, i, now_us);
        if (!needs[i].out)
            reserved += blocks;
        else if (empty)
            ft_seq_truncate(s->kv.seq, 0);
    }
    return blocks_free(v);
}

/* ---- turns ---- */

void ft_kv_computed(ft_sess *s, uint32_t n_tok, int64_t pass_us, int64_t now_us)
{
    s->kv.read_tok += n_tok;
    s->kv.read_us += pass_us * n_tok / s->verifier->batch.pass.rows;
    s->kv.spent_us += pass_us;
    if (ft_sess_is_behind(s))
        return;
    s->kv.turn_us = ft_evict_turn_us(s->kv.spent_us, now_us);
    s->kv.spent_us = 0;
    if (s->kv.next)
        ft_slo_turn(s, now_us);
    s->kv.next = false;
}

int64_t ft_kv_turn_left_us(const ft_verifier *v, int64_t now_us)
{
    int64_t least_us = -1;
    for (const ft_sess *s = v->sessions.first; s; s = s->next) {
        const ft_holder holder = holder_of(s);
        const int64_t left_us = ft_evict_turn_left_us(&holder, now_us);
        if (left_us > 0 && (least_us < 0 || left_us < least_us))
            least_us = left_us;
    }
    return least_us;
}
