// SPDX-License-Identifier: Apache-2.0
// When a draft is deep enough. What a forward costs is its time, less what of it passes while the
// server would take no tree anyway; what it brings is worth that at the rate of past rounds. Pure;
// the caller owns the state.
#include "spec/stop.h"

#include <math.h>

#include "base/num.h"
#include "spec/tuning.h"

#define TUNE (ft_spec_tune->stop)

static void count(ft_stop_ratio *r, double came, double expected, double fade)
{
    r->came = r->came * fade + came;
    r->expected = r->expected * fade + expected;
}

static double yield_of(const ft_stop *s, uint32_t forwards)
{
    const ft_stop_ratio *y = &s->yield[ft_min_u32(forwards, FT_STOP_LEVELS - 1)];
    return (y->came + TUNE.yield_count * TUNE.yield_prior) / (y->expected + TUNE.yield_count);
}

static double trust(const ft_stop *s)
{
    return (s->trust.came + TUNE.trust_count) / (s->trust.expected + TUNE.trust_count);
}

/* The share of what a forward brings this round that no forward ahead would have brought the next
 * one for nothing: the first ones decide where those ahead begin, the others' leaves are the first
 * that these compute. */
static double share(const ft_stop *s, uint32_t forwards)
{
    return s->ahead ? pow(TUNE.share_ahead, forwards) : 1;
}

double ft_stop_rate(const ft_stop *s)
{
    return s->tokens > TUNE.rounds_min ? s->tokens / s->us : 0;
}

bool ft_stop_enough(const ft_stop *s, const ft_stop_view *v)
{
    if (s->forward_us <= 0 || s->rest_us <= 0)
        return false;
    double spent_us = v->forwards * s->forward_us;
    double cost_us = fmin(s->forward_us, spent_us + s->forward_us - s->free_us);
    if (cost_us <= 0)
        return false;
    double rate = ft_stop_rate(s);
    if (rate == 0)
        rate = v->tokens / (spent_us + s->rest_us);
    double gain = trust(s) * yield_of(s, v->forwards) * v->chance;
    return gain * share(s, v->forwards) < rate * cost_us;
}

void ft_stop_saw_forward(ft_stop *s, const ft_stop_view *before, double tokens)
{
    count(&s->yield[ft_min_u32(before->forwards, FT_STOP_LEVELS - 1)], tokens - before->tokens,
          before->chance, TUNE.fade_forward);
}

void ft_stop_saw_round(ft_stop *s, const ft_stop_round *r)
{
    double us = (double)(r->draft_us + r->wait_us);
    if (us <= 0)
        return;
    if (r->forwards > 0)
        ft_smooth(&s->forward_us, (double)r->draft_us / r->forwards, TUNE.smooth);
    ft_smooth(&s->rest_us, (double)r->wait_us, TUNE.smooth);
    s->tokens = s->tokens * TUNE.fade_round + r->tokens;
    s->us = s->us * TUNE.fade_round + us;
    count(&s->trust, r->tokens - 1., r->expected - 1, TUNE.fade_trust);
}
