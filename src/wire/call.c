// SPDX-License-Identifier: Apache-2.0
// One call of the client. Invariants:
//   - At most one RECV_MESSAGE and one SEND batch are under way. Reading pauses while INBOX_MAX
//     messages wait, so the messages of a server that sends too fast stay on the server.
//   - The owner sees the end of the stream when its status is known and all messages are taken.
//   - ft_call_destroy waits until no batch is under way, so no completion meets a freed call.
// Completions run in the client's queue thread. ft_call_cancel runs in any thread, all other
// functions in the owner's. `lock` guards the fields below it.
#include "wire/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/chat_prefix.h"
#include "base/secret.h"

#define INBOX_MAX 32
/* How long ft_call_destroy waits until the server has read Close or Cancel. */
#define CLOSE_WAIT_US 1000000
/* The longest time that a server can ask a client to wait. */
#define RETRY_MAX_MS 600000

struct ft_call {
    ft_wire_client *client;
    ft_rpc_tag tag_recv, tag_send, tag_end;
    grpc_metadata header[2];
    size_t n_header;
    bool has_prefix;
    char prefix[FT_CHAT_PREFIX_DIGITS + 1];
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *received;
    grpc_status_code code;
    grpc_slice details;
    int64_t waited_us; /* the message that the owner took last, in the inbox */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    grpc_call *call;
    int outstanding;
    ft_rpc_messages inbox, outbox;
    ft_rpc_message *in_flight;
    bool begun; /* its batch was started */
    bool sending, reading;
    bool eof;                  /* no message will come any more */
    bool closing, close_begun; /* our half-close: asked for; sent to gRPC */
    bool ended;                /* code, details and trailing are set */
    bool cancelled;            /* by ft_call_cancel */
    uint64_t sent_bytes, received_bytes;
};

/* Call with the lock held. */
static bool start_batch(ft_call *call, const grpc_op *ops, size_t n, ft_rpc_tag *tag)
{
    return ft_rpc_start_batch(call->call, ops, n, tag, &call->outstanding);
}

/* Call with the lock held. Frees the message of a SEND batch that is over. */
static void release_sent(ft_call *call)
{
    ft_rpc_message_destroy(call->in_flight);
    call->in_flight = NULL;
}

/* Call with the lock held. */
static void pump_send(ft_call *call)
{
    grpc_op ops[2] = {0};
    size_t n = 0;
    if (call->sending || call->close_begun || call->ended)
        return;
    call->in_flight = ft_rpc_pop(&call->outbox);
    if (call->in_flight) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = call->in_flight->buffer;
    }
    if (call->closing && call->outbox.n == 0) {
        ops[n++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
        call->close_begun = true;
    }
    if (n)
        call->sending = start_batch(call, ops, n, &call->tag_send);
    if (n && !call->sending) {
        release_sent(call);
        call->close_begun = true; /* nothing more is sent */
    }
}

/* Call with the lock held. */
static void pump_recv(ft_call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &call->received;
    if (!call->reading && !call->eof && call->inbox.n < INBOX_MAX) {
        call->reading = start_batch(call, &op, 1, &call->tag_recv);
        call->eof = !call->reading;
    }
}

/* Call with the lock held. A batch is over. */
static void settle(ft_call *call)
{
    call->outstanding--;
    pthread_cond_broadcast(&call->changed);
}

static void on_sent(void *owner, bool ok)
{
    ft_call *call = owner;
    pthread_mutex_lock(&call->lock);
    release_sent(call);
    call->sending = false;
    if (ok)
        pump_send(call);
    settle(call);
    pthread_mutex_unlock(&call->lock);
}

static void on_received(void *owner, bool ok)
{
    ft_call *call = owner;
    pthread_mutex_lock(&call->lock);
    grpc_byte_buffer *buffer = call->received;
    call->received = NULL;
    call->reading = false;
    if (!ok || !buffer) {
        grpc_byte_buffer_destroy(buffer);
        call->eof = true;
    } else {
        call->received_bytes += ft_wire_message_bytes(grpc_byte_buffer_length(buffer));
        if (!ft_rpc_push(&call->inbox, buffer)) {
            call->eof = true;
            grpc_call_cancel_with_status(call->call, GRPC_STATUS_RESOURCE_EXHAUSTED,
                                         "no memory for a message", NULL);
        }
        pump_recv(call);
    }
    settle(call);
    pthread_mutex_unlock(&call->lock);
}

static void on_ended(void *owner, bool ok)
{
    ft_call *call = owner;
    pthread_mutex_lock(&call->lock);
    call->ended = true;
    settle(call);
    pthread_mutex_unlock(&call->lock);
}

/* The value is borrowed for the life of the call. */
static void add_header(ft_call *call, const char *key, grpc_slice value)
{
    call->header[call->n_header++] =
        (grpc_metadata){.key = grpc_slice_from_static_string(key), .value = value};
}

/* Call with the lock held: the batch that lasts as long as the call, and the first read. */
static bool start_all(ft_call *call)
{
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_RECV_INITIAL_METADATA},
                      {.op = GRPC_OP_RECV_STATUS_ON_CLIENT}};
    if (call->client->has_token)
        add_header(call, FT_RPC_AUTHORIZATION, call->client->authorization);
    if (call->has_prefix)
        add_header(call, FT_CHAT_PREFIX_HEADER, grpc_slice_from_static_string(call->prefix));
    ops[0].data.send_initial_metadata.metadata = call->header;
    ops[0].data.send_initial_metadata.count = call->n_header;
    ops[1].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[2].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[2].data.recv_status_on_client.status = &call->code;
    ops[2].data.recv_status_on_client.status_details = &call->details;
    if (!start_batch(call, ops, 3, &call->tag_end))
        return false;
    pump_recv(call);
    return true;
}

/* Call with the lock held. Starts the call with the first message, after its headers are known. */
static ft_status begin(ft_call *call, ft_error *err)
{
    if (!call->begun && !start_all(call))
        return ft_error_set(err, FT_INTERNAL, "gRPC refused to start a call");
    call->begun = true;
    return FT_OK;
}

static ft_call *call_alloc(ft_wire_client *client)
{
    ft_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->client = client;
    call->tag_recv = (ft_rpc_tag){on_received, call};
    call->tag_send = (ft_rpc_tag){on_sent, call};
    call->tag_end = (ft_rpc_tag){on_ended, call};
    call->details = grpc_empty_slice();
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->changed, NULL);
    return call;
}

ft_status ft_call_start(ft_wire_client *client, const char *method, ft_error *err, ft_call **out)
{
    *out = NULL;
    ft_call *call = call_alloc(client);
    if (!call)
        return ft_error_set(err, FT_NOMEM, "no memory for a call");
    call->call = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                          client->queue.cq, grpc_slice_from_static_string(method),
                                          NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    *out = call;
    return FT_OK;
}

ft_status ft_call_create(ft_wire_client *client, ft_error *err, ft_call **out)
{
    return ft_call_start(client, FT_RPC_SESSION, err, out);
}

void ft_call_set_prefix(ft_call *call, uint64_t prefix)
{
    const uint64_t hash = ft_siphash(call->client->prefix_key, &prefix, sizeof prefix);
    snprintf(call->prefix, sizeof call->prefix, "%016" PRIx64, hash);
    call->has_prefix = true;
}

ft_status ft_call_send_bytes(ft_call *call, uint8_t *data, size_t n, bool last, ft_error *err)
{
    ft_status status = FT_OK;
    grpc_byte_buffer *buffer = ft_rpc_wrap(data, n);
    pthread_mutex_lock(&call->lock);
    if (call->closing) {
        grpc_byte_buffer_destroy(buffer);
        status = ft_error_set(err, FT_PRECONDITION, "nothing can follow Close or Cancel");
    } else if ((status = begin(call, err)) != FT_OK) {
        grpc_byte_buffer_destroy(buffer);
    } else if (!ft_rpc_push(&call->outbox, buffer)) {
        status = ft_error_set(err, FT_NOMEM, "no memory for a message");
    } else {
        call->sent_bytes += ft_wire_message_bytes(n);
        call->closing = last;
        pump_send(call);
    }
    pthread_mutex_unlock(&call->lock);
    return status;
}

ft_status ft_call_send(ft_call *call, const ft_client_msg *msg, ft_error *err)
{
    uint8_t *data = NULL;
    size_t n = 0;
    ft_status status = ft_client_msg_encode(msg, err, &data, &n);
    if (status != FT_OK)
        return status;
    bool last = msg->kind == FT_CLIENT_CLOSE || msg->kind == FT_CLIENT_CANCEL;
    return ft_call_send_bytes(call, data, n, last, err);
}

static bool mentions(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(text, words[i]))
            return true;
    return false;
}

/* The part of gRPC's message about a failed connection that helps a person. */
static const char *reason_in(const char *details)
{
    static const char *const marks[] = {"last error: ", "UNKNOWN: ", "UNAVAILABLE: "};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *found = strstr(details, marks[i]);
        details = found ? found + strlen(marks[i]) : details;
    }
    return details;
}

/* gRPC says UNAVAILABLE for every failure of a connection, and servers say it, too. Only the words
 * tell them apart. They decide our message, never the code. */
static ft_status unavailable(ft_call *call, const char *details, ft_error *err)
{
    static const char *const tls[] = {"andshake", "certificate"};
    static const char *const closed[] = {"Socket closed", "recvmsg", "sendmsg", "Broken pipe",
                                         "keepalive",     "ping",    "GOAWAY",  "transport"};
    static const char *const unreachable[] = {"failed to connect", "resolution"};
    const char *address = call->client->address, *reason = reason_in(details);
    if (mentions(details, tls, 2))
        return ft_error_set(err, FT_UNAVAILABLE,
                            "cannot agree on TLS with %s: %s: check the certificates on both sides",
                            address, reason);
    if (mentions(details, closed, 8) && (call->received_bytes || strstr(details, "keepalive")))
        return ft_error_set(err, FT_UNAVAILABLE, "lost the connection to %s: %s", address, reason);
    if (mentions(details, closed, 8))
        return ft_error_set(err, FT_UNAVAILABLE,
                            "%s closed the connection before it answered (%s): does it ask for TLS "
                            "or for a client certificate?",
                            address, reason);
    if (mentions(details, unreachable, 2))
        return ft_error_set(err, FT_UNAVAILABLE,
                            "cannot reach %s: %s: check the address, and that the server runs",
                            address, reason);
    return ft_error_set(err, FT_UNAVAILABLE, "%s",
                        *details ? details : "the server is unavailable");
}

/* Call with the lock held, after the end. Never FT_OK. To the caller, FT_TIMEOUT and FT_CANCELLED
 * mean something else, so a server that ends the stream with one of them is FT_UNAVAILABLE. */
static ft_status end_status(ft_call *call, ft_error *err)
{
    char details[256];
    ft_rpc_printable(call->details, details, sizeof details);
    switch (call->code) {
    case GRPC_STATUS_OK:
        return ft_error_set(err, FT_UNAVAILABLE, "the server ended the stream");
    case GRPC_STATUS_UNAVAILABLE:
        return unavailable(call, details, err);
    case GRPC_STATUS_DEADLINE_EXCEEDED:
        return ft_error_set(err, FT_UNAVAILABLE, "the server gave up: %s", details);
    case GRPC_STATUS_CANCELLED:
        return ft_error_set(err, FT_UNAVAILABLE, "the server cut the stream: %s", details);
    case GRPC_STATUS_RESOURCE_EXHAUSTED: /* also gRPC's code for a message that is too large */
        if (strstr(details, "message larger than max"))
            return ft_error_set(err, FT_TOO_LARGE, "%s", details);
        break;
    default:
        break;
    }
    return ft_error_set(err, ft_status_from_grpc((int)call->code), "%s",
                        *details ? details : "the server gave no reason");
}

/* Call with the lock held: whether ft_call_recv has something to return. */
static bool has_news(const ft_call *call)
{
    return call->cancelled || call->inbox.n || (call->ended && call->eof);
}

/* For how long a message has been in the inbox. */
static int64_t waited_us(const ft_rpc_message *message)
{
    return ft_monotonic_us() - message->pushed_us;
}

static ft_status copy_out(ft_rpc_message *message, ft_error *err, uint8_t **data, size_t *n)
{
    grpc_slice bytes;
    if (!ft_rpc_unwrap(message->buffer, &bytes))
        return ft_error_set(err, FT_INVALID, "the server sent a compressed message");
    *n = GRPC_SLICE_LENGTH(bytes);
    *data = malloc(*n + 1);
    if (*data)
        memcpy(*data, GRPC_SLICE_START_PTR(bytes), *n);
    grpc_slice_unref(bytes);
    return *data ? FT_OK : ft_error_set(err, FT_NOMEM, "no memory for a message");
}

ft_status ft_call_recv_bytes(ft_call *call, int64_t timeout_us, ft_error *err, uint8_t **data,
                             size_t *n)
{
    ft_rpc_message *message = NULL;
    ft_status status = FT_OK;
    int64_t deadline_us = ft_deadline_us(timeout_us);
    *data = NULL;
    *n = 0;
    pthread_mutex_lock(&call->lock);
    status = begin(call, err);
    while (status == FT_OK && !has_news(call) &&
           ft_cond_wait_until(&call->changed, &call->lock, deadline_us)) {
    }
    if (status != FT_OK)
        ; /* it never began */
    else if (!has_news(call))
        status = ft_error_set(err, FT_TIMEOUT, "no message yet");
    else if (call->cancelled)
        status = ft_error_set(err, FT_CANCELLED, "cancelled");
    else if ((message = ft_rpc_pop(&call->inbox)) != NULL)
        pump_recv(call);
    else
        status = end_status(call, err);
    pthread_mutex_unlock(&call->lock);
    if (message) {
        call->waited_us = waited_us(message);
        status = copy_out(message, err, data, n);
    }
    ft_rpc_message_destroy(message);
    return status;
}

ft_status ft_call_recv(ft_call *call, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    uint8_t *data = NULL;
    size_t n = 0;
    *out = NULL;
    ft_status status = ft_call_recv_bytes(call, timeout_us, err, &data, &n);
    if (status == FT_OK) {
        status = ft_server_msg_decode(data, n, err, out);
        if (status != FT_OK) /* no message after a broken one can be trusted */
            grpc_call_cancel(call->call, NULL);
        else
            (*out)->waited_us = call->waited_us;
    }
    free(data);
    return status;
}

bool ft_call_was_reset(const ft_call *call)
{
    ft_call *c = (ft_call *)call;
    pthread_mutex_lock(&c->lock);
    const bool reset = c->ended && c->code == GRPC_STATUS_CANCELLED;
    pthread_mutex_unlock(&c->lock);
    return reset;
}

uint32_t ft_call_retry_after_ms(const ft_call *call)
{
    ft_call *c = (ft_call *)call;
    uint32_t ms = 0;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; c->ended && i < c->trailing.count; i++) {
        const grpc_metadata *md = &c->trailing.metadata[i];
        if (grpc_slice_str_cmp(md->key, FT_RPC_RETRY_AFTER) != 0)
            continue;
        char text[16];
        ft_rpc_printable(md->value, text, sizeof text);
        unsigned long value = strtoul(text, NULL, 10);
        ms = value < RETRY_MAX_MS ? (uint32_t)value : RETRY_MAX_MS;
    }
    pthread_mutex_unlock(&c->lock);
    return ms;
}

void ft_call_cancel(ft_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->cancelled = true;
    grpc_call_cancel(call->call, NULL);
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->lock);
}

void ft_call_bytes(const ft_call *call, uint64_t *sent, uint64_t *received)
{
    ft_call *c = (ft_call *)call;
    pthread_mutex_lock(&c->lock);
    *sent = c->sent_bytes;
    *received = c->received_bytes;
    pthread_mutex_unlock(&c->lock);
}

void ft_call_destroy(ft_call *call)
{
    if (!call)
        return;
    int64_t deadline_us = ft_deadline_us(CLOSE_WAIT_US);
    pthread_mutex_lock(&call->lock);
    while (call->closing && !call->ended && !call->cancelled &&
           ft_cond_wait_until(&call->changed, &call->lock, deadline_us)) {
    }
    if (!call->ended)
        grpc_call_cancel(call->call, NULL);
    while (call->outstanding)
        pthread_cond_wait(&call->changed, &call->lock);
    pthread_mutex_unlock(&call->lock);
    grpc_call_unref(call->call);
    ft_rpc_messages_clear(&call->inbox);
    ft_rpc_messages_clear(&call->outbox);
    release_sent(call);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->details);
    pthread_cond_destroy(&call->changed);
    pthread_mutex_destroy(&call->lock);
    free(call);
}
