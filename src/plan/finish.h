/* SPDX-License-Identifier: Apache-2.0
 *
 * From a split to a plan that callers read. Inside the room. */
#ifndef FT_PLAN_FINISH_H
#define FT_PLAN_FINISH_H

#include "plan/split.h"

/* uniform: each task gets the same share of the uplink, instead of (27). FT_NOMEM: *out is
 * all-zero. */
FT_WARN_UNUSED ft_status ft_plan_finish(ft_plan_cost *c, const ft_plan_split *s, bool uniform,
                                        ft_error *err, ft_batch_plan *out);

#endif
