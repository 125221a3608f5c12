/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan of batches carried out by events on a virtual clock: two stations, each with a queue. It
 * knows nothing of the recursion (20) to (22), which it checks. Pure; any thread. */
#ifndef FT_SIM_PLAN_EVENTS_H
#define FT_SIM_PLAN_EVENTS_H

#include "plan/plan.h"

/* Microseconds until the last verdict, from the first draft on. Each stage takes a whole number of
 * them. For flows ROUNDS and ROLLING, and tasks that stay. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_sim_plan_us(const ft_plan_problem *problem, const ft_batch_plan *plan,
                                        ft_error *err, int64_t *us);

#endif
