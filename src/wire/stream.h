/* SPDX-License-Identifier: Apache-2.0
 *
 * One incoming call of the server, of any method; private to this room.
 *
 *   OPEN --ft_stream_finish, half-close of a session--> FINISHING --pump, queue empty--> FINISHED
 *     |                                                     |                              |
 *     \--refused batch, unread replies, on_closed--> CUT <--/--on_closed-------------------/
 *
 * Half-close of an Offer does the same. A call that the server refuses is FINISHING at once and
 * never reads. After on_closed, when no batch is under way, the call is given back and on_gone is
 * called.
 *
 * Locks, in this order: ft_wire_server.lock, then ft_stream.lock. No lock is held while the
 * handler runs.
 */
#ifndef FT_WIRE_STREAM_H
#define FT_WIRE_STREAM_H

#include <stdatomic.h>

#include "base/throttle.h"
#include "wire/accept.h"
#include "wire/late.h"
#include "wire/rpc.h"
#include "wire/server.h"

/* Called in the queue thread, without a lock. */
typedef struct ft_stream_owner {
    void (*on_bytes)(ft_stream *stream, const uint8_t *data, size_t n); /* a message has arrived */
    void (*on_gone)(ft_stream *stream);                                 /* the last batch is over */
} ft_stream_owner;

/* The retry-after-ms of a call that found no place. */
#define FT_STREAM_FULL_RETRY_MS 500
/* A stream is cut if its client leaves more replies unread than this. */
#define FT_STREAM_QUEUE_MAX_BYTES (1024 * 1024)

typedef enum ft_method {
    FT_METHOD_SESSION,
    FT_METHOD_INFO,
    FT_METHOD_OFFER,
    FT_METHOD_HEALTH_CHECK,
    FT_METHOD_HEALTH_WATCH,
    FT_METHOD_UNKNOWN
} ft_method;

typedef enum ft_stream_state {
    FT_STREAM_OPEN,      /* takes messages in both directions */
    FT_STREAM_FINISHING, /* its status follows the queued messages */
    FT_STREAM_FINISHED,  /* its status was handed to gRPC */
    FT_STREAM_CUT        /* nothing more is sent: refused by gRPC, cancelled or closed */
} ft_stream_state;

struct ft_stream {
    /* set at creation */
    ft_wire_server *server; /* may be freed after on_gone */
    const ft_stream_owner *owner;
    ft_method method;
    char *credential;
    ft_key key;          /* empty: the server has no keys */
    ft_client_id client; /* by which its place is counted */
    atomic_int refs;
    void *user; /* the handler's pointer */

    ft_stream *prev, *next; /* guarded by server->lock */
    bool watching;          /* guarded by server->lock: is told when health changes */
    /* set by the queue thread under server->lock */
    ft_quota *quota;   /* has its place; NULL: it was refused at once */
    ft_error *refusal; /* why it is refused, late; NULL: it is not, or at once */
    /* The same, and by the late thread: what it does with the call, and when (late.h). */
    ft_late_step step;
    int64_t due_us; /* FT_NO_DEADLINE: nothing; the first message has come */

    /* used by the queue thread alone */
    ft_rpc_tag tag_recv, tag_send, tag_close;
    grpc_byte_buffer *received;
    int cancelled;
    bool got_message; /* at least one */
    bool half_closed; /* by the client, before the server ended the stream */
    bool closed;

    pthread_mutex_t lock;
    /* guarded by lock */
    grpc_call *call; /* NULL after on_gone */
    int outstanding; /* batches under way */
    ft_stream_state state;
    ft_rpc_messages queue;     /* to be sent */
    ft_rpc_message *in_flight; /* in the SEND batch */
    bool sending;              /* one SEND batch is under way */
    bool headers_sent;
    grpc_status_code code;
    char *message; /* NULL: none */
    uint32_t retry_after_ms;
    grpc_slice retry_value;
};

struct ft_wire_server {
    ft_wire_server_opts opts;
    uint8_t salt[16]; /* random */
    int port;
    grpc_server *grpc;
    ft_accept *accept;
    ft_rpc_queue queue;
    ft_rpc_tag tag_shutdown;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* streams or shut_down */
    /* guarded by lock */
    ft_stream *streams;
    uint32_t n_streams;
    bool unwell; /* ft_wire_server_set_serving(false) */
    bool draining, closing, shut_down;
    struct {
        ft_quota sessions;
        ft_quota calls[2]; /* Info and Check: of clients that have shown no credential; that have */
        ft_quota watches;  /* and Offer: they last, so they have places of their own */
        ft_quota refused;  /* of any method: what waits for its refusal */
    } quotas;
    struct {
        ft_throttle sessions, refusals;
    } paces; /* of each client */
    ft_late late;
};

/* What health says. The caller holds server->lock. */
static inline bool ft_wire_server_serves(const ft_wire_server *server)
{
    return !server->unwell && !server->draining;
}

/* Takes the call and starts its first batch. The stream has one reference, the server's. NULL: no
 * memory; the call is given back. */
ft_stream *ft_stream_create(ft_wire_server *server, const ft_stream_owner *owner, grpc_call *call,
                            ft_method method, char *take_credential);
/* Whether the handler knows it: a session's stream that got a place. */
static inline bool ft_stream_is_session(const ft_stream *stream)
{
    return stream->method == FT_METHOD_SESSION && stream->quota && !stream->refusal;
}
/* Ends the stream because the server does not take the call. */
void ft_stream_refuse(ft_stream *stream, const ft_error *why);
/* Asks for the next message, unless the stream is over. */
void ft_stream_read_next(ft_stream *stream);
/* Queues malloc'ed bytes, which it takes. */
void ft_stream_send_bytes(ft_stream *stream, uint8_t *data, size_t n);

/* offer.c: answers a request of Offer. */
void ft_offer_on_request(ft_stream *stream, const uint8_t *data, size_t n);
/* health.c: answers a request of Check or Watch. */
void ft_health_on_request(ft_stream *stream, const uint8_t *data, size_t n);
/* health.c: sends a HealthCheckResponse. */
void ft_health_tell(ft_stream *stream, bool serving);

#endif
