/* SPDX-License-Identifier: Apache-2.0
 *
 * The paper's times of stages: operations of a forward pass, eq. (11) to (14), and from them
 * seconds, eq. (17) to (19). All inputs of a batch count as long as the longest. Pure; any
 * thread. */
#ifndef FT_PLAN_RUNTIME_H
#define FT_PLAN_RUNTIME_H

#include "plan/plan.h"

/* A decoder, and how fast a machine computes it. */
typedef struct ft_plan_model {
    uint32_t layers;    /* J */
    double hidden, ffn; /* h_1, h_2 */
    double c1, c2;      /* eq. (17): seconds an operation, and a pass */
} ft_plan_model;

typedef struct ft_plan_pair {
    ft_plan_model draft, verify;
} ft_plan_pair;

/* Operations of a pass over `rows` tokens of a text behind `past` others: 4 J h1 rows (2 h1 + past
 * + rows + h2). Eq. (11): past = 0. Eq. (12): rows = 1. Both cases of (13) and of (14), too. */
double ft_plan_operations(const ft_plan_model *m, double rows, double past);
/* Eq. (17). */
double ft_plan_pass_s(const ft_plan_model *m, double operations, uint32_t tasks);

/* Eq. (18) and (19) as an ft_plan_times_fn; ctx: an ft_plan_pair. */
void ft_plan_pair_times(const void *ctx, const ft_plan_shape *batch, uint32_t length, double tokens,
                        ft_plan_time *draft, ft_plan_time *verify);

#endif
