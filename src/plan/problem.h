/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a problem can be planned at all. Inside the room. */
#ifndef FT_PLAN_PROBLEM_H
#define FT_PLAN_PROBLEM_H

#include "plan/plan.h"

/* FT_INVALID as ft_batch_plan_make. */
FT_WARN_UNUSED ft_status ft_plan_check(const ft_plan_problem *p, ft_error *err);

#endif
