/* SPDX-License-Identifier: Apache-2.0
 *
 * The times at which the batches so far have left both stages, as functions of the round: Cd_n and
 * C_n of eq. (20). Between a few bends both are lines, because a stage's time is affine in the
 * round. So a batch is added in some tens of steps, however many rounds there are. Owned by one
 * thread. Inside the room. */
#ifndef FT_PLAN_CURVE_H
#define FT_PLAN_CURVE_H

#include "plan/pipeline.h"

/* From round `from` to the next bend: Cd_n = draft[0] + draft[1] n, C_n = all[0] + all[1] n. */
typedef struct ft_plan_bend {
    uint32_t from;
    double draft[2], all[2];
} ft_plan_bend;

typedef struct ft_plan_curve {
    ft_plan_bend *bends; /* [n], the first from round 1 */
    uint32_t n, cap;
    uint32_t rounds; /* up to here */
} ft_plan_curve;

/* Both functions are 0 in all rounds. False: out of memory. The curve may have been used before;
 * all-zero is legal, too. */
bool ft_plan_curve_clear(ft_plan_curve *c, uint32_t rounds);
/* All-zero is legal. */
void ft_plan_curve_deinit(ft_plan_curve *c);

/* `before` with one more batch, eq. (20), (31), (32); out is another curve, which may have been
 * used before. False: out of memory. */
bool ft_plan_curve_add(const ft_plan_curve *before, const ft_plan_lane *batch, ft_plan_curve *out);
/* The sum over all rounds of C_n with one more batch: eq. (22), (29). */
double ft_plan_curve_sum_with(const ft_plan_curve *before, const ft_plan_lane *batch);
/* The same of the curve itself. */
double ft_plan_curve_sum(const ft_plan_curve *c);
/* Whether neither stage ends later in any round than by `other`. */
bool ft_plan_curve_dominates(const ft_plan_curve *c, const ft_plan_curve *other);

#endif
