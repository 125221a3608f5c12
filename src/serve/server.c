// SPDX-License-Identifier: Apache-2.0
// Connects the gRPC wire with the verifier. In this file a connection is one stream and its handle.
//
// Threads: the wire's queue thread calls on_message and on_end of a stream in order. It owns all
// fields of a connection. The engine thread sends the answers, and reads only the field `stream`.
// on_end first detaches the handle and then frees the connection. The detach waits until a running
// answer has ended. So no answer uses a freed connection, and no reference to the stream outlives
// the stream.
//
// A thread of its own, the watch, tells gRPC's health whether the engine works: the engine thread
// itself could not say that it hangs.
//
// A server that drains opens no session, but takes its own back: an edge whose stream breaks in
// these seconds can still finish its text. So it waits for detached sessions, too, but not long.
//
// Locks: ft_server.lock guards the end of the watch. No other lock is taken while it is held.
// `draining` is atomic. on_end holds no lock when it detaches.
#include "serve/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/log.h"
#include "http/openai.h"
#include "serve/keys.h"

#define METRICS_CONNECTIONS 16 /* for scrapers and a few people */
/* How often the watch asks the verifier whether its engine works. */
#define WATCH_EVERY_US 500000
/* The retry-after-ms of an Open while the server drains or its engine hangs: somebody may start it
 * again. */
#define REFUSED_RETRY_MS 1000
/* How long a server that drains waits for sessions if none has a stream. An edge that has lost its
 * stream is back within 0.6 s and some round trips (edge/stream.c). With half of it, edges on slow
 * lines are missed; twice of it keeps a server whose edges are gone. */
#define DRAIN_RESUME_US 2000000

struct ft_server {
    ft_verifier *verifier;
    ft_wire_server *wire;
    ft_http *metrics; /* NULL: none asked for */
    atomic_bool draining;
    pthread_t watch;
    bool watched;                 /* the watch was started */
    const ft_server_offer *offer; /* NULL: none */
    const ft_picker *picker;      /* NULL: none */
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    bool stop; /* the watch ends; guarded by lock */
};

typedef struct connection {
    ft_stream *stream; /* referenced */
    ft_vsession *session;
    size_t constraint_bytes; /* of its Open */
    bool answered;           /* its Open was not refused; the engine thread's */
} connection;

/* ---- answers; engine thread ---- */

static void on_answer(void *ctx, const ft_server_msg *msg)
{
    connection *c = ctx;
    c->answered = true;
    ft_stream_send(c->stream, msg);
}

static void on_gone(void *ctx, ft_status code, const char *message, uint32_t retry_after_ms)
{
    connection *c = ctx;
    if (!c->answered)
        ft_stream_count_refused(c->stream, code, c->constraint_bytes);
    ft_stream_finish(c->stream, code, message, retry_after_ms);
}

/* ---- messages; the wire's queue thread ---- */

static void open_session(ft_server *server, ft_stream *stream, const ft_msg_open *open)
{
    ft_error unwell = {0};
    if (atomic_load(&server->draining) && !open->resume) {
        ft_stream_finish(stream, FT_UNAVAILABLE,
                         "serve: the server is going down: open on another one, or here when it is "
                         "back",
                         REFUSED_RETRY_MS);
        return;
    }
    /* An engine that hangs would not refuse it. */
    if (ft_verifier_health(server->verifier, &unwell) != FT_OK) {
        ft_stream_finish(stream, FT_UNAVAILABLE, unwell.message, REFUSED_RETRY_MS);
        return;
    }
    connection *c = calloc(1, sizeof *c);
    const ft_vclient client = {.id = *ft_stream_client(stream),
                               .asks = *ft_stream_client(stream),
                               .ctx = c,
                               .on_message = on_answer,
                               .on_gone = on_gone};
    ft_stream_ref(stream);
    if (c) {
        c->stream = stream;
        c->constraint_bytes = open->constraint.n;
        c->session = ft_verifier_open(server->verifier, open, ft_stream_credential(stream),
                                      ft_stream_key(stream), &client);
    }
    if (!c || !c->session) {
        free(c);
        ft_stream_finish(stream, FT_NOMEM, "serve: out of memory for a session", 0);
        ft_stream_unref(stream);
        return;
    }
    ft_stream_set_user(stream, c);
}

/* Ends the connection. close: also ends the session. No answer comes after that. */
static void drop(ft_stream *stream, bool close)
{
    connection *c = ft_stream_user(stream);
    if (!c)
        return;
    ft_stream_set_user(stream, NULL);
    if (close)
        ft_vsession_close(c->session);
    ft_vsession_detach(c->session);
    free(c);
    ft_stream_unref(stream);
}

static void on_message(void *ctx, ft_stream *stream, ft_client_msg *take_msg)
{
    ft_server *server = ctx;
    ft_client_msg *msg = take_msg;
    connection *c = ft_stream_user(stream);
    if (msg->kind == FT_CLIENT_OPEN && !c) {
        open_session(server, stream, &msg->open);
    } else if (msg->kind == FT_CLIENT_OPEN || !c) {
        /* Must come before the session ends: that would end the stream with another message. */
        ft_stream_finish(stream, FT_INVALID,
                         c ? "serve: this stream has already opened a session"
                           : "serve: the first message of a stream must be Open",
                         0);
        drop(stream, true);
    } else if (msg->kind == FT_CLIENT_DRAFT) {
        ft_vsession_draft(c->session, msg);
        return;
    } else {
        ft_vsession_close(c->session); /* on_gone ends the stream */
    }
    ft_client_msg_free(msg);
}

static void on_end(void *ctx, ft_stream *stream, bool done)
{
    drop(stream, done);
}

/* Not from a server that refuses sessions: who asks wants to use it. */
static ft_status info(void *ctx, ft_error *err, ft_msg_info *out)
{
    const ft_server *server = ctx;
    ft_verifier_info(server->verifier, out);
    if (atomic_load(&server->draining))
        return ft_error_set(err, FT_UNAVAILABLE, "serve: the server is going down");
    return ft_verifier_health(server->verifier, err);
}

/* The file was read when the server began, so its bytes are in memory as a rule. */
static ft_status offer(void *ctx, const ft_offer_request *request, ft_error *err,
                       ft_offer_reply *out)
{
    const ft_server_offer *file = ((const ft_server *)ctx)->offer;
    const uint64_t bytes = file->what.bytes;
    out->offer = file->what;
    out->offset = request->offset;
    out->n = 0;
    if (request->offset > bytes)
        return ft_error_set(err, FT_INVALID, "serve: the offered file has %" PRIu64 " bytes",
                            bytes);
    const uint64_t left = bytes - request->offset;
    const size_t want = left < request->most ? (size_t)left : request->most;
    while (out->n < want) {
        const ssize_t got =
            pread(file->fd, out->data + out->n, want - out->n, (off_t)(request->offset + out->n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ft_error_set(err, FT_INTERNAL, "serve: the offered file cannot be read");
        out->n += (size_t)got;
    }
    return FT_OK;
}

/* ---- life ---- */

static ft_status start_wire(ft_server *server, const ft_server_opts *opts, ft_error *err)
{
    ft_msg_info limits;
    ft_verifier_info(server->verifier, &limits);
    const ft_wire_server_opts wire = {
        .host = opts->host,
        .port = opts->port,
        .token = opts->token,
        .keys = opts->verifier.keys,
        .tls_cert = opts->tls_cert,
        .tls_key = opts->tls_key,
        .tls_client_ca = opts->tls_client_ca,
        .max_streams = opts->verifier.max_sessions ? opts->verifier.max_sessions : 1024,
        .client_share = opts->verifier.client_share,
        .proxies = opts->proxies,
        .limits = {.n_vocab = (uint32_t)ft_vocab_size(opts->verifier.vocab),
                   .max_context = limits.limits.max_context,
                   .max_tree = limits.limits.max_tree,
                   .max_evidence_bytes = limits.limits.max_evidence_bytes},
        .handler = {.ctx = server,
                    .on_message = on_message,
                    .on_end = on_end,
                    .info = info,
                    .offer = opts->offer ? offer : NULL}};
    return ft_wire_server_create(&wire, err, &server->wire);
}

/* Runs on connection threads. Everybody gets the same page, because the page shows nothing about a
 * single session. */
static ft_status metrics_page(void *ctx, ft_buf *out)
{
    const ft_server *server = ctx;
    ft_verifier *verifier = server->verifier;
    ft_verifier_stats stats;
    ft_verifier_get_stats(verifier, &stats);
    ft_status status = ft_stats_append(&ft_verifier_stat_list, &stats, out);
    if (status == FT_OK && server->picker)
        status = ft_picker_append(server->picker, &stats, out);
    return status == FT_OK ? ft_keys_append(verifier, out) : status;
}

/* Any thread. */
static ft_status health(void *ctx, ft_error *err)
{
    return ft_verifier_health(((const ft_server *)ctx)->verifier, err);
}

static ft_status start_metrics(ft_server *server, const ft_server_opts *opts, ft_error *err)
{
    const ft_http_opts http = {
        .host = opts->metrics_host,
        .port = opts->metrics_port,
        .max_connections = METRICS_CONNECTIONS,
        .client_share = opts->verifier.client_share,
        .proxies = opts->proxies,
        .no_page = opts->no_page,
        .backend = {.ctx = server, .health = health, .metrics = metrics_page}};
    return opts->metrics_host ? ft_http_create(&http, err, &server->metrics) : FT_OK;
}

/* ---- the watch ---- */

static void *watch_main(void *arg)
{
    ft_server *server = arg;
    bool works = true, stop = false;
    while (!stop) {
        ft_error err = {0};
        const bool before = works;
        works = ft_verifier_health(server->verifier, &err) == FT_OK;
        if (before != works)
            FT_LOGW("serve", "health serving=%d%s%s", works, works ? "" : " reason=", err.message);
        ft_wire_server_set_serving(server->wire, works);
        const int64_t until_us = ft_deadline_us(WATCH_EVERY_US);
        pthread_mutex_lock(&server->lock);
        while (!server->stop && ft_cond_wait_until(&server->stopping, &server->lock, until_us)) {
        }
        stop = server->stop;
        pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

static ft_status start_watch(ft_server *server, ft_error *err)
{
    if (pthread_create(&server->watch, NULL, watch_main, server) != 0)
        return ft_error_set(err, FT_NOMEM, "serve: cannot start the watch thread");
    server->watched = true;
    return FT_OK;
}

static void stop_watch(ft_server *server)
{
    if (!server->watched)
        return;
    pthread_mutex_lock(&server->lock);
    server->stop = true;
    pthread_cond_broadcast(&server->stopping);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->watch, NULL);
    server->watched = false;
}

ft_status ft_server_create(const ft_server_opts *opts, ft_error *err, ft_server **out)
{
    ft_server *server = calloc(1, sizeof *server);
    *out = NULL;
    if (!server)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory");
    atomic_init(&server->draining, false);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->stopping, NULL);
    server->offer = opts->offer;
    server->picker = opts->picker;
    ft_status status = ft_verifier_create(&opts->verifier, err, &server->verifier);
    if (status == FT_OK)
        status = start_wire(server, opts, err);
    if (status == FT_OK)
        status = start_metrics(server, opts, err);
    if (status == FT_OK)
        status = start_watch(server, err);
    if (status != FT_OK) {
        ft_server_destroy(server, 0);
        return status;
    }
    *out = server;
    return FT_OK;
}

int ft_server_port(const ft_server *server)
{
    return ft_wire_server_port(server->wire);
}

int ft_server_metrics_port(const ft_server *server)
{
    return server->metrics ? ft_http_port(server->metrics) : 0;
}

ft_verifier *ft_server_verifier(ft_server *server)
{
    return server->verifier;
}

ft_status ft_server_reload_tls(ft_server *server, ft_error *err)
{
    return ft_wire_server_reload_tls(server->wire, err);
}

void ft_server_retire(ft_server *server)
{
    ft_wire_server_drain(server->wire);
}

void ft_server_drain(ft_server *server)
{
    atomic_store(&server->draining, true);
    ft_wire_server_drain(server->wire);
}

static void log_stats(ft_verifier *verifier)
{
    ft_verifier_stats s;
    ft_verifier_get_stats(verifier, &s);
    FT_LOGI("serve",
            "stats sessions=%" PRIu64 " rounds=%" PRIu64 " tokens=%" PRIu64 " drafted=%" PRIu64
            " accepted=%" PRIu64 " forwards=%" PRIu64 " rows=%" PRIu64 " kv_released=%" PRIu64
            " prefix_hit_tok=%" PRIu64 " prefix_lookup_tok=%" PRIu64,
            s.sessions_opened, s.rounds, s.tokens, s.drafted, s.accepted, s.passes.n, s.passes.sum,
            s.kv_released, s.prefix_hit_tok, s.prefix_lookup_tok);
}

/* Ends the watch, the sessions and the streams. */
static void end_streams(ft_server *server, int64_t grace_us)
{
    stop_watch(server);
    if (!server->wire)
        return;
    ft_server_drain(server);
    const uint64_t n = ft_verifier_wait_over(server->verifier, grace_us, DRAIN_RESUME_US);
    if (n > 0)
        FT_LOGI("serve", "draining is over, sessions ended=%" PRIu64, n);
    /* The wire is destroyed before the verifier, because the wire's streams hold handles. */
    ft_wire_server_destroy(server->wire);
    server->wire = NULL;
    log_stats(server->verifier);
}

ft_status ft_server_stop(ft_server *server, int64_t grace_us, int64_t pass_us, ft_error *err)
{
    end_streams(server, grace_us);
    return ft_verifier_stop(server->verifier, pass_us, err);
}

void ft_server_destroy(ft_server *server, int64_t grace_us)
{
    if (!server)
        return;
    end_streams(server, grace_us);
    if (server->metrics)
        ft_http_destroy(server->metrics);
    ft_verifier_destroy(server->verifier);
    pthread_cond_destroy(&server->stopping);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
