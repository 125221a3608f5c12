// SPDX-License-Identifier: Apache-2.0
// The controller's measurements. Invariant: a round is measured once, with its verdict. A round
// that was repeated, waited for the server's prefill, or lost its stream is not measured. Owned by
// the generation's thread.
#include "edge/steer.h"

#include <math.h>

#include "base/num.h"
#include "edge/tuning.h"
#include "spec/control_model.h"

static ft_steer_learnt here(const ft_steer *s)
{
    return (ft_steer_learnt){s->control, s->depth, s->fallback, s->predictor};
}

static void set_here(ft_steer *s, const ft_steer_learnt *learnt)
{
    s->control = learnt->control;
    s->depth = learnt->depth;
    s->fallback = learnt->fallback;
    s->predictor = learnt->predictor;
}

void ft_steer_init(ft_steer *s, const ft_steer_opts *opts, const ft_steer_learnt learnt[FT_PLACES])
{
    const uint32_t budget = opts->drafts ? opts->draft.budget : 0;
    *s = (ft_steer){.how = *opts, .other = learnt[FT_PLACE_FALLBACK]};
    set_here(s, &learnt[FT_PLACE_SERVER]);
    s->control.opts.max_budget = s->other.control.opts.max_budget = budget;
}

void ft_steer_get_learnt(const ft_steer *s, ft_steer_learnt learnt[FT_PLACES])
{
    learnt[s->place] = here(s);
    learnt[!s->place] = s->other;
}

void ft_steer_go(ft_steer *s, ft_place place)
{
    const ft_steer_learnt left = here(s);
    if (place == s->place)
        return;
    set_here(s, &s->other);
    s->other = left;
    s->place = place;
    s->chosen = s->may_fall_back = s->compares = false;
    s->run.tokens = 0;
    s->run.us = 0;
}

/* Limits the depth to the tokens that may still come: a path of d nodes yields d + 1 tokens. */
static ft_control_room room(const ft_steer *s, const ft_steer_ask *ask)
{
    const ft_draft_params *limit = &s->how.draft;
    ft_control_room room = {.depth = ft_min_u32(limit->depth, ask->most - 1),
                            .spent_us = ask->spent.us};
    if (s->place == FT_PLACE_SERVER && s->how.asked_tokens_per_s > 0)
        room.promised_us = 1e6 / (double)s->how.asked_tokens_per_s;
    if (ask->max_tree == 0 || room.depth == 0 || s->hint_no_trees)
        return (ft_control_room){0};
    room.nodes = ft_min_u32(limit->budget, ask->max_tree);
    return room;
}

/* Whether a draft may end before its depth if that yields more tokens per time. Not if the depth
 * was asked for. */
static bool ends_early(const ft_steer *s)
{
    const ft_depth_rule rule = s->control.opts.depth_rule;
    return rule == FT_DEPTH_LATENCY || (rule == FT_DEPTH_AUTO && s->how.automatic);
}

/* Quantize-Sample-and-Verify, IV: length and l of a draft with points. Returns l; 0: no policy
 * chose. */
static uint32_t ask_policy(const ft_steer *s, const ft_steer_ask *ask, ft_control_choice *choice)
{
    const ft_policy *policy = s->how.policy;
    float state[FT_POLICY_INPUTS];
    const uint32_t most = ft_min_u32(choice->budget, choice->depth);
    if (!policy || ask->terms->resolution == 0 || ask->uplink_bits_per_s <= 0 || most == 0)
        return 0;
    ft_policy_state(ask->past, ask->uplink_bits_per_s, state);
    const ft_policy_choice it = ft_policy_choose(policy, state);
    choice->budget = choice->depth = ft_min_u32(it.length, most);
    return policy->l[it.i_l];
}

/* The controller's size is one for all trees. Once it is known what rounds bring, each tree may be
 * as large as its own nodes are worth. */
static void size_by_worth(const ft_steer *s, const ft_control_room *room, ft_draft_params *params)
{
    params->budget = room->nodes;
    params->depth = room->depth;
    params->width = ft_min_u32(s->how.draft.width, room->nodes);
    params->weigh_rows = true;
}

/* Where rows have a price, a text with a promise drafts little beyond what it needs. Until a
 * verdict has told the price, it drafts only a few nodes: many texts may begin at once. */
static void size_by_promise(const ft_steer *s, const ft_steer_ask *ask, ft_draft_params *params)
{
    ft_depth_promise promise = {.tokens_per_s = (double)s->how.asked_tokens_per_s,
                                .lacks_tok = ask->lacks_tok,
                                .round_us = s->depth.round_us};
    if (s->place != FT_PLACE_SERVER || promise.tokens_per_s <= 0)
        return;
    if (!s->told)
        params->budget = ft_min_u32(params->budget, ft_edge_tune->promise.first_nodes);
    if (s->control.price <= 0 || !params->weigh_rows)
        return;
    if (promise.round_us <= 0) /* what an earlier process has learnt of its parts */
        promise.round_us = ft_control_cycle_us(&s->control, params->budget, s->choice.depth);
    params->enough_tok = (float)ft_depth_promised_tok(&promise);
    params->surplus_logp = logf((float)ft_depth_surplus_chance((double)expf(params->min_logp)));
}

/* By SpecEdge 4.3 a tree has as many forwards as cost nothing, because the server is busy
 * meanwhile. So once it is known what rounds bring, drafting goes on beyond that depth as long as
 * it brings more tokens per time. Nodes that are not worth their rows are left out, and so are
 * forwards that would bring only such nodes. Where the network and one forward take longer than a
 * verification, any draft comes too late, and the server waits for it. Two things count there. If
 * rounds differ in length, two sessions meet at the server, and one waits for the other. So every
 * draft has the same number of forwards. And an early draft saves the network's time, so a deeper
 * tree must be worth more. */
static void deepen(ft_steer *s, const ft_steer_ask *ask, const ft_control_room *room,
                   ft_draft_params *params)
{
    if (!ft_depth_is_sure(&s->depth))
        return;
    const uint32_t least = s->control.waits ? 1 : params->depth;
    s->depth.free_us = fmax(s->depth.free_us, least * s->depth.forward_us);
    if (s->control.waits) {
        s->depth.left = ft_depth_left(&s->depth, ask->early_us);
        s->depth.steady = ft_depth_steady(&s->depth);
    }
    params->deep_enough = &s->depth;
    size_by_worth(s, room, params);
}

/* Whether the predictor may end this draft. */
static void choose_predictor(ft_steer *s, ft_draft_params *params)
{
    s->compares = s->how.predictor_if_pays && params->predictor;
    if (s->compares && !ft_measured_with(&s->predictor))
        params->predictor = NULL;
    s->by_predictor = params->predictor != NULL;
}

ft_control_choice ft_steer_choose(ft_steer *s, const ft_steer_ask *ask, ft_draft_params *params)
{
    const ft_control_room now = room(s, ask);
    ft_control_choice choice = s->choice;
    if (!s->how.automatic && now.nodes > 0) {
        uint32_t depth = now.depth;
        if (s->control.opts.depth_rule == FT_DEPTH_PIPELINE)
            depth = ft_control_depth_at(&s->control, now.nodes, depth, now.spent_us);
        choice = (ft_control_choice){.speculate = true, .budget = now.nodes, .depth = depth};
    } else if (!s->chosen) {
        choice = ft_control_choose(&s->control, &now);
    }
    s->choice = choice;
    s->chosen = true;
    choice.budget = ft_min_u32(choice.budget, now.nodes);
    choice.depth = ft_min_u32(choice.depth, now.depth);
    choice.run = ft_min_u32(choice.run ? choice.run : 1, ask->most);
    choice.shadow = choice.shadow && choice.budget > 0 && choice.depth > 0;
    const uint32_t l = ask_policy(s, ask, &choice);
    s->by_policy = l > 0;
    *params = s->how.draft;
    params->resolution = l > 0 ? l : params->resolution;
    params->budget = choice.budget;
    params->depth = choice.depth;
    params->levels = ask->most - 1;
    params->width = ft_min_u32(params->width, choice.budget);
    params->deep_enough = ends_early(s) ? &s->depth : NULL;
    if (choice.speculate && s->how.automatic && l == 0 && params->deep_enough &&
        (ft_depth_is_sure(&s->depth) || (s->control.price > 0 && s->depth.round_us > 0)))
        size_by_worth(s, &now, params);
    s->depth.free_us = fmax(ft_control_busy_us(&s->control) - (double)now.spent_us, 0);
    s->depth.left = 0;
    s->depth.steady = 0;
    if (s->control.opts.depth_rule == FT_DEPTH_PIPELINE && choice.speculate && ask->terms->adaptive)
        deepen(s, ask, &now, params);
    params->fallback = s->control.opts.depth_rule == FT_DEPTH_FALLBACK ? &s->fallback : NULL;
    if (params->weigh_rows)
        params->min_logp = logf((float)ft_depth_least_chance(
            &s->depth, ft_control_row_us(&s->control), s->control.price));
    if (choice.speculate && s->how.automatic)
        size_by_promise(s, ask, params);
    params->round = ask->round;
    ft_draft_params_obey(params, ask->terms);
    choose_predictor(s, params);
    s->may_fall_back = params->fallback != NULL;
    return choice;
}

void ft_steer_want(ft_steer *s, const ft_steer_ask *ask, uint32_t ahead, ft_draft_params *params)
{
    ft_control_room now = room(s, ask);
    if (now.nodes > 0)
        now.depth = ft_min_u32(s->how.draft.depth, ask->most - 1 + ahead);
    s->chosen = s->by_policy = s->may_fall_back = s->compares = false;
    *params = s->how.draft;
    params->budget = now.nodes;
    params->depth = now.depth;
    params->width = ft_min_u32(params->width, now.nodes);
    params->min_logp = logf((float)ft_control_least_chance(&s->control));
    params->round = ask->round;
    ft_draft_params_obey(params, ask->terms);
    s->by_predictor = params->predictor != NULL;
    s->depth.free_us = 0;
}

ft_control_choice ft_steer_take(ft_steer *s, const ft_steer_ask *ask, uint32_t ahead,
                                const ft_tree *tree)
{
    ft_control_offer offer = {.tokens = 1, .final = ahead == 0};
    for (uint32_t i = 0; i < tree->n; i++)
        if (tree->depth[i] >= ahead) { /* what is left of it behind the run */
            offer.nodes++;
            offer.tokens += (double)expf(tree->cum_logp[i]);
        }
    ft_control_choice choice = ft_control_take(&s->control, &offer);
    choice.run = ft_min_u32(choice.run ? choice.run : 1, ask->most);
    return choice;
}

/* ---- learning from what was measured ---- */

void ft_steer_drafted(ft_steer *s, const ft_tree *tree, uint32_t forwards, int64_t us, bool cold)
{
    s->tree.levels = ft_tree_levels(tree);
    s->tree.drafted_us = us;
    s->tree.forwards = forwards;
    s->tree.expected = ft_tree_tokens(tree);
    if (!cold && !s->how.at_once)
        ft_control_saw_draft(&s->control, s->tree.levels, forwards, us);
}

void ft_steer_heard(ft_steer *s, const ft_msg_hints *hints)
{
    s->hint_no_trees = hints->no_trees;
    ft_control_saw_price(&s->control, hints->row_price / 1e3);
    ft_control_saw_hint(&s->control, hints->token_us);
}

void ft_steer_saw_tree(ft_steer *s, const ft_msg_verdict *v, uint32_t nodes,
                       const ft_steer_times *times)
{
    s->told = true;
    if (!times->round.known || v->hints.no_trees) /* with the hint the tree was not verified */
        return;
    const ft_control_round round = {.nodes = nodes,
                                    .depth = s->how.at_once ? 0 : s->tree.levels,
                                    .n_path = v->n_path,
                                    .draft_us = s->tree.drafted_us,
                                    .wait_us = times->round.us,
                                    .queue_us = v->queue_us,
                                    .verify_us = v->verify_us,
                                    .rtt_us = times->rtt.known ? times->rtt.us : -1,
                                    .others_us = v->others_us,
                                    .hint_token_us = v->hints.token_us};
    ft_control_saw_round(&s->control, &round);
    ft_depth_saw_round(&s->depth, &(ft_depth_round){.forwards = s->tree.forwards,
                                                    .levels = s->tree.levels,
                                                    .draft_us = s->tree.drafted_us,
                                                    .wait_us = times->round.us,
                                                    .tokens = v->n_path + v->n_next});
    if (s->compares)
        ft_measured_saw(&s->predictor, v->n_path + v->n_next, s->tree.drafted_us + times->round.us);
}

void ft_steer_saw_path(ft_steer *s, const ft_tree *tree, const ft_msg_verdict *v)
{
    if (s->may_fall_back && !v->hints.no_trees) /* with the hint the tree was not verified */
        ft_fallback_saw(&s->fallback, tree, v->path, v->n_path);
}

void ft_steer_saw_run(ft_steer *s, const ft_msg_verdict *v, const ft_steer_times *times)
{
    s->told = true;
    if (times->rtt.known)
        ft_control_saw_rtt(&s->control, times->rtt.us);
    if (v->read_tok == 0) { /* else the pass, or one before it, read text, too */
        s->run.tokens += v->n_next;
        s->run.us += (int64_t)v->queue_us + v->verify_us;
    }
    /* The next round is chosen when half of the run has come: the first run must be measured by
     * then. */
    const bool first = s->control.run_us <= 0 && s->run.tokens >= ft_edge_tune->runs.first_tok;
    if (v->more && !first)
        return;
    if (s->run.tokens > 0)
        ft_control_saw_run(&s->control, s->run.tokens, s->run.us, v->hints.token_us);
    s->run.tokens = 0;
    s->run.us = 0;
}

void ft_steer_saw_shadow(ft_steer *s, const ft_tree *shadow, uint32_t path, int64_t took_us)
{
    ft_control_saw_shadow(&s->control, shadow->n, ft_tree_levels(shadow), path, took_us);
}
