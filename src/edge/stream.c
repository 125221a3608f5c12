// SPDX-License-Identifier: Apache-2.0
// One text's stream. Invariants: there is a link in READY, WAITING, RESUMING and OPENING, and in no
// other state; the session is known in RESUMING and DOWN, and unknown in NONE (ft_stream_check).
//
// Servers are tried one after the other without a pause. When each has failed, or cannot take this
// text, there is a pause, and all but the latter are tried again.
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

#define BACKOFF_US 20000 /* first pause after a loss; doubles */
/* The longest, unless a server asks for more. With the channel's own pause (wire/client.c) a server
 * that is back waits at most 0.61 s for a text. */
#define BACKOFF_TOP_US 250000
#define LOSSES_TOLD    6 /* in the log, of an outage; later ones on level debug */
#define FAILURES_MOST  3 /* of servers, in a text: the text itself may be their cause */
/* A text that no server has room for waits so long at most before its client is told. Once it has
 * begun, it waits as for a lost server. */
#define FULL_WAIT_US 10000000

#define NO FT_STREAM_ILLEGAL

static const ft_stream_state transitions[FT_STREAM_N_STATES][FT_STREAM_N_EVENTS] = {
    [FT_STREAM_NONE] = {FT_STREAM_READY, FT_STREAM_OPENING, NO, NO, NO, NO, NO, FT_STREAM_NONE,
                        FT_STREAM_CLOSED},
    [FT_STREAM_READY] = {NO, NO, NO, NO, FT_STREAM_WAITING, NO, FT_STREAM_DOWN, FT_STREAM_NONE,
                         FT_STREAM_CLOSED},
    [FT_STREAM_WAITING] = {NO, NO, NO, FT_STREAM_WAITING, NO, FT_STREAM_READY, FT_STREAM_DOWN,
                           FT_STREAM_NONE, FT_STREAM_CLOSED},
    [FT_STREAM_RESUMING] = {NO, NO, NO, FT_STREAM_READY, NO, NO, FT_STREAM_DOWN, FT_STREAM_NONE,
                            FT_STREAM_CLOSED},
    [FT_STREAM_OPENING] = {NO, NO, NO, FT_STREAM_READY, NO, NO, FT_STREAM_DOWN, FT_STREAM_NONE,
                           FT_STREAM_CLOSED},
    [FT_STREAM_DOWN] = {NO, FT_STREAM_OPENING, FT_STREAM_RESUMING, NO, NO, NO, FT_STREAM_DOWN, NO,
                        FT_STREAM_CLOSED},
    [FT_STREAM_CLOSED] = {NO, NO, NO, NO, NO, NO, NO, NO, FT_STREAM_CLOSED},
};

ft_stream_state ft_stream_next(ft_stream_state state, ft_stream_event event)
{
    return transitions[state][event];
}

void ft_stream_check(const ft_stream *s)
{
    const bool linked = s->state == FT_STREAM_READY || s->state == FT_STREAM_WAITING ||
                        s->state == FT_STREAM_RESUMING || s->state == FT_STREAM_OPENING;
    assert(linked == (s->link != NULL));
    assert(s->session.known || (s->state != FT_STREAM_RESUMING && s->state != FT_STREAM_DOWN));
    assert(!s->session.known || s->state != FT_STREAM_NONE);
    assert(s->round >= 1 || s->n_links == 0);
    assert(s->outage.pause_us >= BACKOFF_US && s->outage.past_us >= 0);
    assert(s->at < s->how.servers->n && s->unfit != ft_servers_all(s->how.servers));
    assert(!ft_offline_here(&s->offline) || ft_servers_fallback(s->how.servers));
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
                     .met = opts->met,
                     .state = FT_STREAM_NONE,
                     .outage.pause_us = BACKOFF_US};
    memcpy(s->model, opts->model, sizeof s->model);
}

bool ft_stream_accepted(const ft_stream *s)
{
    return s->session.known && s->session.server == s->at &&
           (s->state == FT_STREAM_READY || s->state == FT_STREAM_WAITING);
}

/* ---- offline ---- */

/* The fallback target may still be taken. */
static bool may_fall_back(const ft_stream *s)
{
    return ft_servers_fallback(s->how.servers) & ~s->unfit && !ft_offline_here(&s->offline);
}

/* For how long no server has had the text. */
static int64_t down_us(const ft_stream *s)
{
    return s->outage.past_us + (s->outage.since.known ? now_us(s) - s->outage.since.us : 0);
}

/* Before the text is opened: goes offline if it is time, or if the edge is offline already. */
static void look_at_time(ft_stream *s)
{
    const bool late = s->offline.state == FT_GONE && down_us(s) >= s->how.fallback_us;
    const bool first = s->offline.state == FT_AT_SERVER && s->n_links == 0;
    if (!may_fall_back(s) || !(late || (first && ft_servers_offline(s->how.servers))))
        return;
    ft_servers_went_offline(s->how.servers);
    s->tried &= ~ft_servers_fallback(s->how.servers);
    ft_offline_happened(&s->offline, FT_OFFLINE_LATE);
}

/* After a loss, once it is known which servers do not fit. */
static void lose_place(ft_stream *s)
{
    if (ft_offline_here(&s->offline) && (ft_servers_fallback(s->how.servers) & s->unfit)) {
        ft_offline_drop(&s->offline, s->how.stats);
        ft_offline_happened(&s->offline, FT_OFFLINE_SPURN);
    } else {
        ft_offline_happened(&s->offline, FT_OFFLINE_LOSE);
    }
}

/* ---- opening ---- */

/* Sources that the next Open must not go to. The fallback target is one until its time comes. */
static ft_server_set barred(const ft_stream *s)
{
    const ft_server_set fallback = ft_servers_fallback(s->how.servers);
    return s->tried | s->unfit | (ft_offline_here(&s->offline) ? 0 : fallback);
}

/* The text is to go on at the fallback target. */
static bool wants_fallback(const ft_stream *s)
{
    return ft_offline_here(&s->offline) && !(ft_servers_fallback(s->how.servers) & barred(s));
}

/* The next Open resumes: its server is the one that has the session. */
static bool resumes(const ft_stream *s)
{
    const uint32_t server = s->session.server;
    return s->session.known && !(barred(s) >> server & 1) &&
           (!wants_fallback(s) || ft_servers_is_fallback(s->how.servers, server));
}

static uint32_t next_server(const ft_stream *s)
{
    ft_servers *servers = s->how.servers;
    const ft_server_set not_these = barred(s);
    if (resumes(s))
        return s->session.server;
    if (wants_fallback(s))
        return servers->n - 1;
    if (s->offline.state == FT_RETURNING && !(not_these >> s->offline.server & 1))
        return s->offline.server;
    return ft_servers_choose(servers, not_these, now_us(s));
}

/* What Open asks of this server. The model that a server began a text with must finish it, so Open
 * names the model again. The fallback target has a name of its own. */
static void name_target(const ft_stream *s, uint32_t server, ft_msg_open *open)
{
    memcpy(open->model, s->model, sizeof open->model);
    if (ft_servers_is_fallback(s->how.servers, server))
        memset(open->model, 0, sizeof open->model);
    open->target = s->how.same_target && s->begun ? s->target : 0;
    open->has_nonce = true;
    open->nonce = s->how.nonce;
}

static void fill(const ft_stream *s, ft_msg_open *open)
{
    name_target(s, s->at, open);
    open->resume = resumes(s);
    if (!open->resume)
        return;
    open->session = s->session.id;
    open->secret = s->session.secret;
    open->base = open->n_prompt;
    open->n_prompt = open->max_tokens = 0;
    open->prompt = NULL;
}

ft_status ft_stream_open(ft_stream *s, ft_msg_open *open, ft_error *err)
{
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN};
    ft_servers *servers = s->how.servers;
    look_at_time(s);
    s->at = next_server(s);
    ft_status status = servers->source[s->at].open(servers->source[s->at].ctx, err, &s->link);
    if (status != FT_OK)
        return status;
    if (s->how.client && s->link->vt->use_client)
        s->link->vt->use_client(s->link, s->how.client);
    if (s->link->vt->use_prefix)
        s->link->vt->use_prefix(s->link, s->how.prefix);
    fill(s, open);
    msg.open = *open;
    s->how.stats->reconnects += s->n_links++ > 0;
    s->round = open->resume ? s->session.round : 1;
    happened(s, open->resume      ? FT_STREAM_RESUME
                : s->at != s->met ? FT_STREAM_MEET
                                  : FT_STREAM_OPEN);
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

/* A resume was answered. */
static ft_status take_up(ft_stream *s, const ft_msg_opened *opened, size_t length, uint32_t run,
                         ft_error *err)
{
    const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    if (run > 0 && opened->last_round == s->round && opened->length == length)
        s->round++; /* nothing of the run is missing: it ended there */
    if (session_fits(s, opened, length, run))
        return FT_OK;
    ft_stream_ask_behind(s, &end, "the end of the session");
    return ft_error_set(err, FT_PRECONDITION, "edge: the server's session is at round %u, not %u",
                        opened->last_round, s->round);
}

/* A text that has begun was opened anew: its target should be the one that began it. Also looks
 * where Open required it, as older servers do not know that field. */
static ft_status check_target(ft_stream *s, uint64_t target, ft_error *err)
{
    const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    const bool same = target == s->target;
    if (!s->begun || (same && (target != 0 || !s->how.same_target)))
        return FT_OK;
    if (s->how.same_target) {
        ft_stream_ask_behind(s, &end, "the end of the session");
        return ft_error_set(err, FT_PRECONDITION,
                            "edge: the text was begun by target %016llx, this server has %016llx "
                            "(0: not told): without --require-same-target it could go on",
                            (unsigned long long)s->target, (unsigned long long)target);
    }
    FT_LOGW("edge", "target changed server=%s target=%016llx before=%016llx",
            ft_servers_name(s->how.servers, s->at), (unsigned long long)target,
            (unsigned long long)s->target);
    s->how.stats->target_changed++;
    return FT_OK;
}

/* The text has a new session. */
static void begin(ft_stream *s, const ft_msg_opened *opened)
{
    if (s->begun && s->at != s->session.server)
        FT_LOGI("edge", "text goes on server=%s before=%s", ft_servers_name(s->how.servers, s->at),
                ft_servers_name(s->how.servers, s->session.server));
    const bool here = ft_servers_is_fallback(s->how.servers, s->at);
    const bool was_here = ft_servers_is_fallback(s->how.servers, s->session.server);
    s->how.stats->switches += s->begun && here != was_here;
    s->session.id = opened->session;
    s->session.secret = opened->secret;
    s->session.server = s->at;
    s->session.known = s->begun = true;
    s->target = opened->target;
    if (!here)
        memcpy(s->model, opened->model, sizeof s->model);
}

/* A server answered that can have the text. */
static void met(ft_stream *s, const ft_msg_opened *opened)
{
    if (s->outage.since.known)
        s->outage.past_us += now_us(s) - s->outage.since.us;
    s->outage.since = ft_unknown();
    s->limits = opened->limits;
    s->met = s->at;
    ft_servers_answered(s->how.servers, s->at);
    if (ft_servers_is_fallback(s->how.servers, s->at))
        return;
    ft_offline_drop(&s->offline, s->how.stats);
    ft_offline_happened(&s->offline, FT_OFFLINE_TAKE);
}

ft_status ft_stream_opened(ft_stream *s, const ft_msg_opened *opened, size_t length, uint32_t run,
                           ft_error *err)
{
    ft_status status = FT_OK;
    if (s->state == FT_STREAM_RESUMING) {
        met(s, opened);
        status = take_up(s, opened, length, run, err);
    } else if ((status = check_target(s, opened->target, err)) == FT_OK) {
        met(s, opened);
        begin(s, opened);
    }
    if (status == FT_OK)
        happened(s, FT_STREAM_ACCEPT);
    return status;
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
    return s->link->vt->recv(s->link, timeout_us, err, out);
}

void ft_stream_answered(ft_stream *s, bool goes_on)
{
    s->round++;
    if (!goes_on)
        happened(s, FT_STREAM_ANSWER);
}

void ft_stream_heard(ft_stream *s)
{
    s->outage.past_us = s->outage.least_us = s->outage.n_lost = 0;
    s->outage.pause_us = BACKOFF_US;
    s->outage.last_round = false;
    s->tried = 0;
}

/* ---- losing ---- */

/* After these codes a retry may succeed; all others are final. */
static bool is_passing(ft_status code)
{
    return code == FT_UNAVAILABLE || code == FT_EXHAUSTED || code == FT_CANCELLED;
}

/* The server failed at this session: another session with the same text may succeed. FT_IO is
 * gRPC's UNKNOWN. FT_TIMEOUT: it gives no verdict, after a resume either. */
static bool is_failure(ft_status code)
{
    return code == FT_INTERNAL || code == FT_IO || code == FT_TIMEOUT;
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

/* Every server was tried, or cannot take this text. */
static bool all_tried(const ft_stream *s)
{
    return barred(s) == ft_servers_all(s->how.servers);
}

/* How long to wait before the next try: not at all if there is another server to try. */
static int64_t next_pause_us(ft_stream *s, uint32_t retry_after_ms)
{
    const int64_t retry_us = 1000 * (int64_t)retry_after_ms;
    const int64_t wait_us = retry_us > s->outage.pause_us ? retry_us : s->outage.pause_us;
    if (s->outage.least_us == 0 || wait_us < s->outage.least_us)
        s->outage.least_us = wait_us;
    if (!all_tried(s) && !resumes(s))
        return 0;
    const int64_t pause_us = s->outage.least_us;
    s->outage.pause_us = 2 * pause_us < BACKOFF_TOP_US ? 2 * pause_us : BACKOFF_TOP_US;
    s->outage.least_us = 0;
    s->tried = 0;
    return pause_us;
}

/* Whether a pause is too long for the time that is left. A text that has begun is lost with it,
 * so it tries all servers once more when that time is over. The client of another text learns at
 * once what the server asked for. */
static bool is_too_long(ft_stream *s, int64_t left_us, int64_t *pause_us)
{
    if (*pause_us <= left_us)
        return false;
    if (s->outage.last_round)
        return *pause_us > 0;
    if (!s->begun || left_us <= 0)
        return true;
    s->outage.last_round = true;
    *pause_us = left_us;
    return false;
}

/* When to try again, if at all. */
static ft_status try_again(ft_stream *s, ft_status code, ft_error *err, ft_stream_loss *loss)
{
    const bool full = code == FT_EXHAUSTED && !s->begun;
    const int64_t patience_us =
        full && s->how.reconnect_us > FULL_WAIT_US ? FULL_WAIT_US : s->how.reconnect_us;
    if (!s->outage.since.known)
        s->outage.since = ft_known(now_us(s));
    const int64_t gone_us = down_us(s);
    loss->pause_us = next_pause_us(s, loss->retry_after_ms);
    if (may_fall_back(s)) {
        const int64_t left_us = s->how.fallback_us > gone_us ? s->how.fallback_us - gone_us : 0;
        loss->pause_us = loss->pause_us < left_us ? loss->pause_us : left_us;
    } else if (is_too_long(s, patience_us - gone_us, &loss->pause_us)) {
        const ft_error last = *err;
        return ft_error_set(err, code == FT_CANCELLED ? FT_UNAVAILABLE : code,
                            "%.300s (tried again for %.1f s)", last.message, (double)gone_us / 1e6);
    }
    ft_log(s->outage.n_lost++ < LOSSES_TOLD ? FT_LOG_INFO : FT_LOG_DEBUG, "edge",
           "stream lost server=%s retry_ms=%lld reason=\"%s\"",
           ft_servers_name(s->how.servers, s->at), (long long)(loss->pause_us / 1000),
           err->message);
    return FT_OK;
}

typedef enum loss_kind {
    LOSS_FINAL,   /* no later try can succeed */
    LOSS_PASSING, /* the same may succeed later, or elsewhere */
    LOSS_REFUSED, /* the server does not resume the session: it is gone */
    LOSS_FAILURE, /* the server failed at this session, or its text is another one's: the text may
                     succeed in another session */
    LOSS_UNFIT    /* the server cannot take this text */
} loss_kind;

static loss_kind kind_of(const ft_stream *s, ft_status code)
{
    /* HAProxy resets a stream that its server ends before the edge does, so NOT_FOUND is lost. */
    if (code == FT_CANCELLED && s->state == FT_STREAM_RESUMING)
        return LOSS_REFUSED;
    if (is_passing(code))
        return LOSS_PASSING;
    if (code == FT_ABORTED) /* another edge has the session: it must not be taken back */
        return LOSS_FINAL;
    if (s->state == FT_STREAM_RESUMING)
        return LOSS_REFUSED;
    if (is_failure(code) || (code == FT_PRECONDITION && ft_stream_accepted(s)))
        return s->n_failures < FAILURES_MOST ? LOSS_FAILURE : LOSS_FINAL;
    return ft_stream_accepted(s) ? LOSS_FINAL : LOSS_UNFIT;
}

/* Notes what the failure says about the server, for this text and for others. */
static void blame(ft_stream *s, loss_kind kind, ft_status code, const ft_error *err,
                  uint32_t retry_after_ms)
{
    const bool kept = ft_stream_accepted(s) && kind == LOSS_PASSING && code != FT_EXHAUSTED &&
                      retry_after_ms == 0;
    if (kind == LOSS_UNFIT) {
        s->unfit |= 1u << s->at;
        if (s->how.servers->n > 1) /* a single one tells the user, not the log */
            ft_servers_unfit(s->how.servers, s->at, now_us(s), err->message);
    } else if (kind == LOSS_FAILURE || (kind == LOSS_PASSING && !kept)) {
        s->tried |= 1u << s->at;
    } /* a broken stream says nothing yet: the resume will tell */
    /* A failure may be this text's own; silence is the server's. */
    if ((kind == LOSS_PASSING && !kept) || code == FT_TIMEOUT)
        ft_servers_failed(s->how.servers, s->at, now_us(s), 1000 * (int64_t)retry_after_ms);
}

/* No server can take this text, nor can the fallback target if the text is there. */
static bool none_fits(const ft_stream *s)
{
    const ft_server_set fallback = ft_servers_fallback(s->how.servers);
    return (s->unfit | (ft_offline_here(&s->offline) ? 0 : fallback)) ==
           ft_servers_all(s->how.servers);
}

ft_status ft_stream_recover(ft_stream *s, ft_status code, ft_error *err, ft_stream_loss *loss)
{
    const loss_kind kind = kind_of(s, code);
    *loss = (ft_stream_loss){.anew = kind == LOSS_REFUSED || kind == LOSS_FAILURE};
    s->n_failures += kind == LOSS_FAILURE;
    if (s->link)
        loss->retry_after_ms = s->link->vt->retry_after_ms(s->link);
    blame(s, kind, code, err, loss->retry_after_ms);
    const bool unfit = none_fits(s);
    lose_place(s);
    if (unfit)
        s->unfit = 0; /* the caller may try again with another rule */
    drop_link(s);
    if (ft_stream_accepted(s))
        s->session.round = s->round;
    if (loss->anew && s->session.server == s->at)
        s->session.known = false;
    happened(s, s->session.known ? FT_STREAM_LOSE : FT_STREAM_FORGET);
    if (kind == LOSS_REFUSED)
        return FT_OK;
    return kind == LOSS_FINAL || unfit ? code : try_again(s, code, err, loss);
}

/* ---- back to a server ---- */

/* The server that is asked next: after the one that was asked last; n: there is none. */
static uint32_t next_to_ask(const ft_stream *s)
{
    const ft_servers *servers = s->how.servers;
    for (uint32_t i = 1; i <= servers->n; i++) {
        const uint32_t server = (s->offline.server + i) % servers->n;
        if (!((s->unfit | ft_servers_fallback(servers)) >> server & 1))
            return server;
    }
    return servers->n;
}

void ft_stream_look(ft_stream *s, ft_msg_open *open)
{
    ft_servers *servers = s->how.servers;
    ft_error err = {0};
    const ft_status status = ft_offline_look(&s->offline, now_us(s), s->how.stats, &err);
    if (status != FT_OK && status != FT_TIMEOUT && !is_passing(status) && !is_failure(status)) {
        s->unfit |= 1u << s->offline.server;
        ft_servers_unfit(servers, s->offline.server, now_us(s), err.message);
    }
    const uint32_t server = next_to_ask(s);
    if (!ft_offline_due(&s->offline, now_us(s)) || server == servers->n)
        return;
    name_target(s, server, open);
    ft_offline_ask(&s->offline, server, &servers->source[server], open, now_us(s));
}

bool ft_stream_may_leave(const ft_stream *s)
{
    return s->offline.state == FT_BACK && ft_stream_accepted(s);
}

void ft_stream_leave(ft_stream *s)
{
    const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    ft_offline_drop(&s->offline, s->how.stats);
    ft_offline_happened(&s->offline, FT_OFFLINE_LEAVE);
    ft_stream_ask_behind(s, &end, "the end of the session");
    drop_link(s);
    s->session.known = false;
    s->tried = 0;
    happened(s, FT_STREAM_FORGET);
}

ft_known_us ft_stream_silence(const ft_stream *s)
{
    if (!may_fall_back(s))
        return ft_unknown();
    const int64_t gone_us = down_us(s);
    return ft_known(s->how.fallback_us > gone_us ? s->how.fallback_us - gone_us : 0);
}

void ft_stream_silent_since(ft_stream *s, int64_t since_us)
{
    if (!s->outage.since.known)
        s->outage.since = ft_known(since_us);
}

void ft_stream_close(ft_stream *s, ft_client_kind kind)
{
    const ft_client_msg msg = {.kind = kind};
    if (s->link)
        ft_stream_ask_behind(s, &msg, "the end");
    drop_link(s);
    ft_offline_drop(&s->offline, s->how.stats);
    happened(s, FT_STREAM_CLOSE);
}
