// SPDX-License-Identifier: Apache-2.0
// The verifier: its engine thread, create and destroy, and the calls that concern no single stream.
// The engine thread repeats three steps. It handles the calls of clients (handle.c), runs a pass
// (pass.c), and ends detached sessions whose ttl is over. If it has nothing to do, it waits until a
// client calls, the next session expires or the policy starts a pass. This file knows no rounds.
#include "serve/verifier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond.h"
#include "base/log.h"
#include "base/rng.h"
#include "engine/target.h"
#include "serve/answers.h"
#include "serve/batch.h"
#include "serve/lifecycle.h"
#include "serve/load.h"
#include "serve/own_draft.h"
#include "serve/pass.h"
#include "serve/verdict.h"
#include "spec/constrained.h"

/* ---- calls; any thread ---- */

ft_vsession *ft_verifier_open(ft_verifier *verifier, const ft_msg_open *open,
                              const char *credential, const ft_key *key, const ft_vclient *client)
{
    return ft_handle_create(&verifier->inbox, open, verifier->opts.max_context, credential, key,
                            client);
}

void ft_verifier_tick(ft_verifier *verifier)
{
    ft_inbox_tick(&verifier->inbox);
}

void ft_verifier_get_stats(ft_verifier *verifier, ft_verifier_stats *out)
{
    pthread_mutex_lock(&verifier->inbox.lock);
    *out = verifier->published.stats;
    pthread_mutex_unlock(&verifier->inbox.lock);
}

uint64_t ft_verifier_wait_over(ft_verifier *verifier, int64_t grace_us, int64_t resume_us)
{
    ft_inbox *inbox = &verifier->inbox;
    const ft_verifier_stats *stats = &verifier->published.stats;
    const int64_t deadline_us = ft_deadline_us(grace_us);
    bool alone = false; /* no session has a stream, since alone_us */
    int64_t alone_us = 0;
    pthread_mutex_lock(&inbox->lock);
    for (;;) {
        const int64_t now_us = ft_deadline_us(0);
        const bool rests = ft_inbox_rests(inbox), before = alone;
        alone = rests && stats->sessions == stats->sessions_detached;
        if (alone && !before)
            alone_us = now_us;
        const bool soon = alone && alone_us + resume_us < deadline_us;
        const int64_t until_us = soon ? alone_us + resume_us : deadline_us;
        if ((rests && stats->sessions == 0) || now_us >= until_us)
            break;
        ft_cond_wait_until(&inbox->changed, &inbox->lock, until_us);
    }
    const uint64_t n = stats->sessions;
    pthread_mutex_unlock(&inbox->lock);
    return n;
}

/* The free blocks, rounded down to eighths of the pool: who asks again and again must not learn how
 * long other tenants' texts are. */
static uint32_t about_free(const ft_verifier_stats *stats)
{
    const uint64_t eighths = stats->kv_blocks ? 8ull * stats->kv_blocks_free / stats->kv_blocks : 0;
    return (uint32_t)(eighths * stats->kv_blocks / 8);
}

int64_t ft_verifier_pass_us(const ft_verifier *verifier)
{
    return verifier->warm_pass_us;
}

int64_t ft_verifier_row_us(const ft_verifier *verifier)
{
    return verifier->warm_row_us;
}

ft_grammars *ft_verifier_grammars(ft_verifier *verifier)
{
    return verifier->grammars;
}

void ft_verifier_info(ft_verifier *verifier, ft_msg_info *out)
{
    ft_verifier_stats stats;
    ft_verifier_get_stats(verifier, &stats);
    *out = (ft_msg_info){.protocol = FT_PROTOCOL,
                         .version = FT_VERSION,
                         .vocab_fingerprint = verifier->model.fingerprint,
                         .limits = ft_sess_limits(verifier),
                         .sessions = stats.sessions,
                         .kv_blocks = stats.kv_blocks,
                         .kv_blocks_free = about_free(&stats),
                         .target = verifier->model.target};
    strncpy(out->model, verifier->model.name, sizeof out->model - 1);
    memcpy(out->kernels, verifier->model.kernels, sizeof out->kernels);
}

/* ---- the engine thread ---- */

/* Handles the calls that the client has made on this handle. May free the handle. */
static void serve_handle(ft_verifier *v, ft_vsession *h, int64_t now_us)
{
    const ft_handle_life life = ft_handle_look(h);
    ft_mail mail;
    bool flooded;
    if (h->opening)
        ft_sess_open(v, h, now_us);
    while (h->session && ft_handle_take(h, false, &mail, &flooded))
        (void)ft_sess_draft(h->session, &mail, flooded);
    if (h->session && (life == FT_HANDLE_CLOSED || life == FT_HANDLE_DONE))
        ft_sess_end(h->session, FT_OK, "");
    if (h->session && life == FT_HANDLE_LOST)
        ft_sess_detach(h->session, now_us);
    if (life == FT_HANDLE_LOST || life == FT_HANDLE_DONE)
        ft_handle_destroy(h);
}

/* Whether some client has a text that is not finished. */
static bool has_open_text(const ft_verifier *v)
{
    for (const ft_sess *s = v->sessions.first; s; s = s->next)
        if (s->handle && s->text.finish == FT_FINISH_NONE)
            return true;
    return false;
}

/* Waits for calls, and counts the time as idle or vacant. */
static void rest(ft_verifier *v, int64_t timeout_us)
{
    bool open = has_open_text(v);
    if (!open)
        v->row_price = 0; /* there is nobody whom a row could delay */
    int64_t from_us = ft_clock_now_us(&v->opts.clock);
    for (ft_sess *s = v->sessions.first; s; s = s->next)
        if (!s->times.rested.known)
            s->times.rested = ft_known(from_us);
    ft_inbox_wait(&v->inbox, timeout_us);
    int64_t us = ft_clock_now_us(&v->opts.clock) - from_us;
    *(open ? &v->stats.idle_us : &v->stats.vacant_us) += (uint64_t)us;
}

/* Handles all calls of clients. False: the verifier stops. */
static bool serve_handles(ft_verifier *v)
{
    ft_vsession *h;
    uint64_t ticks;
    const bool go = ft_inbox_take(&v->inbox, &h, &ticks);
    const int64_t now_us = ft_clock_now_us(&v->opts.clock);
    for (ft_vsession *next; h; h = next) {
        next = h->next_queued;
        serve_handle(v, h, now_us);
    }
    if (ft_inbox_asked(&v->inbox, ticks)) {
        (void)ft_sessions_expire(v, now_us);
        ft_load_look(v, now_us);
        ft_answer_publish(v);
        ft_inbox_answer(&v->inbox, ticks);
    }
    return go;
}

/* Sets rest_us: the time of the engine thread that no other counter contains. */
static void count_rest(ft_verifier *v, int64_t now_us)
{
    v->stats.rest_us = 0;
    v->stats.rest_us = (uint64_t)(now_us - v->began_us) - ft_verifier_stats_busy_us(&v->stats) -
                       v->stats.idle_us - v->stats.vacant_us;
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
        if (!serve_handles(v))
            break;
        int64_t look_us;
        idle = !ft_pass_run(v, &look_us);
        int64_t now_us = ft_clock_now_us(&v->opts.clock);
        wait_us = ft_sooner_us(ft_sessions_expire(v, now_us), look_us);
        wait_us = ft_sooner_us(wait_us, ft_inbox_recall_late(&v->inbox, now_us));
        count_rest(v, now_us);
        ft_load_look(v, now_us);
        if (idle)
            ft_answer_publish(v);
    }
    while (v->sessions.first)
        ft_sess_end(v->sessions.first, FT_UNAVAILABLE, "serve: the server is going down");
    ft_answer_publish(v);
    ft_inbox_end(&v->inbox);
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
        return ft_error_set(err, FT_INVALID, "serve: %u classes of token speed: at most %d",
                            o->n_slo, FT_SLO_CLASSES);
    for (uint32_t i = 0; i < o->n_slo; i++)
        if (!isfinite(o->slo_tokens_per_s[i]) || o->slo_tokens_per_s[i] <= 0)
            return ft_error_set(err, FT_INVALID, "serve: %g is not a token speed: must be above 0",
                                (double)o->slo_tokens_per_s[i]);
    o->rules = o->rules ? o->rules : ft_rules_default;
    if (ft_rules_check(o->rules, err) != FT_OK)
        return FT_INVALID;
    o->max_tree = or_default(o->max_tree, 64);
    o->max_context = or_default(o->max_context, hp->n_ctx_train);
    if (o->max_context > hp->n_ctx_train) {
        FT_LOGW("serve", "context lowered from=%u to=%u reason=\"the model's training context\"",
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
                            "serve: max_tree is %u: it must be below the batch's %u rows, and at "
                            "most %d",
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
                            "serve: vocabulary (%d tokens) and model (%u) are from different files",
                            ft_vocab_size(opts->vocab), hp->n_vocab);
    return FT_OK;
}

static ft_status start(ft_verifier *v, ft_error *err)
{
    ft_inbox_init(&v->inbox, v->opts.clock);
    ft_answer_publish(v);
    ft_timeline_name(v->opts.timeline, FT_TIMELINE_MAIN, "passes");
    if (pthread_create(&v->inbox.reader, NULL, engine_main, v) != 0)
        return ft_error_set(err, FT_NOMEM, "serve: cannot start the engine thread");
    v->started = true;
    return FT_OK;
}

static ft_status create_judge(ft_verifier *v, ft_error *err)
{
    const ft_judge_opts judge = {.engine = v->engine,
                                 .rules = v->opts.rules,
                                 .clock = v->opts.clock,
                                 .max_rows = v->opts.max_batch_tok,
                                 .n_threads = v->opts.n_threads,
                                 .drew = ft_verdict_drew};
    return ft_judge_create(&judge, err, &v->judge);
}

/* Runs before the first session. Measures passes, and warms up the engine, so that the first pass
 * of a session is not slower. */
static ft_status warm(ft_verifier *v, ft_error *err)
{
    ft_warm passes;
    const int64_t before_us = ft_streamed_waited_us(v->opts.streamed);
    ft_status status = ft_engine_warm(v->engine, &v->opts.clock, &v->opts.kept, err, &passes);
    const int64_t waited_us = ft_streamed_waited_us(v->opts.streamed) - before_us;
    v->warm_pass_us = status == FT_OK && passes.n > 0 ? passes.us[0] : 0;
    if (status == FT_OK && passes.n > 1 && passes.us[1] > passes.us[0])
        v->warm_row_us = (passes.us[1] - passes.us[0]) / (passes.rows[1] - passes.rows[0]);
    for (uint32_t i = 0; status == FT_OK && !v->opts.costs && i < passes.n; i++) {
        const ft_pass pass = ft_pass_plus((ft_pass){0}, 0, passes.rows[i], passes.rows[i]);
        ft_cost_observe_read(&v->cost, &pass, passes.us[i], waited_us / passes.n);
    }
    return status;
}

static void compiled(void *ctx)
{
    ft_inbox_recall(&((ft_verifier *)ctx)->inbox);
}

static ft_status create_grammars(ft_verifier *v, ft_error *err)
{
    const ft_grammars_opts opts = {
        .tokens = ft_constrained_tokens(v->opts.vocab), .done = compiled, .ctx = v};
    if (!ft_constrain_available())
        return FT_OK;
    const ft_status status = ft_grammars_create(&opts, err, &v->grammars);
    if (status == FT_NOMEM)
        return status;
    if (status != FT_OK)
        FT_LOGW("serve", "constraints are not offered: %s", err->message);
    return FT_OK;
}

/* Writes, for Info and Opened, what decides a text. */
static void describe_target(ft_verifier *v, const ft_verifier_opts *opts)
{
    const ft_target target = {.weights = ft_model_fingerprints(opts->model).weights,
                              .products = ft_model_get_memory(opts->model).products,
                              .n_gpu_layers = ft_model_n_gpu_layers(opts->model),
                              .kv_type = opts->kv_type,
                              .portable_attention = opts->portable_attention};
    ft_target_kernels(&target, v->model.kernels);
    v->model.target = ft_target_fingerprint(&target);
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
    v->policy = opts->policy ? opts->policy : ft_sched_default(opts->n_slo > 0);
    v->model.name = ft_model_name(opts->model);
    v->model.fingerprint = ft_vocab_fingerprint(opts->vocab);
    v->model.n_vocab = (uint32_t)ft_vocab_size(opts->vocab);
    describe_target(v, opts);
    memcpy(v->stats.slo_tokens_per_s, opts->slo_tokens_per_s, sizeof v->stats.slo_tokens_per_s);
    v->stats.n_slo = opts->n_slo;
    ft_cost_init(&v->cost);
    if (opts->costs)
        ft_cost_prime(&v->cost, opts->costs->us, opts->costs->error);
    const ft_engine_opts engine_opts = {.model = opts->model,
                                        .kv_type = opts->kv_type,
                                        .kv_tok = v->opts.kv_tok,
                                        .max_batch_tok = v->opts.max_batch_tok,
                                        .max_logits = v->opts.max_logits,
                                        .streamed = opts->streamed,
                                        .turn = opts->turn,
                                        .n_threads = opts->n_threads,
                                        .route = opts->portable_attention ? FT_ATTN_PORTABLE
                                                                          : FT_ATTN_AUTO};
    if ((status = ft_quota_init(&v->places, "sessions", v->opts.max_sessions, opts->client_share,
                                err)) != FT_OK)
        goto out;
    if ((status = ft_random_bytes(v->tenants.salt, sizeof v->tenants.salt)) != FT_OK) {
        ft_error_set(err, status, "serve: the operating system gave no random bytes");
        goto out;
    }
    if ((status = ft_engine_create(&engine_opts, err, &v->engine)) != FT_OK ||
        (status = warm(v, err)) != FT_OK ||
        (opts->draft_model && (status = ft_own_create(v, err, &v->own)) != FT_OK) ||
        (status = ft_sess_batch_init(&v->batch, &v->opts, err)) != FT_OK ||
        (status = create_judge(v, err)) != FT_OK || (status = create_grammars(v, err)) != FT_OK ||
        (status = start(v, err)) != FT_OK)
        goto out;
    *out = v;
    return FT_OK;
out:
    ft_verifier_destroy(v);
    return status;
}

ft_status ft_verifier_stop(ft_verifier *verifier, int64_t timeout_us, ft_error *err)
{
    if (ft_inbox_stop(&verifier->inbox, timeout_us))
        return FT_OK;
    return ft_error_set(err, FT_TIMEOUT,
                        "serve: the engine has not ended its pass within %.1f s: it hangs, or the "
                        "pass is long",
                        (double)timeout_us / 1e6);
}

void ft_verifier_destroy(ft_verifier *verifier)
{
    ft_verifier *v = verifier;
    if (!v)
        return;
    if (v->started) {
        (void)ft_inbox_stop(&v->inbox, -1);
        pthread_join(v->inbox.reader, NULL);
    }
    ft_grammars_destroy(v->grammars); /* its workers call the inbox */
    ft_inbox_deinit(&v->inbox);
    ft_judge_destroy(v->judge);
    ft_sess_batch_deinit(&v->batch);
    ft_own_destroy(v->own);
    ft_engine_destroy(v->engine);
    free(v->published.keys);
    ft_quota_deinit(&v->places);
    free(v);
}
