// SPDX-License-Identifier: Apache-2.0
// The marginal value of a draft forward. A forward costs its time, less the part in which the
// server would be busy anyway. Its tokens are worth the time that past rounds took for as many.
// Pure; the caller owns the state.
#include "spec/depth.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "spec/tuning.h"

#define TUNE (ft_spec_tune->depth)

#define LEAST_MOST 0.99 /* what is nearly sure is worth its row, and its forward */

double ft_depth_rate(const ft_depth *d)
{
    return d->us > 0 ? d->tokens / d->us : 0;
}

bool ft_depth_is_sure(const ft_depth *d)
{
    return d->forward_us > 0 && d->tokens >= TUNE.sure_tok;
}

double ft_depth_yield(const ft_depth *d)
{
    return (TUNE.yield * TUNE.yield_count + d->passed) / (TUNE.yield_count + d->reached);
}

/* Whether one more forward costs more than it brings. */
static bool costs_more(const ft_depth *d, uint32_t forwards, double worth)
{
    const double rate = ft_depth_rate(d);
    if (d->forward_us <= 0 || rate == 0)
        return false;
    const double end_us = (forwards + 1) * d->forward_us;
    const double cost_us = fmax(fmin(d->forward_us, end_us - d->free_us), 0);
    return ft_depth_yield(d) * worth * (1 - d->left) < rate * cost_us;
}

bool ft_depth_enough(const ft_depth *d, uint32_t forwards, double worth)
{
    return d->steady > 0 ? forwards >= d->steady : costs_more(d, forwards, worth);
}

double ft_depth_left(const ft_depth *d, double early_us)
{
    return fmin(fmax((1 - ft_depth_yield(d)) * ft_depth_rate(d) * early_us, 0), LEAST_MOST);
}

uint32_t ft_depth_steady(const ft_depth *d)
{
    uint32_t k = 1;
    while (k < FT_DEPTH_LEVELS && d->drafts[k] > 0 && !costs_more(d, k, d->worth[k] / d->drafts[k]))
        k++;
    return k;
}

void ft_depth_saw_worth(ft_depth *d, uint32_t forwards, double worth)
{
    if (forwards >= FT_DEPTH_LEVELS)
        return;
    d->worth[forwards] = d->worth[forwards] * TUNE.fade + worth;
    d->drafts[forwards] = d->drafts[forwards] * TUNE.fade + 1;
}

double ft_depth_least_chance(const ft_depth *d, double row_us, double price)
{
    return price + (1 - price) * fmin(ft_depth_rate(d) * row_us, LEAST_MOST);
}

double ft_depth_promised_tok(const ft_depth_promise *p)
{
    const double promised = p->tokens_per_s * p->round_us / 1e6;
    const double wanted = TUNE.spare * promised + p->lacks_tok / TUNE.catch_up;
    return p->round_us > 0 ? fmax(wanted, fmax(promised, 1)) : 0;
}

double ft_depth_surplus_chance(double least)
{
    return fmin(TUNE.surplus * least, LEAST_MOST);
}

void ft_depth_saw_round(ft_depth *d, const ft_depth_round *r)
{
    const double us = (double)(r->draft_us + r->wait_us);
    if (us <= 0)
        return;
    if (r->forwards > 0)
        ft_smooth(&d->forward_us, (double)r->draft_us / r->forwards, ft_spec_tune->times.smooth);
    ft_smooth(&d->round_us, us, ft_spec_tune->times.smooth);
    d->tokens = d->tokens * TUNE.fade + r->tokens;
    d->us = d->us * TUNE.fade + us;
    d->reached = d->reached * TUNE.fade + ft_min_u32(r->tokens, r->levels);
    d->passed = d->passed * TUNE.fade + ft_min_u32(r->tokens - (r->tokens > 0), r->levels);
}

void ft_depth_keep(const ft_depth *d, double out[FT_DEPTH_KEPT])
{
    const double numbers[FT_DEPTH_KEPT] = {d->forward_us, d->tokens, d->us, d->reached, d->passed};
    memcpy(out, numbers, sizeof numbers);
}

bool ft_depth_take_up(ft_depth *d, const double in[FT_DEPTH_KEPT])
{
    const double kept = ft_spec_tune->tries.kept;
    for (int i = 0; i < FT_DEPTH_KEPT; i++)
        if (!(in[i] >= 0 && in[i] <= 1e12)) /* a NaN neither */
            return false;
    *d = (ft_depth){.forward_us = in[0],
                    .tokens = kept * in[1],
                    .us = kept * in[2],
                    .reached = kept * in[3],
                    .passed = kept * in[4]};
    return true;
}
