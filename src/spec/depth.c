// SPDX-License-Identifier: Apache-2.0
// The marginal value of a draft forward. A forward costs its time, less the part in which the
// server would be busy anyway. Its tokens are worth the time that past rounds took for as many.
// Pure; the caller owns the state.
#include "spec/depth.h"

#include <math.h>

#include "base/num.h"
#include "spec/tuning.h"

#define TUNE (ft_spec_tune->depth)

static void count(ft_depth_ratio *r, double came, double expected, double fade)
{
    r->came = r->came * fade + came;
    r->expected = r->expected * fade + expected;
}

static double yield_of(const ft_depth *d, uint32_t forwards)
{
    const ft_depth_ratio *y = &d->yield[ft_min_u32(forwards, FT_DEPTH_FORWARDS - 1)];
    return (y->came + TUNE.yield_count * TUNE.yield_prior) / (y->expected + TUNE.yield_count);
}

static double trust(const ft_depth *d)
{
    return (d->trust.came + TUNE.trust_count) / (d->trust.expected + TUNE.trust_count);
}

/* The share of a forward's gain that proactive drafting would not have brought for nothing. Later
 * forwards compute the leaves that proactive drafting begins with, so most of their gain comes
 * anyway. */
static double share(const ft_depth *d, uint32_t forwards)
{
    return d->proactive ? pow(TUNE.share_proactive, forwards) : 1;
}

double ft_depth_rate(const ft_depth *d)
{
    return d->tokens > TUNE.rounds_min ? d->tokens / d->us : 0;
}

bool ft_depth_enough(const ft_depth *d, const ft_depth_view *v)
{
    if (d->forward_us <= 0 || d->rest_us <= 0)
        return false;
    double spent_us = v->forwards * d->forward_us;
    double cost_us = fmin(d->forward_us, spent_us + d->forward_us - d->free_us);
    if (cost_us <= 0)
        return false;
    double rate = ft_depth_rate(d);
    if (rate == 0)
        rate = v->tokens / (spent_us + d->rest_us);
    double gain = trust(d) * yield_of(d, v->forwards) * v->chance;
    return gain * share(d, v->forwards) < rate * cost_us;
}

void ft_depth_saw_forward(ft_depth *d, const ft_depth_view *before, double tokens)
{
    count(&d->yield[ft_min_u32(before->forwards, FT_DEPTH_FORWARDS - 1)], tokens - before->tokens,
          before->chance, TUNE.fade_forward);
}

void ft_depth_saw_round(ft_depth *d, const ft_depth_round *r)
{
    double us = (double)(r->draft_us + r->wait_us);
    if (us <= 0)
        return;
    if (r->forwards > 0)
        ft_smooth(&d->forward_us, (double)r->draft_us / r->forwards, TUNE.smooth);
    ft_smooth(&d->rest_us, (double)r->wait_us, TUNE.smooth);
    d->tokens = d->tokens * TUNE.fade_round + r->tokens;
    d->us = d->us * TUNE.fade_round + us;
    count(&d->trust, r->tokens - 1., r->expected - 1, TUNE.fade_trust);
}
