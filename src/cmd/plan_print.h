/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan for people, and its batches as JSON. Stateless. */
#ifndef FT_CMD_PLAN_PRINT_H
#define FT_CMD_PLAN_PRINT_H

#include <jansson.h>

#include "plan/plan.h"

/* What is printed of a plan. The tasks have ids. */
typedef struct ft_plan_view {
    const ft_batch_plan *plan;
    const ft_plan_task *tasks; /* of the plan's problem */
    uint32_t n;
    const char *algorithm;
    bool uplink; /* tasks share one */
} ft_plan_view;

/* {"command", "algorithm", "length", "tokens_per_round", "batches", "t_inf_s", "total_s"}. The
 * caller owns it and may add fields. NULL: no memory. */
json_t *ft_plan_view_json(const ft_plan_view *view, const char *command);
/* Tables of batches and tasks, on standard output. */
void ft_plan_view_print(const ft_plan_view *view);

#endif
