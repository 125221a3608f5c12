/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that a server offers to edges: messages of Offer, their checks, and the client's side.
 * Functions that read and write messages are pure; any thread. */
#ifndef FT_WIRE_OFFER_H
#define FT_WIRE_OFFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "wire/client.h"

/* Bytes of a reply at most. With half as many a transfer waits twice as often; twice as many would
 * be above what a client takes (FT_SERVER_MSG_MAX_BYTES). */
#define FT_OFFER_CHUNK    (96 * 1024)
#define FT_OFFER_HEX_SIZE 65

typedef struct ft_offer_request {
    uint64_t offset;
    uint32_t most; /* bytes; 0: hash and size alone */
} ft_offer_request;

/* What is offered. */
typedef struct ft_offer {
    char sha256[FT_OFFER_HEX_SIZE]; /* lower-case hexadecimal */
    uint64_t bytes;
} ft_offer;

typedef struct ft_offer_reply {
    ft_offer offer;
    uint64_t offset;
    size_t n;
    uint8_t data[FT_OFFER_CHUNK]; /* [n] */
} ft_offer_reply;

/* The caller frees *data. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_offer_request_encode(const ft_offer_request *request, ft_error *err,
                                                 uint8_t **data, size_t *n);
FT_WARN_UNUSED ft_status ft_offer_reply_encode(const ft_offer_reply *reply, ft_error *err,
                                               uint8_t **data, size_t *n);
/* Bytes from outside. FT_INVALID: no such message. */
FT_WARN_UNUSED ft_status ft_offer_request_decode(const uint8_t *data, size_t n, ft_error *err,
                                                 ft_offer_request *out);
/* FT_INVALID also: the hash is none, the size is 0, or the bytes reach beyond it. */
FT_WARN_UNUSED ft_status ft_offer_reply_decode(const uint8_t *data, size_t n, ft_error *err,
                                               ft_offer_reply *out);

/* Asks what the server offers. FT_PRECONDITION: nothing; FT_UNSUPPORTED: it is an older server;
 * other errors as ft_wire_client_info. */
FT_WARN_UNUSED ft_status ft_wire_client_offer(ft_wire_client *client, int64_t timeout_us,
                                              ft_error *err, ft_offer *out);

typedef struct ft_offer_sink {
    ft_status (*take)(void *ctx, const void *data, size_t n, ft_error *err);
    void *ctx;
} ft_offer_sink;

/* Gives the file's bytes from `from` on to the sink, whose error ends the transfer. FT_UNAVAILABLE:
 * it ended early; FT_ABORTED: the server offers another file now; other errors as above. */
FT_WARN_UNUSED ft_status ft_wire_client_fetch(ft_wire_client *client, const ft_offer *offer,
                                              uint64_t from, const ft_offer_sink *sink,
                                              ft_error *err);

#endif
