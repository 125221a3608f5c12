// SPDX-License-Identifier: Apache-2.0
// Tenants' shares of recent service: rows of passes, older ones counting less. Pure, no state.
#include "sched/fair.h"

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->fair)

double ft_fair_faded(double rows)
{
    return rows * TUNE.fade;
}

double ft_fair_share(double rows, double all_rows)
{
    double share = all_rows > 0 ? rows / all_rows : 0;
    return share < 1 ? share : 1;
}
