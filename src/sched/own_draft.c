// SPDX-License-Identifier: Apache-2.0
// Drafting pays if a tree's tokens cost less time than as many plain passes (SpecEdge 5):
//
//     T_draft + T_tree < tokens * T_plain
//
// If the pass also serves sessions without trees, drafting delays them. Then it pays if all tokens
// of the pass together come faster. The tokens of a tree and T_draft are measured only while the
// server drafts. So while drafting does not pay by the estimates, it is tried now and then: the old
// verdicts are forgotten, and drafting goes on until new ones decide. What a try costs by the
// estimates says how many plain tokens must come before it.
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

/* A prediction of a pass as such passes have proved to be lately. */
static double corrected(const ft_own_draft *own, bool trees, int64_t us)
{
    return (double)us * (own->off[trees].known ? own->off[trees].value : 1);
}

/* What a token of the pass takes with drafts and without. False: not known. */
static bool token_times(const ft_own_draft *own, const ft_own_load *load, double *drafted,
                        double *plain)
{
    const ft_mean *draft_us = &own->draft_us[class_of(load->sessions)];
    if (own->n_verdicts < TUNE.verdicts || !draft_us->known || load->plain_us <= 0 ||
        load->tree_us <= 0)
        return false;
    *drafted = (draft_us->value + corrected(own, true, load->tree_us)) /
               (load->others + load->sessions * own->tokens);
    *plain = corrected(own, false, load->plain_us) / (load->others + load->sessions);
    return true;
}

bool ft_own_draft_choose(ft_own_draft *own, const ft_own_load *load)
{
    double drafted, plain;
    own->token_us = load->plain_us > 0 ? (double)load->plain_us : 0;
    if (!token_times(own, load, &drafted, &plain))
        return true;
    own->on = drafted < plain;
    if (own->on) {
        own->token_us = drafted * (load->others + load->sessions * own->tokens) / own->tokens;
        own->since = 0;
        return true;
    }
    own->since += load->sessions;
    if (own->since * TUNE.try_share < TUNE.verdicts * (drafted / plain - 1))
        return false;
    own->n_verdicts = 0; /* a try */
    own->since = 0;
    return true;
}

void ft_own_draft_saw_pass(ft_own_draft *own, bool trees, int64_t expected_us, int64_t us)
{
    if (expected_us > 0 && us > 0)
        ft_mean_saw(&own->off[trees], fmin((double)us / (double)expected_us, TUNE.off_most),
                    TUNE.time_rate);
}

void ft_own_draft_saw_draft(ft_own_draft *own, uint32_t sessions, int64_t us)
{
    ft_mean_saw(&own->draft_us[class_of(sessions)], (double)us, TUNE.time_rate);
}

/* The mean since drafting was last tried; old verdicts fade. */
void ft_own_draft_saw_verdict(ft_own_draft *own, uint32_t tokens)
{
    own->n_verdicts += own->n_verdicts < TUNE.verdicts;
    own->tokens += (tokens - own->tokens) / own->n_verdicts;
}

/* ---- how much ---- */

void ft_own_draft_size(const ft_own_draft *own, uint32_t *budget, uint32_t *depth)
{
    double nodes = own->nodes + TUNE.spare_nodes;
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
    return (double)pass->draft_us + corrected(own, n > 0, ft_cost_predict(pass->cost, &with));
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
    if (last > 0 && gain < rate * (level_us + n * row_us))
        own->depth--;
    else if (own->depth < pass->depth_most && own->depth < FT_OWN_LEVELS &&
             gain * fall > rate * (level_us + n * row_us))
        own->level[own->depth++] = own->level[last] * fall;
}

uint32_t ft_own_draft_keep(ft_own_draft *own, const ft_own_node *nodes, uint32_t n,
                           const ft_own_pass *pass)
{
    double tokens = pass->others + pass->sessions, best_rate = 0, level[FT_OWN_LEVELS] = {0};
    uint32_t keep = n;
    if (time_us(own, pass, 0) <= (double)pass->draft_us)
        return n; /* too little is known */
    for (uint32_t i = 0; i <= n; i++) {
        double rate = tokens / time_us(own, pass, i);
        if (rate > best_rate) {
            best_rate = rate;
            keep = i;
        }
        tokens += i < n ? (double)nodes[i].p : 0;
    }
    bool first = own->depth == 0;
    if (first)
        own->depth = pass->depth_most < FT_OWN_LEVELS ? pass->depth_most : FT_OWN_LEVELS;
    for (uint32_t i = 0; i < keep; i++)
        if (nodes[i].level < FT_OWN_LEVELS)
            level[nodes[i].level] += (double)nodes[i].p / pass->sessions;
    for (uint32_t l = 0; l < own->depth; l++)
        own->level[l] += (first ? 1 : TUNE.time_rate) * (level[l] - own->level[l]);
    own->nodes += (first ? 1 : TUNE.time_rate) * ((double)keep / pass->sessions - own->nodes);
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

uint32_t ft_own_read_tok(const ft_mean *tok_us, int64_t budget_us, uint32_t most)
{
    if (budget_us == 0)
        return most;
    double n = tok_us->known ? (double)budget_us / tok_us->value : 0;
    return n < FT_OWN_READ_MIN ? FT_OWN_READ_MIN : n < most ? (uint32_t)n : most;
}

void ft_own_read_saw(ft_mean *tok_us, uint32_t n, int64_t us)
{
    if (n < FT_OWN_READ_MIN || us <= 0)
        return;
    ft_mean_saw(tok_us, (double)us / n, TUNE.time_rate);
}
