// SPDX-License-Identifier: Apache-2.0
// When a draft is deep enough. What a forward costs is its time, less what of it passes while the
// server would take no tree anyway; what it brings is worth that at the rate of past rounds. Pure; the
// caller owns the state.
#include "spec/stop.h"

#include <math.h>

#include "base/num.h"

#define FADE_ROUND   0.97  /* about 30 rounds are remembered... */
#define FADE_FORWARD 0.995 /* ...and 200 forwards of a level */
#define FADE_TRUST   0.99
#define YIELD_PRIOR  0.6 /* of the leaves' chance, unless measured... */
#define YIELD_COUNT  2.  /* ...which weighs so much chance */
#define TRUST_COUNT  8.
#define ROUNDS_MIN   3.  /* tokens of rounds, before which their rate says nothing */
#define SMOOTH       0.3 /* of a new sample in times */

/* Between the two best of the values tried (0.5, 0.7, 1) on pairs of devices and networks. */
#define SHARE_AHEAD 0.65

static void count(ft_stop_ratio *r, double came, double expected, double fade)
{
    r->came = r->came * fade + came;
    r->expected = r->expected * fade + expected;
}

static double yield_of(const ft_stop *s, uint32_t forwards)
{
    const ft_stop_ratio *y = &s->yield[ft_min_u32(forwards, FT_STOP_LEVELS - 1)];
    return (y->came + YIELD_COUNT * YIELD_PRIOR) / (y->expected + YIELD_COUNT);
}

static double trust(const ft_stop *s)
{
    return (s->trust.came + TRUST_COUNT) / (s->trust.expected + TRUST_COUNT);
}

/* The share of what a forward brings this round that no forward ahead would have brought the next one
 * for nothing: the first ones decide where those ahead begin, the others' leaves are the first that these
 * compute. */
static double share(const ft_stop *s, uint32_t forwards)
{
    return s->ahead ? pow(SHARE_AHEAD, forwards) : 1;
}

double ft_stop_rate(const ft_stop *s)
{
    return s->tokens > ROUNDS_MIN ? s->tokens / s->us : 0;
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
          before->chance, FADE_FORWARD);
}

void ft_stop_saw_round(ft_stop *s, const ft_stop_round *r)
{
    double us = (double)(r->draft_us + r->wait_us);
    if (us <= 0)
        return;
    if (r->forwards > 0)
        ft_smooth(&s->forward_us, (double)r->draft_us / r->forwards, SMOOTH);
    ft_smooth(&s->rest_us, (double)r->wait_us, SMOOTH);
    s->tokens = s->tokens * FADE_ROUND + r->tokens;
    s->us = s->us * FADE_ROUND + us;
    count(&s->trust, r->tokens - 1., r->expected - 1, FADE_TRUST);
}
