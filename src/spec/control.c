// SPDX-License-Identifier: Apache-2.0
// When and how much to speculate, from what things take and how much is accepted.
//
// Compared is time per token, where a token counts less by what its rows cost others (worth()): of
// a tree (draft + network + queue + verification over the tokens that it brings) and of a run,
// where the server decodes by itself and the network is paid once. What a verification of n nodes
// takes is a line through the session's own rounds; it holds what others put into the same passes.
// What a tree brings follows from the probability that a level is missed, learnt from every tree
// that was sent or drafted as a shadow.
//
// Estimates may be wrong, so a second, measured account stands above them: loss_us, what rounds
// have cost over the same tokens in runs. Above a limit there are only runs, until time has
// forgiven it, at loss_share of the time: so speculation costs no more than that over plain
// decoding, whatever the estimates say.
//
// A young session knows nothing, and must neither lose much nor be put off by one bad tree. It
// begins with a short run, which costs nothing over plain decoding and tells the network and what a
// token takes. A tree is tried only if one that is accepted to its end could pay by that and by
// what the draft model was warmed to take. The first tree's times, where they are far off, are
// those of cold caches.
//
// Pure; the caller owns the state. A choice costs some microseconds.
#include "spec/control.h"

#include <math.h>

#include "base/num.h"
#include "spec/control_estimate.h"
#include "spec/tuning.h"

/* Tuning constants, spec/tuning.h. */
#define TREES (ft_spec_tune->trees)
#define MODES (ft_spec_tune->modes)
#define TRIES (ft_spec_tune->tries)

/* ---- trees ---- */

typedef struct tree {
    uint32_t budget, depth;
    double token_us;
} tree;

/* What candidates are judged by. */
typedef struct frame {
    uint32_t least, nodes, depth; /* nodes at least, at most, and levels at most */
    uint32_t fixed_depth;         /* 0: the depth is free */
    ft_control_odds odds;
} frame;

static uint32_t max_width(const ft_control *c)
{
    return c->opts.max_width ? c->opts.max_width : TREES.width_limit;
}

static bool makes_tree(const ft_control *c, const frame *f, uint32_t budget, uint32_t depth)
{
    return depth > 0 && depth <= f->depth && depth <= budget && budget <= f->nodes &&
           budget >= f->least && budget <= (uint64_t)max_width(c) * depth;
}

/* Tokens of a tree less what its rows cost others, in tokens of runs, each of which has a row
 * too. */
static double worth(const ft_control *c, double tokens, uint32_t budget)
{
    return (tokens - c->price * (1 + budget)) / (1 - c->price);
}

static tree judged(const ft_control *c, const frame *f, uint32_t budget, uint32_t depth)
{
    double tokens = worth(c, ft_control_tokens_of(&f->odds, budget, depth), budget);
    return (tree){budget, depth,
                  tokens > 0 ? ft_control_cycle_us(c, budget, depth) / tokens : INFINITY};
}

uint32_t ft_control_pipeline_depth(double verify_us, double rtt_us, double forward_us, uint32_t max)
{
    if (forward_us <= 0)
        return max ? max : 1;
    double depth = (TREES.pipeline_slack * verify_us - rtt_us) / forward_us;
    return (uint32_t)ft_clamp(floor(depth), 1, max ? max : 1);
}

/* SpecEdge 4.3, for the present budget. Where it is known for how long the server is busy with
 * others: what can be drafted until then, of which spent_us is over. */
static uint32_t pipeline_depth(const ft_control *c, uint32_t max, int64_t spent_us)
{
    double verify_us = ft_control_line_at(&c->verify, c->budget),
           forward_us = ft_control_forward_us(c);
    double until_us = ft_busy_until_us(&c->others);
    if (until_us > 0 && spent_us > 0 && forward_us > 0)
        return (uint32_t)ft_clamp(floor((until_us - (double)spent_us) / forward_us), 1,
                                  max ? max : 1);
    return ft_control_pipeline_depth(verify_us, c->rtt_us, forward_us, max);
}

uint32_t ft_control_depth_at(ft_control *c, uint32_t budget, uint32_t max, int64_t spent_us)
{
    c->budget = budget;
    c->depth = c->verify.n > 0 && c->draft.n > 0 ? pipeline_depth(c, max, spent_us) : max;
    return c->depth;
}

/* The tree with the least time a token. */
static tree best_tree(const ft_control *c, const frame *f)
{
    tree best = {1, 1, INFINITY};
    for (uint32_t budget = f->least; budget <= f->nodes;
         budget = budget < f->nodes ? ft_min_u32(2 * budget, f->nodes) : budget + 1)
        for (uint32_t d = 1; d <= f->depth && d <= budget; d++) {
            uint32_t depth = f->fixed_depth ? ft_min_u32(f->fixed_depth, budget) : d;
            if (makes_tree(c, f, budget, depth)) {
                tree t = judged(c, f, budget, depth);
                best = t.token_us < best.token_us ? t : best;
            }
            if (f->fixed_depth)
                break;
        }
    return best;
}

/* The present tree, unless another is clearly better. */
static tree next_tree(const ft_control *c, const frame *f)
{
    tree best = best_tree(c, f);
    if (!makes_tree(c, f, c->budget, c->depth) || (f->fixed_depth && f->fixed_depth != c->depth))
        return best;
    tree now = judged(c, f, c->budget, c->depth);
    return best.token_us < TREES.stick * now.token_us ? best : now;
}

/* A neighbour of the present tree, now and then: what is never tried is never learnt. */
static tree with_trials(ft_control *c, const frame *f, tree now)
{
    if (c->rounds % TREES.trial_every != TREES.trial_every - 1)
        return now;
    uint32_t way = c->trials++ % 4, budget = now.budget, depth = now.depth;
    if (way % 2 == 0)
        budget = way == 0 ? 2 * budget : budget / 2;
    else if (!f->fixed_depth) {
        depth = way == 1 ? depth + 1 : depth - 1;
        budget = budget * depth / now.depth; /* as wide */
    }
    depth = ft_min_u32(depth, budget);
    if (!makes_tree(c, f, budget, depth))
        return now;
    tree other = judged(c, f, budget, depth);
    return other.token_us < TREES.trial_worst * now.token_us ? other : now;
}

/* ---- trees or runs ---- */

static ft_control_choice tree_choice(ft_control *c, tree t)
{
    c->since_run++;
    return (ft_control_choice){.speculate = true, .budget = t.budget, .depth = t.depth};
}

static ft_control_choice run_choice(ft_control *c)
{
    double token_us = ft_control_token_us(c);
    double run = token_us > 0 ? ceil(MODES.run_rtts * c->rtt_us / token_us) : 0;
    c->since_run = 0;
    if (c->opts.max_budget == 0) /* nothing else will ever be chosen, and a run's end costs a server
                                    that drafts by itself what its last tree held beyond */
        run = MODES.run_max;
    return (ft_control_choice){.run = (uint32_t)ft_clamp(run, MODES.run_min, MODES.run_max)};
}

static void change(ft_control *c, bool running)
{
    if (c->running == running)
        return;
    c->running = running;
    c->rounds = 0;
    c->probe_in = c->probe_step = TRIES.probe_first;
    if (running)
        c->loss_us += c->rtt_us; /* until the first run's first token */
}

/* Adds a shadow where time allows one, and some acceptance would make trees pay. */
static ft_control_choice with_shadow(ft_control *c, const frame *f, ft_control_choice choice)
{
    frame all = *f;
    all.odds.miss = TRIES.hope;
    if (c->shadow_us > 0 || best_tree(c, &all).token_us * MODES.enter >= ft_control_token_us(c))
        return choice;
    /* Wide ones and such as would be sent in turn: nodes that are not sent cost little. */
    uint32_t width = c->trials++ % 2 ? max_width(c) : c->budget / c->depth;
    choice.shadow = true;
    choice.depth = ft_min_u32(ft_min_u32(TRIES.shadow_depth, f->depth), f->nodes);
    choice.budget = ft_min_u32(choice.depth * (width ? width : 1), f->nodes);
    return choice;
}

/* The best tree, if a verification without nodes takes what a token of a run does, and nodes cost
 * nothing, or (sloped) what then follows from the rounds seen. False: even then it would not
 * pay. */
static bool pays_if(const ft_control *c, const frame *f, bool sloped, tree *out)
{
    ft_control guess = *c;
    ft_control_line *v = &guess.verify;
    double token_us = ft_control_token_us(c),
           bare_us = fmin(token_us / ft_control_slower(c), ft_control_line_at(v, 0));
    v->slope = sloped ? fmax(v->y - bare_us, 0) / fmax(v->x, 1) : 0;
    v->x = 0;
    v->y = bare_us;
    *out = best_tree(&guess, f);
    return out->token_us * MODES.enter < token_us;
}

/* Whether a round shall tell if the estimates are wrong, and with which tree. */
static bool probe_due(ft_control *c, const frame *f, tree *probe)
{
    if (c->probe_in > 0) {
        c->probe_in--;
        return false;
    }
    c->probe_sloped = !c->probe_sloped;
    if (2 * c->loss_us > ft_control_loss_limit_us(c) || !pays_if(c, f, c->probe_sloped, probe))
        return false;
    c->probe_step = ft_min_u32(2 * c->probe_step, TRIES.probe_last);
    c->probe_in = c->probe_step;
    return true;
}

static ft_control_choice while_running(ft_control *c, const frame *f, tree best)
{
    double token_us = ft_control_token_us(c);
    tree probe;
    c->rounds++;
    if (c->rounds > MODES.runs_least && best.token_us * MODES.enter < token_us &&
        2 * c->loss_us <= ft_control_loss_limit_us(c)) {
        change(c, false);
        return tree_choice(c, best);
    }
    if (probe_due(c, f, &probe))
        return tree_choice(c, probe);
    return with_shadow(c, f, run_choice(c));
}

/* Whether a run shall be measured again, where trees are so many times better. */
static bool run_due(const ft_control *c, double better)
{
    if (better > TRIES.run_far)
        return false;
    return c->since_run >= (better > TRIES.run_near ? TRIES.run_every : TRIES.run_often) ||
           (c->since_run >= TRIES.run_soon && (c->run_us <= 0 || ft_control_load_changed(c)));
}

static ft_control_choice while_speculating(ft_control *c, const frame *f, tree best)
{
    double token_us = ft_control_token_us(c);
    if (token_us > 0 && (best.token_us > token_us || c->loss_us > ft_control_loss_limit_us(c))) {
        change(c, true);
        return with_shadow(c, f, run_choice(c));
    }
    if (run_due(c, token_us / best.token_us))
        return run_choice(c);
    best = with_trials(c, f, best);
    c->rounds++;
    return tree_choice(c, best);
}

static frame frame_of(const ft_control *c, const ft_control_room *room)
{
    frame f = {.nodes = ft_min_u32(c->opts.max_budget, room->nodes),
               .depth = ft_min_u32(c->opts.max_depth, room->depth),
               .odds = ft_control_odds_of(c)};
    f.depth = ft_min_u32(f.depth, f.nodes);
    f.least = ft_min_u32(c->opts.min_budget ? c->opts.min_budget : 1, max_width(c) * f.depth);
    f.least = ft_min_u32(f.least, f.nodes);
    return f;
}

static void fix_depth(frame *f, uint32_t depth, uint32_t width)
{
    f->fixed_depth = depth;
    f->nodes = ft_min_u32(f->nodes, width * depth);
    f->least = ft_min_u32(f->least, f->nodes);
}

/* Before the first tree: whether one could pay, if all of it were accepted (where others pay for
 * it: as much as usually is) and a verification without nodes took what a token of a run does.
 * False until a run was measured, which costs nothing. */
static bool hopeful(const ft_control *c, const frame *f)
{
    frame all = *f;
    tree best;
    if (c->price == 0)
        all.odds.miss = TRIES.hope;
    return c->run_us > 0 && pays_if(c, &all, false, &best);
}

static ft_control_choice first_run(ft_control *c)
{
    ft_control_choice choice = run_choice(c);
    c->running = true;
    c->rounds = MODES.first_runs;
    if (c->run_us <= 0)
        choice.run = ft_min_u32(choice.run, MODES.run_first);
    return choice;
}

static ft_control_choice first_tree(ft_control *c, const frame *f)
{
    c->depth = ft_min_u32(TREES.first_depth, f->depth);
    c->budget = f->least > c->depth ? f->least : c->depth;
    c->running = false;
    return tree_choice(c, (tree){.budget = c->budget, .depth = c->depth});
}

ft_control_choice ft_control_choose(ft_control *c, const ft_control_room *room)
{
    frame f = frame_of(c, room);
    if (f.depth ==
        0) /* a text's last token, or no room for the draft now: says nothing of what pays */
        return run_choice(c);
    if (c->verify.n == 0 && !c->opts.no_runs && !hopeful(c, &f))
        return first_run(c);
    if (c->draft.n == 0 || c->verify.n == 0)
        return first_tree(c, &f);
    if (c->opts.depth_rule == FT_DEPTH_PIPELINE || (c->opts.depth_rule == FT_DEPTH_AUTO && c->busy))
        fix_depth(&f, pipeline_depth(c, f.depth, room->spent_us), max_width(c));
    tree best = next_tree(c, &f);
    c->budget = best.budget;
    c->depth = best.depth;
    if (c->opts.no_runs) {
        best = with_trials(c, &f, best);
        c->rounds++;
        return tree_choice(c, best);
    }
    return c->running ? while_running(c, &f, best) : while_speculating(c, &f, best);
}
