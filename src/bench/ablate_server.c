// SPDX-License-Identifier: Apache-2.0
// The modelled server. Invariants: events happen in order of time; the session has at most one
// draft that waits or is in a pass, one next run and one early draft. The world's thread owns
// everything.
#include <assert.h>
#include <stdlib.h>

#include "bench/ablate_internal.h"
#include "sched/price.h"
#include "spec/tree.h"
#include "wire/early.h"

#define SPIKE 4 /* times as long as usual such a pass takes; a kind of luck */

/* ---- the server's engine ---- */

static bool over(const ft_ablate_world *w)
{
    return w->session.at >= w->session.text->text->n;
}

static uint32_t n_past(const ft_ablate_world *w)
{
    return (uint32_t)w->session.text->prompt->n + w->session.at - 1;
}

int64_t ft_ablate_server_next(const ft_ablate_world *w)
{
    int64_t at_us = w->session.out.there ? w->session.out.at_us : FT_ABLATE_NEVER;
    if (w->engine.busy)
        return w->engine.end_us;
    for (uint32_t i = 0; i < w->how->others.n; i++)
        at_us = w->engine.other_us[i] < at_us ? w->engine.other_us[i] : at_us;
    return at_us == FT_ABLATE_NEVER || at_us > w->engine.end_us ? at_us : w->engine.end_us;
}

/* The one that has waited longest of those who are not in the pass: its number, -1: this session,
 * -2: nobody. */
static int first_waiting(const ft_ablate_world *w, int64_t at_us)
{
    int64_t least_us = at_us + 1;
    int who = -2;
    if (w->session.out.there && !w->engine.mine && w->session.out.at_us < least_us) {
        least_us = w->session.out.at_us;
        who = -1;
    }
    for (uint32_t i = 0; i < w->how->others.n; i++)
        if (!w->engine.other_in[i] && w->engine.other_us[i] < least_us) {
            least_us = w->engine.other_us[i];
            who = (int)i;
        }
    return who;
}

/* The price of a row, as messages have it. */
static uint32_t price_hint(const ft_ablate_world *w)
{
    return (uint32_t)(1000 * w->session.price + 0.5);
}

static double slow(const ft_ablate_world *w, int64_t at_us)
{
    return w->how->server.load_us > 0 && (int64_t)((double)at_us / w->how->server.load_us) % 2
               ? w->how->server.load
               : 1;
}

/* Spikes are places in the text, which the first pass behind them meets. */
static bool meets_spike(ft_ablate_world *w)
{
    bool spike = false;
    for (; w->engine.spiked < w->session.at; w->engine.spiked++)
        spike |= ft_ablate_luck(w, w->engine.spiked, SPIKE) < w->how->server.spikes;
    return spike;
}

static void start_pass(ft_ablate_world *w, int64_t at_us)
{
    const uint32_t most = w->how->others.group ? w->how->others.group : FT_ABLATE_OTHERS + 1;
    ft_pass plain = {0};
    uint32_t n = 0;
    w->engine.shape = (ft_pass){0};
    for (int who; n < most && (who = first_waiting(w, at_us)) != -2; n++) {
        const uint32_t rows = who < 0 ? w->session.out.draft.n + 1 : w->how->others.rows + 1;
        const uint32_t past = n_past(w); /* others' texts are about as long */
        w->engine.shape = ft_pass_plus(w->engine.shape, past, rows, rows);
        plain = ft_pass_plus(plain, past, 1, 1);
        if (who >= 0) {
            w->engine.other_in[who] = true;
        } else {
            w->engine.mine = true;
            w->engine.my_shape = ft_pass_plus((ft_pass){0}, past, rows, rows);
            w->life->rows += rows;
        }
    }
    if (w->how->server.prices)
        w->session.price = ft_price_row(&w->engine.cost, &plain, n, &(ft_price_speed){0});
    double us = (double)ft_cost_predict(&w->engine.cost, &w->engine.shape) * slow(w, at_us);
    if (w->how->server.kink_rows > 0 && w->engine.shape.rows > w->how->server.kink_rows)
        us *= w->how->server.kink;
    us *= ft_ablate_noisy(&w->engine.noise, w->how->server.noise);
    if (w->engine.mine && meets_spike(w))
        us *= SPIKE;
    if (w->engine.mine && w->session.out.draft.n > 0 && !w->engine.verified &&
        w->how->server.cold > 0)
        us *= w->how->server.cold;
    w->engine.verified |= w->engine.mine && w->session.out.draft.n > 0;
    w->engine.busy = true;
    w->engine.start_us = at_us;
    w->engine.end_us = at_us + (int64_t)us + 1;
}

/* ---- the server's session ---- */

/* The draft's nodes along the text. */
static void walk(ft_ablate_world *w, ft_msg_verdict *v)
{
    const ft_msg_draft *d = &w->session.out.draft;
    const ft_tokens *text = w->session.text->text;
    int32_t at = -1;
    for (uint32_t i = 0; i < d->n && w->session.at < text->n; i++)
        if (d->parent[i] == at && d->token[i] == text->id[w->session.at]) {
            at = (int32_t)i;
            v->path[v->n_path++] = i;
            w->session.at++;
        }
    if (!over(w))
        v->next[v->n_next++] = text->id[w->session.at++];
}

/* What the session does behind a verdict that ends a round. */
static void go_on(ft_ablate_world *w, ft_msg_verdict *v, int64_t at_us)
{
    ft_msg_draft behind;
    w->session.out.there = false;
    w->session.round++;
    behind.n = 0;
    if (w->session.early.there && v->n_path > 0 && v->n_next == 1 && !over(w))
        ft_early_behind(&w->session.early.draft, v->path[v->n_path - 1], v->next[0], &behind);
    w->session.early.there = false;
    if (behind.n > 0) {
        behind.run = 0;
        w->session.out = (ft_ablate_request){.there = true, .at_us = at_us, .draft = behind};
        v->early_taken = true;
    } else if (w->session.next.there && !over(w)) {
        w->session.out = w->session.next;
        w->session.out.at_us = w->session.next.at_us > at_us ? w->session.next.at_us : at_us;
        w->session.next.there = false;
    }
}

static void verdict(ft_ablate_world *w, int64_t at_us)
{
    ft_server_msg *msg = calloc(1, sizeof *msg);
    assert(msg);
    ft_msg_verdict *v = &msg->verdict;
    msg->kind = FT_SERVER_VERDICT;
    v->round = w->session.round;
    walk(w, v);
    if (over(w))
        v->finish = FT_FINISH_LENGTH;
    v->length = (uint32_t)w->session.text->prompt->n + w->session.at;
    v->queue_us = (uint32_t)(w->engine.start_us - w->session.out.at_us);
    v->verify_us = (uint32_t)(at_us - w->engine.start_us);
    if (w->session.answered_us > 0)
        v->others_us = (uint32_t)((w->session.free_us ? w->session.free_us : w->engine.start_us) -
                                  w->session.answered_us);
    w->session.answered_us = at_us;
    w->session.free_us = 0;
    const ft_pass next =
        ft_pass_plus(ft_pass_minus(w->engine.shape, w->engine.my_shape), n_past(w), 1, 1);
    if (w->how->server.hints)
        v->hints.token_us =
            (uint32_t)((double)ft_cost_predict(&w->engine.cost, &next) * slow(w, at_us));
    v->hints.row_price = price_hint(w);
    v->more = w->session.out.draft.n == 0 && w->session.out.draft.run > 1 && !over(w);
    if (v->more) {
        w->session.out.draft.run--;
        w->session.out.at_us = at_us;
    } else {
        go_on(w, v, at_us);
    }
    ft_ablate_reply(w, msg, at_us);
}

static void end_pass(ft_ablate_world *w, int64_t at_us)
{
    for (uint32_t i = 0; i < w->how->others.n; i++)
        if (w->engine.other_in[i]) {
            w->engine.other_us[i] =
                at_us + (int64_t)(w->how->others.think_us * ft_ablate_noisy(&w->engine.think, 0.2));
            w->engine.other_in[i] = false;
        }
    w->engine.busy = false;
    if (w->engine.mine) {
        w->engine.mine = false;
        verdict(w, at_us);
    }
    if (w->session.free_us == 0 && first_waiting(w, at_us) == -2)
        w->session.free_us = at_us;
}

void ft_ablate_server_step(ft_ablate_world *w)
{
    const int64_t at_us = ft_ablate_server_next(w);
    if (w->engine.busy)
        end_pass(w, at_us);
    else
        start_pass(w, at_us);
}

/* ---- what comes ---- */

void ft_ablate_server_open(ft_ablate_world *w, int64_t at_us)
{
    ft_server_msg *msg = calloc(1, sizeof *msg);
    const ft_pass prompt = ft_pass_plus((ft_pass){0}, 0, (uint32_t)w->session.text->prompt->n, 0);
    assert(msg);
    msg->kind = FT_SERVER_OPENED;
    msg->opened.length = (uint32_t)w->session.text->prompt->n;
    msg->opened.hints.row_price = price_hint(w);
    msg->opened.limits = (ft_msg_limits){.max_tree = FT_TREE_MAX, .early_drafts = true};
    w->session.read_us = at_us + ft_cost_predict(&w->engine.cost, &prompt);
    w->session.round = 1;
    ft_ablate_reply(w, msg, at_us);
}

void ft_ablate_server_draft(ft_ablate_world *w, const ft_msg_draft *d, int64_t at_us)
{
    ft_ablate_request r = {.there = true,
                           .at_us = at_us > w->session.read_us ? at_us : w->session.read_us,
                           .draft = *d};
    r.draft.evidence = NULL; /* rule exact has none, and it is the message's */
    if (r.draft.run == 0)
        r.draft.run = 1;
    if (d->n_under > 0) {
        if (d->round == w->session.round + 1) /* else it came too late */
            w->session.early = r;
    } else if (w->session.out.there) {
        w->session.next = r;
    } else {
        w->session.out = r;
    }
}

void ft_ablate_server_begin(ft_ablate_world *w)
{
    ft_ablate_engine *e = &w->engine;
    ft_cost_init(&e->cost);
    ft_cost_prime(&e->cost, w->how->server.cost_us, 0);
    ft_rng_init(&e->noise, 4 * w->seed + 1);
    ft_rng_init(&e->think, 4 * w->seed + 3);
    for (uint32_t i = 0; i < w->how->others.n; i++)
        e->other_us[i] = (int64_t)(w->how->others.think_us * 2 * ft_rng_unit(&e->think));
}
