// SPDX-License-Identifier: Apache-2.0
// A generation's tracks. Invariant: on a track nothing begins before what is drawn there ends. A
// verdict says how long its draft waited at the server and how long its verification took; the rest
// of the time since it was sent is the network's.
#include "edge/gen_timeline.h"

#include <stdio.h>

static uint32_t edge_track(const ft_gen_timeline *t)
{
    return FT_TIMELINE_MAIN + 1 + 2 * t->number;
}

static uint32_t server_track(const ft_gen_timeline *t)
{
    return edge_track(t) + 1;
}

void ft_gen_timeline_begin(ft_gen_timeline *t, ft_timeline *to, uint32_t text)
{
    char name[FT_TIMELINE_NAME];
    *t = (ft_gen_timeline){.to = to, .text = text};
    if (!to)
        return;
    t->number = ft_timeline_take(to);
    snprintf(name, sizeof name, "edge %u", t->number);
    ft_timeline_name(to, edge_track(t), name);
    snprintf(name, sizeof name, "edge %u: at the server", t->number);
    ft_timeline_name(to, server_track(t), name);
}

/* The edge has waited until now, if it has waited at all. */
static void end_idle(ft_gen_timeline *t, int64_t now_us)
{
    if (t->idle.known && now_us > t->idle.us) {
        const ft_timeline_event e = {.name = "idle",
                                     .track = edge_track(t),
                                     .begin_us = t->idle.us,
                                     .end_us = now_us,
                                     .arg = {{"text", t->text}, {"round", t->round}}};
        ft_timeline_add(t->to, &e);
    }
    t->idle = ft_unknown();
}

void ft_gen_timeline_end(ft_gen_timeline *t, int64_t now_us)
{
    if (!t->to)
        return;
    end_idle(t, now_us);
    ft_timeline_give(t->to, t->number);
    t->to = NULL;
}

/* Something on the edge's track; where it begins, idling ends. */
static void put(ft_gen_timeline *t, const ft_timeline_event *event)
{
    ft_timeline_event e = *event;
    if (!t->to)
        return;
    end_idle(t, e.begin_us);
    e.track = edge_track(t);
    ft_timeline_add(t->to, &e);
}

void ft_gen_timeline_read(ft_gen_timeline *t, int64_t from_us, int64_t now_us)
{
    put(t, &(ft_timeline_event){
               .name = "read", .begin_us = from_us, .end_us = now_us, .arg = {{"text", t->text}}});
}

void ft_gen_timeline_drafted(ft_gen_timeline *t, int64_t from_us, int64_t now_us,
                             const ft_gen_timeline_draft *d)
{
    put(t, &(ft_timeline_event){.name = "draft",
                                .begin_us = from_us,
                                .end_us = now_us,
                                .arg = {{"text", t->text},
                                        {"round", d->round},
                                        {"nodes", d->nodes},
                                        {"levels", d->levels},
                                        {"forwards", d->forwards}}});
}

void ft_gen_timeline_sent(ft_gen_timeline *t, int64_t now_us, const ft_msg_draft *draft)
{
    t->round = draft->round;
    put(t, &(ft_timeline_event){.name = "sent",
                                .begin_us = now_us,
                                .end_us = now_us,
                                .arg = {{"text", t->text},
                                        {"round", draft->round},
                                        {"nodes", draft->n},
                                        {"run", draft->run}}});
}

void ft_gen_timeline_worked(ft_gen_timeline *t, int64_t from_us, int64_t now_us, bool ahead)
{
    put(t, &(ft_timeline_event){.name = ahead ? "draft ahead" : "read",
                                .begin_us = from_us,
                                .end_us = now_us,
                                .arg = {{"text", t->text}, {"round", t->round}}});
}

void ft_gen_timeline_idle(ft_gen_timeline *t, int64_t now_us)
{
    if (t->to && !t->idle.known)
        t->idle = ft_known(now_us);
}

void ft_gen_timeline_early(ft_gen_timeline *t, int64_t now_us, const ft_msg_draft *early)
{
    put(t, &(ft_timeline_event){
               .name = "early draft",
               .begin_us = now_us,
               .end_us = now_us,
               .arg = {{"text", t->text}, {"round", early->round}, {"nodes", early->n}}});
}

void ft_gen_timeline_lost(ft_gen_timeline *t, int64_t now_us)
{
    put(t, &(ft_timeline_event){.name = "stream lost",
                                .begin_us = now_us,
                                .end_us = now_us,
                                .arg = {{"text", t->text}}});
    t->drawn_us = now_us;
}

/* ---- verdicts ---- */

/* On the server's track, from where it is drawn until then. */
static void draw(ft_gen_timeline *t, const char *name, int64_t until_us, uint32_t round)
{
    const ft_timeline_event e = {.name = name,
                                 .track = server_track(t),
                                 .begin_us = t->drawn_us,
                                 .end_us = until_us,
                                 .arg = {{"text", t->text}, {"round", round}}};
    if (until_us <= t->drawn_us)
        return;
    ft_timeline_add(t->to, &e);
    t->drawn_us = until_us;
}

void ft_gen_timeline_verdict(ft_gen_timeline *t, int64_t came_us, ft_known_us sent,
                             const ft_msg_verdict *v, uint32_t nodes)
{
    const int64_t served_us = (int64_t)v->queue_us + v->verify_us;
    put(t, &(ft_timeline_event){.name = "verdict",
                                .begin_us = came_us,
                                .end_us = came_us,
                                .arg = {{"text", t->text},
                                        {"round", v->round},
                                        {"nodes", nodes},
                                        {"accepted", v->n_path},
                                        {"own_tokens", v->n_next},
                                        {"early_taken", v->early_taken}}});
    if (!t->to)
        return;
    t->round += v->early_taken;
    if (sent.known && sent.us > t->drawn_us)
        t->drawn_us = sent.us;
    if (t->drawn_us == 0) /* nothing is known of its beginning */
        t->drawn_us = came_us - served_us;
    if (nodes == 0) {
        draw(t, "run", came_us, v->round);
        return;
    }
    const int64_t network_us = came_us - t->drawn_us - served_us;
    const int64_t way_us = network_us > 0 ? network_us / 2 : 0;
    draw(t, "network", t->drawn_us + way_us, v->round);
    const int64_t queued_us = t->drawn_us + v->queue_us;
    draw(t, "queue", queued_us < came_us ? queued_us : came_us, v->round);
    draw(t, "verify", came_us - way_us, v->round);
    draw(t, "network", came_us, v->round);
}
