// SPDX-License-Identifier: Apache-2.0
// The edge: vocabulary, draft engine and links to the verifier, which generations share; the
// handshake at creation; what generations have learnt; health. Thread-safe under `mutex`; the draft
// engine belongs to the generation that has locked it. Does not generate text (rounds.c).
#include "edge/edge.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "edge/edge_internal.h"
#include "edge/kept.h"
#include "edge/record.h"
#include "edge/rule_auto.h"
#include "edge/text_rule.h"
#include "spec/constrained.h"

#define HEALTH_KEEP_US      2000000
#define DEFAULT_RECONNECT   120000
#define DEFAULT_FALLBACK    2000
#define DEFAULT_MAX_AT_ONCE 64
#define DRAFT_CONTEXTS      4 /* full texts that the draft model's KV pool holds by default */

/* The uplink to the server that answered last, as its round trips tell. Under the mutex. */
static ft_uplink_rate measured(ft_edge *edge)
{
    return ft_uplink_rate_now(&edge->uplink[edge->heard]);
}

/* The rate to count with. Under the mutex. */
static ft_uplink_rate rate_now(ft_edge *edge)
{
    const double given = edge->how.uplink_bits_per_s;
    const ft_uplink *uplink = &edge->uplink[edge->heard];
    if (given > 0)
        return (ft_uplink_rate){
            .known = true, .bits_per_s = given, .empty_us = ft_uplink_empty_us(uplink, given)};
    const ft_uplink_rate now = measured(edge);
    if (now.known)
        edge->known_at[edge->heard] = edge->n_texts;
    else if (edge->n_texts - edge->known_at[edge->heard] <= FT_EDGE_RATE_KEPT)
        return uplink->last;
    return now;
}

/* Under the mutex. */
static void choose_rule(ft_edge *edge, const ft_gen_request *request, ft_edge_start *start)
{
    const ft_sampling *sampling = &request->sampling;
    *start = (ft_edge_start){.rule = edge->how.rule, .why = FT_WHY_ASKED};
    const bool plain = request->constraint.kind == FT_CONSTRAINT_NONE;
    if (!plain || !ft_text_rule_is_offered(edge->how.rule, &edge->limits))
        *start = (ft_edge_start){
            .rule = ft_text_rule_fallback(),
            .why = edge->how.rule == ft_text_rule_fallback() ? FT_WHY_ASKED : FT_WHY_NOT_OFFERED};
    else if (edge->how.rule_auto)
        ft_rule_auto_choose(edge, sampling, rate_now(edge), start);
    const ft_rule_terms terms =
        start->rule->terms(start->rule, (uint32_t)ft_vocab_size(edge->how.vocab), sampling);
    start->kind = terms.evidence_bytes > 0 ? FT_RULE_KIND_RATIO : FT_RULE_KIND_EXACT;
}

/* What a text starts from. */
static ft_edge_learnt learnt_of(const ft_edge *edge, ft_rule_kind kind, ft_warmth warmth)
{
    const ft_edge_learnt *nearest = ft_edge_nearest(edge, kind, warmth);
    ft_edge_learnt first = *nearest;
    if (nearest != &edge->learnt[kind][warmth])
        first.seen = (ft_rule_seen){0};
    return first;
}

ft_status ft_edge_enter(ft_edge *edge, const ft_gen_request *request, ft_error *err,
                        ft_edge_start *start)
{
    ft_status status = FT_OK;
    pthread_mutex_lock(&edge->mutex);
    if (edge->running >= edge->how.max_generations)
        status = ft_error_set(err, FT_EXHAUSTED,
                              "edge: %u generations are running already: try again later",
                              edge->running);
    else
        edge->running++;
    if (status == FT_OK) {
        edge->n_texts++;
        choose_rule(edge, request, start);
        start->warmth = ft_warmth_of(&request->sampling);
        start->learnt = learnt_of(edge, start->kind, start->warmth);
        start->text = edge->n_texts;
    }
    pthread_mutex_unlock(&edge->mutex);
    return status;
}

void ft_edge_leave(ft_edge *edge, const ft_edge_start *start, const ft_edge_end *end)
{
    pthread_mutex_lock(&edge->mutex);
    edge->running--;
    if (end->rule == start->rule) {
        edge->learnt[start->kind][start->warmth] = end->learnt;
        edge->begun[start->kind][start->warmth] = edge->learns = true;
    }
    if (edge->how.rule_auto)
        edge->limits = *end->limits;
    pthread_mutex_unlock(&edge->mutex);
}

void ft_edge_saw_trip(ft_edge *edge, uint32_t server, const ft_timing_trip *trip)
{
    pthread_mutex_lock(&edge->mutex);
    ft_uplink_saw(&edge->uplink[server], trip->kind, trip->bytes, trip->us);
    edge->heard = server;
    pthread_mutex_unlock(&edge->mutex);
}

ft_uplink_rate ft_edge_uplink(ft_edge *edge)
{
    pthread_mutex_lock(&edge->mutex);
    const ft_uplink_rate rate = measured(edge);
    pthread_mutex_unlock(&edge->mutex);
    return rate;
}

ft_uplink_rate ft_edge_rate(ft_edge *edge)
{
    pthread_mutex_lock(&edge->mutex);
    const ft_uplink_rate rate = rate_now(edge);
    pthread_mutex_unlock(&edge->mutex);
    return rate;
}

/* Texts are the server's tokens, so both sides must have the same vocabulary. */
static ft_status check_vocab(void *ctx, const ft_msg_info *info, ft_error *err)
{
    const ft_edge *edge = ctx;
    if (info->protocol != FT_PROTOCOL)
        return ft_error_set(
            err, FT_PRECONDITION,
            "edge: the server speaks protocol %u, this program %u: update the older",
            info->protocol, FT_PROTOCOL);
    if (info->vocab_fingerprint == edge->fingerprint)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION,
                        "edge: this vocabulary (%d tokens, %016llx) is not that of the server's "
                        "model %.100s (%016llx): pass a draft of the same family with -md",
                        ft_vocab_size(edge->how.vocab), (unsigned long long)edge->fingerprint,
                        info->model, (unsigned long long)info->vocab_fingerprint);
}

/* Texts never depend on a predictor. But a predictor of another draft model makes drafts worse, and
 * the cause would be hard to find. Another target is worth a warning. Files of one target may be
 * quantized differently; that hardly matters. What is measured needs no warning. */
static ft_status check_predictor(const ft_edge *edge, ft_error *err)
{
    const ft_predictor *p = edge->how.draft.predictor;
    if (p && p->target && p->target != ft_record_target(edge->info.model) &&
        !edge->how.predictor_if_pays)
        FT_LOGW("edge", "the predictor was trained for another target than \"%s\"",
                edge->info.model);
    return p ? ft_predictor_check_draft(p, edge->drafts.fingerprint, err) : FT_OK;
}

/* Every l must be one that the rule has. */
static ft_status check_policy(const ft_edge *edge, ft_error *err)
{
    const ft_policy *p = edge->how.policy;
    for (uint32_t i = 0; p && i < p->n_l; i++)
        if (p->l[i] > FT_RATIO_L_MAX)
            return ft_error_set(err, FT_PRECONDITION,
                                "edge: the policy chooses l = %u, rule ratio has %u at most: train "
                                "one with a setting of smaller l",
                                p->l[i], FT_RATIO_L_MAX);
    return FT_OK;
}

/* For the rules that a text may have: a workspace takes some 24 bytes a token of the vocabulary, so
 * all drafters share one. */
static ft_status make_work(ft_edge *edge, uint32_t n_vocab, ft_error *err)
{
    const ft_rule *asked = edge->how.rule, *fallback = ft_text_rule_fallback();
    const ft_rule *const rules[] = {asked, asked == fallback ? NULL : fallback, NULL};
    return ft_rule_work_create(rules, n_vocab, err, &edge->drafts.work);
}

/* *forward_us: the time of a draft forward after warming up. */
static ft_status make_engine(ft_edge *edge, ft_error *err, int64_t *forward_us)
{
    const ft_edge_opts *opts = &edge->how;
    const ft_hparams *hp = ft_model_hparams(opts->draft_model);
    uint32_t kv_tok = opts->draft_kv_tok;
    if (hp->n_vocab != (uint32_t)ft_vocab_size(edge->how.vocab))
        return ft_error_set(err, FT_PRECONDITION,
                            "edge: the draft model has %u tokens, the vocabulary %d: take both "
                            "from one file",
                            hp->n_vocab, ft_vocab_size(edge->how.vocab));
    if (kv_tok == 0)
        kv_tok = DRAFT_CONTEXTS * edge->info.limits.max_context;
    const ft_engine_opts engine = {.model = opts->draft_model,
                                   .kv_tok = kv_tok,
                                   .kv_type = opts->draft_kv_type,
                                   .max_batch_tok = FT_EDGE_DRAFT_ROWS,
                                   .max_logits = FT_DRAFT_LEAVES,
                                   .turn = opts->turn,
                                   .n_threads = opts->n_threads};
    edge->drafts.n_ctx = hp->n_ctx_train;
    edge->drafts.fingerprint = ft_model_fingerprint(opts->draft_model);
    ft_status status = check_predictor(edge, err);
    if (status == FT_OK && opts->policy) /* it looks at this model's confidences */
        status = ft_policy_check_draft(opts->policy, edge->drafts.fingerprint, err);
    if (status == FT_OK)
        status = make_work(edge, hp->n_vocab, err);
    if (status == FT_OK)
        status = ft_engine_create(&engine, err, &edge->drafts.engine);
    ft_warm warm = {0};
    if (status == FT_OK)
        status = ft_engine_warm(edge->drafts.engine, &edge->how.clock, &edge->how.kept, err, &warm);
    edge->drafts.lock.in_use = true;
    *forward_us = warm.n ? warm.us[0] : 0;
    return status;
}

static ft_status make_drafting(ft_edge *edge, ft_error *err)
{
    const ft_edge_opts *opts = &edge->how;
    int64_t forward_us = 0;
    ft_status status = check_policy(edge, err);
    const bool model = opts->draft.budget > 0 && opts->draft_by != FT_DRAFT_BY_LOOKUP;
    if (status == FT_OK && model && opts->draft_model) {
        status = make_engine(edge, err, &forward_us);
    } else if (model && opts->drafts.create) {
        edge->drafts.factory = opts->drafts;
        edge->drafts.n_ctx = opts->drafts.n_ctx;
        forward_us = opts->drafts.forward_us;
    }
    const ft_control_opts control = {.max_budget = opts->draft.budget, /* of texts with drafts */
                                     .max_depth = opts->draft.depth,
                                     .max_width = opts->draft.width,
                                     .depth_rule = opts->depth_rule};
    for (uint32_t i = 0; i < FT_RULE_KINDS * FT_WARMTHS * FT_PLACES; i++) {
        const ft_place place = i % FT_PLACES;
        const uint32_t at = i / FT_PLACES;
        ft_steer_learnt *learnt = &edge->learnt[at / FT_WARMTHS][at % FT_WARMTHS].at[place];
        ft_control_init(&learnt->control, &control);
        learnt->fallback = ft_fallback_begin(opts->alpha);
        ft_control_expect_draft(&learnt->control, forward_us);
        const ft_edge_pass *pass =
            place == FT_PLACE_SERVER ? &opts->verify : &opts->fallback_verify;
        ft_control_expect_verify(&learnt->control, pass->us, pass->row_us);
    }
    return status;
}

/* The server's, if it is in this process. */
static void find_grammars(ft_edge *edge)
{
    const ft_grammars_opts own = {.tokens = ft_constrained_tokens(edge->how.vocab)};
    ft_error why = {0};
    edge->grammars = edge->how.source.grammars;
    if (!edge->grammars && ft_constrain_available() &&
        ft_grammars_create(&own, &why, &edge->grammars) != FT_OK)
        FT_LOGW("edge", "drafts will not know constraints: %s", why.message);
}

ft_status ft_edge_create(const ft_edge_opts *opts, ft_error *err, ft_edge **out)
{
    ft_edge *edge = calloc(1, sizeof *edge);
    *out = NULL;
    if (!edge)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    pthread_mutex_init(&edge->mutex, NULL);
    ft_engine_lock_init(&edge->drafts.lock);
    ft_servers_init(&edge->servers, &opts->source, opts->more, opts->n_more, opts->fallback);
    edge->how = *opts;
    edge->how.early = opts->proactive && opts->early;
    edge->how.predictor_if_pays = opts->automatic && opts->predictor_if_pays;
    if (opts->max_generations == 0)
        edge->how.max_generations = DEFAULT_MAX_AT_ONCE;
    if (opts->reconnect_ms == 0)
        edge->how.reconnect_ms = DEFAULT_RECONNECT;
    if (opts->fallback_ms == 0)
        edge->how.fallback_ms = DEFAULT_FALLBACK;
    edge->fingerprint = ft_vocab_fingerprint(opts->vocab);
    const ft_servers_asking asking = {opts->clock, check_vocab, edge};
    ft_status status = ft_servers_info(&edge->servers, &asking, err, &edge->info, &edge->met);
    if (status == FT_OK && ft_servers_is_fallback(&edge->servers, edge->met))
        ft_servers_went_offline(&edge->servers);
    if (status == FT_OK) {
        edge->limits = edge->info.limits;
        edge->how.rule = opts->rule ? opts->rule : ft_text_rule_fallback();
        ft_text_rule_warn(edge->how.rule, &edge->limits);
        status = make_drafting(edge, err);
    }
    if (status == FT_OK)
        status = ft_rule_auto_empty_bytes(err, &edge->empty_bytes);
    if (status == FT_OK && opts->draft.budget > 0)
        find_grammars(edge);
    if (status != FT_OK) {
        ft_edge_destroy(edge);
        return status;
    }
    ft_edge_kept_load(edge);
    *out = edge;
    return FT_OK;
}

void ft_edge_destroy(ft_edge *edge)
{
    if (!edge)
        return;
    if (edge->learns && edge->how.automatic)
        ft_edge_kept_save(edge);
    if (edge->grammars != edge->how.source.grammars)
        ft_grammars_destroy(edge->grammars);
    ft_engine_destroy(edge->drafts.engine);
    ft_rule_work_destroy(edge->drafts.work);
    ft_engine_lock_deinit(&edge->drafts.lock);
    ft_servers_deinit(&edge->servers);
    pthread_mutex_destroy(&edge->mutex);
    free(edge);
}

void ft_edge_draft_stats(ft_edge *edge, ft_engine_stats *out)
{
    *out = (ft_engine_stats){0};
    ft_engine_lock_take(&edge->drafts.lock);
    if (edge->drafts.engine)
        ft_engine_get_stats(edge->drafts.engine, out);
    ft_engine_lock_release(&edge->drafts.lock);
}

const ft_msg_info *ft_edge_server_info(const ft_edge *edge)
{
    return &edge->info;
}

ft_trace *ft_edge_trace(const ft_edge *edge)
{
    return edge->how.trace;
}

ft_status ft_edge_grammar(ft_edge *edge, const ft_constraint *constraint,
                          const ft_client_id *client, int64_t wait_us, ft_error *err,
                          ft_grammar **out)
{
    return ft_grammars_wait(edge->grammars, constraint, ft_client_name(client), wait_us, err, out);
}

ft_status ft_edge_compile(ft_edge *edge, const ft_constraint *constraint,
                          const ft_client_id *client, int64_t wait_us, ft_error *err)
{
    ft_grammar *grammar = NULL;
    if (constraint->kind == FT_CONSTRAINT_NONE || !edge->grammars)
        return FT_OK;
    const ft_status status = ft_edge_grammar(edge, constraint, client, wait_us, err, &grammar);
    const bool there = grammar != NULL;
    ft_grammar_unref(grammar);
    return status != FT_OK || there
               ? status
               : ft_error_set(err, FT_TIMEOUT, "edge: the constraint is not compiled in time");
}

ft_status ft_edge_health(ft_edge *edge, ft_error *err)
{
    const ft_servers_asking asking = {.clock = edge->how.clock};
    ft_msg_info info;
    uint32_t server;
    ft_error answer = {0};
    int64_t now = ft_clock_now_us(&edge->how.clock);
    pthread_mutex_lock(&edge->mutex);
    bool known = edge->health.asked && now - edge->health.asked_us < HEALTH_KEEP_US;
    if (known)
        answer = edge->health.answer;
    pthread_mutex_unlock(&edge->mutex);
    if (!known) {
        answer.code = ft_servers_info(&edge->servers, &asking, &answer, &info, &server);
        pthread_mutex_lock(&edge->mutex);
        edge->health.asked = true;
        edge->health.asked_us = ft_clock_now_us(&edge->how.clock);
        edge->health.answer = answer;
        pthread_mutex_unlock(&edge->mutex);
    }
    if (err)
        *err = answer;
    return answer.code;
}
