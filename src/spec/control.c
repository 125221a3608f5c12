// SPDX-License-Identifier: Apache-2.0
// When and how much to speculate.
//
// The controller compares time per token: of each tree (draft + network + queue + verification over
// the tokens that it should bring) and of a run, in which the server decodes by itself and the
// network is paid once. A token counts less by what its rows cost others. The best choice wins.
// Where a run would be slower than promised, a tree is taken if it may be faster. control_model.c
// has what trees take and bring.
//
// What is not chosen is not measured. So, now and then:
//   - during trees a run is asked for, which tells what a token of it takes;
//   - during runs a tree is drafted and not sent (a shadow), which tells the acceptance;
//   - during runs a tree is sent (a probe), which tells what nodes cost.
// What that may lose is a share of the time.
//
// A young session begins with a short run. It costs nothing over plain decoding, and tells the
// network time and what a token takes. A tree is tried only if it could pay by these and by the
// time of the draft model's warm-up. The first tree is short. If the target is in this process, its
// own warm-up says what passes take, and the first choice is made by that. A session that was
// promised a speed begins with a tree if the server says that runs are slower. It tries some more
// trees before it believes that they are slower still. If the server says only that rows have a
// price, the session begins with a run.
//
// Pure; the caller owns the state. A choice takes some microseconds.
#include "spec/control.h"

#include <math.h>

#include "base/num.h"
#include "spec/control_model.h"
#include "spec/tuning.h"

/* Tuning constants, spec/tuning.h. */
#define TREES (ft_spec_tune->trees)
#define MODES (ft_spec_tune->modes)
#define TRIES (ft_spec_tune->tries)

/* A run is left for a tree that looks so many times better. The margin is for what is not known. A
 * part of it falls with the root of the time in which all was learnt, as a mean's error does. What
 * another process has learnt is believed until this one has measured something. */
static double enter(const ft_control *c)
{
    if (c->past_us <= 0)
        return 1;
    const double unknown = MODES.enter_tok * ft_control_token_us(c) / fmax(c->past_us, 1);
    return 1 + (MODES.enter - 1) * ft_clamp(sqrt(unknown), MODES.enter_least, 1);
}

/* ---- trees ---- */

typedef struct tree {
    uint32_t budget, depth;
    double token_us;
} tree;

/* By what trees are judged. */
typedef struct frame {
    uint32_t nodes, depth; /* at most */
    uint32_t fixed_depth;  /* 0: the depth is free */
    double miss;           /* chance that a level with one node is missed */
} frame;

/* A tree's tokens less what its rows cost others, in tokens of runs. Each of these has a row
 * too. */
static double worth(const ft_control *c, double tokens, double budget)
{
    return (tokens - c->price * (1 + budget)) / (1 - c->price);
}

/* A tree by the model of acceptance. */
static tree judged(const ft_control *c, const frame *f, uint32_t budget, uint32_t depth)
{
    double tokens = worth(c, ft_control_tokens_of(f->miss, budget, depth), budget);
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

/* SpecEdge 4.3 for the present budget. If it is known for how long the server is busy with others:
 * what can be drafted until then, of which spent_us is over. */
static uint32_t pipeline_depth(const ft_control *c, uint32_t max, int64_t spent_us)
{
    const double forward_us = ft_control_forward_us(c), until_us = ft_control_busy_us(c);
    if (until_us > 0 && spent_us > 0 && forward_us > 0)
        return (uint32_t)ft_clamp(floor((until_us - (double)spent_us) / forward_us), 1,
                                  max ? max : 1);
    return ft_control_pipeline_depth(ft_control_line_at(&c->verify, c->budget), c->rtt_us,
                                     forward_us, max);
}

static bool server_waits(const ft_control *c)
{
    const double busy_us = fmax(ft_control_line_at(&c->verify, c->budget), ft_control_busy_us(c));
    return TREES.pipeline_slack * busy_us - c->rtt_us < ft_control_forward_us(c);
}

uint32_t ft_control_depth_at(ft_control *c, uint32_t budget, uint32_t max, int64_t spent_us)
{
    c->budget = budget;
    const bool known = c->verify.n > 0 && c->draft.n > 0;
    c->depth = known ? pipeline_depth(c, max, spent_us) : max;
    c->waits = known && server_waits(c);
    return c->depth;
}

/* The tree with the least time a token. Budgets are powers of two, and the most. */
static tree best_tree(const ft_control *c, const frame *f)
{
    tree best = {1, 1, INFINITY};
    for (uint32_t budget = 1; budget <= f->nodes;
         budget = budget < f->nodes ? ft_min_u32(2 * budget, f->nodes) : budget + 1)
        for (uint32_t d = 1; d <= f->depth && d <= budget; d++) {
            const uint32_t depth = f->fixed_depth ? ft_min_u32(f->fixed_depth, budget) : d;
            if (budget <= (uint64_t)c->opts.max_width * depth) {
                tree t = judged(c, f, budget, depth);
                best = t.token_us < best.token_us ? t : best;
            }
            if (f->fixed_depth)
                break;
        }
    return best;
}

/* ---- trees or runs ---- */

/* The time a token of trees like the last ones, by what they brought. */
static double recent_us(const ft_control *c)
{
    const double nodes = c->trees.nodes / c->trees.n, levels = c->trees.levels / c->trees.n;
    const double tokens = worth(c, 1 + c->trees.path / c->trees.n, nodes);
    return tokens > 0 ? ft_control_cycle_us(c, nodes, levels) / tokens : INFINITY;
}

static ft_control_choice tree_choice(ft_control *c, tree t)
{
    return (ft_control_choice){.speculate = true, .budget = t.budget, .depth = t.depth};
}

static ft_control_choice run_choice(ft_control *c)
{
    double token_us = ft_control_token_us(c);
    double run = token_us > 0 ? ceil(MODES.run_rtts * c->rtt_us / token_us) : 0;
    if (c->opts.max_budget == 0) /* There will be no trees. A server that drafts by itself loses
                                    what its last tree held beyond the end of a run. */
        run = MODES.run_max;
    return (ft_control_choice){.run = (uint32_t)ft_clamp(run, MODES.run_min, MODES.run_max)};
}

/* A run, with a shadow if time allows one and trees would pay if all of them were accepted. */
static ft_control_choice run_with_shadow(ft_control *c, const frame *f)
{
    ft_control_choice choice = run_choice(c);
    frame all = *f;
    all.miss = 0;
    if (c->shadow_us > 0 || best_tree(c, &all).token_us * enter(c) >= ft_control_token_us(c))
        return choice;
    choice.shadow = true;
    choice.depth = ft_min_u32(TRIES.shadow_depth, f->depth);
    choice.budget = ft_min_u32(choice.depth * (c->budget / c->depth), f->nodes);
    return choice;
}

/* The best tree if a verification without nodes takes what a token of a run does, and nodes cost
 * nothing, or (sloped) what then follows from the rounds seen. False: even then it would not
 * pay. */
static bool pays_if(const ft_control *c, const frame *f, bool sloped, tree *out)
{
    ft_control guess = *c;
    ft_control_line *v = &guess.verify;
    double token_us = ft_control_token_us(c),
           bare_us = fmin(token_us / ft_control_slower(c), ft_control_line_at(v, 0));
    if (v->n == 0)
        bare_us = token_us;
    v->slope = sloped ? fmax(v->y - bare_us, 0) / fmax(v->x, 1) : 0;
    v->x = 0;
    v->y = bare_us;
    *out = best_tree(&guess, f);
    return out->token_us * enter(c) < token_us;
}

/* What a tree loses by the estimates: its time, less what a run takes for as many tokens. */
static double loss_us(const ft_control *c, double cycle_us, double tokens)
{
    return fmax(cycle_us - tokens * ft_control_token_us(c), 0);
}

/* The loss by such a tree is to be made good before one is tried. */
static void pay(ft_control *c, const frame *f, tree t)
{
    const double tokens = ft_control_tokens_of(f->miss, t.budget, t.depth);
    c->probe_us +=
        loss_us(c, ft_control_cycle_us(c, t.budget, t.depth), worth(c, tokens, t.budget));
}

/* Whether to send a tree against the estimates, and which: they may be wrong. The loss is paid
 * from a share of the time, so what may be won by little is tried seldom, and what costs little
 * often. If nodes were to cost nothing, the largest tree would look best: sizes that were never
 * measured are tried step by step. */
static bool probe_due(ft_control *c, const frame *f, tree *probe)
{
    frame near = *f;
    if (c->probe_us > 0)
        return false;
    c->probe_sloped = !c->probe_sloped;
    if (!c->probe_sloped)
        near.nodes = ft_min_u32(f->nodes, (uint32_t)(TRIES.probe_grow * (c->verify.x + 1)));
    near.depth = ft_min_u32(f->depth, near.nodes);
    if (!pays_if(c, &near, c->probe_sloped, probe))
        return false;
    pay(c, f, *probe);
    return true;
}

/* Whether runs would not keep what was promised. */
static bool runs_too_slow(const ft_control *c, const ft_control_room *room)
{
    return room->promised_us > 0 && ft_control_token_us(c) > MODES.keeps * room->promised_us;
}

/* Where runs are too slow: whether to draft although a run looks better. A tree may keep what was
 * promised, because it brings several tokens at once. What rows cost others does not count. If the
 * run keeps the promise with little to spare, the tree must look as if it kept it, too. */
static bool must_draft(const ft_control *c, const ft_control_room *room, const tree *best)
{
    const double token_us = ft_control_token_us(c), promised_us = room->promised_us;
    const double tokens = ft_control_tokens_of(ft_control_miss(c), best->budget, best->depth);
    const double most_us = token_us > promised_us ? MODES.must * token_us : promised_us;
    return ft_control_cycle_us(c, best->budget, best->depth) < most_us * tokens;
}

/* Where runs are too slow: whether too few trees were seen to believe how slow they look. A try
 * counts whether or not it becomes a tree. */
static bool must_try(ft_control *c)
{
    if (c->trees.n >= MODES.must_trees || c->must_tried >= MODES.must_trees)
        return false;
    c->must_tried++;
    return true;
}

/* The best tree if rows cost others nothing. */
static tree best_if_free(const ft_control *c, const frame *f)
{
    ft_control free_of_price = *c;
    free_of_price.price = 0;
    return best_tree(&free_of_price, f);
}

static ft_control_choice while_running(ft_control *c, const frame *f, tree best)
{
    tree probe;
    if (best.token_us * enter(c) < ft_control_token_us(c)) {
        c->running = false;
        return tree_choice(c, best);
    }
    return probe_due(c, f, &probe) ? tree_choice(c, probe) : run_with_shadow(c, f);
}

/* Trees have got slow. If that may be the load's, a run may be as slow: a short one tells. */
static ft_control_choice while_speculating(ft_control *c, const frame *f, tree best)
{
    const double token_us = ft_control_token_us(c);
    if (best.token_us <= token_us)
        return tree_choice(c, best);
    if (best.token_us <= token_us * ft_control_load(c))
        return (ft_control_choice){.run = MODES.run_tell};
    c->running = true;
    pay(c, f, best);
    return run_with_shadow(c, f);
}

/* Before the first tree: whether one could pay if all of it were accepted (if it costs others: if
 * as much as usual were accepted) and nodes cost nothing. False until a run was measured. */
static bool hopeful(const ft_control *c, const frame *f)
{
    frame all = *f;
    tree best;
    if (c->price == 0)
        all.miss = 0;
    return c->run_us > 0 && pays_if(c, &all, false, &best);
}

/* Before the first tree: whether a run would lose time that the text does not have. While nothing
 * is known, a run may be too slow. But if the server has said that rows have a price, a run is
 * measured first. */
static bool in_a_hurry(const ft_control *c, const ft_control_room *room)
{
    if (ft_control_token_us(c) <= 0)
        return room->promised_us > 0 && c->price == 0;
    return runs_too_slow(c, room);
}

static ft_control_choice first_run(ft_control *c)
{
    ft_control_choice choice = run_choice(c);
    c->running = true;
    if (c->run_us <= 0)
        choice.run = ft_min_u32(choice.run, MODES.run_first);
    return choice;
}

static ft_control_choice first_tree(ft_control *c, const frame *f)
{
    c->depth = c->budget = ft_min_u32(TREES.first_depth, f->depth);
    c->running = false;
    return tree_choice(c, (tree){.budget = c->budget, .depth = c->depth});
}

ft_control_choice ft_control_choose(ft_control *c, const ft_control_room *room)
{
    frame f = {.nodes = ft_min_u32(c->opts.max_budget, room->nodes), .miss = ft_control_miss(c)};
    f.depth = ft_min_u32(ft_min_u32(c->opts.max_depth, room->depth), f.nodes);
    if (f.depth == 0) /* the text's last token, or no draft now: says nothing of what pays */
        return run_choice(c);
    if (c->verify.n == 0 && !in_a_hurry(c, room) && !hopeful(c, &f))
        return first_run(c);
    if (c->draft.n == 0 || c->verify.n == 0)
        return first_tree(c, &f);
    if (c->opts.depth_rule == FT_DEPTH_PIPELINE) {
        c->waits = server_waits(c);
        f.fixed_depth = c->waits ? 0 : pipeline_depth(c, f.depth, room->spent_us);
    }
    tree best = best_tree(c, &f);
    c->budget = best.budget;
    c->depth = best.depth;
    /* The model and the last trees judge apart, and the more hopeful one is believed: if it is
     * wrong, the next trees tell (optimism in the face of uncertainty: Lai and Robbins, 1985). */
    if (f.fixed_depth == 0 && c->trees.n > 0)
        best.token_us = fmin(best.token_us, recent_us(c));
    if (runs_too_slow(c, room)) {
        const tree wanted = isinf(best.token_us) ? best_if_free(c, &f) : best;
        if (must_draft(c, room, &wanted) || must_try(c)) {
            c->running = false;
            return tree_choice(c, wanted);
        }
    }
    return c->running ? while_running(c, &f, best) : while_speculating(c, &f, best);
}

/* ---- trees that cost no time ---- */

double ft_control_least_chance(const ft_control *c)
{
    const double token_us = ft_control_token_us(c);
    const double row_us = ft_control_verify_us(c, 1) - ft_control_verify_us(c, 0);
    const double row = token_us > 0 ? ft_clamp(row_us / token_us, 0, 1) : 0;
    return c->price + (1 - c->price) * row;
}

/* Whether the offer should be taken although it does not pay by the estimates: it would if nodes
 * cost nothing, and the share for losses allows it. */
static bool offer_probes(ft_control *c, const ft_control_offer *o, double tokens)
{
    const double token_us = ft_control_token_us(c);
    if (c->probe_us > 0 || enter(c) * (c->rtt_us + token_us) >= tokens * token_us)
        return false;
    if (o->final)
        c->probe_us += loss_us(c, c->rtt_us + ft_control_verify_us(c, o->nodes), tokens);
    return true;
}

/* A verification with nodes takes no less than a token of a run, whatever the line says far from
 * what was measured. */
ft_control_choice ft_control_take(ft_control *c, const ft_control_offer *o)
{
    const double token_us = ft_control_token_us(c), tokens = worth(c, o->tokens, o->nodes);
    if (c->run_us <= 0 && c->verify.n == 0)
        return first_run(c);
    const double round_us = c->rtt_us + fmax(ft_control_verify_us(c, o->nodes), token_us);
    const bool pays = enter(c) * round_us < tokens * token_us;
    const bool take = o->nodes > 0 && tokens > 0 && (pays || offer_probes(c, o, tokens));
    if (o->final)
        c->running = !take;
    return take ? tree_choice(c, (tree){.budget = o->nodes}) : run_choice(c);
}
