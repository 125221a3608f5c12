// SPDX-License-Identifier: Apache-2.0
// What the next round is to be: a tree of drafted tokens, or a run of tokens that the server makes by
// itself. Decides nothing: it puts what was measured into spec/control.h and asks it.
//
// With a fixed draft (ft_edge_opts.automatic false) every round has a tree where one can be drafted at
// all, and only the length of other rounds' runs is asked for.
//
// A generation takes the controller over from the edge as the last one left it and leaves it there at
// its end; several at once each leave what they learnt, the last stays. A choice is made once a round
// and kept until it is acted on: in a run it is made when half of the run has come, because a run that
// goes on is asked for while there is still time for the way. Owned by the generation's thread.
#include <math.h>

#include "base/num.h"
#include "edge/edge_internal.h"

#define FIRST_RUN_TOK 2 /* of the very first run, timed, that tell what a token takes */

void ft_gen_steer_begin(ft_gen *gen)
{
    ft_edge *edge = gen->edge;
    pthread_mutex_lock(&edge->mutex);
    gen->control = edge->control;
    gen->stop = edge->stop;
    gen->stop.ahead = edge->proactive;
    pthread_mutex_unlock(&edge->mutex);
    ft_control_new_text(&gen->control);
}

void ft_gen_steer_end(ft_gen *gen)
{
    ft_edge *edge = gen->edge;
    pthread_mutex_lock(&edge->mutex);
    edge->control = gen->control;
    edge->stop = gen->stop;
    pthread_mutex_unlock(&edge->mutex);
}

uint32_t ft_gen_steer_nodes(const ft_gen *gen, uint32_t nodes)
{
    if (gen->limits.max_tree)
        nodes = ft_min_u32(nodes, gen->limits.max_tree);
    return gen->hint_max_tree ? ft_min_u32(nodes, gen->hint_max_tree) : nodes;
}

/* No deeper than tokens can still come: a path of d nodes yields d + 1 tokens. */
static ft_control_room room(ft_gen *gen, uint32_t most)
{
    const ft_draft_params *limit = &gen->edge->draft;
    ft_control_room room = {.nodes = limit->budget, .depth = ft_min_u32(limit->depth, most - 1)};
    if (!ft_gen_draft_ready(gen) || room.depth == 0 || gen->hint_no_trees)
        return (ft_control_room){0};
    if (gen->mark_us > 0)
        room.spent_us = ft_clock_now_us(&gen->edge->clock) - gen->mark_us;
    room.nodes = ft_gen_steer_nodes(gen, room.nodes);
    return room;
}

/* Whether fewer forwards than the depth do where they bring more tokens a time: not while the depth is
 * one that keeps a busy server's verifications filled, and not where it was asked for. */
static bool stops(const ft_gen *gen)
{
    ft_depth_rule rule = gen->control.opts.depth_rule;
    return rule == FT_DEPTH_LATENCY ||
           (rule == FT_DEPTH_AUTO && gen->edge->automatic && !gen->control.busy);
}

ft_control_choice ft_gen_steer(ft_gen *gen, uint32_t most, ft_draft_params *params)
{
    const ft_control_room now = room(gen, most);
    ft_control_choice choice = gen->choice;
    if (!gen->edge->automatic && now.nodes > 0) {
        uint32_t depth = now.depth;
        if (gen->control.opts.depth_rule == FT_DEPTH_PIPELINE)
            depth = ft_control_depth_at(&gen->control, now.nodes, depth, now.spent_us);
        choice = (ft_control_choice){.speculate = true, .budget = now.nodes, .depth = depth};
    } else if (!gen->has_choice) {
        choice = ft_control_choose(&gen->control, &now);
    }
    gen->choice = choice;
    gen->has_choice = true;
    choice.budget = ft_min_u32(choice.budget, now.nodes);
    choice.depth = ft_min_u32(choice.depth, now.depth);
    choice.run = ft_min_u32(choice.run ? choice.run : 1, most);
    choice.shadow = choice.shadow && choice.budget > 0 && choice.depth > 0;
    *params = gen->edge->draft;
    params->budget = choice.budget;
    params->depth = choice.depth;
    params->width = ft_min_u32(params->width, choice.budget);
    params->stop = stops(gen) ? &gen->stop : NULL;
    gen->stop.free_us = fmax(ft_turn_until_us(&gen->control.turn) - (double)now.spent_us, 0);
    return choice;
}

/* ---- what was seen ---- */

static uint32_t levels(const ft_tree *tree)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < tree->n; i++)
        most = tree->depth[i] + 1u > most ? tree->depth[i] + 1u : most;
    return most;
}

/* Tokens that the tree should bring, the target's own included. */
static double expected(const ft_tree *tree)
{
    double tokens = 1;
    for (uint32_t i = 0; i < tree->n; i++)
        tokens += (double)expf(tree->cum_logp[i]);
    return tokens;
}

void ft_gen_steer_sent(ft_gen *gen, uint32_t forwards, int64_t took_us)
{
    gen->levels = levels(&gen->tree);
    gen->drafted_us = took_us;
    gen->forwards = forwards;
    gen->expected = expected(&gen->tree);
    gen->stats->depth_sum += gen->levels;
    if (gen->stats->rounds > 0) /* a text's first draft finds caches cold */
        ft_control_saw_draft(&gen->control, gen->levels, forwards, took_us);
}

void ft_gen_steer_shadow(ft_gen *gen, uint32_t forwards, int64_t took_us)
{
    ft_shadow *s = &gen->shadow;
    s->at = -1;
    s->path = 0;
    s->took_us = took_us;
    ft_control_saw_draft(&gen->control, levels(&s->tree), forwards, took_us);
}

static void saw_tree(ft_gen *gen, const ft_msg_verdict *v)
{
    const ft_msg_draft *draft = &gen->out.draft;
    /* a repeated round, or one that waited for the server's prefill, or one that nobody looked at */
    if (gen->round_us == 0 || v->hint_no_trees)
        return;
    const ft_control_round round = {.nodes = draft->n,
                                    .depth = gen->levels,
                                    .n_path = v->n_path,
                                    .draft_us = gen->drafted_us,
                                    .wait_us = gen->round_us,
                                    .queue_us = v->queue_us,
                                    .verify_us = v->verify_us,
                                    .rtt_us = gen->rtt_sample_us,
                                    .others_us = v->others_us,
                                    .hint_token_us = v->hint_token_us};
    ft_control_saw_round(&gen->control, &round);
    const ft_stop_round ended = {.forwards = gen->forwards,
                                 .draft_us = gen->drafted_us,
                                 .wait_us = gen->round_us,
                                 .expected = gen->expected,
                                 .tokens = v->n_path + v->n_next};
    ft_stop_saw_round(&gen->stop, &ended);
}

/* The text has come to a leaf of the shadow, or left it. */
static void shadow_over(ft_gen *gen)
{
    ft_shadow *s = &gen->shadow;
    ft_control_saw_shadow(&gen->control, s->tree.n, levels(&s->tree), s->path, s->took_us);
    ft_tree_clear(&s->tree);
}

static void walk_shadow(ft_gen *gen, int32_t token)
{
    ft_shadow *s = &gen->shadow;
    bool leaf = true;
    if (s->tree.n == 0)
        return;
    s->at = ft_tree_find_child(&s->tree, s->at, token);
    s->path += s->at >= 0;
    for (uint32_t i = 0; i < s->tree.n && leaf && s->at >= 0; i++)
        leaf = s->tree.parent[i] != s->at;
    if (leaf || s->at < 0)
        shadow_over(gen);
}

static void saw_run(ft_gen *gen, const ft_msg_verdict *v)
{
    int64_t now = ft_clock_now_us(&gen->edge->clock);
    for (uint32_t i = 0; i < v->n_next; i++)
        walk_shadow(gen, v->next[i]);
    if (gen->rtt_sample_us >= 0)
        ft_control_saw_rtt(&gen->control, gen->rtt_sample_us);
    if (gen->run_us == 0) { /* holds the way and the wait */
        gen->run_us = now;
        gen->run_tokens = 0;
    } else {
        gen->run_tokens += v->n_next;
    }
    /* What comes next is chosen when half of a run has come: the very first must tell by then. */
    bool first = gen->control.run_us <= 0 && gen->run_tokens >= FIRST_RUN_TOK;
    if (v->more && !first)
        return;
    if (gen->run_tokens > 0)
        ft_control_saw_run(&gen->control, gen->run_tokens, now - gen->run_us, v->hint_token_us);
    gen->run_us = v->more || gen->ahead_run > 0 ? now : 0;
    gen->run_tokens = 0;
}

void ft_gen_steer_saw(ft_gen *gen, const ft_msg_verdict *v)
{
    ft_control_saw_price(&gen->control, v->hint_row_price / 1e3);
    if (gen->run_left > 0)
        saw_run(gen, v);
    else
        saw_tree(gen, v);
}
