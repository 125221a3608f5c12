/* SPDX-License-Identifier: Apache-2.0
 *
 * Who calls, as clients are counted; private to this room. Stateless; any thread.
 */
#ifndef FT_WIRE_PEER_H
#define FT_WIRE_PEER_H

#include <grpc/grpc.h>

#include "base/address.h"
#include "wire/keys.h"

/* The client's address is that of the connection or, if that is one of the proxies (NULL: there are
 * none), what the proxy says in the metadata's last x-forwarded-for. A connection that has no IP
 * address is "unknown". Its tenant is the key's name. */
void ft_peer_client(grpc_call *call, const grpc_metadata_array *metadata, const ft_key *key,
                    const ft_networks *proxies, ft_client_id *out);

#endif
