// SPDX-License-Identifier: Apache-2.0
// The address of a call's client: gRPC tells the connection's as text ("ipv4:127.0.0.1:5000",
// "ipv6:%5B::1%5D:5000"), or its descriptor if our accept loop gave it that ("fd:12"), a proxy the
// one behind it in the metadata. Stateless. Received metadata
// belong to the call: they are read and never kept.
#include "wire/peer.h"

#include <grpc/support/alloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "wire/accept.h"
#include "wire/stream.h"

#define FORWARDED "x-forwarded-for"

/* gRPC's text without its scheme and without an interface (%25eth0), brackets for %5B and %5D. */
static size_t unescape(const char *text, char *out, size_t size)
{
    size_t n = 0;
    bool in_zone = false;
    const char *colon = strchr(text, ':');
    for (const char *at = colon ? colon + 1 : text; *at && n + 1 < size; at++) {
        char c = *at;
        if (strncmp(at, "%5B", 3) == 0 || strncmp(at, "%5D", 3) == 0) {
            c = at[2] == 'B' ? '[' : ']';
            at += 2;
        }
        in_zone = c == '%' || (in_zone && c != ']');
        if (!in_zone)
            out[n++] = c;
    }
    out[n] = 0;
    return n;
}

static bool peer_address(const ft_wire_server *server, grpc_call *call, ft_address *out)
{
    static const char by_descriptor[] = "fd:";
    char text[128];
    char *peer = grpc_call_get_peer(call);
    bool known;
    if (server->accept && strncmp(peer, by_descriptor, sizeof by_descriptor - 1) == 0)
        known = ft_accept_peer(server->accept, atoi(peer + sizeof by_descriptor - 1), out);
    else
        known = ft_address_parse(text, unescape(peer, text, sizeof text), out);
    gpr_free(peer);
    return known;
}

/* The last value of x-forwarded-for; an empty one if there is none. */
static grpc_slice forwarded(const grpc_metadata_array *metadata)
{
    for (size_t i = metadata->count; i-- > 0;)
        if (grpc_slice_str_cmp(metadata->metadata[i].key, FORWARDED) == 0)
            return metadata->metadata[i].value;
    return grpc_empty_slice();
}

void ft_peer_client(const ft_wire_server *server, grpc_call *call,
                    const grpc_metadata_array *metadata, const ft_key *key, ft_client_id *out)
{
    const ft_networks *proxies = server->opts.proxies;
    ft_address address;
    *out = (ft_client_id){.address = "unknown"};
    snprintf(out->tenant, sizeof out->tenant, "%s", key->name);
    if (!peer_address(server, call, &address))
        return;
    if (proxies) {
        const grpc_slice said = forwarded(metadata);
        address = ft_networks_client(proxies, &address, (const char *)GRPC_SLICE_START_PTR(said),
                                     GRPC_SLICE_LENGTH(said));
    }
    ft_address_network(&address, out->address);
}
