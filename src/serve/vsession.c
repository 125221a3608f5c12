// SPDX-License-Identifier: Apache-2.0
// Sessions: handshake, open and resume, acceptance of drafts, detach, expiry, end. States and
// invariants: serve/internal.h. Owned by the engine thread. Does not run the model (round.c) and does
// not queue (verifier.c).
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/secret.h"
#include "serve/internal.h"

sess_state ft_sess_state(const ft_sess *s)
{
    if (s->finish != FT_FINISH_NONE)
        return SESS_ENDED;
    if (!s->handle)
        return SESS_DETACHED;
    if (s->pending)
        return SESS_WAITING;
    return s->want_kv && ft_sess_missing(s) > 0 ? SESS_PREFILL : SESS_IDLE;
}

uint32_t ft_sess_missing(const ft_sess *s)
{
    return s->len - 1 - ft_seq_n_past(s->seq);
}

void ft_sess_check(const ft_sess *s)
{
#ifdef FT_DEBUG_CHECKS
    assert(s->len >= 1 && s->len <= s->max_len);
    assert(ft_seq_n_pending(s->seq) == 0);
    assert(ft_seq_n_past(s->seq) <= s->len - 1);
    assert(!s->handle || s->handle->session == s);
    assert(!s->pending || (s->handle && s->finish == FT_FINISH_NONE));
    assert(!s->pending || (s->base == s->len && s->round == s->last.round + !s->last.more));
    assert(!s->pending || s->tree.n == 0 || s->run_end == 0 || s->verifier->own);
    assert(!s->pending || s->run_end == 0 || s->len < s->run_end);
    assert(!s->ahead.kept || (s->pending && s->run_end > 0));
    assert(s->early.n == 0 || (s->pending && s->n_drafted > 0));
    assert(s->finish == FT_FINISH_NONE || ft_seq_n_past(s->seq) == 0);
    assert(s->last.round == 0 || s->last.length == s->len);
#else
    (void)s;
#endif
}

/* ---- the handshake ---- */

static ft_status check_handshake(const ft_verifier *v, const ft_msg_open *o, ft_error *err)
{
    if (o->protocol != FT_PROTOCOL)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: protocol %u is not the server's (%d): update the older side",
                            o->protocol, FT_PROTOCOL);
    if (o->vocab_fingerprint != 0 && o->vocab_fingerprint != v->fingerprint)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: draft vocabulary is not the server's (%u tokens, fingerprint "
                            "%016llx): use a draft of the same family",
                            v->n_vocab, (unsigned long long)v->fingerprint);
    if (o->model[0] && strncmp(o->model, v->model_name, sizeof o->model - 1) != 0)
        return ft_error_set(err, FT_NOT_FOUND, "serve: model '%.100s' is not served, '%.100s' is",
                            o->model, v->model_name);
    if (o->rule != 0)
        return ft_error_set(err, FT_UNSUPPORTED, "serve: rule %u is unknown: use 0 (exact)",
                            o->rule);
    return FT_OK;
}

/* The wire's form of the sampling as ours: top_p 0 means off. */
static ft_status check_sampling(const ft_msg_sampling *m, ft_error *err, ft_sampling *out)
{
    if (m->top_k > INT_MAX)
        return ft_error_set(err, FT_INVALID, "serve: top_k %u is too large", m->top_k);
    *out = (ft_sampling){.temperature = m->temperature,
                         .top_k = (int32_t)m->top_k,
                         .top_p = m->top_p == 0 ? 1 : m->top_p,
                         .min_p = m->min_p,
                         .seed = m->seed};
    return ft_sampling_check(out, err);
}

static ft_status check_prompt(const ft_verifier *v, const ft_msg_open *o, const int32_t *prompt,
                              ft_error *err)
{
    if (o->n_prompt == 0)
        return ft_error_set(err, FT_INVALID, "serve: the prompt is empty");
    if (o->n_prompt >= v->opts.max_context)
        return ft_error_set(err, FT_TOO_LARGE,
                            "serve: a prompt of %u tokens leaves no room in the context of %u",
                            o->n_prompt, v->opts.max_context);
    for (uint32_t i = 0; i < o->n_prompt; i++)
        if (prompt[i] < 0 || (uint32_t)prompt[i] >= v->n_vocab)
            return ft_error_set(err, FT_INVALID, "serve: prompt[%u] is no token of the vocabulary",
                                i);
    return FT_OK;
}

static ft_status check_open(const ft_verifier *v, const ft_msg_open *o, const int32_t *prompt,
                            ft_error *err, ft_sampling *sampling)
{
    ft_status status = check_sampling(&o->sampling, err, sampling);
    if (status == FT_OK)
        status = check_prompt(v, o, prompt, err);
    if (status == FT_OK && (!isfinite(o->slo_tokens_per_s) || o->slo_tokens_per_s < 0))
        status = ft_error_set(err, FT_INVALID, "serve: slo_tokens_per_s is no rate");
    if (status == FT_OK && o->top_logprobs > FT_WIRE_TOP_MAX)
        status = ft_error_set(err, FT_INVALID, "serve: top_logprobs %u is above %d",
                              o->top_logprobs, FT_WIRE_TOP_MAX);
    return status;
}

/* ---- opening ---- */

static void link_session(ft_verifier *v, ft_sess *s)
{
    s->prev = v->sessions_tail;
    *(s->prev ? &s->prev->next : &v->sessions) = s;
    v->sessions_tail = s;
    v->stats.sessions++;
    v->stats.sessions_opened++;
}

void ft_sess_free(ft_sess *s)
{
    if (!s)
        return;
    ft_own_drop(s);
    ft_slo_leave(s);
    ft_seq_destroy(s->seq);
    free(s->text);
    free(s->credential);
    free(s->logprobs);
    free(s);
}

static void unlink_session(ft_sess *s)
{
    ft_verifier *v = s->verifier;
    *(s->prev ? &s->prev->next : &v->sessions) = s->next;
    *(s->next ? &s->next->prev : &v->sessions_tail) = s->prev;
    ft_keys_count_gone(s);
    v->stats.sessions--;
    v->stats.sessions_detached -= !s->handle;
    v->stats.sessions_gone++;
}

void ft_sess_end(ft_sess *s, ft_status code, const char *message)
{
    ft_vsession *handle = s->handle;
    FT_LOGI("serve", "session=%llu gone status=%s length=%u rounds=%u",
            (unsigned long long)s->serial, ft_status_name(code), s->len, s->last.round);
    unlink_session(s);
    ft_sess_free(s);
    if (handle) {
        handle->session = NULL;
        ft_handle_gone(handle, code, message, 0);
    }
}

/* Room for one more session, at the cost of the one that is detached longest: of all, or, where the key
 * has all that it may have, of the key's. */
static ft_status find_room(const ft_verifier *v, const ft_key *key, ft_error *err,
                           ft_sess **gives_way)
{
    const bool key_full = ft_keys_full(v, key);
    *gives_way = NULL;
    if (!key_full && v->stats.sessions < v->opts.max_sessions)
        return FT_OK;
    for (ft_sess *s = v->sessions; s; s = s->next)
        if (!s->handle && (!key_full || strcmp(s->key.name, key->name) == 0) &&
            (!*gives_way || s->detached_at_us < (*gives_way)->detached_at_us))
            *gives_way = s;
    if (*gives_way)
        return FT_OK;
    if (key_full)
        return ft_error_set(err, FT_EXHAUSTED,
                            "serve: all %u sessions of key '%s' are taken: try again later",
                            key->sessions, key->name);
    return ft_error_set(err, FT_EXHAUSTED, "serve: all %u sessions are taken: try again later",
                        v->opts.max_sessions);
}

static ft_status admit(ft_verifier *v, const ft_msg_open *o, const ft_key *key, ft_error *err)
{
    ft_sess *oldest = NULL;
    ft_status status = key->name[0] ? ft_keys_check_speed(v, key, o->slo_tokens_per_s, err) : FT_OK;
    if (status == FT_OK)
        status = find_room(v, key, err, &oldest);
    if (status == FT_OK)
        status = ft_kv_admit(v, o->n_prompt, err);
    if (status == FT_OK)
        status = ft_slo_admit(v, o->slo_tokens_per_s, err);
    if (status == FT_OK && oldest)
        ft_sess_end(oldest, FT_ABORTED, "");
    return status;
}

static ft_status create(ft_verifier *v, ft_vsession *h, int64_t now_us, ft_error *err,
                        ft_sess **out)
{
    const ft_msg_open *o = &h->open;
    ft_status status = FT_NOMEM;
    ft_sess *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        goto out;
    s->verifier = v;
    s->key = h->key;
    s->credential = strdup(h->credential);
    if (o->logprobs)
        s->logprobs = calloc(v->opts.max_tree + 1, sizeof *s->logprobs);
    if (!s->credential || (o->logprobs && !s->logprobs))
        goto out;
    ft_slo_init(s, o->slo_tokens_per_s);
    if ((status = ft_slo_join(s, err)) != FT_OK ||
        (status = ft_seq_create(v->engine, err, &s->seq)) != FT_OK ||
        (status = ft_random_bytes(&s->id, sizeof s->id)) != FT_OK ||
        (status = ft_random_bytes(&s->secret, sizeof s->secret)) != FT_OK)
        goto out;
    s->len = s->n_prompt = o->n_prompt;
    s->max_len = v->opts.max_context;
    if (o->max_tokens > 0 && o->max_tokens < s->max_len - s->len)
        s->max_len = s->len + o->max_tokens;
    status = FT_NOMEM;
    if (!(s->text = realloc(h->prompt, s->max_len * sizeof *s->text)))
        goto out;
    h->prompt = NULL;
    ft_seq_set_tenant(s->seq, ft_kv_tenant(v, s->credential));
    s->n_top = o->logprobs ? o->top_logprobs : 0;
    s->want_kv = true;
    s->waits_at_us = s->used_at_us = now_us;
    s->serial = ++v->next_serial;
    *out = s;
    return FT_OK;
out:
    ft_sess_free(s);
    return err->code != FT_OK ? status : ft_error_set(err, status, "serve: no room for a session");
}

static void attach(ft_sess *s, ft_vsession *h)
{
    ft_verifier *v = s->verifier;
    if (s->finish == FT_FINISH_NONE)
        ft_kv_attach(s);
    ft_msg_opened opened = {.session = s->id,
                            .secret = s->secret,
                            .cached_tokens = ft_seq_n_past(s->seq),
                            .length = s->len,
                            .last_round = s->last.round,
                            .limits = ft_verifier_limits(v)};
    strncpy(opened.model, v->model_name, sizeof opened.model - 1);
    s->handle = h;
    h->session = s;
    ft_sess_check(s);
    ft_handle_opened(h, &opened);
}

/* NULL unless id, secret and credential are all right; what is wrong shows in no time. */
static ft_sess *find(ft_verifier *v, const ft_msg_open *o, const char *credential)
{
    for (ft_sess *s = v->sessions; s; s = s->next) {
        bool id = ft_secret_equal(&s->id, &o->session, sizeof s->id);
        bool secret = ft_secret_equal(&s->secret, &o->secret, sizeof s->secret);
        bool same = ft_secret_equal_str(s->credential, credential);
        if (id & secret & same)
            return s;
    }
    return NULL;
}

/* Its edge is at another length than it could ever go on from, and opens the text anew: nobody needs it any
 * more, nor what it goes on computing for a stream that the edge has given up. */
static ft_status give_up(ft_sess *s, uint32_t base, ft_error *err)
{
    ft_error_set(err, FT_PRECONDITION,
                 "serve: the session had %u tokens, not %u: open again with the text so far",
                 s->len, base);
    ft_sess_end(s, FT_ABORTED, "serve: the session's edge opens its text anew");
    return FT_PRECONDITION;
}

static ft_status resume(ft_verifier *v, ft_vsession *h, int64_t now_us, ft_error *err)
{
    ft_sess *s = find(v, &h->open, h->credential);
    if (!s)
        return ft_error_set(err, FT_NOT_FOUND,
                            "serve: session unknown: open again with the text so far");
    if (h->open.base != s->len && !ft_sess_recorded(s, s->last.round, h->open.base))
        return give_up(s, h->open.base, err);
    FT_LOGI("serve", "session=%llu resumed length=%u takeover=%d", (unsigned long long)s->serial,
            s->len, s->handle != NULL);
    if (s->handle) {
        ft_vsession *old = s->handle;
        old->session = NULL;
        s->handle = NULL;
        ft_sess_withdraw(s);
        ft_handle_gone(old, FT_ABORTED, "serve: the session was resumed on another stream", 0);
    } else {
        v->stats.sessions_detached--;
    }
    s->want_kv = s->finish == FT_FINISH_NONE;
    s->waits_at_us = s->used_at_us = now_us;
    attach(s, h);
    return FT_OK;
}

static ft_status open_new(ft_verifier *v, ft_vsession *h, int64_t now_us, ft_error *err)
{
    ft_sampling sampling;
    ft_sess *s = NULL;
    ft_status status = check_open(v, &h->open, h->prompt, err, &sampling);
    if (status == FT_OK)
        status = admit(v, &h->open, &h->key, err);
    if (status == FT_OK)
        status = create(v, h, now_us, err, &s);
    if (status != FT_OK)
        return status;
    s->sampling = sampling;
    link_session(v, s);
    ft_keys_count_opened(s);
    FT_LOGI("serve", "session=%llu opened prompt_tok=%u max_tok=%u key=%s",
            (unsigned long long)s->serial, s->n_prompt, s->max_len - s->n_prompt,
            s->key.name[0] ? s->key.name : "none");
    attach(s, h);
    return FT_OK;
}

void ft_sess_open(ft_verifier *v, ft_vsession *handle, int64_t now_us)
{
    ft_error err = {0};
    ft_status status = check_handshake(v, &handle->open, &err);
    if (status == FT_OK)
        status = handle->open.resume ? resume(v, handle, now_us, &err)
                                     : open_new(v, handle, now_us, &err);
    free(handle->prompt);
    handle->prompt = NULL;
    if (status != FT_OK) {
        FT_LOGI("serve", "open refused status=%s key=%s", ft_status_name(status),
                handle->key.name[0] ? handle->key.name : "none");
        ft_keys_count_refused(v, &handle->key, status);
        v->stats.sessions_refused += status == FT_EXHAUSTED;
        ft_handle_gone(handle, status, err.message, status == FT_EXHAUSTED ? FT_RETRY_AFTER_MS : 0);
    }
}

/* ---- detached sessions ---- */

void ft_sess_detach(ft_sess *s, int64_t now_us)
{
    FT_LOGI("serve", "session=%llu detached length=%u", (unsigned long long)s->serial, s->len);
    s->handle->session = NULL;
    s->handle = NULL;
    ft_sess_withdraw(s);
    ft_own_drop(s);
    s->want_kv = false;
    s->detached_at_us = now_us;
    s->verifier->stats.sessions_detached++;
    ft_sess_check(s);
}

int64_t ft_sessions_expire(ft_verifier *v, int64_t now_us)
{
    int64_t ttl_us = (int64_t)v->opts.session_ttl_s * 1000000, next = -1;
    for (ft_sess *s = v->sessions, *after; s; s = after) {
        after = s->next;
        if (s->handle)
            continue;
        int64_t left = s->detached_at_us + ttl_us - now_us;
        if (left <= 0)
            ft_sess_end(s, FT_TIMEOUT, "");
        else if (next < 0 || left < next)
            next = left;
    }
    return next;
}
