/* SPDX-License-Identifier: Apache-2.0
 *
 * The best plan of a small problem by trying all, to check the algorithms with. It computes T_inf
 * by eq. (20) to (22) round by round, and not as the algorithms do. Where tasks leave or rounds
 * have no barrier, it goes through each plan by ft_plan_walk. Pure; any thread. */
#ifndef FT_PLAN_EXHAUSTIVE_H
#define FT_PLAN_EXHAUSTIVE_H

#include "plan/plan.h"

#define FT_PLAN_EXHAUSTIVE_MAX 10 /* tasks */

typedef enum ft_plan_space {
    FT_PLAN_CONTIGUOUS, /* batches that are contiguous in input length, in this order */
    FT_PLAN_ALL_ORDERS  /* all partitions into batches, and all their orders */
} ft_plan_space;

/* The least T_inf of all lengths; INFINITY: nothing fits. FT_INVALID: too many tasks; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_plan_exhaustive(const ft_plan_problem *p, ft_plan_space space,
                                            ft_error *err, double *inf_s);

#endif
