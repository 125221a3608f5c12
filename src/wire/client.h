/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC client: one channel, any number of concurrent calls. The client owns one
 * completion-queue thread; a call belongs to one thread at a time, except ft_call_cancel, which any
 * thread may use.
 */
#ifndef FT_WIRE_CLIENT_H
#define FT_WIRE_CLIENT_H

#include <stdbool.h>

#include "wire/messages.h"

typedef struct ft_wire_client ft_wire_client;
typedef struct ft_call ft_call;

typedef struct ft_wire_client_opts {
    const char *address;            /* "host:port" */
    const char *token;              /* bearer token, or NULL */
    bool tls;                       /* implied by any of the files */
    const char *tls_ca;             /* PEM; NULL: the system's */
    const char *tls_cert, *tls_key; /* own certificate for mutual TLS */
    const char *tls_name;  /* name to expect in the server's certificate, or NULL: the host's */
    bool (*stopped)(void); /* asked 20 times a second while Info waits; true ends it. NULL: never */
} ft_wire_client_opts;

/* Connects lazily. */
FT_WARN_UNUSED ft_status ft_wire_client_create(const ft_wire_client_opts *opts, ft_error *err,
                                               ft_wire_client **out);
/* All calls must have been destroyed. NULL is legal. */
void ft_wire_client_destroy(ft_wire_client *client);

/* Calls Info. FT_TIMEOUT, FT_UNAVAILABLE, FT_UNAUTHENTICATED; FT_CANCELLED: opts.stopped. */
FT_WARN_UNUSED ft_status ft_wire_client_info(ft_wire_client *client, int64_t timeout_us,
                                             ft_error *err, ft_msg_info *out);

/* Begins a session's stream; returns at once, whether or not the server can be reached. */
FT_WARN_UNUSED ft_status ft_call_create(ft_wire_client *client, ft_error *err, ft_call **out);
/* Queues; returns at once. ft_call_recv reports errors of the stream. Nothing may follow Close or
 * Cancel (FT_PRECONDITION), which end our direction of the stream. */
FT_WARN_UNUSED ft_status ft_call_send(ft_call *call, const ft_client_msg *msg, ft_error *err);
/* Waits for the next message. FT_TIMEOUT: none yet (0: just look; < 0: no limit). FT_CANCELLED:
 * ft_call_cancel. A status from the server is never returned as one of these two. Any other error:
 * the stream is over, with its status and a message; later calls return the same.
 * FT_UNAVAILABLE: no connection, or the server ended the stream without an error. FT_TOO_LARGE: a
 * message over the server's limit. Free *out by ft_server_msg_free. */
FT_WARN_UNUSED ft_status ft_call_recv(ft_call *call, int64_t timeout_us, ft_error *err,
                                      ft_server_msg **out);
/* From the trailer of an ended stream; 0: none. */
uint32_t ft_call_retry_after_ms(const ft_call *call);
/* Any thread: makes a waiting ft_call_recv return FT_CANCELLED and cuts the stream. */
void ft_call_cancel(ft_call *call);
/* Bytes of messages so far, both ways: protobuf, gRPC's 5 bytes before each, and HTTP/2's 9 before
 * each DATA frame of at most 16 KiB. Not counted, as a client cannot know or attribute them:
 * headers, pings and window updates, TLS, TCP and IP. */
void ft_call_bytes(const ft_call *call, uint64_t *sent, uint64_t *received);
/* Cuts the stream if it is still open. After Close or Cancel it first waits for at most a second
 * until the server has read them. NULL is legal. */
void ft_call_destroy(ft_call *call);

#endif
