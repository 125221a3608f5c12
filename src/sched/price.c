// SPDX-License-Identifier: Apache-2.0
// A row more makes the pass longer by what a row costs. The other texts lose the tokens that they
// get in such a time. A pass of one row a text brings each text a token; drafts bring more.
//
// That counts all tokens alike. But what is promised is a speed for each text. This is a problem
// with a constraint for each text. Its Lagrangian counts each token of a text 1 plus the text's
// multiplier (Boyd and Vandenberghe, Convex Optimization, 5.1). A multiplier grows while its
// constraint is violated. Here it is in proportion to the tokens that the text lacks. Texts that
// lack none then draft less, and passes get shorter. Another rule is ours, and not of the
// Lagrangian: a token of a text with a lead on its promise counts less than 1, as it has time to
// spare. Both rules must be weak: large and small trees in turn bring fewer tokens than middle ones
// with as many rows. Pure, no state.
#include "sched/price.h"

#include <math.h>

#include "base/num.h"
#include "sched/tuning.h"

#define TUNE (ft_sched_tune->price)

#define PRICE_MOST  0.99 /* no drafted token is worth more than that */
#define WEIGHT_MOST 10.0 /* a text that cannot be saved does not keep all others from drafting */

void ft_price_saw(ft_price_speed *speed, uint64_t tokens, int64_t now_us)
{
    const double us = (double)(now_us - speed->at_us), kept = exp(-us / 1e6 / TUNE.speed_s);
    const double more = (double)(tokens - speed->tokens);
    if (us <= 0)
        return;
    if (speed->at_us > 0)
        speed->tok_per_us = kept * speed->tok_per_us + (1 - kept) * more / us;
    speed->tokens = tokens;
    speed->at_us = now_us;
}

double ft_price_row(const ft_cost *cost, const ft_pass *plain, uint32_t n,
                    const ft_price_speed *speed)
{
    int64_t pass_us = ft_cost_predict(cost, plain);
    if (n < 2 || pass_us <= 0)
        return 0;
    const double tok_per_us = fmax(n / (double)pass_us, speed->tok_per_us);
    double price = ft_cost_added_us(cost, plain) / n * tok_per_us * (n - 1) / n;
    return fmin(price, 1);
}

static double bounded(double weight)
{
    return ft_clamp(weight, 1 / WEIGHT_MOST, WEIGHT_MOST);
}

double ft_price_weight(double lacks_tok)
{
    return bounded(lacks_tok > 0 ? 1 + TUNE.press * lacks_tok : 1 / (1 - TUNE.ease * lacks_tok));
}

double ft_price_for(double price, double weight, double others)
{
    return fmin(price * bounded(others) / weight, PRICE_MOST);
}

uint32_t ft_price_token_us(const ft_cost *cost, const ft_pass *pass, const ft_pass *part,
                           uint32_t n_past)
{
    const ft_pass with = ft_pass_plus(ft_pass_minus(*pass, *part), n_past, 1, 1);
    int64_t us = ft_cost_predict(cost, &with);
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}
