// SPDX-License-Identifier: Apache-2.0
// Who calls: gRPC names the connection by the descriptor that our accept loop gave it ("fd:12"). A
// proxy tells in the metadata who is behind it. Stateless. Received metadata belong to the call:
// they are read and never kept.
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

ft_status ft_peer_of(const ft_wire_server *server, grpc_call *call, ft_error *err, ft_accepted *out)
{
    static const char by_descriptor[] = "fd:";
    char *name = grpc_call_get_peer(call);
    const bool ours = strncmp(name, by_descriptor, sizeof by_descriptor - 1) == 0;
    const int fd = ours ? atoi(name + sizeof by_descriptor - 1) : -1;
    gpr_free(name);
    return ft_accept_peer(server->accept, fd, err, out);
}

/* The last value of x-forwarded-for; an empty one if there is none. */
static grpc_slice forwarded(const grpc_metadata_array *metadata)
{
    for (size_t i = metadata->count; i-- > 0;)
        if (grpc_slice_str_cmp(metadata->metadata[i].key, FORWARDED) == 0)
            return metadata->metadata[i].value;
    return grpc_empty_slice();
}

void ft_peer_client(const ft_wire_server *server, const ft_accepted *from,
                    const grpc_metadata_array *metadata, const ft_key *key, ft_client_id *out)
{
    const ft_networks *proxies = server->opts.proxies;
    ft_address address = from->address;
    *out = (ft_client_id){0};
    snprintf(out->tenant, sizeof out->tenant, "%s", key->name);
    if (proxies) {
        const grpc_slice said = forwarded(metadata);
        address = ft_networks_client(proxies, &address, (const char *)GRPC_SLICE_START_PTR(said),
                                     GRPC_SLICE_LENGTH(said));
    }
    ft_address_network(&address, out->address);
}
