/* SPDX-License-Identifier: Apache-2.0
 *
 * A server that echoes, with counters to wait for; in a header because each test file that uses it
 * is a program of its own.
 *
 *   Open           -> Opened, whose length is the prompt's
 *   Draft          -> Verdict: same round, path = all nodes, length = text_len + nodes
 *   Draft, rtt_us = FINISH / FLOOD / KEEP   -> see below
 *   Cancel         -> FT_CANCELLED
 */
#ifndef FT_TESTS_WIRE_FIXTURE_H
#define FT_TESTS_WIRE_FIXTURE_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "wire/call.h"
#include "wire/client.h"
#include "wire/server.h"

#define LIMIT_US 120000000 /* a hang is a failure, not a slow machine */
#define LIMIT_S  120

enum { FINISH = 1, FLOOD = 2, KEEP = 3 };

typedef struct echo {
    ft_wire_server *server;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock */
    int messages, ended, ended_done, ended_cut;
    ft_stream *kept; /* referenced */
    char credential[256];
    int last_user; /* of the last stream that ended: how many messages it had */
} echo;

static void echo_note(echo *e, int *counter)
{
    pthread_mutex_lock(&e->lock);
    (*counter)++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* Until *counter >= value; fails the test after the limit. */
static inline void echo_wait(echo *e, const int *counter, int value)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_S;
    int rc = 0;
    pthread_mutex_lock(&e->lock);
    while (*counter < value && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&e->changed, &e->lock, &until);
    int seen = *counter;
    pthread_mutex_unlock(&e->lock);
    if (seen < value)
        fail_msg("waited for %d, got %d", value, seen);
}

/* A counter while the server runs. */
static inline int echo_count(echo *e, const int *counter)
{
    pthread_mutex_lock(&e->lock);
    int n = *counter;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* The stream of a draft with KEEP, so too. */
static inline ft_stream *echo_kept(echo *e)
{
    pthread_mutex_lock(&e->lock);
    ft_stream *stream = e->kept;
    pthread_mutex_unlock(&e->lock);
    return stream;
}

/* The credential of the last session, so too. */
static inline void echo_credential(echo *e, char out[256])
{
    pthread_mutex_lock(&e->lock);
    memcpy(out, e->credential, sizeof e->credential);
    pthread_mutex_unlock(&e->lock);
}

static void echo_flood(ft_stream *stream)
{
    static ft_token_logprob logprobs[FT_WIRE_PATH_MAX];
    ft_server_msg reply = {.kind = FT_SERVER_VERDICT};
    reply.verdict.n_path = reply.verdict.n_logprobs = FT_WIRE_PATH_MAX;
    reply.verdict.logprobs = logprobs;
    for (uint32_t i = 0; i < FT_WIRE_PATH_MAX; i++) {
        reply.verdict.path[i] = i;
        logprobs[i].n_top = FT_WIRE_TOP_MAX;
        for (int k = 0; k < FT_WIRE_TOP_MAX; k++)
            logprobs[i].top[k].logprob = -1;
    }
    for (int i = 0; i < 200; i++) /* 10 MB */
        ft_stream_send(stream, &reply);
}

static void echo_draft(echo *e, ft_stream *stream, const ft_msg_draft *draft)
{
    ft_server_msg reply = {.kind = FT_SERVER_VERDICT};
    if (draft->rtt_us == FLOOD) {
        echo_flood(stream);
        return;
    }
    if (draft->rtt_us == KEEP) {
        ft_stream_ref(stream);
        pthread_mutex_lock(&e->lock);
        e->kept = stream;
        pthread_mutex_unlock(&e->lock);
    }
    reply.verdict.round = draft->round;
    reply.verdict.n_path = draft->n;
    for (uint32_t i = 0; i < draft->n; i++)
        reply.verdict.path[i] = i;
    reply.verdict.n_next = 1;
    reply.verdict.next[0] = 7;
    reply.verdict.length = draft->base + draft->n;
    ft_stream_send(stream, &reply);
    if (draft->rtt_us == FINISH)
        ft_stream_finish(stream, FT_EXHAUSTED, "come back later", 250);
}

static void echo_on_message(void *ctx, ft_stream *stream, ft_client_msg *take_msg)
{
    echo *e = ctx;
    ft_client_msg *msg = take_msg;
    ft_server_msg reply = {.kind = FT_SERVER_OPENED};
    ft_stream_set_user(stream, (char *)ft_stream_user(stream) + 1);
    switch (msg->kind) {
    case FT_CLIENT_OPEN:
        reply.opened.length = msg->open.n_prompt;
        pthread_mutex_lock(&e->lock);
        snprintf(e->credential, sizeof e->credential, "%s", ft_stream_credential(stream));
        pthread_mutex_unlock(&e->lock);
        ft_stream_send(stream, &reply);
        break;
    case FT_CLIENT_DRAFT:
        echo_draft(e, stream, &msg->draft);
        break;
    case FT_CLIENT_CANCEL:
        ft_stream_finish(stream, FT_CANCELLED, "as you asked", 0);
        break;
    case FT_CLIENT_CLOSE:
        break;
    }
    ft_client_msg_free(msg);
    echo_note(e, &e->messages);
}

static void echo_on_end(void *ctx, ft_stream *stream, bool done)
{
    echo *e = ctx;
    pthread_mutex_lock(&e->lock);
    e->last_user = (int)(intptr_t)ft_stream_user(stream);
    pthread_mutex_unlock(&e->lock);
    echo_note(e, done ? &e->ended_done : &e->ended_cut);
    echo_note(e, &e->ended);
}

static ft_status echo_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    out->protocol = FT_PROTOCOL;
    strcpy(out->model, "echo");
    out->vocab_fingerprint = 42;
    return FT_OK;
}

static inline ft_wire_server_opts echo_opts(echo *e)
{
    ft_wire_server_opts opts = {.host = "127.0.0.1", .max_streams = 256};
    opts.limits = (ft_wire_limits){.n_vocab = 1000, .max_context = 4096, .max_tree = 64};
    opts.handler = (ft_wire_handler){e, echo_on_message, echo_on_end, echo_info, NULL};
    return opts;
}

static inline void echo_init(echo *e)
{
    *e = (echo){0};
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
}

/* opts NULL: the ordinary ones. */
static inline void echo_start(echo *e, const ft_wire_server_opts *opts)
{
    ft_error err = {0};
    ft_wire_server_opts ordinary = echo_opts(e);
    if (ft_wire_server_create(opts ? opts : &ordinary, &err, &e->server) != FT_OK)
        fail_msg("server: %s", err.message);
}

static inline void echo_deinit(echo *e)
{
    ft_wire_server_destroy(e->server);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
}

/* extra NULL: plaintext, no token; its address is not used. */
static inline ft_wire_client *dial(int port, const ft_wire_client_opts *extra)
{
    char address[32];
    ft_error err = {0};
    ft_wire_client *client = NULL;
    ft_wire_client_opts opts = extra ? *extra : (ft_wire_client_opts){0};
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    opts.address = address;
    if (ft_wire_client_create(&opts, &err, &client) != FT_OK)
        fail_msg("client: %s", err.message);
    return client;
}

/* An ordinary server and an ordinary client of it. */
static inline ft_wire_client *echo_open(echo *e)
{
    echo_init(e);
    echo_start(e, NULL);
    return dial(ft_wire_server_port(e->server), NULL);
}

/* The client first. */
static inline void echo_close(echo *e, ft_wire_client *client)
{
    ft_wire_client_destroy(client);
    echo_deinit(e);
}

static inline ft_call *open_call(ft_wire_client *client)
{
    ft_call *call = NULL;
    ft_error err = {0};
    if (ft_call_create(client, &err, &call) != FT_OK)
        fail_msg("call: %s", err.message);
    return call;
}

static inline void send_open(ft_call *call, uint32_t n_prompt)
{
    static int32_t prompt[8192];
    ft_error err;
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN};
    msg.open.protocol = FT_PROTOCOL;
    msg.open.prompt = prompt;
    msg.open.n_prompt = n_prompt;
    assert_int_equal(ft_call_send(call, &msg, &err), FT_OK);
}

static inline void send_draft(ft_call *call, uint32_t round, uint32_t n, uint32_t what)
{
    ft_error err;
    ft_client_msg msg = {.kind = FT_CLIENT_DRAFT};
    msg.draft.round = round;
    msg.draft.base = 10 * round;
    msg.draft.n = n;
    msg.draft.rtt_us = what;
    for (uint32_t i = 0; i < n; i++) {
        msg.draft.token[i] = (int32_t)(round + i) % 1000;
        msg.draft.parent[i] = (int32_t)i - 1;
    }
    assert_int_equal(ft_call_send(call, &msg, &err), FT_OK);
}

static inline void send_kind(ft_call *call, ft_client_kind kind)
{
    ft_error err;
    ft_client_msg msg = {.kind = kind};
    assert_int_equal(ft_call_send(call, &msg, &err), FT_OK);
}

static inline void expect_opened(ft_call *call, uint32_t length)
{
    ft_server_msg *msg = NULL;
    ft_error err = {0};
    if (ft_call_recv(call, LIMIT_US, &err, &msg) != FT_OK)
        fail_msg("wanted Opened, got %s: %s", ft_status_name(err.code), err.message);
    assert_int_equal(msg->kind, FT_SERVER_OPENED);
    assert_int_equal(msg->opened.length, length);
    ft_server_msg_free(msg);
}

static inline void expect_verdict(ft_call *call, uint32_t round, uint32_t n)
{
    ft_server_msg *msg = NULL;
    ft_error err = {0};
    if (ft_call_recv(call, LIMIT_US, &err, &msg) != FT_OK)
        fail_msg("wanted a Verdict, got %s: %s", ft_status_name(err.code), err.message);
    assert_int_equal(msg->kind, FT_SERVER_VERDICT);
    assert_int_equal(msg->verdict.round, round);
    assert_int_equal(msg->verdict.n_path, n);
    assert_int_equal(msg->verdict.length, 10 * round + n);
    ft_server_msg_free(msg);
}

/* The stream must end with this code and a message that holds part. */
static inline void expect_end(ft_call *call, ft_status code, const char *part)
{
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err = {0};
    ft_status status = ft_call_recv_bytes(call, LIMIT_US, &err, &data, &n);
    free(data);
    if (status != code || !strstr(err.message, part))
        fail_msg("wanted the end with %s \"%s\", got %s: %s", ft_status_name(code), part,
                 ft_status_name(status), err.message);
}

#endif
