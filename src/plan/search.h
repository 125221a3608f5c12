/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to find a split: Algorithm 1, and what is better. Each works for one length. One thread owns
 * what they are given. Inside the room. */
#ifndef FT_PLAN_SEARCH_H
#define FT_PLAN_SEARCH_H

#include "plan/split.h"

/* The order in which tasks are divided into batches. */
typedef enum ft_plan_sorting {
    FT_PLAN_BY_INPUT,
    FT_PLAN_BY_OUTPUT,
    FT_PLAN_BY_ARRIVAL, /* their numbers */
    FT_PLAN_SORTINGS
} ft_plan_sorting;
/* Rising; equal tasks in the order of their numbers. order: [p->n]. */
void ft_plan_sort(const ft_plan_problem *p, ft_plan_sorting sorting, uint32_t *order);

/* Algorithm 1, put right. s->length is the length, s->inf_s is INFINITY if it finds no plan: it
 * takes all outputs to be as long as the longest. s->inf_s is with the tasks' own outputs.
 * FT_NOMEM, FT_CANCELLED. */
FT_WARN_UNUSED ft_status ft_plan_paper(ft_plan_cost *c, const ft_plan_watch *watch, ft_error *err,
                                       ft_plan_split *s);

/* Divides tasks in this order into batches. Keeps up to `most` pairs of curves of each first tasks
 * that no other pair dominates; if that is enough for all, and tasks stay and rounds have a
 * barrier, no split of this order has a smaller T_inf. As above. */
FT_WARN_UNUSED ft_status ft_plan_labels(ft_plan_cost *c, ft_plan_sorting sorting, uint32_t most,
                                        const ft_plan_watch *watch, ft_error *err,
                                        ft_plan_split *s);

/* Makes a split better: moves tasks and batches, joins and divides batches, until no such change
 * helps, or c->steps has reached `steps`. Never makes it worse. s->inf_s is set already. */
FT_WARN_UNUSED ft_status ft_plan_moves(ft_plan_cost *c, uint64_t steps, const ft_plan_watch *watch,
                                       ft_error *err, ft_plan_split *s);

/* Makes a split better where moves alone do not help any more. As above. */
FT_WARN_UNUSED ft_status ft_plan_kicks(ft_plan_cost *c, uint64_t steps, const ft_plan_watch *watch,
                                       ft_error *err, ft_plan_split *s);

/* FT_CANCELLED if planning is to stop. */
FT_WARN_UNUSED ft_status ft_plan_watch_check(const ft_plan_watch *watch, ft_error *err);

#endif
