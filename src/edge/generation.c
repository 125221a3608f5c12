// SPDX-License-Identifier: Apache-2.0
// The state machine of a generation, which generation.h draws: the table, the invariants of each
// state, beginning and end. The functions that the diagram names handle the other events. Owned by
// the generation's thread.
#include "edge/generation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/secret.h"
#include "spec/prediction.h"

#define NO FT_GEN_ILLEGAL
/* A usual constraint takes 5 ms to compile, less than Open takes; longer, and the user would wait
 * for nothing but better drafts. Later rounds ask again. */
#define MATCH_WAIT_US 100000

/* In the order of ft_gen_event:
 *   ASK_TREE, ASK_RUN, ASK_NEXT, MORE, OVER, EARLY_TAKEN, LOST, END */
static const ft_gen_state transitions[FT_GEN_N_STATES][FT_GEN_N_EVENTS] = {
    [FT_GEN_READY] = {FT_GEN_TREE, FT_GEN_RUN, NO, NO, NO, NO, FT_GEN_READY, FT_GEN_ENDED},
    [FT_GEN_TREE] = {NO, NO, NO, NO, FT_GEN_READY, FT_GEN_TREE_EARLY, FT_GEN_TREE, FT_GEN_ENDED},
    [FT_GEN_TREE_EARLY] = {NO, NO, NO, NO, FT_GEN_READY, FT_GEN_TREE_EARLY, FT_GEN_TREE_EARLY,
                           FT_GEN_ENDED},
    [FT_GEN_RUN] = {NO, NO, FT_GEN_RUN_NEXT, FT_GEN_RUN, FT_GEN_READY, NO, FT_GEN_RUN,
                    FT_GEN_ENDED},
    [FT_GEN_RUN_NEXT] = {NO, NO, NO, FT_GEN_RUN_NEXT, FT_GEN_RUN, NO, FT_GEN_RUN, FT_GEN_ENDED},
    [FT_GEN_ENDED] = {NO, NO, NO, NO, NO, NO, NO, NO},
};

ft_gen_state ft_gen_next(ft_gen_state state, ft_gen_event event)
{
    return transitions[state][event];
}

bool ft_gen_in_tree(const ft_gen *gen)
{
    return gen->state == FT_GEN_TREE || gen->state == FT_GEN_TREE_EARLY;
}

bool ft_gen_in_run(const ft_gen *gen)
{
    return gen->state == FT_GEN_RUN || gen->state == FT_GEN_RUN_NEXT;
}

bool ft_gen_drafts_ahead(const ft_gen *gen)
{
    const ft_edge *edge = gen->edge;
    return edge->how.proactive &&
           (!edge->how.proactive_if_long || !edge->servers.source[gen->stream.at].in_process ||
            ft_control_drafts_long(&gen->steer.control));
}

void ft_gen_check(const ft_gen *gen)
{
    const ft_msg_draft *draft = &gen->out.msg.draft;
    const uint32_t tree = gen->drafting.tree.n;
    const bool waits = ft_gen_in_tree(gen) || ft_gen_in_run(gen);
    ft_stream_check(&gen->stream);
    ft_drafting_check(&gen->drafting);
    assert(gen->text.n >= gen->request->n_prompt);
    assert(waits || gen->stream.state != FT_STREAM_WAITING);
    assert(!waits || draft->base <= gen->text.n);
    /* The drafter's tree is the one that was sent, or another drafter made that. To a server with
     * lower limits only the tree's first nodes were sent. */
    assert(!ft_gen_in_tree(gen) || (draft->n > 0 && (tree >= draft->n || tree == 0)));
    assert(ft_gen_in_tree(gen) || tree == 0);
    assert(!ft_gen_in_run(gen) || (draft->n == 0 && gen->out.run_left <= draft->run));
    assert(ft_gen_in_run(gen) == (gen->out.run_left > 0) || gen->state == FT_GEN_ENDED);
    assert((gen->state == FT_GEN_RUN_NEXT) == (gen->out.next_run > 0) ||
           gen->state == FT_GEN_ENDED);
    assert(gen->early.state != FT_EARLY_OUT || gen->state == FT_GEN_ENDED ||
           (ft_gen_in_tree(gen) && gen->stream.state == FT_STREAM_WAITING));
    assert(gen->state != FT_GEN_ENDED || gen->stream.state == FT_STREAM_CLOSED);
    assert(gen->state != FT_GEN_ENDED || gen->drafting.state == FT_DRAFTING_OFF);
    (void)draft, (void)tree, (void)waits;
}

void ft_gen_happened(ft_gen *gen, ft_gen_event event)
{
    const ft_gen_state next = ft_gen_next(gen->state, event);
    assert(next != FT_GEN_ILLEGAL);
    gen->state = next;
#ifdef FT_DEBUG_CHECKS
    ft_gen_check(gen);
#endif
}

/* ---- beginning and end ---- */

static uint64_t prefix_of(const ft_gen_request *r)
{
    return r->prefix ? r->prefix
                     : ft_fnv64(FT_FNV64_INIT, r->prompt, r->n_prompt * sizeof *r->prompt);
}

float ft_gen_speed(const ft_gen *gen)
{
    const float asked = gen->request->slo_tokens_per_s;
    return asked > 0 ? asked : gen->edge->how.slo_tokens_per_s;
}

static ft_status init_parts(ft_gen *gen, const ft_gen_sink *sink, const ft_edge_learnt *learnt,
                            ft_error *err)
{
    ft_edge *edge = gen->edge;
    const ft_gen_request *r = gen->request;
    ft_stream_opts stream = {.servers = &edge->servers,
                             .clock = edge->how.clock,
                             .client = r->client,
                             .prefix = prefix_of(r),
                             .reconnect_us = 1000 * (int64_t)edge->how.reconnect_ms,
                             .fallback_us = 1000 * (int64_t)edge->how.fallback_ms,
                             .limits = edge->info.limits,
                             .met = edge->met,
                             .same_target = edge->how.require_same_target,
                             .stats = gen->stats};
    const ft_drafting_opts *drafting = &gen->drafting.how;
    ft_steer_opts steer = {.draft = edge->how.draft,
                           .automatic = edge->how.automatic,
                           .predictor_if_pays = edge->how.predictor_if_pays,
                           .policy = edge->how.policy,
                           .drafts = ft_drafting_can(drafting),
                           .at_once = ft_drafting_at_once(drafting),
                           .asked_tokens_per_s = ft_gen_speed(gen)};
    if (drafting->lookup.n_ctx > 0)
        steer.draft.predictor = NULL; /* it knows the draft model's children alone */
    const ft_output_opts output = {.vocab = edge->how.vocab,
                                   .sink = sink,
                                   .text = &gen->text,
                                   .max_tokens = r->max_tokens,
                                   .stops = r->stops,
                                   .n_stops = r->n_stops,
                                   .spelled = r->spelled,
                                   .n_spelled = r->n_spelled};
    if (ft_random_bytes(&stream.nonce, sizeof stream.nonce) != FT_OK)
        return ft_error_set(err, FT_IO, "edge: the operating system gave no random bytes");
    /* One server may change its model, several must have the same. */
    if (ft_servers_several(&edge->servers) && !ft_servers_is_fallback(&edge->servers, edge->met))
        memcpy(stream.model, edge->info.model, sizeof stream.model);
    ft_stream_init(&gen->stream, &stream);
    ft_steer_init(&gen->steer, &steer, learnt->at);
    ft_status status = ft_output_init(&gen->output, &output, err);
    if (status != FT_OK)
        return status;
    if (ft_tokens_append(&gen->text, r->prompt, r->n_prompt) != FT_OK)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    return FT_OK;
}

static bool is_cancelled(void *ctx)
{
    return ft_gen_cancelled(ctx);
}

/* All-zero: there are none. */
static ft_lookup_opts lookups_of(const ft_gen *gen)
{
    const ft_edge *edge = gen->edge;
    const ft_gen_request *r = gen->request;
    const ft_draft_by by = edge->how.draft_by;
    const bool asked = by == FT_DRAFT_BY_LOOKUP || by == FT_DRAFT_BY_BOTH ||
                       (by == FT_DRAFT_BY_AUTO && r->n_prediction > 0);
    if (!asked || edge->how.draft.budget == 0 || gen->rule.terms.evidence_bytes > 0)
        return (ft_lookup_opts){0};
    const uint32_t context = edge->info.limits.max_context;
    return (ft_lookup_opts){.n_ctx = context ? context : UINT32_MAX,
                            .n_vocab = (uint32_t)ft_vocab_size(edge->how.vocab),
                            .n_prompt = r->n_prompt,
                            .prediction = r->prediction,
                            .n_prediction = r->n_prediction,
                            .sampling = &gen->sampling};
}

/* All-zero: nothing is forced, or nobody knows it. */
static ft_forced_opts forced_of(const ft_gen *gen)
{
    ft_edge *edge = gen->edge;
    const char *tenant = ft_client_name(gen->request->client);
    const uint32_t context = edge->info.limits.max_context;
    if (!gen->sampling.matcher || edge->how.no_forced)
        return (ft_forced_opts){0};
    return (ft_forced_opts){.vocab = edge->how.vocab,
                            .sampling = &gen->sampling,
                            .seen = &edge->drafts.spellings,
                            .tenant = *tenant ? ft_fnv64(FT_FNV64_INIT, tenant, strlen(tenant)) : 0,
                            .n_ctx = context ? context : UINT32_MAX};
}

static void init_drafting(ft_gen *gen, const ft_calibration *calibration)
{
    ft_edge *edge = gen->edge;
    const ft_drafting_opts drafting = {.from = &edge->drafts,
                                       .model = edge->drafts.n_ctx > 0,
                                       .lookup = lookups_of(gen),
                                       .forced = forced_of(gen),
                                       .clock = edge->how.clock,
                                       .rule = gen->rule.rule,
                                       .sampling = &gen->sampling,
                                       .text = &gen->text,
                                       .calibration = *calibration,
                                       .cancelled = is_cancelled,
                                       .ctx = gen,
                                       .progress = &gen->request->progress,
                                       .stats = gen->stats};
    ft_drafting_init(&gen->drafting, &drafting);
}

static void begin_record(ft_gen *gen)
{
    const ft_edge *edge = gen->edge;
    const ft_sampling *s = &gen->request->sampling;
    const ft_trace_session session = {.draft = edge->drafts.fingerprint,
                                      .target = ft_record_target(edge->info.model),
                                      .vocab = edge->fingerprint,
                                      .temperature = s->temperature,
                                      .top_p = s->top_p,
                                      .min_p = s->min_p,
                                      .top_k = (uint32_t)s->top_k};
    const ft_drafting_opts *drafting = &gen->drafting.how; /* traces are of a model's drafts */
    const bool recorded =
        drafting->model && drafting->lookup.n_ctx == 0 && drafting->forced.n_ctx == 0;
    ft_record_begin(&gen->record, recorded ? edge->how.trace : NULL, &session);
}

/* The last token that a verdict brought may be the end of the text: it is not predicted. */
static void count_prediction(ft_gen *gen)
{
    const ft_gen_request *r = gen->request;
    const uint32_t answer =
        (uint32_t)ft_min_u32((uint32_t)gen->stats->tokens, (uint32_t)gen->text.n - r->n_prompt);
    ft_error err = {0};
    uint32_t came = 0;
    if (r->n_prediction == 0)
        return;
    if (ft_prediction_came(r->prediction, r->n_prediction, gen->text.id + r->n_prompt, answer, &err,
                           &came) != FT_OK)
        FT_LOGW("edge", "a prediction was not counted: %s", err.message);
    gen->stats->prediction_accepted = came;
    gen->stats->prediction_rejected = r->n_prediction - came;
}

void ft_gen_end(ft_gen *gen, ft_status status)
{
    ft_gen_stats *s = gen->stats;
    ft_server_msg_free(gen->held);
    gen->held = NULL;
    const uint32_t n_prompt = gen->request->n_prompt;
    if (s->ttft.n == 0) /* ends the progress line of a prompt that was not read to its end */
        ft_progress_report(&gen->request->progress, n_prompt, n_prompt);
    ft_record_end(&gen->record);
    ft_gen_timeline_end(&gen->timeline, ft_gen_now_us(gen));
    ft_drafting_stop(&gen->drafting);
    ft_stream_close(&gen->stream, status == FT_OK ? FT_CLIENT_CLOSE : FT_CLIENT_CANCEL);
    ft_gen_happened(gen, FT_GEN_END);
    count_prediction(gen);
    s->rule = gen->rule.rule->name;
    s->rule_why = gen->rule.why;
    ft_gen_count_text(s, gen->rule.rule, gen->rule.why);
    s->same_tokens = gen->rule.same_tokens && s->target_changed == 0;
    s->total_us = (uint64_t)(ft_gen_now_us(gen) - gen->start_us);
}

/* Gives the matcher its grammar, if that is compiled within wait_us. */
static void look_for_grammar(ft_gen *gen, int64_t wait_us)
{
    const ft_gen_request *r = gen->request;
    ft_grammar *grammar = NULL;
    ft_error err = {0};
    ft_status status =
        ft_edge_grammar(gen->edge, &r->constraint, r->client, wait_us, &err, &grammar);
    if (grammar)
        status = ft_matcher_begin(gen->sampling.matcher, grammar, &err);
    if (status != FT_OK)
        FT_LOGW("edge", "drafts do not know the constraint: %s", err.message);
    gen->lacks_grammar = status == FT_OK && !grammar;
    ft_grammar_unref(grammar);
}

/* For drafts that the constraint allows: a matcher; its grammar may come later. Drafts without it
 * do not know the constraint, and fewer are accepted. The text does not depend on it. */
static void begin_match(ft_gen *gen)
{
    const ft_gen_request *r = gen->request;
    ft_error err = {0};
    if (r->constraint.kind == FT_CONSTRAINT_NONE || !gen->edge->grammars || r->no_speculation)
        return;
    if (ft_matcher_create(NULL, &err, &gen->sampling.matcher) == FT_OK)
        look_for_grammar(gen, MATCH_WAIT_US);
    else
        FT_LOGW("edge", "drafts do not know the constraint: %s", err.message);
}

void ft_gen_match(ft_gen *gen)
{
    if (gen->lacks_grammar)
        look_for_grammar(gen, 0);
}

ft_status ft_gen_create(ft_edge *edge, const ft_gen_request *request, const ft_gen_sink *sink,
                        ft_gen_stats *stats, ft_error *err, ft_gen **out)
{
    ft_gen *gen = calloc(1, sizeof *gen);
    *out = NULL;
    if (!gen)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    gen->edge = edge;
    gen->request = request;
    gen->stats = stats;
    gen->start_us = ft_gen_now_us(gen);
    gen->state = FT_GEN_READY;
    ft_status status = ft_edge_enter(edge, request, err, &gen->start);
    if (status != FT_OK) {
        free(gen);
        return status;
    }
    ft_text_rule_init(&gen->rule, gen->start.rule, gen->start.why,
                      (uint32_t)ft_vocab_size(edge->how.vocab), &request->sampling);
    gen->seen = gen->start.learnt.seen;
    gen->sampling = request->sampling;
    begin_match(gen);
    init_drafting(gen, &gen->start.learnt.calibration);
    status = init_parts(gen, sink, &gen->start.learnt, err);
    if (status == FT_OK)
        status =
            ft_confidences_init(&gen->confidences, edge->how.policy, gen->rule.rule,
                                &gen->rule.terms, (uint32_t)ft_vocab_size(edge->how.vocab), err);
    if (status != FT_OK) {
        ft_gen_destroy(gen);
        return status;
    }
    begin_record(gen);
    ft_gen_timeline_begin(&gen->timeline, edge->how.timeline, gen->start.text);
    *out = gen;
    return FT_OK;
}

void ft_gen_destroy(ft_gen *gen)
{
    if (!gen)
        return;
    ft_edge_end end = {.rule = gen->rule.rule,
                       .limits = &gen->stream.limits,
                       .learnt = {.calibration = gen->drafting.calibration, .seen = gen->seen}};
    ft_steer_get_learnt(&gen->steer, end.learnt.at);
    ft_edge_leave(gen->edge, &gen->start, &end);
    ft_matcher_destroy(gen->sampling.matcher);
    ft_tokens_deinit(&gen->text);
    ft_text_rule_deinit(&gen->rule);
    ft_confidences_deinit(&gen->confidences);
    ft_output_deinit(&gen->output);
    free(gen);
}

/* ---- for the rounds ---- */

int64_t ft_gen_now_us(const ft_gen *gen)
{
    return ft_clock_now_us(&gen->edge->how.clock);
}

bool ft_gen_cancelled(ft_gen *gen)
{
    const ft_gen_sink *sink = gen->output.how.sink;
    if (!gen->cancelled && sink->cancelled && sink->cancelled(sink->ctx))
        gen->cancelled = true;
    return gen->cancelled;
}

void ft_gen_measure_shadow(ft_gen *gen)
{
    const ft_shadow *shadow = &gen->drafting.shadow;
    ft_control_saw_draft(&gen->steer.control, ft_tree_levels(&shadow->tree), shadow->cost.forwards,
                         shadow->cost.us);
}
