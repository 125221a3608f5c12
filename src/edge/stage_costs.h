/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of a plan's stages (plan/plan.h) from measured costs of passes (sched/cost.h) instead of
 * the paper's (17): inputs are not padded. Pure; any thread. */
#ifndef FT_EDGE_STAGE_COSTS_H
#define FT_EDGE_STAGE_COSTS_H

#include "plan/runtime.h"
#include "sched/cost.h"

typedef struct ft_stage_costs {
    /* Microseconds [FT_COST_FACTORS]; NULL: the paper's times of this station, from `pair`. */
    const double *draft, *verify;
    ft_plan_pair pair;
    bool read; /* both stations have read all inputs before the first round */
} ft_stage_costs;

/* An ft_plan_times_fn; ctx: an ft_stage_costs. */
void ft_stage_costs_times(const void *ctx, const ft_plan_shape *batch, uint32_t length,
                          double tokens, ft_plan_time *draft, ft_plan_time *verify);

#endif
