// SPDX-License-Identifier: Apache-2.0
// Each pass of one row a text brings each text a token. A row more makes it longer by what a row
// costs, so that each of the n - 1 others is behind by that share of a token. Pure, no state.
#include "sched/price.h"

double ft_price_row(const ft_cost *cost, const ft_pass *plain, uint32_t n)
{
    int64_t pass_us = ft_cost_predict(cost, plain);
    if (n < 2 || pass_us <= 0)
        return 0;
    double price = ft_cost_added_us(cost, plain) / n * (n - 1) / (double)pass_us;
    return price < 1 ? price : 1;
}

uint32_t ft_price_token_us(const ft_cost *cost, const ft_pass *pass, const ft_pass *part,
                           uint32_t n_past)
{
    const ft_pass with = ft_pass_plus(ft_pass_minus(*pass, *part), n_past, 1, 1);
    int64_t us = ft_cost_predict(cost, &with);
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}
