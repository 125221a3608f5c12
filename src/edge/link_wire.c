// SPDX-License-Identifier: Apache-2.0
// A link over gRPC: it has one ft_call. The generation's thread owns it, except cancel. Does not
// reconnect (edge/exchange.c).
#include <stdlib.h>

#include "edge/link.h"

#define INFO_TIMEOUT_US   5000000
#define HEALTH_TIMEOUT_US 2000000

typedef struct wire_link {
    ft_link link;
    const ft_wire_client *client;
    ft_call *call;
} wire_link;

static ft_status wire_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    return ft_call_send(((wire_link *)link)->call, msg, err);
}

static ft_status wire_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    ft_call *call = ((wire_link *)link)->call;
    const ft_status status = ft_call_recv(call, timeout_us, err, out);
    if (status != FT_UNAVAILABLE || !ft_call_was_reset(call))
        return status;
    return err->code = FT_CANCELLED;
}

static uint32_t wire_retry_after_ms(ft_link *link)
{
    return ft_call_retry_after_ms(((wire_link *)link)->call);
}

static void wire_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    ft_call_bytes(((wire_link *)link)->call, sent, received);
}

static void wire_cancel(ft_link *link)
{
    ft_call_cancel(((wire_link *)link)->call);
}

static void wire_use_prefix(ft_link *link, uint64_t prefix)
{
    ft_call_set_prefix(((wire_link *)link)->call, prefix);
}

static bool wire_connected(ft_link *link)
{
    return ft_wire_client_connected(((wire_link *)link)->client);
}

static void wire_destroy(ft_link *link)
{
    if (!link)
        return;
    ft_call_destroy(((wire_link *)link)->call);
    free(link);
}

static const ft_link_vtable wire_vtable = {
    .send = wire_send,
    .recv = wire_recv,
    .retry_after_ms = wire_retry_after_ms,
    .bytes = wire_bytes,
    .cancel = wire_cancel,
    .destroy = wire_destroy,
    .use_prefix = wire_use_prefix,
    .connected = wire_connected,
};

static ft_status wire_open(void *ctx, ft_error *err, ft_link **out)
{
    wire_link *w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory for a link");
    w->link.vt = &wire_vtable;
    w->client = ctx;
    ft_status status = ft_call_create(ctx, err, &w->call);
    if (status != FT_OK) {
        free(w);
        return status;
    }
    *out = &w->link;
    return FT_OK;
}

static ft_status wire_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    return ft_wire_client_info(ctx, INFO_TIMEOUT_US, err, out);
}

static ft_status wire_health(void *ctx, ft_error *err)
{
    return ft_wire_client_health(ctx, HEALTH_TIMEOUT_US, err);
}

ft_link_source ft_link_source_wire(ft_wire_client *client)
{
    return (ft_link_source){.ctx = client,
                            .open = wire_open,
                            .info = wire_info,
                            .health = wire_health,
                            .name = ft_wire_client_address(client)};
}
