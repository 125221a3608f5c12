/* SPDX-License-Identifier: Apache-2.0
 *
 * Algorithms over all lengths of a problem that is known to be good. Inside the room. */
#ifndef FT_PLAN_BEST_H
#define FT_PLAN_BEST_H

#include "plan/search.h"

/* Tries each length; *s is the best split. s->inf_s is INFINITY if there is none. FT_NOMEM,
 * FT_CANCELLED. */
FT_WARN_UNUSED ft_status ft_plan_search(ft_plan_cost *c, ft_plan_algorithm algorithm,
                                        const ft_plan_watch *watch, ft_error *err,
                                        ft_plan_split *s);

#endif
