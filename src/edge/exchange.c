// SPDX-License-Identifier: Apache-2.0
// One exchange with the verifier. Invariant: the text changes only with a verdict. So the
// outstanding Draft always extends the text, and may be sent again to the same session (same round)
// or to a new one (round 1).
//
// While a verdict is awaited the draft model works, one forward at a time; between forwards the
// link is read. Owned by the generation's thread. Does not read verdicts (rounds.c).
#include "edge/exchange.h"

#include <time.h>

#include "base/log.h"
#include "base/num.h"

#define PENALTIES_SINCE "0.1.0" /* servers that have them */

#define POLL_US         40000 /* while waiting, from one question to the sink to the next */
#define PROVISIONAL_MAX 64    /* tokens of provisional text at most */
#define LOCK_US         1000  /* while waiting, from one try for the draft engine to the next */

static ft_status cancelled(ft_error *err)
{
    return ft_error_set(err, FT_CANCELLED, "edge: the generation was cancelled");
}

/* ---- opening and sending ---- */

/* Open for the text so far. */
static ft_msg_open open_msg(const ft_gen *gen)
{
    const ft_gen_request *r = gen->request;
    const ft_sampling *s = &r->sampling;
    ft_msg_open open = {.protocol = FT_PROTOCOL,
                        .vocab_fingerprint = gen->edge->fingerprint,
                        .sampling = {.temperature = s->temperature,
                                     .top_p = s->top_p,
                                     .min_p = s->min_p,
                                     .top_k = (uint32_t)s->top_k,
                                     .seed = s->seed},
                        .slo_tokens_per_s = ft_gen_speed(gen),
                        .rule = gen->rule.rule->id,
                        .prompt = gen->text.id,
                        .n_prompt = (uint32_t)gen->text.n,
                        .logprobs = r->logprobs,
                        .top_logprobs = r->top_logprobs,
                        .no_drafts = r->no_server_drafts};
    if (s->penalties)
        open.penalties = *s->penalties;
    open.constraint = r->constraint;
    if (s->penalties || r->constraint.kind != FT_CONSTRAINT_NONE)
        open.n_answer = (uint32_t)gen->text.n - s->answer_at;
    if (r->max_tokens)
        open.max_tokens = r->max_tokens - gen->output.generated;
    return open;
}

/* Bytes of messages that the present link has sent. */
static uint64_t bytes_sent(const ft_gen *gen)
{
    uint64_t sent = 0, received = 0;
    gen->stream.link->vt->bytes(gen->stream.link, &sent, &received);
    return sent;
}

static ft_status open_stream(ft_gen *gen, ft_error *err)
{
    ft_msg_open open = open_msg(gen);
    const int64_t now_us = ft_gen_now_us(gen);
    ft_timing_opens(&gen->timing, open.n_prompt);
    ft_status status = ft_stream_open(&gen->stream, &open, err);
    ft_link *link = gen->stream.link;
    ft_steer_go(&gen->steer, ft_servers_is_fallback(&gen->edge->servers, gen->stream.at)
                                 ? FT_PLACE_FALLBACK
                                 : FT_PLACE_SERVER);
    if (status == FT_OK)
        ft_timing_open_sent(&gen->timing, now_us, bytes_sent(gen),
                            !link->vt->connected || link->vt->connected(link));
    return status;
}

/* What the draft has so far goes to a sink that asks for it. */
static void tell_provisional(ft_gen *gen)
{
    int32_t token[PROVISIONAL_MAX];
    if (!gen->output.how.sink->on_provisional)
        return;
    const uint32_t n = ft_drafting_likeliest(&gen->drafting, token, PROVISIONAL_MAX);
    if (n > 0)
        ft_output_provisional(&gen->output, token, n);
}

static ft_status send_draft(ft_gen *gen, ft_error *err)
{
    ft_msg_draft *draft = &gen->out.msg.draft;
    /* The tree may have been made for another server, which takes larger ones. */
    ft_text_rule_cut(draft, ft_text_rule_nodes(&gen->rule, &gen->stream.limits));
    draft->round = gen->stream.round;
    draft->rtt_us = ft_timing_rtt_us(&gen->timing);
    ft_timing_sent(&gen->timing, ft_gen_now_us(gen));
    gen->early.state =
        gen->drafting.tree.n <= draft->n ? FT_EARLY_POSSIBLE : FT_EARLY_PASSED; /* cut */
    const uint64_t before = bytes_sent(gen);
    ft_status status = ft_stream_ask(&gen->stream, &gen->out.msg, err);
    ft_timing_draft_bytes(&gen->timing, before, bytes_sent(gen));
    ft_gen_timeline_sent(&gen->timeline, gen->timing.sent.us, draft);
    if (status == FT_OK)
        tell_provisional(gen);
    return status;
}

/* ---- losing and recovering ---- */

/* Sleeps in slices; false: cancelled. */
static bool pause_us(ft_gen *gen, int64_t us)
{
    for (int64_t left = us; left > 0; left -= POLL_US) {
        const int64_t slice = left < POLL_US ? left : POLL_US;
        const struct timespec ts = {.tv_nsec = (long)slice * 1000};
        if (ft_gen_cancelled(gen))
            return false;
        nanosleep(&ts, NULL);
    }
    return !ft_gen_cancelled(gen);
}

/* The rest of a broken run becomes the next round of the session, or the first of a new session.
 * The next run is forgotten. */
static void break_run(ft_gen *gen)
{
    ft_msg_draft *draft = &gen->out.msg.draft;
    gen->out.next_run = 0;
    draft->base = (uint32_t)gen->text.n;
    draft->run = gen->out.run_left;
}

/* The server does not take the text's rule: the text goes on with another. An outstanding draft
 * stays valid under that rule. */
static void follow_rule(ft_gen *gen)
{
    gen->out.msg.draft.n_evidence = 0;
    ft_drafting_set_rule(&gen->drafting, gen->rule.rule);
}

/* After a failure, which is in *err. Returns FT_OK when it is time to open again, otherwise the
 * error that the caller reports. */
static ft_status recover(ft_gen *gen, ft_status code, ft_error *err)
{
    const bool was_open = gen->stream.session.known;
    const ft_gen_sink *sink = gen->output.how.sink;
    ft_stream_loss loss;
    ft_gen_timeline_lost(&gen->timeline, ft_gen_now_us(gen));
    ft_status status = ft_stream_recover(&gen->stream, code, err, &loss);
    gen->stats->retry_after_ms = loss.retry_after_ms;
    ft_server_msg_free(gen->held); /* of the stream that is lost */
    gen->held = NULL;
    gen->early.state = FT_EARLY_POSSIBLE;
    gen->out.msg.draft.together = 0; /* the others do not wait for it */
    if (ft_gen_in_run(gen))
        break_run(gen);
    ft_gen_happened(gen, FT_GEN_LOST);
    if (ft_gen_cancelled(gen))
        return cancelled(err);
    if (status == FT_OK && sink->on_away)
        sink->on_away(sink->ctx);
    if (loss.anew)
        FT_LOGI("edge", "session not resumed, opening anew length=%zu same_tokens=%d: %s",
                gen->text.n, gen->rule.terms.same_tokens, err->message);
    if (status != FT_OK && !was_open &&
        ft_text_rule_refused(&gen->rule, code, (uint32_t)ft_vocab_size(gen->edge->how.vocab),
                             &gen->request->sampling, gen->output.generated)) {
        follow_rule(gen);
        return FT_OK;
    }
    if (status != FT_OK || loss.pause_us == 0)
        return status;
    return pause_us(gen, loss.pause_us) ? FT_OK : cancelled(err);
}

ft_status ft_gen_open(ft_gen *gen, ft_error *err)
{
    ft_status status = open_stream(gen, err);
    return status != FT_OK && gen->stream.link ? recover(gen, status, err) : FT_OK;
}

ft_status ft_gen_go_back(ft_gen *gen, ft_error *err)
{
    if (!ft_stream_may_leave(&gen->stream))
        return FT_OK;
    gen->early.state = FT_EARLY_POSSIBLE;
    if (ft_gen_in_run(gen))
        break_run(gen);
    ft_stream_leave(&gen->stream);
    ft_gen_happened(gen, FT_GEN_LOST);
    return ft_gen_open(gen, err);
}

/* ---- while a verdict is awaited ---- */

/* Whether enough is known of the outstanding tree and the server to decide on an early draft. */
static bool may_send_early(const ft_gen *gen)
{
    return gen->edge->how.early && gen->stream.limits.early_drafts &&
           ft_rule_takes_early(&gen->rule.terms) && gen->stream.state == FT_STREAM_WAITING &&
           gen->early.state == FT_EARLY_POSSIBLE && !gen->steer.control.running &&
           gen->timing.sent.known && gen->timing.wait_us.known &&
           ft_control_answer_us(&gen->steer.control, 1) > 0;
}

static void send_early(ft_gen *gen, const ft_early_bounds *bounds)
{
    ft_tree tree;
    uint8_t under[FT_TREE_MAX];
    const ft_growth_early how = {
        .budget = ft_min_u32(bounds->budget, ft_text_rule_nodes(&gen->rule, &gen->stream.limits)),
        .spare_tok = bounds->spare_tok};
    if (!ft_early_worth(ft_drafter_early(gen->drafting.drafter, &how, &tree, under))) {
        gen->early.state = FT_EARLY_PASSED;
        return;
    }
    const ft_client_msg *msg =
        ft_early_make(&gen->early, gen->stream.round + 1, gen->out.msg.draft.base, &tree, under);
    gen->stats->early_sent++;
    ft_gen_timeline_early(&gen->timeline, ft_gen_now_us(gen), &msg->draft);
    ft_stream_ask_behind(&gen->stream, msg, "the early draft");
}

/* Called between draft forwards: sends the early draft when it is time, if it is worth it. */
static void look_early(ft_gen *gen)
{
    const ft_control *control = &gen->steer.control;
    ft_early_bounds bounds;
    if (!may_send_early(gen))
        return;
    /* A part of an early draft is a small tree, and its verdict comes sooner than most. */
    const ft_early_view view = {.sent_ago_us = (double)(ft_gen_now_us(gen) - gen->timing.sent.us),
                                .answer_us = ft_control_answer_us(control, gen->out.msg.draft.n),
                                .rtt_us = gen->timing.rtt_us.value,
                                .others_us = ft_control_busy_us(control),
                                .forward_us = ft_control_forward_us(control),
                                .more = !gen->drafting.exhausted,
                                .tokens_per_us = ft_depth_rate(&gen->steer.depth),
                                .budget = gen->drafting.params.budget};
    switch (ft_early_decide(&gen->early.policy, &view, &bounds)) {
    case FT_EARLY_WAIT:
        break;
    case FT_EARLY_NEVER:
        gen->early.state = FT_EARLY_PASSED;
        break;
    case FT_EARLY_SEND:
        send_early(gen, &bounds);
        break;
    }
}

/* How long the edge may then wait for the link. */
static int64_t idle_us(ft_idle idle)
{
    return idle == FT_IDLE_MORE ? 0 : idle == FT_IDLE_LOCKED ? LOCK_US : POLL_US;
}

/* ft_drafting_idle, and how long the draft model worked. */
static ft_idle work_idle(ft_gen *gen, bool below)
{
    ft_drafting *d = &gen->drafting;
    const uint64_t before = ft_drafting_forwards(d);
    const int64_t from_us = ft_gen_now_us(gen);
    const ft_idle idle = ft_drafting_idle(d);
    const int64_t to_us = ft_gen_now_us(gen);
    if (ft_drafting_forwards(d) == before)
        return idle;
    if (below)
        ft_timing_ahead(&gen->timing, to_us - from_us);
    ft_gen_timeline_worked(&gen->timeline, from_us, to_us, below);
    return idle;
}

/* Does some work for at most one draft forward. Returns how long the edge may then wait for the
 * link. */
static int64_t use_time(ft_gen *gen)
{
    ft_drafting *d = &gen->drafting;
    const bool below = d->tree.n > 0 && !d->exhausted;
    const bool shadow_out = d->shadow.state == FT_SHADOW_OUT;
    tell_provisional(gen);
    if (d->state == FT_DRAFTING_ON && !ft_gen_drafts_ahead(gen))
        return POLL_US;
    if (below) {
        look_early(gen);
        const ft_known_us near = ft_timing_near(&gen->timing, ft_gen_now_us(gen),
                                                ft_control_forward_us(&gen->steer.control));
        if (near.known)
            return near.us < POLL_US ? near.us : POLL_US;
    }
    const ft_idle idle = work_idle(gen, below);
    if (below && d->exhausted && d->tree.n > 0)
        look_early(gen);
    if (!shadow_out && d->shadow.state == FT_SHADOW_OUT)
        ft_gen_measure_shadow(gen);
    return idle_us(idle);
}

/* ---- waiting ---- */

static void tell_target(const ft_gen *gen)
{
    const ft_gen_sink *sink = gen->output.how.sink;
    if (sink->on_target)
        sink->on_target(sink->ctx, gen->stream.target);
}

/* What the last answer says of the uplink. */
static void learn_uplink(ft_gen *gen)
{
    const ft_timing_trip *trip = &gen->timing.trip;
    if (trip->bytes > 0)
        ft_edge_saw_trip(gen->edge, gen->stream.at, trip);
}

/* A message other than the verdict that is awaited. */
static ft_status take_other(ft_gen *gen, const ft_server_msg *msg, ft_error *err)
{
    if (msg->kind == FT_SERVER_OPENED) {
        const ft_msg_opened *o = &msg->opened;
        const uint32_t run = ft_gen_in_run(gen) ? gen->out.msg.draft.run : 0;
        ft_timing_opened(&gen->timing, ft_gen_now_us(gen) - msg->waited_us, o->queue_us);
        learn_uplink(gen);
        ft_timing_reads(&gen->timing,
                        o->length > o->cached_tokens ? o->length - o->cached_tokens : 0);
        if (!gen->stream.begun) /* not text that this generation made */
            gen->stats->cached_tokens = o->cached_tokens;
        if (gen->request->sampling.penalties && !o->limits.penalties)
            return ft_error_set(err, FT_UNSUPPORTED,
                                "the verification server has no penalties and no logit_bias: it "
                                "needs foretoken " PENALTIES_SINCE " or later");
        if (gen->request->constraint.kind != FT_CONSTRAINT_NONE && !o->limits.constraints)
            return ft_error_set(err, FT_UNSUPPORTED, FT_NO_CONSTRAINTS);
        ft_status status = ft_stream_opened(&gen->stream, o, gen->text.n, run, err);
        if (status == FT_OK) {
            ft_steer_heard(&gen->steer, &o->hints);
            tell_target(gen);
        }
        if (status == FT_OK && gen->stream.state == FT_STREAM_READY)
            status = send_draft(gen, err);
        return status;
    }
    if (msg->verdict.round >= gen->stream.round)
        return ft_error_set(err, FT_CORRUPT, "edge: a verdict for round %u came, not for %u",
                            msg->verdict.round, gen->stream.round);
    return FT_OK; /* of an older round, sent before the stream was lost */
}

/* The link has been silent for so long. A server that is alive gets more time. Otherwise a resume
 * may mend what was lost without a word. If there is another server, or this one has answered a
 * resume already, another session may fare better. */
static ft_status check_time(ft_gen *gen, int64_t silent_us, ft_error *err)
{
    const ft_servers *servers = &gen->edge->servers;
    const ft_link_source *source = &servers->source[gen->stream.at];
    const bool accepted = ft_stream_accepted(&gen->stream);
    if (source->in_process || silent_us <= ft_timing_limit_us(&gen->timing))
        return FT_OK;
    const ft_status health = source->health ? source->health(source->ctx, err) : FT_UNSUPPORTED;
    if (health == FT_OK && ft_timing_longer(&gen->timing))
        return FT_OK;
    const bool sick =
        (health == FT_UNAVAILABLE || health == FT_TIMEOUT) && ft_servers_several(servers);
    const bool resumed = gen->timing.answer.n_overdue > 0;
    ft_timing_overdue(&gen->timing);
    return ft_error_set(err, accepted && (resumed || sick) ? FT_TIMEOUT : FT_UNAVAILABLE,
                        "edge: the server has been silent for %.0f s", (double)silent_us / 1e6);
}

/* How long the link has been silent, where there is a fallback target. */
typedef struct silence {
    int64_t since_us; /* the server was heard then, or said that it is alive */
    ft_known_us most; /* may be silent for so long */
} silence;

/* There is a fallback target: a server that is silent for so long must say that it is alive. */
static ft_status check_alive(ft_gen *gen, int64_t now_us, silence *quiet, ft_error *err)
{
    const ft_link_source *source = &gen->edge->servers.source[gen->stream.at];
    if (!quiet->most.known || now_us - quiet->since_us < quiet->most.us || !source->health)
        return FT_OK;
    const ft_status health = source->health(source->ctx, err);
    if (health == FT_UNAVAILABLE || health == FT_TIMEOUT) {
        ft_stream_silent_since(&gen->stream, quiet->since_us);
        return ft_error_set(err, FT_UNAVAILABLE, "edge: the server is silent and not alive");
    }
    quiet->since_us = ft_gen_now_us(gen);
    quiet->most.us = 1000 * (int64_t)gen->edge->how.fallback_ms;
    return FT_OK;
}

/* At the fallback target: asks whether a server would take the text. */
static void look_for_servers(ft_gen *gen)
{
    if (!ft_offline_here(&gen->stream.offline))
        return;
    ft_msg_open open = open_msg(gen);
    ft_stream_look(&gen->stream, &open);
}

static bool is_awaited(const ft_gen *gen, const ft_server_msg *msg)
{
    return msg->kind == FT_SERVER_VERDICT && msg->verdict.round == gen->stream.round &&
           gen->stream.state == FT_STREAM_WAITING;
}

/* The next message, which may have come before. */
static ft_status receive(ft_gen *gen, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    if (!gen->held)
        return ft_stream_recv(&gen->stream, timeout_us, err, out);
    *out = gen->held;
    (*out)->waited_us += ft_gen_now_us(gen) - gen->held_us;
    gen->held = NULL;
    return FT_OK;
}

/* Waits on this stream for a verdict of the outstanding round. */
static ft_status await(ft_gen *gen, ft_error *err, ft_server_msg **out)
{
    const int64_t began_us = ft_gen_now_us(gen);
    int64_t timeout_us = 0, heard_us = began_us;
    silence quiet = {began_us, ft_stream_silence(&gen->stream)};
    for (;;) {
        ft_server_msg *msg = NULL;
        if (ft_gen_cancelled(gen))
            return cancelled(err);
        look_for_servers(gen);
        ft_status status = receive(gen, timeout_us, err, &msg);
        const int64_t now_us = ft_gen_now_us(gen);
        if (status == FT_TIMEOUT) {
            status = check_time(gen, now_us - heard_us, err);
            if (status == FT_OK)
                status = check_alive(gen, now_us, &quiet, err);
            if (status != FT_OK)
                return status;
            timeout_us = use_time(gen);
            if (timeout_us > 0)
                ft_gen_timeline_idle(&gen->timeline, ft_gen_now_us(gen));
            continue;
        }
        if (status != FT_OK)
            return status;
        if (is_awaited(gen, msg)) {
            ft_timing_waited(&gen->timing, now_us - heard_us);
            ft_gen_timeline_verdict(&gen->timeline, now_us - msg->waited_us,
                                    gen->timing.early.known ? gen->timing.early : gen->timing.sent,
                                    &msg->verdict, gen->out.msg.draft.n);
            ft_timing_verdict(&gen->timing, now_us - msg->waited_us, &msg->verdict,
                              gen->out.msg.draft.n);
            learn_uplink(gen);
            ft_stream_heard(&gen->stream);
            gen->stats->wait_us += (uint64_t)(now_us - began_us);
            *out = msg;
            return FT_OK;
        }
        heard_us = quiet.since_us = now_us;
        status = take_other(gen, msg, err);
        ft_server_msg_free(msg);
        if (status != FT_OK)
            return status;
    }
}

/* Sends the outstanding Draft if the stream is ready for it. */
static ft_status try_send(ft_gen *gen, ft_error *err)
{
    ft_status status = FT_OK;
    if (!gen->stream.link)
        status = open_stream(gen, err);
    if (status == FT_OK && gen->stream.state == FT_STREAM_READY)
        status = send_draft(gen, err);
    return status;
}

ft_status ft_gen_send(ft_gen *gen, ft_error *err)
{
    ft_status status = try_send(gen, err);
    return status == FT_OK || gen->cancelled ? status : recover(gen, status, err);
}

ft_status ft_gen_mend(ft_gen *gen, ft_error *err)
{
    ft_status status = FT_OK;
    if (gen->held)
        return FT_OK;
    if (gen->stream.link) {
        status = ft_stream_recv(&gen->stream, 0, err, &gen->held);
        gen->held_us = ft_gen_now_us(gen);
        if (status == FT_OK || status == FT_TIMEOUT)
            return FT_OK;
        status = recover(gen, status, err);
    }
    return status == FT_OK ? ft_gen_send(gen, err) : status;
}

ft_status ft_gen_look(ft_gen *gen, ft_error *err)
{
    if (!gen->stream.link || gen->stream.session.known || gen->held)
        return FT_OK;
    const ft_status status = ft_stream_recv(&gen->stream, 0, err, &gen->held);
    gen->held_us = ft_gen_now_us(gen);
    if (status == FT_OK && gen->held->kind == FT_SERVER_OPENED)
        ft_steer_heard(&gen->steer, &gen->held->opened.hints);
    return status == FT_OK || status == FT_TIMEOUT ? FT_OK : recover(gen, status, err);
}

ft_status ft_gen_exchange(ft_gen *gen, ft_error *err, ft_server_msg **out)
{
    *out = NULL;
    for (;;) {
        ft_status status = try_send(gen, err);
        if (status == FT_OK)
            status = await(gen, err, out);
        if (status == FT_OK)
            return FT_OK;
        if (gen->cancelled)
            return cancelled(err); /* the stream stays, to send Cancel */
        status = recover(gen, status, err);
        if (status != FT_OK)
            return status;
    }
}
