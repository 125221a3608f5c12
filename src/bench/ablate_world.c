// SPDX-License-Identifier: Apache-2.0
// The virtual clock, the link that moves it, and an edge's life.
//
// Who waits moves the clock: a draft forward by what it takes, a recv by its timeout or until its
// message comes. The server is simulated only as far as the edge cannot influence it any more:
// until the time that a recv waits for, or until a message reaches the edge. So what the edge sends
// then arrives behind everything that was simulated. One thread.
#include "bench/ablate_world.h"

#include <stdlib.h>
#include <string.h>

#include "bench/ablate_internal.h"

static int64_t clock_us(void *ctx)
{
    return ((ft_ablate_world *)ctx)->now_us;
}

/* ---- the link ---- */

typedef struct virtual_link {
    ft_link base;
    ft_ablate_world *w;
} virtual_link;

static ft_status link_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    ft_ablate_world *w = ((virtual_link *)link)->w;
    (void)err;
    ft_ablate_send(w);
    /* What happens before it comes does not know of it. */
    while (ft_ablate_server_next(w) < w->up_us)
        ft_ablate_server_step(w);
    if (msg->kind == FT_CLIENT_OPEN)
        ft_ablate_server_open(w, w->up_us);
    else if (msg->kind == FT_CLIENT_DRAFT)
        ft_ablate_server_draft(w, &msg->draft, w->up_us);
    return FT_OK;
}

static ft_status link_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    ft_ablate_world *w = ((virtual_link *)link)->w;
    const int64_t until_us = w->now_us + timeout_us;
    for (;;) {
        const int64_t came_us = w->n_inbox ? w->inbox[0].at_us : FT_ABLATE_NEVER,
                      at_us = ft_ablate_server_next(w);
        if (came_us <= until_us && came_us <= at_us) {
            w->now_us = came_us > w->now_us ? came_us : w->now_us;
            *out = w->inbox[0].msg;
            (*out)->waited_us = w->now_us - came_us;
            memmove(w->inbox, w->inbox + 1, --w->n_inbox * sizeof *w->inbox);
            return FT_OK;
        }
        if (at_us > until_us)
            break;
        ft_ablate_server_step(w);
    }
    w->now_us = until_us;
    return ft_error_set(err, FT_TIMEOUT, "nothing yet");
}

static uint32_t link_retry_after_ms(ft_link *link)
{
    (void)link;
    return 0;
}

static void link_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    (void)link;
    *sent = *received = 0;
}

static void link_cancel(ft_link *link)
{
    (void)link;
}

static void empty_inbox(ft_ablate_world *w)
{
    for (uint32_t i = 0; i < w->n_inbox; i++)
        ft_server_msg_free(w->inbox[i].msg);
    w->n_inbox = 0;
}

static void link_destroy(ft_link *link)
{
    ft_ablate_world *w = ((virtual_link *)link)->w;
    empty_inbox(w);
    w->engine.mine = false; /* a pass ends without an answer */
    w->session.out.there = w->session.next.there = w->session.early.there = false;
    free(link);
}

static const ft_link_vtable link_vtable = {.send = link_send,
                                           .recv = link_recv,
                                           .retry_after_ms = link_retry_after_ms,
                                           .bytes = link_bytes,
                                           .cancel = link_cancel,
                                           .destroy = link_destroy};

static ft_status link_open(void *ctx, ft_error *err, ft_link **out)
{
    virtual_link *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        return ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    *l = (virtual_link){.base.vt = &link_vtable, .w = ctx};
    *out = &l->base;
    return FT_OK;
}

static ft_status link_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    const ft_ablate_world *w = ctx;
    (void)err;
    *out = (ft_msg_info){.protocol = FT_PROTOCOL,
                         .vocab_fingerprint = ft_vocab_fingerprint(w->opts->vocab),
                         .limits = {.max_tree = FT_TREE_MAX, .early_drafts = true}};
    return FT_OK;
}

/* ---- a life ---- */

/* What warming up tells an edge of a target and a draft model in its own process. */
static ft_edge_pass warm_pass(const ft_ablate_case *how)
{
    const double *us = how->server.cost_us;
    return how->alone ? (ft_edge_pass){(int64_t)(us[FT_COST_PASS] + us[FT_COST_ROW]),
                                       (int64_t)us[FT_COST_ROW]}
                      : (ft_edge_pass){0};
}

static ft_status write_text(ft_ablate_world *w, ft_edge *edge, ft_error *err)
{
    const ft_gen_request wanted = {.prompt = w->session.text->prompt->id,
                                   .n_prompt = (uint32_t)w->session.text->prompt->n,
                                   .sampling = w->session.text->sampling,
                                   .max_tokens = (uint32_t)w->session.text->text->n,
                                   .no_speculation = w->opts->no_drafts};
    const ft_gen_sink sink = {0};
    ft_gen_stats stats;
    w->session.at = 0;
    w->engine.spiked = 0;
    w->session.answered_us = w->session.free_us = 0;
    ft_status status = ft_edge_generate(edge, &wanted, &sink, err, &stats);
    if (status == FT_OK && w->session.at != w->session.text->text->n)
        status = ft_error_set(err, FT_INTERNAL, "bench ablate: %u of %zu tokens of a text came",
                              w->session.at, w->session.text->text->n);
    w->life->us += w->life->text_us[w->session.number] = (double)stats.total_us;
    w->life->tokens += (double)w->session.text->text->n;
    w->life->rounds += stats.rounds;
    w->life->early_taken += stats.early_taken;
    w->life->drafted += stats.drafted;
    w->life->accepted += stats.accepted;
    return status;
}

ft_status ft_ablate_live(const ft_ablate_world_opts *opts, const ft_ablate_case *how, uint64_t seed,
                         ft_error *err, ft_ablate_life *out)
{
    ft_ablate_world *w = calloc(1, sizeof *w);
    ft_edge *edge = NULL;
    *out = (ft_ablate_life){0};
    if (!w)
        return ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    *w = (ft_ablate_world){.opts = opts, .how = how, .seed = seed, .life = out, .now_us = 1};
    ft_rng_init(&w->net, 4 * seed);
    ft_rng_init(&w->draft, 4 * seed + 2);
    ft_ablate_server_begin(w);
    const ft_edge_opts e = {
        .vocab = opts->vocab,
        .drafts = {.ctx = w,
                   .create = ft_ablate_source,
                   .n_ctx = opts->drafts->from_engine.n_ctx,
                   .forward_us = how->alone ? (int64_t)how->device.forward_us : 0},
        .verify = warm_pass(how),
        .source = {.ctx = w, .open = link_open, .info = link_info},
        .draft = opts->fixed ? *opts->fixed : ft_draft_params_tree(32, 8, 8),
        .automatic = !opts->fixed,
        .depth_rule = how->depth_rule,
        .proactive = !how->alone,
        .early = !how->alone,
        .clock = {.now_us = clock_us, .ctx = w},
        .reconnect_ms = 1000000000};
    ft_status status = ft_edge_create(&e, err, &edge);
    for (uint32_t i = 0; i < how->texts && status == FT_OK; i++) {
        w->session.number = i;
        w->session.text = &opts->texts[(seed * how->texts + i) % opts->n];
        status = write_text(w, edge, err);
        w->now_us +=
            100000 + (int64_t)(400000 * ft_rng_unit(&w->engine.think)); /* the reader reads */
    }
    ft_edge_destroy(edge);
    empty_inbox(w);
    free(w);
    return status;
}
