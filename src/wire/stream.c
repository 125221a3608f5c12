// SPDX-License-Identifier: Apache-2.0
// One incoming call of the server. Invariants:
//   - The first batch is RECV_CLOSE_ON_SERVER alone. It completes when the call is over, in
//     whatever way.
//   - At most one RECV_MESSAGE and one SEND batch are under way. The next message is read after the
//     handler has returned from this one, so the messages of a client that sends too fast stay on
//     the client.
//   - on_end is called when RECV_CLOSE_ON_SERVER completes. No on_message follows it.
//   - The grpc_call is given back when it is closed and no batch is under way.
// Completions run in the server's queue thread; any thread may send, so sending takes the lock.
// Knows no protobuf.
#include "wire/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond.h"
#include "base/log.h"

/* The retry-after-ms of a stream whose answer found no memory. */
#define RETRY_MS 1000

void ft_stream_ref(ft_stream *stream)
{
    atomic_fetch_add(&stream->refs, 1);
}

void ft_stream_unref(ft_stream *stream)
{
    if (atomic_fetch_sub(&stream->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&stream->lock);
    free(stream->message);
    free(stream->refusal);
    free(stream->credential);
    free(stream);
}

void ft_stream_set_user(ft_stream *stream, void *user)
{
    stream->user = user;
}

void *ft_stream_user(const ft_stream *stream)
{
    return stream->user;
}

const char *ft_stream_credential(const ft_stream *stream)
{
    return stream->credential;
}

const ft_client_id *ft_stream_client(const ft_stream *stream)
{
    return &stream->client;
}

const ft_key *ft_stream_key(const ft_stream *stream)
{
    return stream->key.name[0] ? &stream->key : NULL;
}

/* Call with the lock held. Sends nothing more. */
static void cut(ft_stream *stream)
{
    stream->state = FT_STREAM_CUT;
    ft_rpc_messages_clear(&stream->queue);
}

/* Call with the lock held. False: gRPC refused, and the stream is cut. */
static bool start_batch(ft_stream *stream, const grpc_op *ops, size_t n, ft_rpc_tag *tag)
{
    bool started = ft_rpc_start_batch(stream->call, ops, n, tag, &stream->outstanding);
    if (!started)
        cut(stream);
    return started;
}

/* Call with the lock held. Frees what a SEND batch needed, which is over. */
static void release_sent(ft_stream *stream)
{
    ft_rpc_message_destroy(stream->in_flight);
    stream->in_flight = NULL;
    grpc_slice_unref(stream->retry_value);
    stream->retry_value = grpc_empty_slice();
}

/* Call with the lock held. Sends the next message, or the status, unless a SEND is under way. */
static void pump(ft_stream *stream)
{
    grpc_op ops[2] = {0};
    size_t n = 0;
    grpc_metadata trailer;
    grpc_slice details = grpc_empty_slice();
    if (stream->sending || (!stream->queue.n && stream->state != FT_STREAM_FINISHING))
        return;
    if (!stream->headers_sent)
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    stream->headers_sent = true;
    stream->in_flight = ft_rpc_pop(&stream->queue);
    if (stream->in_flight) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = stream->in_flight->buffer;
    } else {
        stream->state = FT_STREAM_FINISHED;
        ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        ops[n].data.send_status_from_server.status = stream->code;
        details = grpc_slice_from_copied_string(stream->message ? stream->message : "");
        ops[n].data.send_status_from_server.status_details = &details;
        if (stream->retry_after_ms) {
            char text[16];
            snprintf(text, sizeof text, "%u", stream->retry_after_ms);
            stream->retry_value = grpc_slice_from_copied_string(text);
            trailer = (grpc_metadata){.key = grpc_slice_from_static_string(FT_RPC_RETRY_AFTER),
                                      .value = stream->retry_value};
            ops[n].data.send_status_from_server.trailing_metadata = &trailer;
            ops[n].data.send_status_from_server.trailing_metadata_count = 1;
        }
        n++;
    }
    stream->sending = start_batch(stream, ops, n, &stream->tag_send);
    if (!stream->sending)
        release_sent(stream);
    grpc_slice_unref(details);
}

/* Call with the lock held. */
static void begin_finish(ft_stream *stream, grpc_status_code code, const char *message,
                         uint32_t retry_after_ms)
{
    if (stream->state != FT_STREAM_OPEN)
        return;
    stream->state = FT_STREAM_FINISHING;
    stream->code = code;
    stream->message = message ? strdup(message) : NULL; /* without memory: no message */
    stream->retry_after_ms = retry_after_ms;
    pump(stream);
}

void ft_stream_finish(ft_stream *stream, ft_status code, const char *message,
                      uint32_t retry_after_ms)
{
    pthread_mutex_lock(&stream->lock);
    begin_finish(stream, (grpc_status_code)ft_status_grpc(code), message, retry_after_ms);
    pthread_mutex_unlock(&stream->lock);
}

void ft_stream_refuse(ft_stream *stream, const ft_error *why)
{
    FT_LOGD("wire", "call refused: %s", why->message);
    ft_stream_finish(stream, why->code, why->message,
                     why->code == FT_EXHAUSTED ? FT_STREAM_FULL_RETRY_MS : 0);
}

void ft_stream_send_bytes(ft_stream *stream, uint8_t *data, size_t n)
{
    pthread_mutex_lock(&stream->lock);
    size_t waiting = stream->queue.n_bytes + (stream->in_flight ? stream->in_flight->n_bytes : 0);
    if (stream->state != FT_STREAM_OPEN) {
        free(data);
    } else if (waiting + n > FT_STREAM_QUEUE_MAX_BYTES) {
        free(data);
        cut(stream);
        grpc_call_cancel_with_status(stream->call, GRPC_STATUS_RESOURCE_EXHAUSTED,
                                     "replies are not being read", NULL);
    } else if (ft_rpc_push(&stream->queue, ft_rpc_wrap(data, n))) {
        pump(stream);
    } else {
        begin_finish(stream, GRPC_STATUS_RESOURCE_EXHAUSTED, "the server is out of memory", 0);
    }
    pthread_mutex_unlock(&stream->lock);
}

void ft_stream_send(ft_stream *stream, const ft_server_msg *msg)
{
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err;
    if (ft_server_msg_encode(msg, &err, &data, &n) == FT_OK) {
        ft_stream_send_bytes(stream, data, n);
        return;
    }
    FT_LOGE("wire", "reply not sent: %s", err.message);
    /* The session's record still has the answer, for an edge that comes back. */
    if (err.code == FT_NOMEM)
        ft_stream_finish(stream, FT_UNAVAILABLE, err.message, RETRY_MS);
    else
        ft_stream_finish(stream, FT_INTERNAL, err.message, 0);
}

/* After each completion: gives the call back if it is closed and nothing is under way. */
static void settle(ft_stream *stream)
{
    grpc_call *call = NULL;
    pthread_mutex_lock(&stream->lock);
    if (stream->closed && stream->outstanding == 0) {
        call = stream->call;
        stream->call = NULL;
    }
    pthread_mutex_unlock(&stream->lock);
    if (!call)
        return;
    grpc_call_unref(call);
    stream->owner->on_gone(stream);
}

static void on_sent(void *owner, bool ok)
{
    ft_stream *stream = owner;
    pthread_mutex_lock(&stream->lock);
    stream->outstanding--;
    stream->sending = false;
    release_sent(stream);
    if (!ok)
        ft_rpc_messages_clear(&stream->queue);
    pump(stream);
    pthread_mutex_unlock(&stream->lock);
    settle(stream);
}

void ft_stream_read_next(ft_stream *stream)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &stream->received;
    pthread_mutex_lock(&stream->lock);
    if (stream->state == FT_STREAM_OPEN)
        (void)start_batch(stream, &op, 1, &stream->tag_recv);
    pthread_mutex_unlock(&stream->lock);
}

/* The client has half-closed the stream, or it was cut. RECV_CLOSE_ON_SERVER tells which. */
static void on_half_close(ft_stream *stream)
{
    if (stream->method == FT_METHOD_SESSION) {
        pthread_mutex_lock(&stream->lock);
        stream->half_closed = stream->state == FT_STREAM_OPEN;
        begin_finish(stream, GRPC_STATUS_OK, "", 0);
        pthread_mutex_unlock(&stream->lock);
    } else if (stream->method == FT_METHOD_OFFER) {
        ft_stream_finish(stream, FT_OK, "", 0);
    } else if (!stream->got_message) {
        ft_stream_finish(stream, FT_INVALID, "no request", 0);
    }
}

static void deliver(ft_stream *stream, grpc_byte_buffer *buffer)
{
    grpc_slice bytes;
    stream->got_message = true;
    if (!ft_rpc_unwrap(buffer, &bytes)) {
        ft_stream_finish(stream, FT_INVALID, "compressed messages are not taken", 0);
        return;
    }
    stream->owner->on_bytes(stream, GRPC_SLICE_START_PTR(bytes), GRPC_SLICE_LENGTH(bytes));
    grpc_slice_unref(bytes);
}

static void on_received(void *owner, bool ok)
{
    ft_stream *stream = owner;
    grpc_byte_buffer *buffer = stream->received;
    stream->received = NULL;
    pthread_mutex_lock(&stream->lock);
    stream->outstanding--;
    bool open = stream->state == FT_STREAM_OPEN;
    pthread_mutex_unlock(&stream->lock);
    if (!ok || !buffer) {
        on_half_close(stream);
    } else if (open) {
        deliver(stream, buffer);
        ft_stream_read_next(stream);
    }
    grpc_byte_buffer_destroy(buffer);
    settle(stream);
}

static void on_closed(void *owner, bool ok)
{
    ft_stream *stream = owner;
    const ft_wire_handler *handler = &stream->server->opts.handler;
    pthread_mutex_lock(&stream->lock);
    stream->outstanding--;
    cut(stream);
    pthread_mutex_unlock(&stream->lock);
    stream->closed = true;
    if (ft_stream_is_session(stream))
        handler->on_end(handler->ctx, stream, stream->half_closed && !stream->cancelled);
    settle(stream);
}

ft_stream *ft_stream_create(ft_wire_server *server, const ft_stream_owner *owner, grpc_call *call,
                            ft_method method, char *take_credential)
{
    ft_stream *stream = calloc(1, sizeof *stream);
    if (!stream || !take_credential) {
        free(stream);
        free(take_credential);
        grpc_call_unref(call);
        return NULL;
    }
    stream->server = server;
    stream->owner = owner;
    stream->method = method;
    stream->credential = take_credential;
    stream->call = call;
    stream->due_us = FT_NO_DEADLINE;
    stream->retry_value = grpc_empty_slice();
    stream->tag_recv = (ft_rpc_tag){on_received, stream};
    stream->tag_send = (ft_rpc_tag){on_sent, stream};
    stream->tag_close = (ft_rpc_tag){on_closed, stream};
    atomic_init(&stream->refs, 1);
    pthread_mutex_init(&stream->lock, NULL);
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    op.data.recv_close_on_server.cancelled = &stream->cancelled;
    pthread_mutex_lock(&stream->lock);
    (void)start_batch(stream, &op, 1, &stream->tag_close);
    pthread_mutex_unlock(&stream->lock);
    return stream;
}
