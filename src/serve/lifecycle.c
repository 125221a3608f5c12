// SPDX-License-Identifier: Apache-2.0
// The life of a session: handshake, open, resume, detach, expiry and end. serve/session.h describes
// the states. The engine thread owns all of this. This file does not run the model (pass.c) and
// does not queue the calls of clients (handle.c).
#include "serve/lifecycle.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/secret.h"
#include "sched/evict.h"
#include "serve/answers.h"
#include "serve/batch.h"
#include "serve/drafts.h"
#include "serve/keys.h"
#include "serve/kv_room.h"
#include "serve/own_draft.h"
#include "serve/slo.h"

/* Sent if the cause of a refusal or of a lost stream goes away by itself. */
#define RETRY_AFTER_MS 1000

/* ---- the handshake ---- */

static ft_status check_handshake(const ft_verifier *v, const ft_msg_open *o, ft_error *err)
{
    if (o->protocol != FT_PROTOCOL)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: the client speaks protocol %u, the server %d: update the older",
                            o->protocol, FT_PROTOCOL);
    if (o->vocab_fingerprint != 0 && o->vocab_fingerprint != v->model.fingerprint)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: the draft's vocabulary is not the server's (%u tokens, "
                            "fingerprint %016llx): use a draft of the same family",
                            v->model.n_vocab, (unsigned long long)v->model.fingerprint);
    if (o->model[0] && strncmp(o->model, v->model.name, sizeof o->model - 1) != 0)
        return ft_error_set(err, FT_NOT_FOUND,
                            "serve: model '%.100s' is not served here: ask for '%.100s'", o->model,
                            v->model.name);
    if (o->target != 0 && o->target != v->model.target)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: the text must come from target %016llx, and this one is "
                            "%016llx: its weights or what computes with them differ",
                            (unsigned long long)o->target, (unsigned long long)v->model.target);
    const ft_rule *rule;
    return ft_rules_choose(v->opts.rules, o->rule, err, &rule);
}

/* Converts the wire's sampling into ours: top_p 0 means off. */
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

static ft_status check_prompt(const ft_verifier *v, const ft_msg_open *o, ft_error *err)
{
    if (o->n_prompt == 0)
        return ft_error_set(err, FT_INVALID, "serve: the prompt is empty");
    if (o->n_prompt >= v->opts.max_context)
        return ft_error_set(err, FT_TOO_LARGE,
                            "serve: a prompt of %u tokens leaves no room in the context of %u",
                            o->n_prompt, v->opts.max_context);
    for (uint32_t i = 0; i < o->n_prompt; i++)
        if (o->prompt[i] < 0 || (uint32_t)o->prompt[i] >= v->model.n_vocab)
            return ft_error_set(err, FT_INVALID, "serve: prompt[%u]: token not in the vocabulary",
                                i);
    return FT_OK;
}

static ft_status check_open(const ft_verifier *v, const ft_msg_open *o, ft_error *err,
                            ft_sampling *sampling)
{
    ft_status status = check_sampling(&o->sampling, err, sampling);
    if (status == FT_OK)
        status = check_prompt(v, o, err);
    if (status == FT_OK)
        status = ft_penalties_check(&o->penalties, v->model.n_vocab, err);
    if (status == FT_OK && o->n_answer > o->n_prompt)
        status = ft_error_set(err, FT_INVALID, "serve: an answer of %u tokens in a prompt of %u",
                              o->n_answer, o->n_prompt);
    if (status == FT_OK && (!isfinite(o->slo_tokens_per_s) || o->slo_tokens_per_s < 0))
        status = ft_error_set(err, FT_INVALID, "serve: slo_tokens_per_s is not a valid speed");
    if (status == FT_OK && o->top_logprobs > FT_WIRE_TOP_MAX)
        status = ft_error_set(err, FT_INVALID, "serve: top_logprobs %u is above %d",
                              o->top_logprobs, FT_WIRE_TOP_MAX);
    return status;
}

/* ---- opening ---- */

static void destroy(ft_sess *s)
{
    if (!s)
        return;
    ft_own_drop(s);
    ft_matcher_destroy(s->asked.matcher);
    ft_round_settle(&s->round);
    ft_slo_leave(s);
    ft_seq_destroy(s->kv.seq);
    ft_sess_text_deinit(&s->text);
    free(s->asked.logprobs);
    free(s);
}

static void leave(ft_sess *s)
{
    ft_verifier *v = s->verifier;
    ft_sess_unlink(&v->sessions, s);
    ft_quota_give_back(&v->places, &s->who.client);
    ft_keys_count_gone(s);
    v->stats.sessions--;
    v->stats.class_sessions[s->slo.class]--;
    v->stats.sessions_detached -= !s->handle;
    v->stats.sessions_gone++;
}

void ft_sess_end(ft_sess *s, ft_status code, const char *message)
{
    ft_vsession *handle = s->handle;
    FT_LOGI("serve", "session=%llu gone status=%s length=%u rounds=%u%s%s%s",
            (unsigned long long)s->who.serial, ft_status_name(code), s->text.len, s->record.round,
            *message ? " reason=\"" : "", message, *message ? "\"" : "");
    ft_verifier *v = s->verifier;
    leave(s);
    destroy(s);
    if (handle) {
        handle->session = NULL;
        ft_answer_gone(v, handle, code, message, 0);
    }
}

/* Looks for room for one more session. If there is none, *gives_way is the session that must end:
 * the one that has been detached longest. If the key has all the sessions that it allows, or the
 * client has its share, only their own detached sessions may give way; otherwise any detached one
 * may. FT_EXHAUSTED: none can. */
static ft_status find_room(const ft_verifier *v, const ft_client_id *client, const ft_key *key,
                           ft_error *err, ft_sess **gives_way)
{
    const bool key_full = ft_keys_full(v, key);
    const ft_quota_room room = ft_quota_look(&v->places, client);
    *gives_way = NULL;
    if (!key_full && room == FT_QUOTA_ROOM)
        return FT_OK;
    ft_holder first;
    for (ft_sess *s = v->sessions.first; s; s = s->next) {
        const ft_holder holder = {.kind = FT_HOLDER_DETACHED, .since_us = s->times.detached_us};
        if (s->handle || (key_full && strcmp(s->who.key.name, key->name) != 0) ||
            (room == FT_QUOTA_SHARE && !ft_client_same(&s->who.client, client)) ||
            (*gives_way && !ft_evict_before(&holder, &first)))
            continue;
        *gives_way = s;
        first = holder;
    }
    if (*gives_way)
        return FT_OK;
    if (key_full)
        return ft_error_set(err, FT_EXHAUSTED,
                            "serve: all %u sessions of key '%s' are in use: try again later",
                            key->sessions, key->name);
    return ft_quota_refuse(&v->places, client, room, err);
}

static ft_status admit(ft_verifier *v, const ft_opening *opening, const ft_client_id *client,
                       int64_t now_us, ft_error *err)
{
    const ft_msg_open *o = &opening->open;
    const ft_key *key = &opening->key;
    ft_sess *oldest = NULL;
    ft_status status = key->name[0] ? ft_keys_check_speed(v, key, o->slo_tokens_per_s, err) : FT_OK;
    if (status == FT_OK)
        status = find_room(v, client, key, err, &oldest);
    if (status == FT_OK)
        status = ft_kv_admit(v, opening->credential, o->n_prompt, err);
    if (status == FT_OK)
        status = ft_slo_admit(v, o->slo_tokens_per_s, o->n_prompt, now_us, err);
    if (status == FT_OK && oldest)
        ft_sess_end(oldest, FT_ABORTED, "");
    return status;
}

/* Writes what the client asked for into an all-zero session. */
static ft_status set_asked(ft_sess *s, const ft_opening *opening, ft_error *err)
{
    const ft_verifier *v = s->verifier;
    const ft_msg_open *o = &opening->open;
    uint32_t max_len = v->opts.max_context;
    if (o->max_tokens > 0 && o->max_tokens < max_len - o->n_prompt)
        max_len = o->n_prompt + o->max_tokens;
    if (o->logprobs)
        s->asked.logprobs = calloc(v->opts.max_tree + 1, sizeof *s->asked.logprobs);
    if ((o->logprobs && !s->asked.logprobs) ||
        ft_sess_text_init(&s->text, o->prompt, o->n_prompt, max_len) != FT_OK)
        return ft_error_set(err, FT_NOMEM, "serve: no room for a session");
    s->asked.n_top = o->logprobs ? o->top_logprobs : 0;
    s->asked.no_drafts = o->no_drafts;
    s->who.key = opening->key;
    s->who.has_nonce = o->has_nonce;
    s->who.nonce = o->nonce;
    ft_slo_init(s, o->slo_tokens_per_s, opening->at_us);
    return ft_slo_join(s, opening->credential, err);
}

static ft_status create(ft_verifier *v, const ft_opening *opening, int64_t now_us, ft_error *err,
                        ft_sess **out)
{
    ft_sess *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return ft_error_set(err, FT_NOMEM, "serve: no room for a session");
    s->verifier = v;
    ft_status status = set_asked(s, opening, err);
    if (status == FT_OK)
        status = ft_seq_create(v->engine, err, &s->kv.seq);
    if (status == FT_OK &&
        ((status = ft_random_bytes(&s->who.id, sizeof s->who.id)) != FT_OK ||
         (status = ft_random_bytes(&s->who.secret, sizeof s->who.secret)) != FT_OK))
        ft_error_set(err, status, "serve: no room for a session");
    if (status != FT_OK) {
        destroy(s);
        return status;
    }
    ft_seq_set_scope(s->kv.seq, ft_kv_scope(v, opening->credential));
    s->kv.want = true;
    s->times.waits_us = s->times.used_us = now_us;
    s->who.serial = ++v->sessions.next_serial;
    *out = s;
    return FT_OK;
}

ft_msg_limits ft_sess_limits(const ft_verifier *v)
{
    ft_msg_limits limits = {.max_tree = v->opts.max_tree,
                            .max_context = v->opts.max_context,
                            .session_ttl_s = v->opts.session_ttl_s,
                            .max_top_logprobs = FT_WIRE_TOP_MAX,
                            .early_drafts = true,
                            .penalties = true,
                            .constraints = v->grammars != NULL};
    ft_rules_tell(v->opts.rules, v->model.n_vocab, &limits);
    return limits;
}

static void attach(ft_sess *s, ft_vsession *h, int64_t now_us)
{
    ft_verifier *v = s->verifier;
    const int64_t queue_us = now_us - h->opening->at_us;
    if (s->text.finish == FT_FINISH_NONE)
        ft_kv_attach(s);
    v->answer = (ft_server_msg){.kind = FT_SERVER_OPENED,
                                .opened = {.session = s->who.id,
                                           .secret = s->who.secret,
                                           .cached_tokens = ft_seq_n_past(s->kv.seq),
                                           .length = s->text.len,
                                           .last_round = s->record.round,
                                           .target = v->model.target,
                                           .queue_us = queue_us > 1 ? (uint32_t)queue_us : 1,
                                           .limits = ft_sess_limits(v),
                                           .hints = ft_sess_batch_hints(s)}};
    strncpy(v->answer.opened.model, v->model.name, sizeof v->answer.opened.model - 1);
    s->record.repeats = 0;
    s->handle = h;
    h->session = s;
    ft_sess_check(s);
    ft_answer(v, h);
}

/* The session that the client wants to resume. NULL: id, secret or credential is wrong. The time
 * that a comparison takes does not tell which of the three is wrong. */
static ft_sess *find(ft_verifier *v, const ft_msg_open *o, const char *credential)
{
    for (ft_sess *s = v->sessions.first; s; s = s->next) {
        bool id = ft_secret_equal(&s->who.id, &o->session, sizeof s->who.id);
        bool secret = ft_secret_equal(&s->who.secret, &o->secret, sizeof s->who.secret);
        bool same = ft_secret_equal_str(ft_slo_credential(s), credential);
        if (id & secret & same)
            return s;
    }
    return NULL;
}

/* Refuses a resume because the session cannot go on from the length of the edge's text. The edge
 * then opens a new session with its text, and nobody needs this session any more. So the session
 * ends at once. It computes nothing more for a stream that the edge has given up. */
static ft_status give_up(ft_sess *s, uint32_t base, ft_error *err)
{
    ft_error_set(err, FT_PRECONDITION,
                 "serve: the session has %u tokens, not %u: open again with the text so far",
                 s->text.len, base);
    ft_sess_end(s, FT_ABORTED, "serve: the session's edge opens its text anew");
    return FT_PRECONDITION;
}

static ft_status resume(ft_verifier *v, ft_vsession *h, int64_t now_us, ft_error *err)
{
    const ft_msg_open *o = &h->opening->open;
    ft_sess *s = find(v, o, h->opening->credential);
    if (!s)
        return ft_error_set(err, FT_NOT_FOUND,
                            "serve: session unknown: open again with the text so far");
    const ft_rule *rule = s->asked.rule.rule;
    if (o->rule != rule->id)
        return ft_error_set(err, FT_INVALID,
                            "serve: the session was opened with rule %u (%s), not with rule %u: "
                            "resume it with its own",
                            rule->id, rule->name, o->rule);
    if (o->base != s->text.len && !ft_sess_record_holds(&s->record, s->record.round, o->base))
        return give_up(s, o->base, err);
    if (!s->handle && s->text.finish == FT_FINISH_NONE &&
        ft_kv_admit(v, ft_slo_credential(s), s->text.len, err) != FT_OK)
        return FT_EXHAUSTED; /* it stays detached */
    FT_LOGI("serve", "session=%llu resumed length=%u takeover=%d",
            (unsigned long long)s->who.serial, s->text.len, s->handle != NULL);
    if (s->handle) {
        ft_vsession *old = s->handle;
        old->session = NULL;
        s->handle = NULL;
        ft_draft_withdraw(s);
        ft_answer_gone(v, old, FT_ABORTED, "serve: the session was resumed on another stream", 0);
    } else {
        v->stats.sessions_detached--;
    }
    s->kv.want = s->text.finish == FT_FINISH_NONE;
    s->times.waits_us = s->times.used_us = now_us;
    attach(s, h, now_us);
    return FT_OK;
}

/* Ends the session that an earlier Open of this text made: a proxy may have sent the Open again, or
 * the edge has never seen its answer. An edge that still has the stream opens its text anew. */
static void end_earlier(ft_verifier *v, const ft_msg_open *o, const char *credential)
{
    for (ft_sess *s = v->sessions.first, *after; s && o->has_nonce; s = after) {
        after = s->next;
        const bool text = ft_secret_equal(&s->who.nonce, &o->nonce, sizeof s->who.nonce);
        if (s->who.has_nonce && (text & ft_secret_equal_str(ft_slo_credential(s), credential)))
            ft_sess_end(s, FT_UNAVAILABLE, "serve: this text was opened again");
    }
}

/* The constraint's matcher, behind the answer's tokens; NULL: there is no constraint, or with
 * *later it is still being compiled. FT_ABORTED: it is not to be had now; the server takes other
 * texts, so the edge tells its client instead of trying again. */
static ft_status match(ft_verifier *v, ft_vsession *h, int64_t now_us, ft_error *err, bool *later,
                       ft_matcher **out)
{
    const ft_opening *opening = h->opening;
    const ft_msg_open *o = &opening->open;
    ft_grammar *grammar;
    *out = NULL;
    if (o->constraint.kind == FT_CONSTRAINT_NONE)
        return FT_OK;
    if (!v->grammars)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: this server was built without constraints (JSON, grammars)");
    if (o->rule != ft_rule_exact.id)
        return ft_error_set(err, FT_INVALID, "serve: a constraint needs rule %s",
                            ft_rule_exact.name);
    ft_handle_wait(h); /* first: it may be compiled before ft_grammars_get returns */
    const char *tenant = ft_client_name(&h->client.asks);
    ft_status status = ft_grammars_get(v->grammars, &o->constraint, tenant, err, &grammar);
    if (status == FT_EXHAUSTED)
        return err->code = FT_ABORTED;
    if (status != FT_OK)
        return status;
    *later = !grammar;
    if (*later && now_us - opening->at_us >= ft_opening_wait_us(opening))
        return ft_error_set(err, FT_ABORTED,
                            "serve: the constraint takes over %d s to compile: make it smaller, or "
                            "try again later",
                            (int)(ft_opening_wait_us(opening) / 1000000));
    if (*later)
        return FT_OK;
    status = ft_matcher_create(grammar, err, out);
    ft_grammar_unref(grammar);
    if (status != FT_OK ||
        ft_matcher_follow(*out, o->prompt + o->n_prompt - o->n_answer, o->n_answer, NULL, 0))
        return status;
    status = ft_matcher_status(*out, err);
    ft_matcher_destroy(*out);
    *out = NULL;
    return status != FT_OK ? status
                           : ft_error_set(err, FT_INVALID,
                                          "serve: the answer so far does not fit the constraint");
}

static ft_status open_new(ft_verifier *v, ft_vsession *h, int64_t now_us, ft_error *err,
                          bool *later)
{
    ft_sampling sampling;
    ft_sess *s = NULL;
    ft_matcher *matcher = NULL;
    const ft_opening *opening = h->opening;
    ft_status status = check_open(v, &opening->open, err, &sampling);
    if (status == FT_OK)
        status = match(v, h, now_us, err, later, &matcher);
    if (status != FT_OK || *later)
        return status;
    end_earlier(v, &opening->open, opening->credential);
    if ((status = admit(v, opening, &h->client.id, now_us, err)) == FT_OK)
        status = create(v, opening, now_us, err, &s);
    if (status != FT_OK) {
        ft_matcher_destroy(matcher);
        return status;
    }
    s->asked.sampling = sampling;
    s->asked.sampling.matcher = s->asked.matcher = matcher;
    s->asked.penalties = opening->open.penalties;
    if (ft_penalties_any(&s->asked.penalties))
        s->asked.sampling.penalties = &s->asked.penalties;
    s->asked.sampling.answer_at = opening->open.n_prompt - opening->open.n_answer;
    s->asked.rule.rule = ft_rule_find(v->opts.rules, opening->open.rule);
    s->asked.rule.terms =
        s->asked.rule.rule->terms(s->asked.rule.rule, v->model.n_vocab, &sampling);
    ft_sess_link(&v->sessions, s);
    s->who.client = h->client.id;
    ft_quota_add(&v->places, &s->who.client);
    v->stats.sessions++;
    v->stats.class_sessions[s->slo.class]++;
    v->stats.sessions_opened++;
    ft_keys_count_opened(s);
    FT_LOGI("serve", "session=%llu opened prompt_tok=%u max_tok=%u key=%s",
            (unsigned long long)s->who.serial, s->text.n_prompt, s->text.max_len - s->text.n_prompt,
            s->who.key.name[0] ? s->who.key.name : "none");
    attach(s, h, now_us);
    return FT_OK;
}

/* Whether the cause of a refusal can go away by itself. */
static bool passes(ft_status status)
{
    return status == FT_EXHAUSTED || status == FT_NOMEM || status == FT_UNAVAILABLE ||
           status == FT_ABORTED;
}

void ft_sess_open(ft_verifier *v, ft_vsession *handle, int64_t now_us)
{
    const ft_opening *opening = handle->opening;
    ft_error err = {0};
    ft_status status = v->failing
                           ? ft_error_set(&err, FT_UNAVAILABLE, "%s", v->published.failure.message)
                           : check_handshake(v, &opening->open, &err);
    bool later = false;
    if (status == FT_OK)
        status = opening->open.resume ? resume(v, handle, now_us, &err)
                                      : open_new(v, handle, now_us, &err, &later);
    if (status == FT_OK && later)
        return;
    if (status != FT_OK) {
        FT_LOGI("serve", "open refused status=%s key=%s", ft_status_name(status),
                opening->key.name[0] ? opening->key.name : "none");
        ft_keys_count_refused(v, &opening->key, status);
        v->stats.sessions_refused += status == FT_EXHAUSTED;
        ft_answer_gone(v, handle, status, err.message, passes(status) ? RETRY_AFTER_MS : 0);
    }
    ft_handle_drop_opening(handle);
}

/* ---- drafts ---- */

bool ft_sess_draft(ft_sess *s, const ft_mail *mail, bool flooded)
{
    ft_error err = {0};
    ft_status status = ft_draft_take(s, mail->msg, flooded, mail->at_us, &err);
    if (status == FT_NOMEM)
        ft_sess_cut(s, err.message, mail->at_us);
    else if (status != FT_OK)
        ft_sess_end(s, status, err.message);
    return status == FT_OK;
}

/* ---- sessions without a stream, or without a sign of life ---- */

void ft_sess_detach(ft_sess *s, int64_t now_us)
{
    FT_LOGI("serve", "session=%llu detached length=%u", (unsigned long long)s->who.serial,
            s->text.len);
    s->handle->session = NULL;
    s->handle = NULL;
    ft_draft_withdraw(s);
    ft_own_drop(s);
    s->kv.want = false;
    s->times.detached_us = now_us;
    s->verifier->stats.sessions_detached++;
    ft_sess_check(s);
}

void ft_sess_cut(ft_sess *s, const char *message, int64_t now_us)
{
    ft_vsession *handle = s->handle;
    ft_seq_truncate(s->kv.seq, ft_seq_n_past(s->kv.seq)); /* of a pass that gives no verdict */
    ft_sess_detach(s, now_us);
    ft_answer_gone(s->verifier, handle, FT_UNAVAILABLE, message, RETRY_AFTER_MS);
}

/* Ends the stream of a session whose client has been silent for too long. */
static void put_away(ft_sess *s, int64_t now_us)
{
    const ft_verifier_opts *opts = &s->verifier->opts;
    char message[160];
    snprintf(message, sizeof message,
             "serve: no message came for %u s: the session is kept for %u s more: resume it",
             opts->idle_s, opts->session_ttl_s);
    ft_sess_cut(s, message, now_us);
}

/* How long the session may stay as it is; INT64_MAX: for ever. The server owes a waiting session a
 * verdict, so its client may be silent. */
static int64_t time_left_us(const ft_sess *s, int64_t now_us)
{
    const ft_verifier_opts *opts = &s->verifier->opts;
    if (!s->handle)
        return s->times.detached_us + (int64_t)opts->session_ttl_s * 1000000 - now_us;
    if (opts->idle_s == 0 || ft_sess_state_of(s) == FT_SESS_WAITING)
        return INT64_MAX;
    return s->times.used_us + (int64_t)opts->idle_s * 1000000 - now_us;
}

int64_t ft_sessions_expire(ft_verifier *v, int64_t now_us)
{
    int64_t next = INT64_MAX;
    for (ft_sess *s = v->sessions.first, *after; s; s = after) {
        after = s->next;
        if (s->handle && time_left_us(s, now_us) <= 0)
            put_away(s, now_us);
        const int64_t left = time_left_us(s, now_us);
        if (left <= 0)
            ft_sess_end(s, FT_TIMEOUT, "");
        else if (left < next)
            next = left;
    }
    return next == INT64_MAX ? -1 : next;
}
