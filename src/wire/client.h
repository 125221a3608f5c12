/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC client: one channel with any number of calls at a time. The client has one queue thread.
 * A call belongs to one thread at a time; only ft_call_cancel may be called by any thread.
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

/* Connects only when a call needs it. */
FT_WARN_UNUSED ft_status ft_wire_client_create(const ft_wire_client_opts *opts, ft_error *err,
                                               ft_wire_client **out);
/* All calls must have been destroyed. NULL is legal. */
void ft_wire_client_destroy(ft_wire_client *client);

/* Whether there is a connection: without one, the next message waits until it is made. Any
 * thread. */
bool ft_wire_client_connected(const ft_wire_client *client);

/* As given in opts; borrowed from the client. */
const char *ft_wire_client_address(const ft_wire_client *client);

/* Calls Info. FT_TIMEOUT, FT_UNAVAILABLE, FT_UNAUTHENTICATED; FT_CANCELLED: opts.stopped. */
FT_WARN_UNUSED ft_status ft_wire_client_info(ft_wire_client *client, int64_t timeout_us,
                                             ft_error *err, ft_msg_info *out);

/* Asks the standard health service. FT_OK: it says SERVING. FT_UNAVAILABLE: it says that it is not,
 * or there is no connection. Other errors as ft_wire_client_info. FT_UNSUPPORTED: there is no such
 * service. */
FT_WARN_UNUSED ft_status ft_wire_client_health(ft_wire_client *client, int64_t timeout_us,
                                               ft_error *err);

/* Makes a session's stream. It begins with the first message that is sent or waited for, without
 * waiting; ft_call_recv tells if there is no connection. */
FT_WARN_UNUSED ft_status ft_call_create(ft_wire_client *client, ft_error *err, ft_call **out);
/* Before the first message: texts with the same number begin in the same way. The call's metadata
 * tell it to proxies, hashed by the bearer token: so they can bring each of these texts to the
 * server that has the KV of their beginning, and learn nothing else. */
void ft_call_set_prefix(ft_call *call, uint64_t prefix);
/* Sends without waiting. ft_call_recv reports errors of the stream. Close and Cancel half-close the
 * stream; a message after them is FT_PRECONDITION. */
FT_WARN_UNUSED ft_status ft_call_send(ft_call *call, const ft_client_msg *msg, ft_error *err);
/* Waits for the next message, and tells for how long it has been there; free *out by
 * ft_server_msg_free. timeout_us 0: does not wait; below
 * 0: no limit. FT_TIMEOUT: there is none yet. FT_CANCELLED: ft_call_cancel was called. After any
 * other error the stream is over, and later calls return the same error: the status with which the
 * server ended it (never one of the two above), FT_UNAVAILABLE if there is no connection or the
 * server ended the stream without an error, FT_TOO_LARGE if a message was above the server's limit.
 */
FT_WARN_UNUSED ft_status ft_call_recv(ft_call *call, int64_t timeout_us, ft_error *err,
                                      ft_server_msg **out);
/* The stream ended by a reset, with which no reason of the server came. */
bool ft_call_was_reset(const ft_call *call);
/* What the server asked for in the trailer of an ended stream; 0: nothing. */
uint32_t ft_call_retry_after_ms(const ft_call *call);
/* Any thread: cuts the stream; ft_call_recv returns FT_CANCELLED from now on. */
void ft_call_cancel(ft_call *call);
/* Bytes that a message of n bytes takes in a stream: also the 5 that gRPC adds to each message, and
 * the 9 that HTTP/2 adds to each DATA frame of at most 16 KiB (its default). */
static inline uint64_t ft_wire_message_bytes(size_t n)
{
    enum { PREFIX = 5, FRAME_HEADER = 9, FRAME_MAX = 16 * 1024 };
    const uint64_t data = n + PREFIX;
    return data + (data + FRAME_MAX - 1) / FRAME_MAX * FRAME_HEADER;
}
/* Bytes of messages so far, as ft_wire_message_bytes counts them. Headers, pings, window updates,
 * TLS, TCP and IP are not counted, because a client cannot measure them for one call. */
void ft_call_bytes(const ft_call *call, uint64_t *sent, uint64_t *received);
/* Cuts the stream if it is open. After Close or Cancel, first waits until the server has read it,
 * but at most a second. NULL is legal. */
void ft_call_destroy(ft_call *call);

#endif
