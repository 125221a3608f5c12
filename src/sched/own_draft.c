// SPDX-License-Identifier: Apache-2.0
// Drafting pays where a tree's tokens cost less than as many plain passes:
//
//     T_draft + T_tree < tokens * T_plain
//
// and where the pass also serves sessions that are not drafted for, whom drafting delays, where all tokens
// of the pass together come faster: the bound of SpecEdge 5 read the other way round. Tokens a tree and T_draft are known only while the
// server drafts, T_plain only while it does not; so what loses by the estimates is tried now and then.
//
// Of what was drafted, a node is worth its row where it raises tokens per time: the best of all sessions'
// nodes by their chances, so that the rows go where they bring most. A level of the draft is worth its
// forward by the same measure. No state but the caller's.
#include "sched/own_draft.h"

#include <math.h>

/* Before that many measurements an estimate decides nothing: the first ones have cold caches and
 * graphs to build. */
#define TRUSTED_DRAFTS   3
#define TRUSTED_VERDICTS 8

/* Of smoothing. Times follow the machine's load, the last 10 or so count. Tokens of a tree scatter as
 * widely as their mean: 100 are needed to tell 10 % of a difference from chance. */
#define DRAFT_RATE   0.1
#define VERDICT_RATE 0.01

/* A pass that took so many times longer or shorter than expected was another program's doing. */
#define OFF_MOST 3

/* To change what is done takes a gain of this much, so that two ways that are alike don't alternate. */
#define GAIN 0.03

/* Choices until a draft is tried against the estimates; each one that fails doubles the wait. A probe
 * costs a few plain passes, so that at the last wait it is less than 1 % of the time. */
#define WAIT_FIRST 16
#define WAIT_MOST  1024

/* While drafting pays, one pass of so many is plain, so that the cost model has seen such passes: 0.4 %
 * of the passes for at most all of what drafting gains. */
#define PLAIN_EVERY 256

static uint32_t class_of(uint32_t sessions)
{
    uint32_t c = 0;
    while (sessions > 1 && c < FT_OWN_CLASSES - 1) {
        sessions /= 2;
        c++;
    }
    return c;
}

/* The mean of the first ones, then follows at `rate`. */
static double smooth(double old, double value, uint32_t n_before, double rate)
{
    double share = 1.0 / (n_before + 1.0);
    return old + (share > rate ? share : rate) * (value - old);
}

/* A prediction of a pass of that kind as such passes have proved to be. */
static double corrected(const ft_own_draft *own, uint32_t c, bool trees, int64_t us)
{
    return (double)us * (own->n_passes[trees][c] > 0 ? own->off[trees][c] : 1);
}

/* What a token of the pass takes with drafts and without. False: not known. */
static bool token_times(const ft_own_draft *own, const ft_own_load *load, double *drafted,
                        double *plain)
{
    uint32_t c = class_of(load->sessions);
    if (own->n_verdicts < TRUSTED_VERDICTS || own->n_drafts[c] < TRUSTED_DRAFTS ||
        load->plain_us <= 0 || load->tree_us <= 0)
        return false;
    *drafted = (own->draft_us[c] + corrected(own, c, true, load->tree_us)) /
               (load->others + load->sessions * own->tokens);
    *plain = corrected(own, c, false, load->plain_us) / (load->others + load->sessions);
    return true;
}

bool ft_own_draft_choose(ft_own_draft *own, const ft_own_load *load)
{
    double drafted, plain;
    own->token_us = load->plain_us > 0 ? (double)load->plain_us : 0;
    if (!token_times(own, load, &drafted, &plain))
        return true;
    bool before = own->on;
    own->on = drafted * (before ? 1 - GAIN : 1 + GAIN) < plain;
    if (own->on)
        own->token_us = drafted * (load->others + load->sessions * own->tokens) / own->tokens;
    own->since = own->on == before ? own->since + 1 : 0;
    if (own->on) {
        own->probing = false;
        own->wait = WAIT_FIRST;
        if (own->since < PLAIN_EVERY)
            return true;
        own->since = 0;
        return false;
    }
    if (own->wait == 0)
        own->wait = WAIT_FIRST;
    if (!own->probing && own->since >= own->wait) {
        own->probing = true; /* until it has come to a draft: texts may have to be read first */
        own->since = 0;
        own->wait = own->wait * 2 < WAIT_MOST ? own->wait * 2 : WAIT_MOST;
    }
    return own->probing;
}

void ft_own_draft_saw_pass(ft_own_draft *own, uint32_t sessions, bool trees, int64_t expected_us,
                           int64_t us)
{
    uint32_t c = class_of(sessions);
    if (expected_us <= 0 || us <= 0)
        return;
    double off = fmin(fmax((double)us / (double)expected_us, 1.0 / OFF_MOST), OFF_MOST);
    own->off[trees][c] = smooth(own->off[trees][c], off, own->n_passes[trees][c]++, DRAFT_RATE);
}

void ft_own_draft_saw_draft(ft_own_draft *own, uint32_t sessions, int64_t us)
{
    uint32_t c = class_of(sessions);
    own->draft_us[c] = smooth(own->draft_us[c], (double)us, own->n_drafts[c]++, DRAFT_RATE);
    own->probing = false;
}

void ft_own_draft_saw_verdict(ft_own_draft *own, uint32_t tokens, double expected)
{
    own->tokens = smooth(own->tokens, tokens, own->n_verdicts++, VERDICT_RATE);
    own->came += tokens - 1.0 - VERDICT_RATE * own->came;
    own->expected += expected - VERDICT_RATE * own->expected;
}

/* ---- how much ---- */

/* Nodes asked for beyond those that were kept lately, so that better times are seen. */
#define SPARE_NODES 2
#define SPARE_RATIO 2

/* A level more or less takes a gain of that much. */
#define LEVEL_GAIN 0.1

/* Nodes that are believed accepted and rejected before any was seen: how far the drafter's chances are
 * believed. */
#define PRIOR_NODES 8

void ft_own_draft_size(const ft_own_draft *own, uint32_t *budget, uint32_t *depth)
{
    double nodes = SPARE_RATIO * own->nodes + SPARE_NODES;
    if (own->depth == 0)
        return;
    if (nodes < *budget)
        *budget = (uint32_t)ceil(nodes);
    if (own->depth < *depth)
        *depth = own->depth;
}

static double time_us(const ft_own_draft *own, const ft_own_pass *pass, uint32_t n)
{
    const ft_pass nodes = {
        .rows = n, .out = (uint32_t)(n * pass->out + 0.5), .ctx = (uint64_t)n * pass->n_past};
    ft_pass with = ft_pass_sum(pass->without, nodes);
    return (double)pass->draft_us +
           corrected(own, class_of(pass->sessions), n > 0, ft_cost_predict(pass->cost, &with));
}

/* The last level goes if its nodes bring fewer tokens in its time than all do; one more is drafted if
 * it brings more, falling off as the last one did from the one before. */
static void choose_depth(ft_own_draft *own, const ft_own_pass *pass, double rate, double row_us)
{
    uint32_t last = own->depth - 1;
    double n = pass->sessions;
    double level_us = (double)pass->draft_us / own->depth;
    double gain = n * own->level[last], fall = 1;
    if (last > 0 && own->level[last - 1] > 0)
        fall = fmin(own->level[last] / own->level[last - 1], 1);
    if (last > 0 && gain < rate * (level_us + n * row_us) * (1 - LEVEL_GAIN))
        own->depth--;
    else if (own->depth < pass->depth_most && own->depth < FT_OWN_LEVELS &&
             gain * fall > rate * (level_us + n * row_us) * (1 + LEVEL_GAIN))
        own->level[own->depth++] = own->level[last] * fall;
}

uint32_t ft_own_draft_keep(ft_own_draft *own, const ft_own_node *nodes, uint32_t n,
                           const ft_own_pass *pass)
{
    double trust = (own->came + PRIOR_NODES) / (own->expected + PRIOR_NODES);
    double tokens = pass->others + pass->sessions, best_rate = 0, level[FT_OWN_LEVELS] = {0};
    uint32_t keep = n;
    if (own->n_verdicts < TRUSTED_VERDICTS || time_us(own, pass, 0) <= (double)pass->draft_us)
        return n; /* too little is known */
    for (uint32_t i = 0; i <= n; i++) {
        double rate = tokens / time_us(own, pass, i);
        if (rate > best_rate) {
            best_rate = rate;
            keep = i;
        }
        tokens += i < n ? trust * (double)nodes[i].p : 0;
    }
    bool first = own->depth == 0;
    if (first)
        own->depth = pass->depth_most < FT_OWN_LEVELS ? pass->depth_most : FT_OWN_LEVELS;
    for (uint32_t i = 0; i < keep; i++)
        if (nodes[i].level < FT_OWN_LEVELS)
            level[nodes[i].level] += trust * (double)nodes[i].p / pass->sessions;
    for (uint32_t l = 0; l < own->depth; l++)
        own->level[l] += (first ? 1 : DRAFT_RATE) * (level[l] - own->level[l]);
    own->nodes += (first ? 1 : DRAFT_RATE) * ((double)keep / pass->sessions - own->nodes);
    choose_depth(own, pass, best_rate, (time_us(own, pass, 9) - time_us(own, pass, 1)) / 8);
    return keep;
}
