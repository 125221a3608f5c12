// SPDX-License-Identifier: Apache-2.0
// The client's side of Offer. Several requests are under way at a time, so that a transfer does not
// wait a round trip for each chunk. A transfer belongs to one thread.
#include "wire/offer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wire/call.h"

/* Requests under way: 768 KiB, below what a server keeps for a client that does not read (1 MiB).
 * With half as many a link of 50 ms carries 8 MB/s instead of 15 MB/s. */
#define WINDOW   8
#define REPLY_US 30000000 /* a link that takes longer for a chunk is of no use for this */

static ft_status receive(ft_wire_client *client, ft_call *call, ft_error *err, ft_offer_reply *out)
{
    uint8_t *data = NULL;
    size_t n = 0;
    ft_status status = ft_call_wait_bytes(client, call, REPLY_US, err, &data, &n);
    if (status == FT_OK)
        status = ft_offer_reply_decode(data, n, err, out);
    free(data);
    return status;
}

ft_status ft_wire_client_offer(ft_wire_client *client, int64_t timeout_us, ft_error *err,
                               ft_offer *out)
{
    ft_ask ask = {.method = FT_RPC_OFFER, .timeout_us = timeout_us};
    const ft_offer_request request = {0};
    uint8_t *data = NULL;
    size_t n = 0;
    ft_offer_reply *reply = malloc(sizeof *reply);
    ft_status status = reply ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK)
        status = ft_offer_request_encode(&request, err, &ask.take_request, &ask.n_request);
    if (status == FT_OK)
        status = ft_call_ask(client, &ask, err, &data, &n);
    if (status == FT_OK)
        status = ft_offer_reply_decode(data, n, err, reply);
    if (status == FT_OK)
        *out = reply->offer;
    free(data);
    free(reply);
    return status;
}

static ft_status ask(ft_call *call, uint64_t offset, ft_error *err)
{
    const ft_offer_request request = {.offset = offset, .most = FT_OFFER_CHUNK};
    uint8_t *data;
    size_t n;
    ft_status status = ft_offer_request_encode(&request, err, &data, &n);
    return status == FT_OK ? ft_call_send_bytes(call, data, n, false, err) : status;
}

/* Is it the whole chunk that begins at `at`? */
static ft_status check_chunk(const ft_offer_reply *reply, const ft_offer *offer, uint64_t at,
                             ft_error *err)
{
    const uint64_t left = offer->bytes - at;
    if (reply->offer.bytes != offer->bytes || strcmp(reply->offer.sha256, offer->sha256) != 0)
        return ft_error_set(err, FT_ABORTED, "the server offers another file now: try again");
    if (reply->offset != at || reply->n != (left < FT_OFFER_CHUNK ? left : FT_OFFER_CHUNK))
        return ft_error_set(err, FT_INVALID,
                            "the server answers with other bytes than were asked "
                            "for");
    return FT_OK;
}

ft_status ft_wire_client_fetch(ft_wire_client *client, const ft_offer *offer, uint64_t from,
                               const ft_offer_sink *sink, ft_error *err)
{
    ft_call *call = NULL;
    ft_offer_reply *reply = malloc(sizeof *reply);
    uint64_t asked = from;
    ft_status status = reply ? ft_call_start(client, FT_RPC_OFFER, err, &call)
                             : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint64_t at = from; status == FT_OK && at < offer->bytes;) {
        for (; status == FT_OK && asked < offer->bytes &&
               asked - at < (uint64_t)WINDOW * FT_OFFER_CHUNK;
             asked += FT_OFFER_CHUNK)
            status = ask(call, asked, err);
        if (status == FT_OK)
            status = receive(client, call, err, reply);
        if (status == FT_OK)
            status = check_chunk(reply, offer, at, err);
        if (status == FT_OK)
            status = sink->take(sink->ctx, reply->data, reply->n, err);
        if (status == FT_OK)
            at += reply->n;
    }
    if (status == FT_TIMEOUT)
        status = ft_error_set(err, FT_UNAVAILABLE, "the server has stopped sending");
    if (call)
        ft_call_cancel(call);
    ft_call_destroy(call);
    free(reply);
    return status;
}
