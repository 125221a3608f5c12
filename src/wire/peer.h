/* SPDX-License-Identifier: Apache-2.0
 *
 * Who calls, as clients are counted; private to this room. Stateless; any thread.
 */
#ifndef FT_WIRE_PEER_H
#define FT_WIRE_PEER_H

#include <grpc/grpc.h>

#include "base/quota.h"
#include "wire/accept.h"
#include "wire/keys.h"

typedef struct ft_wire_server ft_wire_server;

/* Who is behind the call's connection; the caller frees out->names. FT_UNAVAILABLE: the connection
 * is over; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_peer_of(const ft_wire_server *server, grpc_call *call, ft_error *err,
                                    ft_accepted *out);
/* As whom the call is counted. The address is that of the connection or, if that is one of the
 * server's proxies, what the proxy says in the metadata's last x-forwarded-for. The tenant is the
 * key's name. */
void ft_peer_client(const ft_wire_server *server, const ft_accepted *from,
                    const grpc_metadata_array *metadata, const ft_key *key, ft_client_id *out);

#endif
