// SPDX-License-Identifier: Apache-2.0
// budget.h: a throttle, which lets a tenant waste so much a second.
#include "constrain/budget.h"

#include <stdio.h>

void ft_budget_init(ft_budget *budget)
{
    budget->waste = (ft_throttle){.interval_us = FT_BUDGET_PART,
                                  .burst = FT_BUDGET_AT_ONCE_US,
                                  .most_us = (int64_t)FT_BUDGET_MOST_US * FT_BUDGET_PART};
}

static ft_client_id client_of(const char *tenant)
{
    ft_client_id client = {0};
    snprintf(client.address, sizeof client.address, "%s", tenant);
    return client;
}

void ft_budget_count(ft_budget *budget, const char *tenant, int64_t used_us, bool refused,
                     int64_t now_us)
{
    const ft_client_id client = client_of(tenant);
    const int64_t wasted_us = used_us - (refused ? 0 : FT_BUDGET_COMPILE_US);
    if (wasted_us > 0)
        (void)ft_throttle_take_many(&budget->waste, &client, (uint32_t)wasted_us, now_us);
}

bool ft_budget_wasted(ft_budget *budget, const char *tenant, int64_t now_us)
{
    const ft_client_id client = client_of(tenant);
    return ft_throttle_ahead_us(&budget->waste, &client, now_us) > 0;
}

int64_t ft_budget_owes_us(ft_budget *budget, const char *tenant, int64_t now_us)
{
    const ft_client_id client = client_of(tenant);
    return ft_throttle_take_many(&budget->waste, &client, 0, now_us);
}
