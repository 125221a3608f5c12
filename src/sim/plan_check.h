/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the planner on small random problems: against all plans there are, a numeric solver of the
 * bandwidth, and a simulation by events. Pure, except for the watch. */
#ifndef FT_SIM_PLAN_CHECK_H
#define FT_SIM_PLAN_CHECK_H

#include "plan/plan.h"

#define FT_PLAN_CHECK_TASKS      8 /* of an instance at most */
#define FT_PLAN_CHECK_ALL_ORDERS 6 /* up to here also all partitions and orders */
#define FT_PLAN_CHECK_ROLLING    5 /* up to here also those without a barrier */

/* How an algorithm compares with all plans of some kind. */
typedef struct ft_plan_match {
    uint32_t n, equal; /* instances; of these, those at or below the best of the plans */
    double worst_gap;  /* the largest share by which one is above */
} ft_plan_match;

typedef struct ft_plan_check {
    uint32_t instances;
    ft_plan_match contiguous;    /* best, and contiguous batches */
    ft_plan_match paper[2];      /* the same of paper: tasks' own outputs; all outputs the same */
    ft_plan_match all_orders[2]; /* best, and all partitions and orders: as above */
    ft_plan_match rolling;       /* the same without a barrier, tasks leaving their batches */
    uint32_t worse_than_paper;   /* plans of best; this and all below must be 0, or 1e-9 */
    uint32_t too_cheap;          /* plans that cost less than the best there is */
    uint32_t memory_broken;      /* batches that exceed the memory */
    uint32_t pipeline_unequal;   /* plans whose T_inf is not that of the events */
    double bandwidth_error;      /* the largest relative error of a share or of T_com */
} ft_plan_check;

typedef struct ft_plan_check_opts {
    uint32_t instances;
    uint64_t seed;
    ft_plan_watch watch;
} ft_plan_check_opts;

/* FT_NOMEM, FT_CANCELLED. */
FT_WARN_UNUSED ft_status ft_plan_check_run(const ft_plan_check_opts *opts, ft_error *err,
                                           ft_plan_check *out);
/* Whether the planner is right: `best` is at or below the best contiguous plan in 99 of 100
 * instances and never more than 1 % above, and nothing is broken. */
bool ft_plan_check_holds(const ft_plan_check *check);

#endif
