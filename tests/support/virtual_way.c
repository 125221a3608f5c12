// SPDX-License-Identifier: Apache-2.0
// A link around the local one. The generation's thread owns it and the clock.
#include "support/virtual_way.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct slow_link {
    ft_link link;
    virtual_way *way;
    ft_link *inner;
    uint64_t sent;
} slow_link;

static int64_t now(void *ctx)
{
    return *(int64_t *)ctx;
}

static ft_status slow_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    slow_link *l = (slow_link *)link;
    uint8_t *bytes = NULL;
    size_t n = 0;
    assert_int_equal(ft_client_msg_encode(msg, err, &bytes, &n), FT_OK);
    free(bytes);
    n = ft_wire_message_bytes(n);
    l->sent += n;
    l->way->now_us =
        ft_line_take(&l->way->line, l->way->now_us * 1000, n) / 1000 + VIRTUAL_HALF_RTT_US;
    return l->inner->vt->send(l->inner, msg, err);
}

static ft_status slow_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    slow_link *l = (slow_link *)link;
    virtual_way *w = l->way;
    (void)timeout_us;
    ft_status status = l->inner->vt->recv(l->inner, 30000000, err, out);
    const int64_t waited_us = w->n_answers++ % 2 ? w->busy_us : 0;
    w->now_us += VIRTUAL_HALF_RTT_US + waited_us;
    if (status != FT_OK)
        return status;
    (*out)->waited_us = waited_us;
    if ((*out)->kind == FT_SERVER_VERDICT) {
        ft_msg_verdict *verdict = &(*out)->verdict;
        verdict->queue_us = verdict->others_us = verdict->read_us = 0;
        verdict->verify_us = VIRTUAL_PASS_US;
        w->now_us += VIRTUAL_PASS_US;
    } else {
        (*out)->opened.queue_us = 1;
    }
    return FT_OK;
}

static uint32_t slow_retry_after_ms(ft_link *link)
{
    return ((slow_link *)link)->inner->vt->retry_after_ms(((slow_link *)link)->inner);
}

static void slow_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    *sent = ((slow_link *)link)->sent;
    *received = 0;
}

static void slow_cancel(ft_link *link)
{
    ((slow_link *)link)->inner->vt->cancel(((slow_link *)link)->inner);
}

static void slow_destroy(ft_link *link)
{
    slow_link *l = (slow_link *)link;
    l->inner->vt->destroy(l->inner);
    free(l);
}

static const ft_link_vtable slow_vtable = {.send = slow_send,
                                           .recv = slow_recv,
                                           .retry_after_ms = slow_retry_after_ms,
                                           .bytes = slow_bytes,
                                           .cancel = slow_cancel,
                                           .destroy = slow_destroy};

static ft_status way_open(void *ctx, ft_error *err, ft_link **out)
{
    slow_link *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->link.vt = &slow_vtable;
    l->way = ctx;
    *out = &l->link;
    return l->way->inner.open(l->way->inner.ctx, err, &l->inner);
}

static ft_status way_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    virtual_way *w = ctx;
    return w->inner.info(w->inner.ctx, err, out);
}

virtual_way virtual_way_to(ft_verifier *v, double bits_per_s)
{
    const ft_line_rate rate = {.bits_per_s = {bits_per_s}};
    virtual_way w = {.inner = ft_local_link_source(v), .now_us = 1000000};
    ft_line_init(&w.line, &rate);
    return w;
}

ft_link_source virtual_way_source(virtual_way *way)
{
    return (ft_link_source){.ctx = way, .open = way_open, .info = way_info, .in_process = true};
}

ft_clock virtual_way_clock(virtual_way *way)
{
    return (ft_clock){.now_us = now, .ctx = &way->now_us};
}
