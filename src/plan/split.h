/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan while it is searched: tasks by batch, and what T_inf they give. One thread owns a cost and
 * its splits. Inside the room. */
#ifndef FT_PLAN_SPLIT_H
#define FT_PLAN_SPLIT_H

#include "plan/curve.h"

typedef struct ft_plan_split {
    uint32_t length;
    uint32_t n_batches;
    uint32_t *order; /* [n] numbers of tasks, batch by batch; within a batch by rising out_tok */
    uint32_t *sizes; /* [n_batches]; room for n */
    double inf_s;    /* INFINITY: no plan */
} ft_plan_split;

/* FT_NOMEM: *s is all-zero. Otherwise the caller owes a deinit. */
FT_WARN_UNUSED ft_status ft_plan_split_init(ft_plan_split *s, uint32_t n, ft_error *err);
/* All-zero is legal. */
void ft_plan_split_deinit(ft_plan_split *s);
/* n: tasks of both. */
void ft_plan_split_copy(ft_plan_split *to, const ft_plan_split *from, uint32_t n);

/* With one more task. */
void ft_plan_shape_add(ft_plan_shape *shape, const ft_plan_task *t);
/* Of a list of tasks. kv_sum (may be NULL): tokens of all inputs and outputs. */
ft_plan_shape ft_plan_shape_of(const ft_plan_problem *p, const uint32_t *tasks, uint32_t n,
                               uint64_t *kv_sum);
/* Sorts a batch's tasks by rising out_tok. */
void ft_plan_list_sort(const ft_plan_problem *p, uint32_t *tasks, uint32_t n);
/* The batch of some tasks, which are sorted so if tasks leave. Writes 1 to n pieces. */
ft_plan_lane ft_plan_lane_make(const ft_plan_problem *p, uint32_t length, const uint32_t *tasks,
                               uint32_t n, ft_plan_piece *pieces);
/* The same for a shape none of whose tasks leaves; one piece. */
ft_plan_lane ft_plan_lane_of(const ft_plan_problem *p, uint32_t length, const ft_plan_shape *shape,
                             ft_plan_piece *piece);

/* What computing T_inf of many splits needs. */
typedef struct ft_plan_cost {
    const ft_plan_problem *p;
    ft_plan_piece
        *pieces;         /* [n] of the split's batches: those of a batch are where its tasks are */
    ft_plan_lane *lanes; /* [n] */
    ft_plan_place *places; /* [n] */
    ft_plan_curve curve[2];
    uint64_t steps; /* about how much has been computed: batches and bends, or batches and rounds */
    bool no_memory; /* a curve could not grow: what was computed since is wrong */
} ft_plan_cost;

/* FT_NOMEM: *c is all-zero. Otherwise the caller owes a deinit. */
FT_WARN_UNUSED ft_status ft_plan_cost_init(ft_plan_cost *c, const ft_plan_problem *p,
                                           ft_error *err);
/* All-zero is legal. */
void ft_plan_cost_deinit(ft_plan_cost *c);
/* T_inf of batches in their order. */
double ft_plan_cost_lanes(ft_plan_cost *c, const ft_plan_lane *lanes, uint32_t n);
/* Makes c->lanes of a split, and sets its inf_s. Sorts each batch's tasks. */
void ft_plan_cost_split(ft_plan_cost *c, ft_plan_split *s);

#endif
