/* SPDX-License-Identifier: Apache-2.0
 *
 * A link: how a generation reaches the verifier. Over the wire (edge/link_wire.c) or in process
 * (edge/link_local.c). One link = one session; owned by the generation's thread, except cancel, which
 * any thread may call.
 */
#ifndef FT_EDGE_LINK_H
#define FT_EDGE_LINK_H

#include "serve/verifier.h"
#include "wire/client.h"

typedef struct ft_link ft_link;

typedef struct ft_link_vtable {
    ft_status (*send)(ft_link *link, const ft_client_msg *msg, ft_error *err);
    /* As ft_call_recv. */
    ft_status (*recv)(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out);
    uint32_t (*retry_after_ms)(ft_link *link);
    void (*bytes)(ft_link *link, uint64_t *sent, uint64_t *received);
    void (*cancel)(ft_link *link);
    void (*destroy)(ft_link *link);
    /* Before Open: whose session it is, by a key's name (wire/keys.h), copied. NULL: the link has one
     * credential of its own, for all. */
    void (*be)(ft_link *link, const char *tenant);
} ft_link_vtable;

struct ft_link {
    const ft_link_vtable *vt;
};

/* Makes links; thread-safe. */
typedef struct ft_link_source {
    void *ctx;
    ft_status (*open)(void *ctx, ft_error *err, ft_link **out);
    ft_status (*info)(void *ctx, ft_error *err, ft_msg_info *out);
} ft_link_source;

/* client and verifier are borrowed and outlive every link. */
ft_link_source ft_link_source_wire(ft_wire_client *client);
ft_link_source ft_link_source_local(ft_verifier *verifier);

#endif
