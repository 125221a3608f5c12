/* SPDX-License-Identifier: Apache-2.0
 *
 * Who gets which share of the uplink. Pure; any thread. */
#ifndef FT_PLAN_BANDWIDTH_H
#define FT_PLAN_BANDWIDTH_H

#include "plan/plan.h"

/* Seconds from the start until the last input is there (16), if each task has share[k] all the
 * time. */
double ft_plan_com_s(const ft_plan_task *tasks, uint32_t n, const double *share);
/* The shares with which this is soonest, and when it is: all uploads end together. Eq. (26), (27)
 * where all tasks are released together, otherwise by Newton's method. */
double ft_plan_bandwidth(const ft_plan_task *tasks, uint32_t n, double *share);

#endif
