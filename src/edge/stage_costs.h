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
    /* Measured microseconds in which the station reads a token of an input; 0: not measured, and
     * made of the factors. */
    double draft_read_us, verify_read_us;
    double read; /* of the inputs' tokens, the share that both stations have read already; 0 to 1 */
} ft_stage_costs;

/* An ft_plan_times_fn; ctx: an ft_stage_costs. */
void ft_stage_costs_times(const void *ctx, const ft_plan_shape *batch, uint32_t length,
                          double tokens, ft_plan_time *draft, ft_plan_time *verify);

#endif
