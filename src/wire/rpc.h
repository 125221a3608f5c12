/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers over gRPC's C core for server and client; private to this room. Any thread.
 */
#ifndef FT_WIRE_RPC_H
#define FT_WIRE_RPC_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_RPC_SESSION "/foretoken.v1.Verifier/Session"
#define FT_RPC_INFO    "/foretoken.v1.Verifier/Info"
#define FT_RPC_OFFER   "/foretoken.v1.Verifier/Offer"
#define FT_RPC_HEALTH  "/grpc.health.v1.Health/Check"

#define FT_RPC_RETRY_AFTER   "retry-after-ms"
#define FT_RPC_AUTHORIZATION "authorization"

/* A dead peer is noticed after PING + PING_TIMEOUT. A client that pings more often than
 * MIN_RECV_PING gets GOAWAY from the server. */
#define FT_RPC_CLIENT_PING_MS     2000
#define FT_RPC_SERVER_PING_MS     3000
#define FT_RPC_PING_TIMEOUT_MS    2000
#define FT_RPC_MIN_RECV_PING_MS   500
#define FT_RPC_HANDSHAKE_LIMIT_MS 10000
/* A connection without a call is closed after this time. It is not pinged: pings would keep a
 * device's radio awake. */
#define FT_RPC_IDLE_LIMIT_MS 300000

/* The tag of each event of a completion queue: what handles it. It must live until the event. */
typedef struct ft_rpc_tag {
    void (*done)(void *owner, bool ok);
    void *owner;
} ft_rpc_tag;

/* Calls grpc_init with this program's settings. */
void ft_rpc_init(void);
/* Handles events until the queue has shut down. */
void ft_rpc_serve(grpc_completion_queue *cq);

/* A completion queue and the thread that handles its events. */
typedef struct ft_rpc_queue {
    grpc_completion_queue *cq;
    pthread_t thread;
} ft_rpc_queue;

/* Sets gRPC up and starts a queue, whose thread takes no signals. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_rpc_queue_start(ft_rpc_queue *queue, ft_error *err);
/* Handles the remaining events, ends the thread and shuts gRPC down. */
void ft_rpc_queue_stop(ft_rpc_queue *queue);

/* Tells ThreadSanitizer that whoever handles the tag's event sees what this thread wrote: gRPC
 * makes it so, with atomics that are not instrumented. Call it before the tag is given to gRPC by
 * other ways than ft_rpc_start_batch. */
void ft_rpc_hand_over(ft_rpc_tag *tag);
/* Starts a batch and counts it in *outstanding. False: gRPC refused; the call is then being
 * cancelled. */
bool ft_rpc_start_batch(grpc_call *call, const grpc_op *ops, size_t n, ft_rpc_tag *tag,
                        int *outstanding);

/* Takes malloc'ed bytes. */
grpc_byte_buffer *ft_rpc_wrap(uint8_t *data, size_t n);
/* The buffer's bytes in one slice, which the caller unrefs. False: compressed or broken. */
bool ft_rpc_unwrap(grpc_byte_buffer *buffer, grpc_slice *out);

/* Copies the other side's text as one printable line, as ft_utf8_line makes it. */
void ft_rpc_printable(grpc_slice text, char *out, size_t size);

/* A channel argument. key is borrowed. */
grpc_arg ft_rpc_int(const char *key, int value);

/* Messages, first in first out. All-zero is empty. */
typedef struct ft_rpc_message {
    struct ft_rpc_message *next;
    grpc_byte_buffer *buffer;
    size_t n_bytes;
    int64_t pushed_us; /* when, by ft_clock_monotonic */
} ft_rpc_message;

typedef struct ft_rpc_messages {
    ft_rpc_message *first, *last;
    size_t n, n_bytes;
} ft_rpc_messages;

/* Takes the buffer. False: no memory. */
bool ft_rpc_push(ft_rpc_messages *messages, grpc_byte_buffer *take_buffer);
/* The caller destroys it. NULL: there is none. */
ft_rpc_message *ft_rpc_pop(ft_rpc_messages *messages);
/* NULL is legal. */
void ft_rpc_message_destroy(ft_rpc_message *message);
void ft_rpc_messages_clear(ft_rpc_messages *messages);

#endif
