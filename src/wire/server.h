/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC server (C core): accepts streams, checks who calls, decodes messages and hands them to a
 * handler, and sends replies. It serves foretoken.v1.Verifier/Session, /Info and /Offer,
 * and grpc.health.v1.Health/Check and /Watch.
 *
 * Threads: the server has one queue thread, which makes all calls of the handler, for each stream
 * in the order of its messages. They must not block. Any thread may call ft_stream_send and
 * ft_stream_finish, also inside a call of the handler.
 *
 *   on_message, any number of times -> on_end, exactly once
 */
#ifndef FT_WIRE_SERVER_H
#define FT_WIRE_SERVER_H

#include <stdbool.h>

#include "base/address.h"
#include "wire/keyring.h"
#include "wire/messages.h"
#include "wire/offer.h"

typedef struct ft_wire_server ft_wire_server;
typedef struct ft_stream ft_stream;

typedef struct ft_wire_handler {
    void *ctx;
    /* A message that passed every check. */
    void (*on_message)(void *ctx, ft_stream *stream, ft_client_msg *take_msg);
    /* The stream is over. done: the client has half-closed it, and the server has ended it with
     * FT_OK at once. Otherwise the client cancelled it or left replies unread, the connection was
     * lost, or the server finished it. */
    void (*on_end)(void *ctx, ft_stream *stream, bool done);
    /* Any code but FT_OK and its message become the status of the call. */
    ft_status (*info)(void *ctx, ft_error *err, ft_msg_info *out);
    /* Fills the reply: hash and size, and at most so many bytes as asked for. Any code but FT_OK
     * and its message end the stream. NULL: this server offers nothing. */
    ft_status (*offer)(void *ctx, const ft_offer_request *request, ft_error *err,
                       ft_offer_reply *out);
} ft_wire_handler;

/* Strings are borrowed while the server lives. */
typedef struct ft_wire_server_opts {
    const char *host;
    int port;          /* 0: any free one, see ft_wire_server_port */
    const char *token; /* bearer token that clients must present; NULL: none needed */
    ft_keyring *keys;  /* instead of token; borrowed while the server lives; NULL: none */
    const char *tls_cert, *tls_key; /* PEM files; both or neither */
    const char *tls_client_ca;      /* PEM: ask clients for certificates of this CA (mutual TLS) */
    uint32_t max_streams;           /* at a time, more are refused (RESOURCE_EXHAUSTED); 0: 1024 */
    uint32_t client_share;      /* percent of them, and of other calls, for one client; 0: all */
    const ft_networks *proxies; /* whose x-forwarded-for tells the client's address; NULL: none */
    ft_wire_limits limits;
    ft_wire_handler handler;
} ft_wire_server_opts;

/* Listens and serves at once. FT_UNAVAILABLE: the port is taken; FT_INVALID: TLS files. */
FT_WARN_UNUSED ft_status ft_wire_server_create(const ft_wire_server_opts *opts, ft_error *err,
                                               ft_wire_server **out);
int ft_wire_server_port(const ft_wire_server *server);
/* What health says from now on, unless the server drains; at first: serving. Changes nothing else.
 * Any thread. */
void ft_wire_server_set_serving(ft_wire_server *server, bool serving);
/* Reads the TLS files again: later connections get what is in them now. FT_INVALID: they are wrong,
 * and those before stay in use. Does nothing without TLS. Any thread. */
FT_WARN_UNUSED ft_status ft_wire_server_reload_tls(ft_wire_server *server, ft_error *err);
/* From now on health says NOT_SERVING. Streams go on, and new ones come in: what an Open may do now
 * is for the handler to say. */
void ft_wire_server_drain(ft_wire_server *server);
/* Drains, ends all streams with UNAVAILABLE, and waits until each had its on_end. NULL is legal. */
void ft_wire_server_destroy(ft_wire_server *server);

/* Sends a copy, in order. Does nothing after the end of the stream. A client that leaves more than
 * 1 MiB unread is cut. */
void ft_stream_send(ft_stream *stream, const ft_server_msg *msg);
/* Ends the stream with a status, behind all messages that were sent; FT_OK is a normal end.
 * retry_after_ms above 0 becomes the trailer retry-after-ms. */
void ft_stream_finish(ft_stream *stream, ft_status code, const char *message,
                      uint32_t retry_after_ms);
/* The handler refuses the Open of this stream, before it finishes it: a large constraint counts as
 * further streams that the client has opened, if the refusal is its own fault. */
void ft_stream_count_refused(ft_stream *stream, ft_status why, size_t constraint_bytes);
/* The handler's own pointer. */
void ft_stream_set_user(ft_stream *stream, void *user);
void *ft_stream_user(const ft_stream *stream);
/* The client's credential as a string, borrowed. Equal credentials give equal strings while the
 * server lives. With keys: ft_key_credential. Otherwise the names in the client's certificate and a
 * salted hash of its token, as far as it sent them; "anonymous" if it sent neither. */
const char *ft_stream_credential(const ft_stream *stream);
/* The client as it is counted; borrowed. */
const ft_client_id *ft_stream_client(const ft_stream *stream);
/* The client's key; NULL: the server has no keys. */
const ft_key *ft_stream_key(const ft_stream *stream);
/* A reference keeps the struct alive after on_end, for other threads that may still send. */
void ft_stream_ref(ft_stream *stream);
void ft_stream_unref(ft_stream *stream);

#endif
