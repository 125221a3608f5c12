// SPDX-License-Identifier: Apache-2.0
// The verifier's engine thread, its queue of events, and the way of answers back to clients. Knows
// nothing of rounds (round.c) and little of sessions (vsession.c).
//
//   any thread: open/draft/close/detach --queue, lock--> engine thread: handle events, expire, one
//   round, again; with nothing to do it waits on `wake`, until the next session expires or the policy
//   starts a pass at most.
//
// Events live in their handle: OPEN, CLOSE and DETACH once, drafts in a few slots; a client that sends
// more drafts than that without waiting for verdicts loses its session. DETACH is a handle's last
// event; handling it frees the handle.
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/rng.h"
#include "serve/internal.h"

/* ---- answers; engine thread ---- */

void ft_verifier_publish(ft_verifier *v)
{
    ft_engine_stats es;
    ft_engine_get_stats(v->engine, &es);
    v->stats.kv_blocks = es.blocks;
    v->stats.kv_blocks_free = es.blocks_free;
    v->stats.kv_blocks_cached = es.blocks_cached;
    v->stats.prefix_evicted = es.prefix_evicted;
    v->stats.heads = es.heads;
    v->stats.head_rows = es.head_rows;
    pthread_mutex_lock(&v->lock);
    v->published = v->stats;
    pthread_mutex_unlock(&v->lock);
}

/* Takes the right to call back, unless the client gave the handle up. Publishes what the client may
 * look at once it heard. */
static bool callback_begin(ft_vsession *h, bool also_closed)
{
    ft_verifier *v = h->verifier;
    ft_verifier_publish(v);
    pthread_mutex_lock(&v->lock);
    h->in_callback = !h->detached && (also_closed || !h->closed);
    bool go = h->in_callback;
    pthread_mutex_unlock(&v->lock);
    return go;
}

static void callback_end(ft_vsession *h)
{
    ft_verifier *v = h->verifier;
    pthread_mutex_lock(&v->lock);
    h->in_callback = false;
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

void ft_handle_opened(ft_vsession *handle, const ft_msg_opened *opened)
{
    if (!callback_begin(handle, false))
        return;
    handle->client.on_opened(handle->client.ctx, opened);
    callback_end(handle);
}

void ft_handle_verdict(ft_vsession *handle, const ft_msg_verdict *verdict)
{
    if (!callback_begin(handle, false))
        return;
    handle->client.on_verdict(handle->client.ctx, verdict);
    callback_end(handle);
}

void ft_handle_gone(ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms)
{
    assert(!handle->session);
    if (!callback_begin(handle, true))
        return;
    handle->client.on_gone(handle->client.ctx, code, message, retry_after_ms);
    callback_end(handle);
}

/* ---- calls; any thread ---- */

/* Under the lock. */
static void queue_event(event *ev, ft_vsession *h, event_kind kind)
{
    ft_verifier *v = h->verifier;
    ev->next = NULL;
    ev->handle = h;
    ev->kind = kind;
    *v->queue_tail = ev;
    v->queue_tail = &ev->next;
    pthread_cond_signal(&v->wake);
}

static void handle_free(ft_vsession *h)
{
    if (!h)
        return;
    free(h->prompt);
    free(h->credential);
    free(h);
}

static ft_vsession *handle_create(ft_verifier *v, const ft_msg_open *open, const char *credential,
                                  const ft_key *key, const ft_vclient *client)
{
    ft_vsession *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->verifier = v;
    h->client = *client;
    if (key)
        h->key = *key;
    h->open = *open;
    h->open.prompt = NULL;
    h->credential = strdup(credential ? credential : "");
    /* Too long a prompt is refused by its length alone. */
    if (open->resume || open->n_prompt == 0 || open->n_prompt >= v->opts.max_context)
        return h->credential ? h : (handle_free(h), NULL);
    h->prompt = malloc(open->n_prompt * sizeof *h->prompt);
    if (!h->credential || !h->prompt) {
        handle_free(h);
        return NULL;
    }
    memcpy(h->prompt, open->prompt, open->n_prompt * sizeof *h->prompt);
    return h;
}

ft_vsession *ft_verifier_open(ft_verifier *verifier, const ft_msg_open *open,
                              const char *credential, const ft_key *key, const ft_vclient *client)
{
    ft_vsession *h = handle_create(verifier, open, credential, key, client);
    if (!h)
        return NULL;
    pthread_mutex_lock(&verifier->lock);
    h->next = verifier->handles;
    if (h->next)
        h->next->prev = h;
    verifier->handles = h;
    queue_event(&h->open_ev, h, EVENT_OPEN);
    pthread_mutex_unlock(&verifier->lock);
    return h;
}

void ft_vsession_draft(ft_vsession *session, const ft_msg_draft *draft)
{
    ft_verifier *v = session->verifier;
    int64_t now_us = ft_clock_now_us(&v->opts.clock);
    draft_slot *slot = NULL;
    pthread_mutex_lock(&v->lock);
    for (int i = 0; i < FT_DRAFT_SLOTS && !slot; i++)
        if (!session->drafts[i].used)
            slot = &session->drafts[i];
    if (slot) {
        slot->used = true;
        slot->seen = false;
        slot->draft = *draft;
        slot->ev.at_us = now_us;
        queue_event(&slot->ev, session, EVENT_DRAFT);
    } else {
        session->flooded = true; /* seen with the drafts that are queued */
    }
    pthread_mutex_unlock(&v->lock);
}

void ft_vsession_close(ft_vsession *session)
{
    ft_verifier *v = session->verifier;
    pthread_mutex_lock(&v->lock);
    if (!session->closed) {
        session->closed = true;
        queue_event(&session->close_ev, session, EVENT_CLOSE);
    }
    pthread_mutex_unlock(&v->lock);
}

void ft_vsession_detach(ft_vsession *session)
{
    if (!session)
        return;
    ft_verifier *v = session->verifier;
    pthread_mutex_lock(&v->lock);
    assert(!session->detached);
    session->detached = true;
    while (session->in_callback && !pthread_equal(pthread_self(), v->thread))
        pthread_cond_wait(&v->changed, &v->lock);
    queue_event(&session->detach_ev, session, EVENT_DETACH);
    pthread_mutex_unlock(&v->lock);
}

void ft_verifier_tick(ft_verifier *verifier)
{
    pthread_mutex_lock(&verifier->lock);
    uint64_t mine = ++verifier->ticks;
    pthread_cond_signal(&verifier->wake);
    while (verifier->ticks_done < mine)
        pthread_cond_wait(&verifier->changed, &verifier->lock);
    pthread_mutex_unlock(&verifier->lock);
}

void ft_verifier_get_stats(ft_verifier *verifier, ft_verifier_stats *out)
{
    pthread_mutex_lock(&verifier->lock);
    *out = verifier->published;
    pthread_mutex_unlock(&verifier->lock);
}

ft_msg_limits ft_verifier_limits(const ft_verifier *v)
{
    return (ft_msg_limits){.max_tree = v->opts.max_tree,
                           .max_context = v->opts.max_context,
                           .session_ttl_s = v->opts.session_ttl_s,
                           .max_top_logprobs = FT_WIRE_TOP_MAX,
                           .early_drafts = true};
}

void ft_verifier_info(ft_verifier *verifier, ft_msg_info *out)
{
    ft_verifier_stats stats;
    ft_verifier_get_stats(verifier, &stats);
    *out = (ft_msg_info){.protocol = FT_PROTOCOL,
                         .version = FT_VERSION,
                         .vocab_fingerprint = verifier->fingerprint,
                         .limits = ft_verifier_limits(verifier),
                         .sessions = stats.sessions,
                         .kv_blocks = stats.kv_blocks,
                         .kv_blocks_free = stats.kv_blocks_free};
    strncpy(out->model, verifier->model_name, sizeof out->model - 1);
}

/* ---- the engine thread ---- */

static void handle_event(ft_verifier *v, const event *ev, int64_t now_us)
{
    ft_vsession *h = ev->handle;
    draft_slot *slot;
    bool flooded;
    switch (ev->kind) {
    case EVENT_OPEN:
        ft_sess_open(v, h, now_us);
        return;
    case EVENT_DRAFT:
        slot = (draft_slot *)((char *)ev - offsetof(draft_slot, ev));
        pthread_mutex_lock(&v->lock);
        flooded = h->flooded;
        pthread_mutex_unlock(&v->lock);
        if (h->session && !slot->seen)
            ft_sess_draft(h->session, &slot->draft, flooded, slot->ev.at_us);
        pthread_mutex_lock(&v->lock);
        slot->used = false;
        pthread_mutex_unlock(&v->lock);
        return;
    case EVENT_CLOSE:
        if (h->session)
            ft_sess_end(h->session, FT_OK, "");
        return;
    case EVENT_DETACH:
        if (h->session)
            ft_sess_detach(h->session, now_us);
        pthread_mutex_lock(&v->lock);
        *(h->prev ? &h->prev->next : &v->handles) = h->next;
        if (h->next)
            h->next->prev = h->prev;
        pthread_mutex_unlock(&v->lock);
        handle_free(h);
    }
}

bool ft_sess_look(ft_sess *s)
{
    ft_vsession *h = s->handle;
    ft_verifier *v = h->verifier;
    for (int i = 0; i < FT_DRAFT_SLOTS; i++) {
        draft_slot *slot = &h->drafts[i];
        pthread_mutex_lock(&v->lock);
        bool early = slot->used && !slot->seen && slot->draft.n_under > 0;
        bool flooded = h->flooded;
        pthread_mutex_unlock(&v->lock);
        if (!early)
            continue;
        slot->seen = true;
        ft_sess_draft(s, &slot->draft, flooded, slot->ev.at_us);
        if (h->session != s)
            return false;
    }
    return true;
}

/* Waits, under the lock, until there is something to do, at most timeout_us (< 0: no limit). */
static void wait_for_events(ft_verifier *v, int64_t timeout_us)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    if (timeout_us > 0) {
        at.tv_sec += (time_t)(timeout_us / 1000000);
        at.tv_nsec += (long)(timeout_us % 1000000 * 1000);
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
    }
    while (!v->stop && !v->queue && v->ticks == v->ticks_done) {
        int rc = timeout_us < 0 ? pthread_cond_wait(&v->wake, &v->lock)
                                : pthread_cond_timedwait(&v->wake, &v->lock, &at);
        if (rc == ETIMEDOUT)
            return;
    }
}

/* Whether some client has a text that is not finished. */
static bool has_open_text(const ft_verifier *v)
{
    for (const ft_sess *s = v->sessions; s; s = s->next)
        if (s->handle && s->finish == FT_FINISH_NONE)
            return true;
    return false;
}

/* Waits for events, and counts the time by whether anybody could have used it. */
static void rest(ft_verifier *v, int64_t timeout_us)
{
    bool open = has_open_text(v);
    int64_t from_us = ft_clock_now_us(&v->opts.clock);
    ft_sessions_rest(v, from_us);
    pthread_mutex_lock(&v->lock);
    wait_for_events(v, timeout_us);
    pthread_mutex_unlock(&v->lock);
    int64_t us = ft_clock_now_us(&v->opts.clock) - from_us;
    v->began_us += us;
    if (open)
        v->stats.idle_us += (uint64_t)us;
}

/* Handles all that is queued. False: the verifier stops. */
static bool handle_events(ft_verifier *v)
{
    pthread_mutex_lock(&v->lock);
    bool stop = v->stop;
    uint64_t ticks = v->ticks;
    event *ev = v->queue;
    v->queue = NULL;
    v->queue_tail = &v->queue;
    pthread_mutex_unlock(&v->lock);
    int64_t now_us = ft_clock_now_us(&v->opts.clock);
    for (event *next; ev; ev = next) {
        next = ev->next; /* handling may free it */
        handle_event(v, ev, now_us);
    }
    if (ticks != v->ticks_done) {
        (void)ft_sessions_expire(v, now_us);
        ft_verifier_publish(v);
        pthread_mutex_lock(&v->lock);
        v->ticks_done = ticks;
        pthread_cond_broadcast(&v->changed);
        pthread_mutex_unlock(&v->lock);
    }
    return !stop;
}

/* Of two waits, < 0: none. */
static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < 0 || (b_us >= 0 && b_us < a_us) ? b_us : a_us;
}

static void *engine_main(void *arg)
{
    ft_verifier *v = arg;
    bool idle = true;
    int64_t wait_us = -1;
    v->began_us = ft_clock_now_us(&v->opts.clock);
    for (;;) {
        if (idle)
            rest(v, wait_us);
        if (!handle_events(v))
            break;
        int64_t look_us;
        idle = !ft_round_run(v, &look_us);
        int64_t now_us = ft_clock_now_us(&v->opts.clock);
        wait_us = sooner(ft_sessions_expire(v, now_us), look_us);
        v->stats.rest_us = (uint64_t)(now_us - v->began_us) - v->stats.forward_us -
                           v->stats.judge_us - v->stats.own_us;
        if (idle)
            ft_verifier_publish(v);
    }
    while (v->sessions)
        ft_sess_end(v->sessions, FT_UNAVAILABLE, "serve: the server is going down");
    ft_verifier_publish(v);
    return NULL;
}

/* ---- life ---- */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

static ft_status fill_opts(ft_verifier *v, const ft_verifier_opts *opts, ft_error *err)
{
    const ft_hparams *hp = ft_model_hparams(opts->model);
    ft_verifier_opts *o = &v->opts;
    *o = *opts;
    if (o->n_slo > FT_SLO_CLASSES)
        return ft_error_set(err, FT_INVALID, "serve: %u classes of token speed, at most %d",
                            o->n_slo, FT_SLO_CLASSES);
    for (uint32_t i = 0; i < o->n_slo; i++)
        if (!isfinite(o->slo_tokens_per_s[i]) || o->slo_tokens_per_s[i] <= 0)
            return ft_error_set(err, FT_INVALID, "serve: %g is no token speed",
                                (double)o->slo_tokens_per_s[i]);
    o->max_tree = or_default(o->max_tree, 64);
    o->max_context = or_default(o->max_context, hp->n_ctx_train);
    if (o->max_context > hp->n_ctx_train) {
        FT_LOGW("serve", "context lowered from=%u to=%u reason=\"the model knows no more\"",
                o->max_context, hp->n_ctx_train);
        o->max_context = hp->n_ctx_train;
    }
    o->max_batch_tok = or_default(o->max_batch_tok, 512);
    o->prefill_budget_us = or_default(o->prefill_budget_us, 50000);
    o->max_sessions = or_default(o->max_sessions, 1024);
    o->static_batch = or_default(o->static_batch, 8);
    o->static_wait_us = or_default(o->static_wait_us, 100000);
    if (o->kv_tok == 0)
        o->kv_tok = o->max_context > UINT32_MAX / 16 ? UINT32_MAX : 16 * o->max_context;
    if (!o->clock.now_us)
        o->clock = ft_clock_monotonic();
    if (o->max_tree > FT_TREE_MAX || o->max_tree + 1 > o->max_batch_tok)
        return ft_error_set(err, FT_INVALID,
                            "serve: trees of %u nodes need a batch of more rows than that (it has "
                            "%u), and %d nodes are the most",
                            o->max_tree, o->max_batch_tok, FT_TREE_MAX);
    /* The longest text with the largest tree must fit in the empty pool. */
    uint32_t spare = o->max_tree + 1 + 2 * FT_KV_BLOCK_TOK;
    if (o->kv_tok < spare + FT_KV_BLOCK_TOK)
        return ft_error_set(err, FT_INVALID,
                            "serve: a KV pool of %u tokens is too small: give at least %u",
                            o->kv_tok, spare + FT_KV_BLOCK_TOK);
    if (o->max_context > o->kv_tok - spare) {
        FT_LOGW("serve", "context lowered from=%u to=%u reason=\"KV pool of %u tokens\"",
                o->max_context, o->kv_tok - spare, o->kv_tok);
        o->max_context = o->kv_tok - spare;
    }
    if ((uint32_t)ft_vocab_size(opts->vocab) != hp->n_vocab)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: vocabulary (%d tokens) and model (%u) are of different files",
                            ft_vocab_size(opts->vocab), hp->n_vocab);
    return FT_OK;
}

static ft_status start(ft_verifier *v, ft_error *err)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&v->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&v->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&v->changed, NULL);
    v->lock_ready = true;
    v->queue_tail = &v->queue;
    ft_verifier_publish(v);
    if (pthread_create(&v->thread, NULL, engine_main, v) != 0)
        return ft_error_set(err, FT_NOMEM, "serve: cannot start the engine thread");
    v->thread_started = true;
    return FT_OK;
}

/* Before the first session: what passes cost is known, and the first of them is no slower than others. */
static ft_status warm(ft_verifier *v, ft_error *err)
{
    ft_warm passes;
    ft_status status = ft_engine_warm(v->engine, &v->opts.clock, err, &passes);
    for (uint32_t i = 0; status == FT_OK && !v->opts.costs && i < passes.n; i++) {
        const ft_pass pass = ft_pass_plus((ft_pass){0}, 0, passes.rows[i], passes.rows[i]);
        ft_cost_observe(&v->cost, &pass, passes.us[i]);
    }
    return status;
}

ft_status ft_verifier_create(const ft_verifier_opts *opts, ft_error *err, ft_verifier **out)
{
    ft_verifier *v = calloc(1, sizeof *v);
    ft_status status;
    *out = NULL;
    if (!v)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory");
    if ((status = fill_opts(v, opts, err)) != FT_OK)
        goto out;
    v->policy = opts->policy ? opts->policy : &ft_sched_fcfs;
    v->model_name = ft_model_name(opts->model);
    v->fingerprint = ft_vocab_fingerprint(opts->vocab);
    v->n_vocab = (uint32_t)ft_vocab_size(opts->vocab);
    memcpy(v->stats.slo_tokens_per_s, opts->slo_tokens_per_s, sizeof v->stats.slo_tokens_per_s);
    v->stats.n_slo = opts->n_slo;
    ft_cost_init(&v->cost);
    if (opts->costs)
        ft_cost_prime(&v->cost, opts->costs->us, opts->costs->most_rows, opts->costs->error);
    const ft_engine_opts engine_opts = {.model = opts->model,
                                        .kv_type = opts->kv_type,
                                        .kv_tok = v->opts.kv_tok,
                                        .max_batch_tok = v->opts.max_batch_tok,
                                        .n_threads = opts->n_threads,
                                        .route = opts->portable_attention ? FT_ATTN_PORTABLE
                                                                          : FT_ATTN_AUTO};
    if ((status = ft_random_bytes(v->tenant_key, sizeof v->tenant_key)) != FT_OK) {
        ft_error_set(err, status, "serve: the kernel has no random bytes");
        goto out;
    }
    if ((status = ft_engine_create(&engine_opts, err, &v->engine)) != FT_OK ||
        (status = warm(v, err)) != FT_OK ||
        (opts->draft_model && (status = ft_own_create(v, err, &v->own)) != FT_OK) ||
        (status = ft_round_init(v, err)) != FT_OK || (status = start(v, err)) != FT_OK)
        goto out;
    *out = v;
    return FT_OK;
out:
    ft_verifier_destroy(v);
    return status;
}

void ft_verifier_destroy(ft_verifier *verifier)
{
    ft_verifier *v = verifier;
    if (!v)
        return;
    if (v->thread_started) {
        pthread_mutex_lock(&v->lock);
        v->stop = true;
        pthread_cond_signal(&v->wake);
        pthread_mutex_unlock(&v->lock);
        pthread_join(v->thread, NULL);
    }
    for (ft_vsession *h = v->handles, *next; h; h = next) {
        next = h->next;
        handle_free(h);
    }
    if (v->lock_ready) {
        pthread_cond_destroy(&v->changed);
        pthread_cond_destroy(&v->wake);
        pthread_mutex_destroy(&v->lock);
    }
    ft_round_deinit(v);
    ft_own_destroy(v->own);
    ft_engine_destroy(v->engine);
    free(v->key_counts);
    free(v);
}
