/* SPDX-License-Identifier: Apache-2.0
 *
 * A link from a generation to the verifier: over gRPC (edge/link_wire.c) or in one process
 * (local/link.c). A link has one session. The generation's thread owns it; any thread may call
 * cancel.
 */
#ifndef FT_EDGE_LINK_H
#define FT_EDGE_LINK_H

#include "base/quota.h"
#include "constrain/grammars.h"
#include "wire/client.h"

typedef struct ft_link ft_link;

typedef struct ft_link_vtable {
    /* msg is borrowed during the call. */
    ft_status (*send)(ft_link *link, const ft_client_msg *msg, ft_error *err);
    /* As ft_call_recv, but FT_CANCELLED also if the stream was reset. */
    ft_status (*recv)(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out);
    uint32_t (*retry_after_ms)(ft_link *link);
    void (*bytes)(ft_link *link, uint64_t *sent, uint64_t *received);
    void (*cancel)(ft_link *link);
    void (*destroy)(ft_link *link);
    /* Before Open: for whom the session is; copied. Its tenant names the session's key
     * (wire/keys.h). NULL in the table: all sessions of such links have the same credential. */
    void (*use_client)(ft_link *link, const ft_client_id *client);
    /* Before Open: texts with the same number begin in the same way (ft_call_set_prefix). NULL in
     * the table: there is only one server. */
    void (*use_prefix)(ft_link *link, uint64_t prefix);
    /* Whether what is sent now goes out at once: the connection was made. NULL in the table: it
     * does. */
    bool (*connected)(ft_link *link);
} ft_link_vtable;

struct ft_link {
    const ft_link_vtable *vt;
};

#define FT_SERVERS_MAX 8 /* sources of one edge */

/* Makes links to one server; thread-safe. */
typedef struct ft_link_source {
    void *ctx;
    ft_status (*open)(void *ctx, ft_error *err, ft_link **out);
    ft_status (*info)(void *ctx, ft_error *err, ft_msg_info *out);
    /* Whether the server is alive, asked when it is silent for long; waits two seconds at most.
     * FT_OK: it is. FT_UNAVAILABLE, FT_TIMEOUT: it is not. Other errors, and NULL: nobody knows. */
    ft_status (*health)(void *ctx, ft_error *err);
    const char *name; /* of the server, in logs; borrowed; NULL: it has none */
    /* The server is in this process: it cannot be lost, and is waited for without a deadline. */
    bool in_process;
    /* Its compiled constraints, if it is in this process, so that each is compiled once. Borrowed;
     * whoever makes links uses them; NULL: not to be had. */
    ft_grammars *grammars;
} ft_link_source;

/* Links over gRPC, named by the client's address. The client is borrowed and outlives every
 * link. */
ft_link_source ft_link_source_wire(ft_wire_client *client);

#endif
