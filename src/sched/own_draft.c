// SPDX-License-Identifier: Apache-2.0
// Drafting pays if a tree's tokens cost less time than as many plain passes (SpecEdge 5):
//
//     T_draft + T_tree < tokens * T_plain
//
// If the pass also serves sessions without trees, drafting delays them. Then it pays if all tokens
// of the pass together come faster. The tokens of a tree and T_draft are measured only while the
// server drafts. So while drafting does not pay by the estimates, a draft is tried now and then.
//
// A drafted node is worth its row if it raises the tokens per time of the whole pass. The nodes of
// all sessions compete by their chances. A level of the draft is worth its forward by the same
// measure. The caller owns the state.
#include "sched/own_draft.h"

#include <math.h>

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->own)

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
    if (own->n_verdicts < TUNE.trusted_verdicts || own->n_drafts[c] < TUNE.trusted_drafts ||
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
    own->on = drafted * (before ? 1 - TUNE.gain : 1 + TUNE.gain) < plain;
    if (own->on)
        own->token_us = drafted * (load->others + load->sessions * own->tokens) / own->tokens;
    own->since = own->on == before ? own->since + 1 : 0;
    if (own->on) {
        own->probing = false;
        own->wait = TUNE.wait_first;
        return true;
    }
    if (own->wait == 0)
        own->wait = TUNE.wait_first;
    if (!own->probing && own->since >= own->wait) {
        own->probing = true; /* until it has come to a draft: texts may have to be read first */
        own->since = 0;
        own->wait = own->wait * 2 < TUNE.wait_most ? own->wait * 2 : TUNE.wait_most;
    }
    return own->probing;
}

void ft_own_draft_saw_pass(ft_own_draft *own, uint32_t sessions, bool trees, int64_t expected_us,
                           int64_t us)
{
    uint32_t c = class_of(sessions);
    if (expected_us <= 0 || us <= 0)
        return;
    double off = fmin(fmax((double)us / (double)expected_us, 1.0 / TUNE.off_most), TUNE.off_most);
    own->off[trees][c] =
        smooth(own->off[trees][c], off, own->n_passes[trees][c]++, TUNE.draft_rate);
}

void ft_own_draft_saw_draft(ft_own_draft *own, uint32_t sessions, int64_t us)
{
    uint32_t c = class_of(sessions);
    own->draft_us[c] = smooth(own->draft_us[c], (double)us, own->n_drafts[c]++, TUNE.draft_rate);
    own->probing = false;
}

void ft_own_draft_saw_verdict(ft_own_draft *own, uint32_t tokens, double expected)
{
    own->tokens = smooth(own->tokens, tokens, own->n_verdicts++, TUNE.verdict_rate);
    own->came += tokens - 1.0 - TUNE.verdict_rate * own->came;
    own->expected += expected - TUNE.verdict_rate * own->expected;
}

/* ---- how much ---- */

void ft_own_draft_size(const ft_own_draft *own, uint32_t *budget, uint32_t *depth)
{
    double nodes = TUNE.spare_ratio * own->nodes + TUNE.spare_nodes;
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

/* Drops the last level if its nodes bring fewer tokens per time than the whole pass does. Adds a
 * level if that is expected to bring more; the expectation falls from level to level as it did at
 * the last one. */
static void choose_depth(ft_own_draft *own, const ft_own_pass *pass, double rate, double row_us)
{
    uint32_t last = own->depth - 1;
    double n = pass->sessions;
    double level_us = (double)pass->draft_us / own->depth;
    double gain = n * own->level[last], fall = 1;
    if (last > 0 && own->level[last - 1] > 0)
        fall = fmin(own->level[last] / own->level[last - 1], 1);
    if (last > 0 && gain < rate * (level_us + n * row_us) * (1 - TUNE.level_gain))
        own->depth--;
    else if (own->depth < pass->depth_most && own->depth < FT_OWN_LEVELS &&
             gain * fall > rate * (level_us + n * row_us) * (1 + TUNE.level_gain))
        own->level[own->depth++] = own->level[last] * fall;
}

uint32_t ft_own_draft_keep(ft_own_draft *own, const ft_own_node *nodes, uint32_t n,
                           const ft_own_pass *pass)
{
    double trust = (own->came + TUNE.prior_nodes) / (own->expected + TUNE.prior_nodes);
    double tokens = pass->others + pass->sessions, best_rate = 0, level[FT_OWN_LEVELS] = {0};
    uint32_t keep = n;
    if (own->n_verdicts < TUNE.trusted_verdicts || time_us(own, pass, 0) <= (double)pass->draft_us)
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
        own->level[l] += (first ? 1 : TUNE.draft_rate) * (level[l] - own->level[l]);
    own->nodes += (first ? 1 : TUNE.draft_rate) * ((double)keep / pass->sessions - own->nodes);
    choose_depth(own, pass, best_rate, (time_us(own, pass, 9) - time_us(own, pass, 1)) / 8);
    return keep;
}

uint32_t ft_own_draft_nodes(const ft_own_draft *own, uint32_t budget)
{
    return own->depth > 0 && own->nodes < budget ? (uint32_t)(own->nodes + 0.5) : budget;
}

double ft_own_draft_edge_tok(uint64_t accepted, uint64_t rounds)
{
    return rounds > 0 ? 1 + (double)accepted / (double)rounds : 1;
}

/* ---- reading prompts ---- */

uint32_t ft_own_read_tok(const ft_mean *tok_us, int64_t budget_us, bool prompts, uint32_t most)
{
    if (budget_us == 0)
        return most;
    if (prompts)
        budget_us = (budget_us + TUNE.read_part - 1) / TUNE.read_part;
    double n = tok_us->known ? (double)budget_us / tok_us->value : 0;
    return n < FT_OWN_READ_MIN ? FT_OWN_READ_MIN : n < most ? (uint32_t)n : most;
}

void ft_own_read_saw(ft_mean *tok_us, uint32_t n, int64_t us)
{
    if (n < FT_OWN_READ_MIN || us <= 0)
        return;
    ft_mean_saw(tok_us, (double)us / n, TUNE.read_rate);
}
