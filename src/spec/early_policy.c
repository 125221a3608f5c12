// SPDX-License-Identifier: Apache-2.0
// When an early draft is worth its nodes; spec/early_policy.h has the rule. Pure. Knows neither
// trees (spec/growth.c picks the nodes) nor the wire.
#include "spec/early_policy.h"

#include "spec/tuning.h"

#define TUNE (ft_spec_tune->early)

double ft_early_saved_us(const ft_early_policy *policy, double rtt_us, double others_us)
{
    return rtt_us + policy->draft_us.value - others_us;
}

ft_early_decision ft_early_decide(const ft_early_policy *policy, const ft_early_view *view,
                                  ft_early_bounds *bounds)
{
    if (!policy->draft_us.known)
        return FT_EARLY_WAIT;
    const double left_us = view->answer_us - view->sent_ago_us; /* until it would be late */
    const double saved_us = ft_early_saved_us(policy, view->rtt_us, view->others_us);
    if (view->more && left_us - TUNE.margin * view->answer_us > view->forward_us)
        return FT_EARLY_WAIT;
    if (left_us < 0 || saved_us <= 0)
        return FT_EARLY_NEVER;
    bounds->budget = (uint32_t)(TUNE.share_nodes * view->budget);
    bounds->spare_tok = view->tokens_per_us * saved_us - policy->tokens.value;
    return FT_EARLY_SEND;
}

bool ft_early_worth(double gain_tok)
{
    return gain_tok > 0 && gain_tok >= TUNE.gain_min; /* 0: there are no nodes to send */
}

void ft_early_saw_draft(ft_early_policy *policy, double us, double tokens)
{
    ft_mean_saw(&policy->draft_us, us, TUNE.smooth);
    ft_mean_saw(&policy->tokens, tokens, TUNE.smooth);
}
