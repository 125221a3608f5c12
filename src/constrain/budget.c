// SPDX-License-Identifier: Apache-2.0
// budget.h: one time for each tenant.
#include "constrain/budget.h"

#include <string.h>

#include "base/secret.h"

#define ALL_US ((int64_t)FT_BUDGET_AT_ONCE_US * FT_BUDGET_PART)

static size_t slot_of(const char *tenant)
{
    return ft_fnv64(FT_FNV64_INIT, tenant, strlen(tenant)) % FT_BUDGET_SLOTS;
}

void ft_budget_count(ft_budget *budget, const char *tenant, int64_t used_us, bool refused,
                     int64_t now_us)
{
    int64_t *due_us = &budget->due_us[slot_of(tenant)];
    const int64_t wasted_us = used_us - (refused ? 0 : FT_BUDGET_COMPILE_US);
    const int64_t most_us = now_us + ALL_US + (int64_t)FT_BUDGET_MOST_US * FT_BUDGET_PART;
    if (*due_us < now_us)
        *due_us = now_us;
    if (wasted_us > 0)
        *due_us += wasted_us * FT_BUDGET_PART;
    if (*due_us > most_us)
        *due_us = most_us;
}

bool ft_budget_wasted(const ft_budget *budget, const char *tenant, int64_t now_us)
{
    return budget->due_us[slot_of(tenant)] > now_us;
}

int64_t ft_budget_owes_us(const ft_budget *budget, const char *tenant, int64_t now_us)
{
    const int64_t us = budget->due_us[slot_of(tenant)] - now_us - ALL_US;
    return us > 0 ? us : 0;
}
