// SPDX-License-Identifier: Apache-2.0
// Chats: users ask, read, and ask again. A later turn's prompt has all earlier turns in it. All
// state belongs to the simulation.
#include <math.h>

#include "sim/fleet_internal.h"

/* The device asks at that time, or at the next tick if that is later. */
static void ask_at(ft_fleet *f, ft_fleet_worker *w, uint32_t who, int64_t at_us, bool again)
{
    ft_fleet_chat *c = &f->chats[who];
    const int64_t next_us = (int64_t)(f->tick + 1) * FT_FLEET_TICK_US;
    c->ask_us = at_us > next_us ? at_us : next_us;
    c->again = again;
    if (c->ask_us >= f->times.until_us)
        return;
    uint32_t *list = &w->asks[c->ask_us / FT_FLEET_TICK_US];
    c->next = *list;
    *list = who + 1;
}

static void begin_chat(ft_fleet *f, uint32_t who)
{
    ft_fleet_chat *c = &f->chats[who];
    c->turn = c->prefix = 0;
    c->turns = 1 + ft_rng_below(&f->devices[who].rng, 2 * (uint32_t)f->k[FT_FLEET_TURNS] - 1);
}

/* A prompt is new words behind all turns before it. */
static void draw_text(ft_fleet *f, sim *s, uint32_t who)
{
    const ft_fleet_chat *c = &f->chats[who];
    ft_sim_device_text(s, who);
    s->devices[who].prompt += c->turn > 0 ? c->prefix : (uint32_t)f->k[FT_FLEET_FIRST_TOK];
}

/* The next prompt is for the next turn, or for a new chat. */
static void next_turn(ft_fleet *f, uint32_t who)
{
    ft_fleet_chat *c = &f->chats[who];
    const device *d = &f->devices[who];
    c->prefix = d->prompt + d->response;
    if (++c->turn < c->turns)
        return;
    c->number++;
    begin_chat(f, who);
}

void ft_fleet_chat_init(ft_fleet *f, uint32_t who)
{
    ft_fleet_chat *c = &f->chats[who];
    sim *any = &f->servers[0];
    device *d = &f->devices[who];
    d->class = who % (uint32_t)f->opts->config->server.n_classes;
    d->speed = f->opts->config->server.tokens_per_s[d->class];
    ft_gain_init(&d->gain, NULL);
    ft_rng_init(&d->rng, f->opts->seed << 32 | (who + 1));
    begin_chat(f, who);
    for (uint32_t n = ft_rng_below(&d->rng, c->turns); n > 0; n--) {
        draw_text(f, any, who);
        next_turn(f, who);
    }
    const uint64_t key = ft_fleet_hash(ft_fleet_hash(who) + c->number);
    c->server[0] = ft_fleet_choose(&f->proxy, f->opts->assign, key, f->load, &f->rng);
    sim *s = &f->servers[c->server[0]];
    if (c->turn > 0)
        ft_sim_prefixes_put(s->prefixes, ft_fleet_kept(who, 0), c->prefix - 1);
    ft_sim_prefixes_trim(s->prefixes, s->limits.kv_blocks_free);
    ask_at(f, &f->of_worker[0], who, (int64_t)(f->k[FT_FLEET_RAMP_S] * 1e6 * ft_rng_unit(&d->rng)),
           false);
}

static void begin(ft_fleet *f, ft_fleet_worker *w, sim *s, uint32_t who)
{
    draw_text(f, s, who);
    f->chats[who].asked = true;
    w->part[f->part].begun++;
    ft_sim_device_ask(s, who);
}

static void opened(ft_fleet *f, ft_fleet_worker *w, sim *s, uint32_t who)
{
    const device *d = &s->devices[who];
    ft_sim_server_open(s, who);
    if (!d->open)
        return;
    f->chats[who].newest = d->kept % FT_FLEET_COPIES;
    w->part[f->part].before_tok += f->chats[who].prefix;
    w->part[f->part].found_tok += d->n_kv;
}

static void end(ft_fleet *f, ft_fleet_worker *w, sim *s, uint32_t who)
{
    const double think_s = -log(ft_rng_unit(&s->devices[who].rng)) * f->k[FT_FLEET_THINK_S];
    ft_sim_device_end(s, who);
    w->part[f->part].ended++;
    f->chats[who].asked = false;
    next_turn(f, who);
    ask_at(f, w, who, s->now_us + (int64_t)(think_s * 1e6), false);
}

static void refused(ft_fleet *f, ft_fleet_worker *w, sim *s, uint32_t who)
{
    bool again;
    int64_t wait_us = ft_sim_device_refused(s, who, &again);
    if (!again) {
        f->chats[who].asked = false;
        w->part[f->part].given_up[s->devices[who].class]++;
    }
    ask_at(f, w, who, s->now_us + wait_us, again);
}

void ft_fleet_take(ft_fleet *f, ft_fleet_worker *w, sim *s, const ft_sim_event *e)
{
    s->now_us = e->at_us;
    switch ((event_kind)e->kind) {
    case EVENT_BEGIN:
        begin(f, w, s, e->who);
        break;
    case EVENT_ASK:
        ft_sim_device_ask(s, e->who);
        break;
    case EVENT_OPEN:
        opened(f, w, s, e->who);
        break;
    case EVENT_DRAFT:
        ft_sim_server_draft(s, e->who);
        break;
    case EVENT_REFUSED:
        ft_sim_server_leave(s, e->who);
        refused(f, w, s, e->who);
        break;
    case EVENT_OPENED:
    case EVENT_VERDICT:
        ft_sim_device_draft(s, e->who);
        break;
    case EVENT_END:
        ft_sim_server_leave(s, e->who);
        end(f, w, s, e->who);
        break;
    case EVENT_PASS:
        ft_sim_server_pass_over(s);
        break;
    case EVENT_LOOK: /* the server looks behind every event */
        break;
    }
}

void ft_fleet_chats_move(ft_fleet *f, sim *s, size_t n)
{
    ft_fleet_worker *w = &f->of_worker[0];
    for (size_t i = 0; i < n; i++) {
        const uint32_t who = s->members[i];
        device *d = &s->devices[who];
        if (d->done == d->response) { /* its last tokens are on their way */
            end(f, w, s, who);
            continue;
        }
        d->moved = true;
        if (d->taken)
            d->patience_us = s->now_us + (int64_t)(f->k[FT_FLEET_RECONNECT_MS] * 1000);
        w->part[f->part].moved++;
        ask_at(f, w, who, s->now_us + (int64_t)(f->k[FT_FLEET_NOTICE_MS] * 1000), true);
    }
}
