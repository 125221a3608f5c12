// SPDX-License-Identifier: Apache-2.0
// One exchange with the verifier, over as many streams as it takes.
//
//   no link --connect--> Open{prompt} --------------> Draft sent --> Verdict
//      ^    \--connect--> Open{resume} --Opened--> Draft repeated --^
//      |                      | NOT_FOUND: the session is forgotten, the text so far is the prompt
//      +--back-off-- stream lost, server full
//
// Invariant: gen->text changes only with a verdict, so whatever happens in between, the outstanding
// Draft still hangs on the text's end, and may be sent again to the same session (same round) or to
// a new one (round 1). Rule `exact` gives the same tokens both ways.
//
// A run brings many verdicts, and while it goes on the next one may have been asked for already
// (gen->ahead_run). The server repeats only rounds of one verdict, so where the stream of a run broke it is
// resumed only if the server's text is no longer than ours, and what was left of the run is asked for in
// the next round; else the refused resume ends the old session, and the text so far is opened anew.
//
// While it waits it gives the time to drafting.c, one draft forward at a time, and looks for the
// verdict in between.
//
// Owned by the generation's thread. Does not look into verdicts (output.c).
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "edge/edge_internal.h"

#define POLL_US        40000 /* how often the sink is asked while waiting */
#define TURN_US        1000  /* how often a turn at the draft engine is tried while waiting */
#define BACKOFF_US     20000 /* first pause after a loss; doubles */
#define BACKOFF_TOP_US 1000000
#define RTT_WEIGHT     0.2 /* of a new sample in the smoothed round-trip time */
#define WAIT_WEIGHT    0.3 /* and in the time that a verdict takes */

bool ft_gen_cancelled(ft_gen *gen)
{
    if (!gen->cancelled && gen->sink->cancelled && gen->sink->cancelled(gen->sink->ctx))
        gen->cancelled = true;
    return gen->cancelled;
}

static int64_t now_us(const ft_gen *gen)
{
    return ft_clock_now_us(&gen->edge->clock);
}

static ft_status cancelled(ft_error *err)
{
    return ft_error_set(err, FT_CANCELLED, "edge: the generation was cancelled");
}

/* ---- opening ---- */

static void fill_open(const ft_gen *gen, ft_msg_open *open)
{
    const ft_sampling *s = &gen->request->sampling;
    *open = (ft_msg_open){.protocol = FT_PROTOCOL,
                          .vocab_fingerprint = gen->edge->fingerprint,
                          .sampling = {.temperature = s->temperature,
                                       .top_p = s->top_p,
                                       .min_p = s->min_p,
                                       .top_k = (uint32_t)s->top_k,
                                       .seed = s->seed},
                          .slo_tokens_per_s = gen->request->slo_tokens_per_s > 0
                                                  ? gen->request->slo_tokens_per_s
                                                  : gen->edge->slo_tokens_per_s,
                          .logprobs = gen->request->logprobs,
                          .top_logprobs = gen->request->top_logprobs};
    memcpy(open->model, gen->model, sizeof open->model); /* a text is finished by who began it */
    if (gen->has_session) {
        open->resume = true;
        open->session = gen->session;
        open->secret = gen->secret;
        open->base = (uint32_t)gen->text.n;
        return;
    }
    open->prompt = gen->text.id;
    open->n_prompt = (uint32_t)gen->text.n;
    if (gen->request->max_tokens)
        open->max_tokens = gen->request->max_tokens - gen->generated;
}

ft_status ft_gen_connect(ft_gen *gen, ft_error *err)
{
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN};
    ft_status status = gen->edge->source.open(gen->edge->source.ctx, err, &gen->link);
    if (status != FT_OK)
        return status;
    if (gen->request->tenant && gen->link->vt->be)
        gen->link->vt->be(gen->link, gen->request->tenant);
    gen->stats->reconnects += gen->n_streams++ > 0;
    fill_open(gen, &msg.open);
    gen->resuming = msg.open.resume;
    gen->draft_sent = false;
    ft_gen_early_reset(gen);
    gen->stream_new = true;
    if (!gen->has_session)
        gen->round = 1;
    return gen->link->vt->send(gen->link, &msg, err);
}

static void drop_link(ft_gen *gen)
{
    uint64_t sent = 0, received = 0;
    if (!gen->link)
        return;
    gen->link->vt->bytes(gen->link, &sent, &received);
    gen->old_sent += sent;
    gen->old_received += received;
    gen->link->vt->destroy(gen->link);
    gen->link = NULL;
}

void ft_gen_disconnect(ft_gen *gen, ft_client_kind kind)
{
    const ft_client_msg msg = {.kind = kind};
    ft_error err = {0};
    if (gen->link && gen->link->vt->send(gen->link, &msg, &err) != FT_OK)
        FT_LOGD("edge", "the server was not told of the end: %s", err.message);
    drop_link(gen);
}

/* ---- losing and recovering ---- */

/* Codes behind which a retry may succeed; everything else is the server's last word. */
static bool is_passing(ft_status code)
{
    return code == FT_UNAVAILABLE || code == FT_EXHAUSTED || code == FT_CANCELLED ||
           code == FT_ABORTED;
}

/* Sleeps in slices; false: cancelled. */
static bool pause_us(ft_gen *gen, int64_t us)
{
    for (int64_t left = us; left > 0; left -= POLL_US) {
        int64_t slice = left < POLL_US ? left : POLL_US;
        const struct timespec ts = {.tv_nsec = (long)slice * 1000};
        if (ft_gen_cancelled(gen))
            return false;
        nanosleep(&ts, NULL);
    }
    return !ft_gen_cancelled(gen);
}

/* What is left of a broken run is the session's next round, or a new one's first. */
static void break_run(ft_gen *gen)
{
    ft_msg_draft *draft = &gen->out.draft;
    gen->ahead_run = gen->run_tokens = 0;
    gen->run_us = 0;
    draft->base = (uint32_t)gen->text.n;
    draft->run = gen->run_left;
}

/* After a failure: FT_OK when it is time to connect again. err holds what happened and, if that is
 * final, is what the caller reports. */
static ft_status recover(ft_gen *gen, ft_status code, ft_error *err)
{
    int64_t pause = gen->backoff_us ? gen->backoff_us : BACKOFF_US;
    bool resume_refused = gen->resuming && !is_passing(code);
    int64_t retry_us = gen->link ? 1000 * (int64_t)gen->link->vt->retry_after_ms(gen->link) : 0;
    gen->stats->retry_after_ms = (uint32_t)(retry_us / 1000);
    drop_link(gen);
    if (ft_gen_cancelled(gen))
        return cancelled(err);
    if (gen->out.draft.run > 1)
        break_run(gen);
    if (resume_refused) {
        gen->has_session = gen->resuming = false;
        FT_LOGI("edge", "session not resumed, opening anew length=%zu: %s", gen->text.n,
                err->message);
        return FT_OK;
    }
    if (!is_passing(code))
        return code;
    if (!gen->is_down) {
        gen->is_down = true;
        gen->down_since = now_us(gen);
    }
    if (code == FT_EXHAUSTED && retry_us > pause)
        pause = retry_us;
    int64_t down = gen->down_us + now_us(gen) - gen->down_since;
    if (down + pause > gen->edge->reconnect_us) {
        const ft_error last = *err;
        return ft_error_set(err, code == FT_CANCELLED ? FT_UNAVAILABLE : code,
                            "%.300s (tried again for %.1f s)", last.message, (double)down / 1e6);
    }
    FT_LOGI("edge", "verifier lost, retry in %lld ms: %s", (long long)(pause / 1000), err->message);
    gen->backoff_us = 2 * pause < BACKOFF_TOP_US ? 2 * pause : BACKOFF_TOP_US;
    return pause_us(gen, pause) ? FT_OK : cancelled(err);
}

/* ---- one stream ---- */

static ft_status send_draft(ft_gen *gen, ft_error *err)
{
    gen->out.draft.round = gen->round;
    gen->out.draft.rtt_us = (uint32_t)gen->rtt_us;
    gen->draft_sent = true;
    gen->sent_us = gen->looked_us = now_us(gen);
    ft_gen_early_reset(gen);
    return gen->link->vt->send(gen->link, &gen->out, err);
}

void ft_gen_run_ahead(ft_gen *gen, uint32_t run)
{
    ft_client_msg *msg = &gen->next;
    ft_error err = {0};
    msg->kind = FT_CLIENT_DRAFT;
    msg->draft.round = gen->round + 1;
    msg->draft.base = (uint32_t)gen->text.n + gen->run_left;
    msg->draft.n = 0;
    msg->draft.run = run;
    msg->draft.draft_us = 0;
    msg->draft.rtt_us = (uint32_t)gen->rtt_us;
    gen->ahead_run = run;
    if (gen->link->vt->send(gen->link, msg, &err) != FT_OK)
        FT_LOGD("edge", "the next run could not be asked for: %s", err.message);
}

void ft_gen_round_over(ft_gen *gen)
{
    gen->round++;
    gen->early.begun = false;
    gen->run_left = gen->ahead_run;
    if (gen->ahead_run > 0) {
        ft_msg_draft *draft = &gen->out.draft;
        draft->base = (uint32_t)gen->text.n;
        draft->n = 0;
        draft->run = gen->ahead_run;
        gen->sent_us = 0; /* long ago: no round trip to be seen */
    }
    gen->ahead_run = 0;
}

/* The resumed session must be where the outstanding round hangs on, or have answered it already; of a
 * run of several tokens the server keeps only the end. */
static bool session_fits(const ft_gen *gen, const ft_msg_opened *opened)
{
    if (opened->last_round + 1 == gen->round)
        return opened->length == gen->text.n;
    return gen->out.draft.run <= 1 && opened->last_round == gen->round &&
           opened->length > gen->text.n;
}

static ft_status take_opened(ft_gen *gen, const ft_msg_opened *opened, ft_error *err)
{
    if (gen->is_down)
        gen->down_us += now_us(gen) - gen->down_since;
    gen->is_down = false;
    gen->limits = opened->limits;
    if (!gen->resuming) {
        gen->session = opened->session;
        gen->secret = opened->secret;
        gen->has_session = true;
        memcpy(gen->model, opened->model, sizeof gen->model);
        return FT_OK;
    }
    if (gen->run_left > 0 && opened->last_round == gen->round && opened->length == gen->text.n)
        gen->round++; /* nothing of the run is missing: it ended there */
    if (!session_fits(gen, opened)) {
        ft_gen_disconnect(gen, FT_CLIENT_CLOSE); /* the text is opened anew */
        return ft_error_set(err, FT_PRECONDITION,
                            "edge: the server's session is at round %u, not %u", opened->last_round,
                            gen->round);
    }
    gen->resuming = false;
    return send_draft(gen, err);
}

/* A round that began with an early draft took from one verdict to the next, and says nothing of the network.
 *
 * A verdict that came while the draft model worked was there somewhere between the last look and this
 * one. Of a run only the first verdict says something about the network, and of one that was asked
 * for ahead none does; so does the first of a stream, which holds the server's prefill. */
static void take_times(ft_gen *gen, const ft_msg_verdict *verdict)
{
    int64_t at = now_us(gen);
    if (gen->busy_look)
        at -= (at - gen->looked_us) / 2;
    const int64_t wait_us = gen->sent_us > 0 && !gen->stream_new ? at - gen->sent_us : 0;
    const bool early = gen->early.since_us > 0;
    gen->round_us = wait_us > 0 && early ? at - gen->early.since_us : wait_us;
    gen->rtt_sample_us = -1;
    gen->mark_us = wait_us > 0 ? gen->sent_us + verdict->queue_us + verdict->verify_us : 0;
    if (wait_us > 0 && gen->out.draft.n > 0)
        gen->wait_us = gen->wait_us > 0
                           ? (1 - WAIT_WEIGHT) * gen->wait_us + WAIT_WEIGHT * (double)wait_us
                           : (double)wait_us;
    if (wait_us > 0 && !early) {
        int64_t rtt = gen->round_us - verdict->queue_us - verdict->verify_us;
        gen->rtt_sample_us = rtt > 0 ? rtt : 0;
        gen->rtt_us = gen->rtt_us > 0
                          ? (1 - RTT_WEIGHT) * gen->rtt_us + RTT_WEIGHT * (double)gen->rtt_sample_us
                          : (double)gen->rtt_sample_us;
    }
    gen->sent_us = 0;
    gen->stream_new = false;
    gen->down_us = 0;
    gen->backoff_us = 0;
}

/* Does something useful, one draft forward long at most; how long the link may be waited for then. */
static int64_t use_time(ft_gen *gen)
{
    ft_idle idle = ft_gen_draft_idle(gen);
    gen->busy_look = idle == FT_IDLE_MORE;
    return idle == FT_IDLE_MORE                             ? 0
           : idle == FT_IDLE_TURN                           ? TURN_US
           : idle == FT_IDLE_NEAR && gen->near_us < POLL_US ? gen->near_us
                                                            : POLL_US;
}

/* Waits on this stream for a verdict of the outstanding round. */
static ft_status wait_verdict(ft_gen *gen, ft_error *err, ft_server_msg **out)
{
    const int64_t began = now_us(gen);
    int64_t timeout = 0;
    gen->busy_look = false;
    for (;;) {
        ft_server_msg *msg = NULL;
        if (ft_gen_cancelled(gen))
            return cancelled(err);
        ft_status status = gen->link->vt->recv(gen->link, timeout, err, &msg);
        if (status == FT_TIMEOUT) {
            gen->looked_us = now_us(gen);
            /* A resume costs the server nothing: who does not answer it is not there. */
            if (gen->resuming && gen->looked_us - began > gen->edge->reconnect_us)
                return ft_error_set(err, FT_UNAVAILABLE, "edge: no answer to a resume");
            timeout = use_time(gen);
            continue;
        }
        if (status != FT_OK)
            return status;
        if (msg->kind == FT_SERVER_VERDICT && msg->verdict.round == gen->round) {
            take_times(gen, &msg->verdict);
            gen->stats->wait_us += now_us(gen) - began;
            *out = msg;
            return FT_OK;
        }
        if (msg->kind == FT_SERVER_OPENED)
            status = take_opened(gen, &msg->opened, err);
        else if (msg->verdict.round > gen->round)
            status = ft_error_set(err, FT_CORRUPT, "edge: a verdict for round %u, awaited %u",
                                  msg->verdict.round, gen->round);
        ft_server_msg_free(msg);
        if (status != FT_OK)
            return status;
    }
}

ft_status ft_gen_exchange(ft_gen *gen, ft_error *err, ft_server_msg **out)
{
    *out = NULL;
    for (;;) {
        ft_status status = FT_OK;
        if (!gen->link)
            status = ft_gen_connect(gen, err);
        if (status == FT_OK && !gen->resuming && !gen->draft_sent)
            status = send_draft(gen, err);
        if (status == FT_OK)
            status = wait_verdict(gen, err, out);
        if (status == FT_OK)
            return FT_OK;
        if (gen->cancelled)
            return cancelled(err); /* the link stays, to say Cancel over */
        status = recover(gen, status, err);
        if (status != FT_OK)
            return status;
    }
}
