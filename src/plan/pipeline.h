/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on their way through both stages: how long each takes, and when each round ends, eq. (18)
 * to (22). Pure; any thread. */
#ifndef FT_PLAN_PIPELINE_H
#define FT_PLAN_PIPELINE_H

#include "plan/plan.h"

/* Times of a batch up to a round. Where tasks leave, a batch has several pieces. */
typedef struct ft_plan_piece {
    uint32_t until; /* the last round of the piece */
    ft_plan_time draft, verify;
} ft_plan_piece;

/* A batch in the pipeline. It takes no time behind its last piece. */
typedef struct ft_plan_lane {
    const ft_plan_piece *pieces; /* [n] by rising `until`; borrowed */
    uint32_t n;
    double delay_s; /* from a round's verdicts to the next draft (ft_plan_problem.delay_s) */
} ft_plan_lane;

/* Seconds of a stage in a round. */
double ft_plan_time_at(const ft_plan_time *t, uint32_t round);
/* Rounds of a batch. */
uint32_t ft_plan_lane_rounds(const ft_plan_lane *lane);
/* Seconds of all rounds of a batch, by stage. */
void ft_plan_lane_s(const ft_plan_lane *lane, double *draft_s, double *verify_s);

/* What a walk keeps of a batch. */
typedef struct ft_plan_place {
    uint32_t piece;
    double ready_s; /* ROLLING: when its next draft may begin */
} ft_plan_place;

/* Goes through all rounds, one after another, and returns T_inf (22). Calls `see` (NULL: none) for
 * each batch of each round, in this order. places: room for n. */
double ft_plan_walk(ft_plan_flow flow, const ft_plan_lane *lanes, uint32_t n, ft_plan_place *places,
                    ft_plan_see *see, void *ctx);

#endif
