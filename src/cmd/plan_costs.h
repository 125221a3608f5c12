/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of a plan's stages from measured costs (files of `foretoken fit verify-time`) instead of
 * the paper's (17): inputs are not padded. Pure; any thread. */
#ifndef FT_CMD_PLAN_COSTS_H
#define FT_CMD_PLAN_COSTS_H

#include "plan/runtime.h"
#include "sched/cost_file.h"

typedef struct ft_plan_costs {
    const ft_costs *draft, *verify; /* NULL: the paper's times of this station, from `pair` */
    ft_plan_pair pair;
} ft_plan_costs;

/* An ft_plan_times_fn; ctx: an ft_plan_costs. */
void ft_plan_costs_times(const void *ctx, const ft_plan_shape *batch, uint32_t length,
                         double tokens, ft_plan_time *draft, ft_plan_time *verify);

#endif
