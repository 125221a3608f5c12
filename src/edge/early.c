// SPDX-License-Identifier: Apache-2.0
// Early drafts. While a tree is verified, the draft model works ahead of the verdict (drafting.c). Where the
// verdict goes there, the next tree is as good as drafted, and yet it would wait for the verdict to come and
// then take its own time to the server. So part of what was drafted ahead is sent before: nodes that extend
// the tree that is out, below those of its fringe where the text likeliest goes on. The server goes on at once
// with what hangs behind its verdict, if anything does, and the verdict says so: then that is the outstanding
// draft, as if it had been sent then. Otherwise nothing has happened.
//
//   tree k sent -> forwards ahead -> early sent -> forwards ahead -> verdict k: taken     -> tree k+1 is out
//                                \-> not worth it                              \ not taken -> draft, send k+1
//
// When: as late as it still arrives before the verdict is given, so that the nodes are the best; an early
// draft that came too late makes the next ones earlier. What: by what it should gain over a draft behind the
// verdict, which takes the way there and back and its drafting longer but has more nodes. While others keep
// the server busy for longer than that, coming sooner is worth nothing, and none is sent.
//
// Owned by the generation's thread. Drafts nothing itself.
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "edge/edge_internal.h"
#include "wire/early.h"

/* Nodes of it, of those that a tree may have: what makes good a tree's place is among the first, and rounds
 * are to take no more bytes with it than without it half as much again. */
#define SHARE_NODES 0.75
#define GAIN_MIN    0.05 /* tokens that sending one should bring, for its bytes */
#define MARGIN      0.04 /* of the time to the verdict, by which it is early... */
#define LATE_STEP   0.5  /* ...and of a forward, by which more after one that was late */
#define LEAD_FADE   0.9  /* of that, when one was in time */
#define SMOOTH      0.2

void ft_gen_early_reset(ft_gen *gen)
{
    gen->early.msg.draft.n = 0;
    gen->early.settled = false;
    gen->early.since_us = 0;
}

/* How much sooner the next round would begin. */
static double saved_us(const ft_gen *gen)
{
    return gen->rtt_us + gen->early.draft_us - ft_turn_until_us(&gen->control.turn);
}

static bool may_send(const ft_gen *gen)
{
    const ft_gen_early *e = &gen->early;
    return gen->edge->early && gen->limits.early_drafts && gen->draft_sent && !e->settled &&
           !gen->control.running && e->draft_us > 0 && gen->sent_us > 0 && gen->wait_us > 0 &&
           ft_control_answer_us(&gen->control, 1) > 0;
}

static void send(ft_gen *gen, const ft_tree *tree, const uint8_t *under)
{
    ft_client_msg *msg = &gen->early.msg;
    ft_msg_draft *d = &msg->draft;
    ft_error err = {0};
    msg->kind = FT_CLIENT_DRAFT;
    d->round = gen->round + 1;
    d->base = gen->out.draft.base;
    d->n = tree->n;
    d->n_under = d->run = d->draft_us = d->rtt_us = 0;
    memcpy(d->token, tree->token, tree->n * sizeof *d->token);
    memcpy(d->parent, tree->parent, tree->n * sizeof *d->parent);
    for (uint32_t i = 0; i < tree->n; i++)
        d->n_under += tree->parent[i] < 0;
    memcpy(d->under, under, d->n_under * sizeof *d->under);
    gen->stats->early_sent++;
    if (gen->link->vt->send(gen->link, msg, &err) != FT_OK)
        FT_LOGD("edge", "the early draft could not be sent: %s", err.message);
}

void ft_gen_early_look(ft_gen *gen)
{
    ft_tree tree;
    uint8_t under[FT_TREE_MAX];
    if (!may_send(gen))
        return;
    /* A part of an early draft is a small tree, whose verdict is given sooner than most. */
    const double saved = saved_us(gen),
                 verify_us = ft_control_answer_us(&gen->control, gen->out.draft.n);
    const double now_us = (double)ft_clock_now_us(&gen->edge->clock);
    const double left_us = (double)gen->sent_us + verify_us - now_us; /* until it would be late */
    const double lead_us = MARGIN * verify_us + gen->early.lead_us;
    if (!gen->ahead_done && left_us - lead_us > ft_control_forward_us(&gen->control))
        return;
    gen->early.settled = true;
    if (left_us < 0 || saved <= 0)
        return;
    const ft_growth_early how = {
        .budget = ft_gen_steer_nodes(gen, (uint32_t)(SHARE_NODES * gen->params.budget)),
        .spare_tok = ft_stop_rate(&gen->stop) * saved - gen->early.tokens};
    if (ft_drafter_early(gen->drafter, &how, &tree, under) >= GAIN_MIN)
        send(gen, &tree, under);
}

/* Into *out what is behind the verdict. */
static bool behind(const ft_gen *gen, const ft_msg_verdict *v, ft_msg_draft *out)
{
    out->n = 0;
    if (gen->early.msg.draft.n > 0 && v->finish == FT_FINISH_NONE && v->n_path > 0 &&
        v->n_next == 1)
        ft_early_behind(&gen->early.msg.draft, v->path[v->n_path - 1], v->next[0], out);
    return out->n > 0;
}

bool ft_gen_early_fits(const ft_gen *gen, const ft_msg_verdict *verdict)
{
    ft_msg_draft next;
    return behind(gen, verdict, &next);
}

void ft_gen_early_saw(ft_gen *gen, const ft_msg_verdict *v)
{
    ft_gen_early *e = &gen->early;
    if (gen->run_left > 0 || !gen->edge->early)
        return;
    if (!e->begun) {
        ft_smooth(&e->draft_us, (double)gen->drafted_us, SMOOTH);
        ft_smooth(&e->tokens, gen->expected - 1, SMOOTH);
    }
    if (v->early_taken)
        e->lead_us *= LEAD_FADE;
    else if (ft_gen_early_fits(gen, v))
        e->lead_us += LATE_STEP * ft_control_forward_us(&gen->control);
}

void ft_gen_early_take(ft_gen *gen, const ft_msg_verdict *v)
{
    ft_msg_draft *out = &gen->out.draft;
    ft_gen_early *e = &gen->early;
    (void)behind(gen, v, out);
    out->base = (uint32_t)gen->text.n;
    out->run = out->draft_us = 0;
    ft_gen_early_reset(gen);
    e->begun = true;
    e->since_us = ft_clock_now_us(&gen->edge->clock);
    gen->stats->early_taken++;
    /* As if it had been sent so that it came when the verdict was given. */
    gen->sent_us = gen->mark_us;
    ft_gen_draft_early(gen);
}
