// SPDX-License-Identifier: Apache-2.0
// Messages of Offer, and the server's answers. The server keeps nothing between two requests.
#include "wire/offer.h"

#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "foretoken.pb-c.h"
#include "wire/codec.h"
#include "wire/stream.h"

#define REQUEST_MAX_BYTES 64
#define REPLY_OTHER_BYTES 256 /* of a reply besides its data */

typedef Foretoken__V1__OfferRequest request_pb;
typedef Foretoken__V1__OfferReply reply_pb;

ft_status ft_offer_request_encode(const ft_offer_request *request, ft_error *err, uint8_t **data,
                                  size_t *n)
{
    request_pb pb = FORETOKEN__V1__OFFER_REQUEST__INIT;
    pb.offset = request->offset;
    pb.most = request->most;
    return ft_codec_pack(&pb.base, err, data, n);
}

ft_status ft_offer_request_decode(const uint8_t *data, size_t n, ft_error *err,
                                  ft_offer_request *out)
{
    ft_codec_memory memory;
    ft_codec_memory_init(&memory, 8 * REQUEST_MAX_BYTES);
    request_pb *pb = n <= REQUEST_MAX_BYTES
                         ? foretoken__v1__offer_request__unpack(&memory.allocator, n, data)
                         : NULL;
    if (!pb)
        return ft_error_set(err, FT_INVALID, "not an OfferRequest");
    *out = (ft_offer_request){.offset = pb->offset, .most = pb->most};
    foretoken__v1__offer_request__free_unpacked(pb, &memory.allocator);
    return FT_OK;
}

ft_status ft_offer_reply_encode(const ft_offer_reply *reply, ft_error *err, uint8_t **data,
                                size_t *n)
{
    reply_pb pb = FORETOKEN__V1__OFFER_REPLY__INIT;
    pb.sha256 = (char *)(uintptr_t)reply->offer.sha256;
    pb.size = reply->offer.bytes;
    pb.offset = reply->offset;
    pb.data = (ProtobufCBinaryData){.len = reply->n, .data = (uint8_t *)(uintptr_t)reply->data};
    return ft_codec_pack(&pb.base, err, data, n);
}

static ft_status check_reply(const reply_pb *pb, ft_error *err)
{
    if (!ft_hex_is(pb->sha256, FT_OFFER_HEX_SIZE - 1))
        return ft_error_set(err, FT_INVALID, "OfferReply.sha256: no SHA-256");
    if (pb->size == 0 || pb->size > (uint64_t)1 << 50)
        return ft_error_set(err, FT_INVALID, "OfferReply.size: %llu bytes",
                            (unsigned long long)pb->size);
    if (pb->data.len > FT_OFFER_CHUNK || pb->offset > pb->size ||
        pb->data.len > pb->size - pb->offset)
        return ft_error_set(err, FT_INVALID, "OfferReply.data: %zu bytes at %llu of %llu",
                            pb->data.len, (unsigned long long)pb->offset,
                            (unsigned long long)pb->size);
    return FT_OK;
}

ft_status ft_offer_reply_decode(const uint8_t *data, size_t n, ft_error *err, ft_offer_reply *out)
{
    ft_codec_memory memory;
    ft_codec_memory_init(&memory, FT_OFFER_CHUNK + 8 * REPLY_OTHER_BYTES);
    reply_pb *pb = n <= FT_OFFER_CHUNK + REPLY_OTHER_BYTES
                       ? foretoken__v1__offer_reply__unpack(&memory.allocator, n, data)
                       : NULL;
    if (!pb)
        return ft_error_set(err, FT_INVALID, "not an OfferReply");
    ft_status status = check_reply(pb, err);
    if (status == FT_OK) {
        memcpy(out->offer.sha256, pb->sha256, FT_OFFER_HEX_SIZE);
        out->offer.bytes = pb->size;
        out->offset = pb->offset;
        out->n = pb->data.len;
        if (out->n > 0)
            memcpy(out->data, pb->data.data, out->n);
    }
    foretoken__v1__offer_reply__free_unpacked(pb, &memory.allocator);
    return status;
}

/* The reply's bytes, in the handler's words. */
static ft_status answer(const ft_wire_handler *handler, const ft_offer_request *request,
                        ft_error *err, uint8_t **data, size_t *n)
{
    ft_offer_reply *reply = malloc(sizeof *reply);
    if (!reply)
        return ft_error_set(err, FT_EXHAUSTED, "the server is out of memory");
    ft_status status = handler->offer(handler->ctx, request, err, reply);
    if (status == FT_OK)
        status = ft_offer_reply_encode(reply, err, data, n);
    free(reply);
    return status;
}

void ft_offer_on_request(ft_stream *stream, const uint8_t *data, size_t n)
{
    const ft_wire_handler *handler = &stream->server->opts.handler;
    ft_offer_request request;
    ft_error err = {0};
    uint8_t *reply = NULL;
    size_t n_reply = 0;
    ft_status status = ft_offer_request_decode(data, n, &err, &request);
    if (status == FT_OK && !handler->offer)
        status = ft_error_set(&err, FT_PRECONDITION, "this server offers no draft model");
    if (status == FT_OK) {
        request.most = request.most < FT_OFFER_CHUNK ? request.most : FT_OFFER_CHUNK;
        status = answer(handler, &request, &err, &reply, &n_reply);
    }
    if (status == FT_OK)
        ft_stream_send_bytes(stream, reply, n_reply);
    else
        ft_stream_finish(stream, status, err.message, 0);
}
