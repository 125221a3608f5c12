/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC server (C core): accepts streams, authenticates, decodes, delivers; queues and sends.
 * Serves foretoken.v1.Verifier/Session, /Info, and grpc.health.v1.Health/Check and /Watch.
 *
 * Threads: the server owns its completion-queue thread(s). Handler calls for one stream never
 * overlap and come in order; they must not block. ft_stream_send and ft_stream_finish may be called
 * from any thread, also from inside handler calls.
 *
 *   accepted -> on_message* -> on_end           (exactly one on_end a stream, the last call for it)
 */
#ifndef FT_WIRE_SERVER_H
#define FT_WIRE_SERVER_H

#include <stdbool.h>

#include "wire/keyring.h"
#include "wire/messages.h"

typedef struct ft_wire_server ft_wire_server;
typedef struct ft_stream ft_stream;

typedef struct ft_wire_handler {
    void *ctx;
    /* A message that passed every check. */
    void (*on_message)(void *ctx, ft_stream *stream, ft_client_msg *take_msg);
    /* The stream is over. done: the client ended it by a half-close, which is answered with FT_OK
     * at once (a client that wants replies must keep its direction open). Otherwise it was cut:
     * cancelled, connection lost, client not reading, or finished by the server. */
    void (*on_end)(void *ctx, ft_stream *stream, bool done);
    void (*info)(void *ctx, ft_msg_info *out);
} ft_wire_handler;

typedef struct ft_wire_server_opts {
    const char *host;
    int port;          /* 0: any free one, see ft_wire_server_port */
    const char *token; /* bearer token that clients must present; NULL: none needed */
    ft_keyring *keys;  /* instead of token; borrowed while the server lives; NULL: none */
    const char *tls_cert, *tls_key; /* PEM files; both or neither */
    const char *tls_client_ca;      /* PEM: ask clients for certificates of this CA (mutual TLS) */
    uint32_t max_streams;           /* concurrent; one more is refused with RESOURCE_EXHAUSTED;
                                       0: 1024 */
    ft_wire_limits limits;
    ft_wire_handler handler;
} ft_wire_server_opts;

/* Listens and serves at once. FT_UNAVAILABLE: the port is taken; FT_INVALID: TLS files. */
FT_WARN_UNUSED ft_status ft_wire_server_create(const ft_wire_server_opts *opts, ft_error *err,
                                               ft_wire_server **out);
int ft_wire_server_port(const ft_wire_server *server);
/* Health says NOT_SERVING and new streams are refused; present ones go on. */
void ft_wire_server_drain(ft_wire_server *server);
/* Drains, ends all streams (UNAVAILABLE), waits for every on_end, frees. */
void ft_wire_server_destroy(ft_wire_server *server);

/* Sends in order; copies. Ignored once the stream is over. A client that leaves more than 1 MiB
 * unread is cut. */
void ft_stream_send(ft_stream *stream, const ft_server_msg *msg);
/* Ends the stream with a status after all queued messages; FT_OK is a normal end. retry_after_ms >
 * 0 becomes the trailer retry-after-ms. */
void ft_stream_finish(ft_stream *stream, ft_status code, const char *message,
                      uint32_t retry_after_ms);
/* The handler's own pointer. */
void ft_stream_set_user(ft_stream *stream, void *user);
void *ft_stream_user(const ft_stream *stream);
/* The client's credential as a string; equal credentials give equal strings, within one server's
 * life. With keys: ft_key_credential. Otherwise the names in the client's certificate and a salted
 * hash of its token, as far as it showed them, or "anonymous". Borrowed. */
const char *ft_stream_credential(const ft_stream *stream);
/* The client's key; NULL: the server has no keys. */
const ft_key *ft_stream_key(const ft_stream *stream);
/* Keeps the struct alive beyond on_end for other threads that may still send. */
void ft_stream_ref(ft_stream *stream);
void ft_stream_unref(ft_stream *stream);

#endif
