// SPDX-License-Identifier: Apache-2.0
// One text's stream. Invariants: there is a link in READY, WAITING and RESUMING, and in no other
// state; the session is known in RESUMING and DOWN, and unknown in NONE (ft_stream_check).
//
// A run has many verdicts, and the server repeats only rounds of one verdict. So a run that lost
// its stream is resumed only if the server's text is no longer than ours. Otherwise the edge ends
// the server's session and opens the text so far anew.
//
// Owned by the generation's thread. Never sleeps: it returns how long to pause.
#include "edge/stream.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"

#define BACKOFF_US     20000 /* first pause after a loss; doubles */
#define BACKOFF_TOP_US 1000000
#define FAILURES_MOST  3 /* of servers, in a text: the text itself may be their cause */

#define NO FT_STREAM_ILLEGAL

static const ft_stream_state transitions[FT_STREAM_N_STATES][FT_STREAM_N_EVENTS] = {
    [FT_STREAM_NONE] = {FT_STREAM_READY, NO, NO, NO, NO, NO, FT_STREAM_NONE, FT_STREAM_CLOSED},
    [FT_STREAM_READY] = {NO, NO, NO, FT_STREAM_WAITING, NO, FT_STREAM_DOWN, FT_STREAM_NONE,
                         FT_STREAM_CLOSED},
    [FT_STREAM_WAITING] = {NO, NO, FT_STREAM_WAITING, NO, FT_STREAM_READY, FT_STREAM_DOWN,
                           FT_STREAM_NONE, FT_STREAM_CLOSED},
    [FT_STREAM_RESUMING] = {NO, NO, FT_STREAM_READY, NO, NO, FT_STREAM_DOWN, FT_STREAM_NONE,
                            FT_STREAM_CLOSED},
    [FT_STREAM_DOWN] = {NO, FT_STREAM_RESUMING, NO, NO, NO, FT_STREAM_DOWN, NO, FT_STREAM_CLOSED},
    [FT_STREAM_CLOSED] = {NO, NO, NO, NO, NO, NO, NO, FT_STREAM_CLOSED},
};

ft_stream_state ft_stream_next(ft_stream_state state, ft_stream_event event)
{
    return transitions[state][event];
}

void ft_stream_check(const ft_stream *s)
{
    const bool linked = s->state == FT_STREAM_READY || s->state == FT_STREAM_WAITING ||
                        s->state == FT_STREAM_RESUMING;
    assert(linked == (s->link != NULL));
    assert(s->session.known || (s->state != FT_STREAM_RESUMING && s->state != FT_STREAM_DOWN));
    assert(!s->session.known || s->state != FT_STREAM_NONE);
    assert(s->round >= 1 || s->n_links == 0);
    assert(s->outage.pause_us >= BACKOFF_US && s->outage.past_us >= 0);
    (void)linked;
}

static void happened(ft_stream *s, ft_stream_event event)
{
    const ft_stream_state next = ft_stream_next(s->state, event);
    assert(next != FT_STREAM_ILLEGAL);
    s->state = next;
#ifdef FT_DEBUG_CHECKS
    ft_stream_check(s);
#endif
}

static int64_t now_us(const ft_stream *s)
{
    return ft_clock_now_us(&s->how.clock);
}

void ft_stream_init(ft_stream *s, const ft_stream_opts *opts)
{
    *s = (ft_stream){.how = *opts,
                     .limits = opts->limits,
                     .state = FT_STREAM_NONE,
                     .outage.pause_us = BACKOFF_US};
}

/* ---- opening ---- */

/* The model that began a text must finish it, so Open names the model again. */
static void fill(const ft_stream *s, ft_msg_open *open)
{
    memcpy(open->model, s->model, sizeof open->model);
    if (s->state != FT_STREAM_DOWN)
        return;
    open->resume = true;
    open->session = s->session.id;
    open->secret = s->session.secret;
    open->base = open->n_prompt;
    open->n_prompt = open->max_tokens = 0;
    open->prompt = NULL;
}

ft_status ft_stream_open(ft_stream *s, ft_msg_open *open, ft_error *err)
{
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN};
    ft_status status = s->how.source.open(s->how.source.ctx, err, &s->link);
    if (status != FT_OK)
        return status;
    if (s->how.key_name && s->link->vt->use_key)
        s->link->vt->use_key(s->link, s->how.key_name);
    fill(s, open);
    msg.open = *open;
    s->how.stats->reconnects += s->n_links++ > 0;
    s->opened_us = now_us(s);
    if (!open->resume)
        s->round = 1;
    happened(s, open->resume ? FT_STREAM_RESUME : FT_STREAM_OPEN);
    return s->link->vt->send(s->link, &msg, err);
}

/* The resumed session must have the text that the outstanding round extends, or have answered that
 * round already. Of a run of several tokens the server keeps only the last verdict. */
static bool session_fits(const ft_stream *s, const ft_msg_opened *opened, size_t length,
                         uint32_t run)
{
    if (opened->last_round + 1 == s->round)
        return opened->length == length;
    return run <= 1 && opened->last_round == s->round && opened->length > length;
}

ft_status ft_stream_opened(ft_stream *s, const ft_msg_opened *opened, size_t length, uint32_t run,
                           ft_error *err)
{
    const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    if (s->outage.since.known)
        s->outage.past_us += now_us(s) - s->outage.since.us;
    s->outage.since = ft_unknown();
    s->limits = opened->limits;
    if (s->state != FT_STREAM_RESUMING) {
        s->session.id = opened->session;
        s->session.secret = opened->secret;
        s->session.known = true;
        memcpy(s->model, opened->model, sizeof s->model);
    } else {
        if (run > 0 && opened->last_round == s->round && opened->length == length)
            s->round++; /* nothing of the run is missing: it ended there */
        if (!session_fits(s, opened, length, run)) {
            ft_stream_ask_behind(s, &end, "the end of the session");
            return ft_error_set(err, FT_PRECONDITION,
                                "edge: the server's session is at round %u, not %u",
                                opened->last_round, s->round);
        }
    }
    happened(s, FT_STREAM_ACCEPT);
    return FT_OK;
}

/* ---- drafts and verdicts ---- */

ft_status ft_stream_ask(ft_stream *s, const ft_client_msg *msg, ft_error *err)
{
    happened(s, FT_STREAM_ASK);
    return s->link->vt->send(s->link, msg, err);
}

void ft_stream_ask_behind(ft_stream *s, const ft_client_msg *msg, const char *what)
{
    ft_error err = {0};
    if (s->link->vt->send(s->link, msg, &err) != FT_OK)
        FT_LOGD("edge", "%s could not be sent: %s", what, err.message);
}

ft_status ft_stream_recv(ft_stream *s, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    ft_status status = s->link->vt->recv(s->link, timeout_us, err, out);
    /* A server answers a resume at once. If it does not answer, it cannot be reached. */
    if (status == FT_TIMEOUT && s->state == FT_STREAM_RESUMING &&
        now_us(s) - s->opened_us > s->how.reconnect_us)
        return ft_error_set(err, FT_UNAVAILABLE, "edge: no answer to a resume");
    return status;
}

void ft_stream_answered(ft_stream *s, bool goes_on)
{
    s->round++;
    if (!goes_on)
        happened(s, FT_STREAM_ANSWER);
}

void ft_stream_heard(ft_stream *s)
{
    s->outage.past_us = 0;
    s->outage.pause_us = BACKOFF_US;
}

/* ---- losing ---- */

/* After these codes a retry may succeed; all others are final. */
static bool is_passing(ft_status code)
{
    return code == FT_UNAVAILABLE || code == FT_EXHAUSTED || code == FT_CANCELLED;
}

/* The server failed at this session: another session with the same text may succeed. FT_IO is
 * gRPC's UNKNOWN. */
static bool is_failure(ft_status code)
{
    return code == FT_INTERNAL || code == FT_IO;
}

static void drop_link(ft_stream *s)
{
    uint64_t sent = 0, received = 0;
    if (!s->link)
        return;
    s->link->vt->bytes(s->link, &sent, &received);
    s->how.stats->bytes_sent += sent;
    s->how.stats->bytes_received += received;
    s->link->vt->destroy(s->link);
    s->link = NULL;
}

/* When to try again, if at all. */
static ft_status try_again(ft_stream *s, ft_status code, ft_error *err, ft_stream_loss *loss)
{
    const int64_t retry_us = 1000 * (int64_t)loss->retry_after_ms;
    int64_t pause_us = s->outage.pause_us;
    if (!s->outage.since.known)
        s->outage.since = ft_known(now_us(s));
    if (code == FT_EXHAUSTED && retry_us > pause_us)
        pause_us = retry_us;
    const int64_t down_us = s->outage.past_us + now_us(s) - s->outage.since.us;
    if (down_us + pause_us > s->how.reconnect_us) {
        const ft_error last = *err;
        return ft_error_set(err, code == FT_CANCELLED ? FT_UNAVAILABLE : code,
                            "%.300s (tried again for %.1f s)", last.message, (double)down_us / 1e6);
    }
    FT_LOGI("edge", "verifier lost, retry in %lld ms: %s", (long long)(pause_us / 1000),
            err->message);
    s->outage.pause_us = 2 * pause_us < BACKOFF_TOP_US ? 2 * pause_us : BACKOFF_TOP_US;
    loss->pause_us = pause_us;
    return FT_OK;
}

ft_status ft_stream_recover(ft_stream *s, ft_status code, ft_error *err, ft_stream_loss *loss)
{
    /* ABORTED: another edge has the session now, which must not be taken from it again. */
    const bool refused = s->state == FT_STREAM_RESUMING && !is_passing(code) && code != FT_ABORTED;
    const bool failed = !refused && is_failure(code) && s->n_failures < FAILURES_MOST;
    *loss = (ft_stream_loss){.anew = refused || failed};
    s->n_failures += failed;
    if (s->link)
        loss->retry_after_ms = s->link->vt->retry_after_ms(s->link);
    drop_link(s);
    if (loss->anew)
        s->session.known = false;
    happened(s, s->session.known ? FT_STREAM_LOSE : FT_STREAM_FORGET);
    if (refused)
        return FT_OK;
    return is_passing(code) || failed ? try_again(s, code, err, loss) : code;
}

void ft_stream_close(ft_stream *s, ft_client_kind kind)
{
    const ft_client_msg msg = {.kind = kind};
    if (s->link)
        ft_stream_ask_behind(s, &msg, "the end");
    drop_link(s);
    happened(s, FT_STREAM_CLOSE);
}
