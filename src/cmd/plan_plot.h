/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as a Gantt chart. Main thread only. */
#ifndef FT_CMD_PLAN_PLOT_H
#define FT_CMD_PLAN_PLOT_H

#include "plan/plan.h"

/* Both stations in the first rounds, and batches from the first upload to their ends. As
 * ft_plot_open; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_plan_plot(const ft_plan_problem *problem, const ft_batch_plan *plan,
                                      const char *path, ft_error *err);

#endif
