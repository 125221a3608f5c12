// SPDX-License-Identifier: Apache-2.0
// A row more makes the pass longer by what a row costs. The other texts lose the tokens that they
// get in such a time. A pass of one row a text brings each text a token; drafts bring more.
// Pure, no state.
#include "sched/price.h"

#include <math.h>

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->price)

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

uint32_t ft_price_token_us(const ft_cost *cost, const ft_pass *pass, const ft_pass *part,
                           uint32_t n_past)
{
    const ft_pass with = ft_pass_plus(ft_pass_minus(*pass, *part), n_past, 1, 1);
    int64_t us = ft_cost_predict(cost, &with);
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}
