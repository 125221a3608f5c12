// SPDX-License-Identifier: Apache-2.0
// Where a text is while no server takes it: the table, and the question to a server. Invariant:
// there is a link in ASKING and BACK, and in no other state. Does not open the text (stream.c).
#include "edge/offline.h"

#include <assert.h>

#include "base/log.h"

/* From one question to the next, of one text. Half of it doubles what a server that is not there
 * costs, an attempt to connect; with twice of it texts come back later by so much. */
#define ASK_EVERY_US 500000
/* A server that is there and has not answered for so long is taken for absent: another one is asked
 * next. */
#define ANSWER_MOST_US 5000000

#define NO FT_OFFLINE_ILLEGAL

/* In the order of ft_offline_event:
 *   LOSE, TAKE, LATE, SPURN, ASK, REFUSE, AGREE, LEAVE */
static const ft_offline_state transitions[FT_OFFLINE_N_STATES][FT_OFFLINE_N_EVENTS] = {
    [FT_AT_SERVER] = {FT_GONE, FT_AT_SERVER, FT_AT_FALLBACK, NO, NO, NO, NO, NO},
    [FT_GONE] = {FT_GONE, FT_AT_SERVER, FT_AT_FALLBACK, NO, NO, NO, NO, NO},
    [FT_AT_FALLBACK] = {FT_AT_FALLBACK, FT_AT_SERVER, NO, FT_GONE, FT_ASKING, NO, NO, NO},
    [FT_ASKING] = {FT_ASKING, FT_AT_SERVER, NO, FT_GONE, NO, FT_AT_FALLBACK, FT_BACK, NO},
    [FT_BACK] = {FT_BACK, FT_AT_SERVER, NO, FT_GONE, NO, FT_AT_FALLBACK, NO, FT_RETURNING},
    [FT_RETURNING] = {FT_AT_FALLBACK, FT_AT_SERVER, NO, NO, NO, NO, NO, NO},
};

ft_offline_state ft_offline_next(ft_offline_state state, ft_offline_event event)
{
    return transitions[state][event];
}

void ft_offline_happened(ft_offline *o, ft_offline_event event)
{
    const ft_offline_state next = ft_offline_next(o->state, event);
    assert(next != FT_OFFLINE_ILLEGAL);
    o->state = next;
    assert((o->link != NULL) == (next == FT_ASKING || next == FT_BACK));
}

bool ft_offline_here(const ft_offline *o)
{
    return o->state == FT_AT_FALLBACK || o->state == FT_ASKING || o->state == FT_BACK;
}

bool ft_offline_due(const ft_offline *o, int64_t now_us)
{
    return o->state == FT_AT_FALLBACK && now_us >= o->next_us;
}

static void free_link(ft_offline *o, ft_gen_stats *stats)
{
    uint64_t sent = 0, received = 0;
    o->link->vt->bytes(o->link, &sent, &received);
    stats->bytes_sent += sent;
    stats->bytes_received += received;
    o->link->vt->destroy(o->link);
    o->link = NULL;
}

void ft_offline_ask(ft_offline *o, uint32_t server, const ft_link_source *source,
                    const ft_msg_open *open, int64_t now_us)
{
    const ft_client_msg msg = {.kind = FT_CLIENT_OPEN, .open = *open};
    ft_error err = {0};
    assert(o->state == FT_AT_FALLBACK);
    o->server = server;
    o->asked_us = now_us;
    o->next_us = now_us + ASK_EVERY_US;
    if (source->open(source->ctx, &err, &o->link) != FT_OK)
        return; /* no memory for a link: later, maybe */
    ft_offline_happened(o, FT_OFFLINE_ASK);
    if (o->link->vt->send(o->link, &msg, &err) != FT_OK)
        FT_LOGD("edge", "a server could not be asked: %s", err.message); /* the link says why */
}

ft_status ft_offline_look(ft_offline *o, int64_t now_us, ft_gen_stats *stats, ft_error *err)
{
    ft_server_msg *msg = NULL;
    if (!o->link)
        return FT_OK;
    const ft_status status = o->link->vt->recv(o->link, 0, err, &msg);
    const bool opened = msg && msg->kind == FT_SERVER_OPENED;
    ft_server_msg_free(msg);
    if (status == FT_OK && opened && o->state == FT_ASKING)
        ft_offline_happened(o, FT_OFFLINE_AGREE);
    if (status == FT_OK)
        return FT_OK;
    if (status == FT_TIMEOUT && (o->state == FT_BACK || now_us - o->asked_us < ANSWER_MOST_US))
        return FT_OK;
    const int64_t after_us = 1000 * (int64_t)o->link->vt->retry_after_ms(o->link);
    if (now_us + after_us > o->next_us)
        o->next_us = now_us + after_us;
    free_link(o, stats);
    ft_offline_happened(o, FT_OFFLINE_REFUSE);
    return status;
}

void ft_offline_drop(ft_offline *o, ft_gen_stats *stats)
{
    const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    ft_error err = {0};
    if (!o->link)
        return;
    if (o->link->vt->send(o->link, &end, &err) != FT_OK)
        FT_LOGD("edge", "the end of a question could not be sent: %s", err.message);
    free_link(o, stats);
}
