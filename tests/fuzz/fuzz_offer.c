// SPDX-License-Identifier: Apache-2.0
// Messages of Offer: what a server reads from an edge, and an edge from a server.
#include <stdlib.h>
#include <string.h>

#include "wire/offer.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_request(const uint8_t *data, size_t n)
{
    ft_offer_request request, again;
    uint8_t *wire;
    size_t wire_len;
    if (ft_offer_request_decode(data, n, NULL, &request) != FT_OK)
        return;
    require(ft_offer_request_encode(&request, NULL, &wire, &wire_len) == FT_OK);
    require(ft_offer_request_decode(wire, wire_len, NULL, &again) == FT_OK);
    require(again.offset == request.offset && again.most == request.most);
    free(wire);
}

static void check_reply(const uint8_t *data, size_t n)
{
    ft_offer_reply *reply = malloc(sizeof *reply);
    require(reply != NULL);
    if (ft_offer_reply_decode(data, n, NULL, reply) == FT_OK) {
        require(strspn(reply->offer.sha256, "0123456789abcdef") == FT_OFFER_HEX_SIZE - 1);
        require(reply->offer.sha256[FT_OFFER_HEX_SIZE - 1] == 0 && reply->offer.bytes > 0);
        require(reply->n <= FT_OFFER_CHUNK && reply->offset <= reply->offer.bytes);
        require(reply->n <= reply->offer.bytes - reply->offset);
    }
    free(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    check_request(data, n);
    check_reply(data, n);
    return 0;
}
