/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory budget as a model is loaded: the plan is made when the file is checked and nothing is
 * allocated.
 */
#ifndef FT_MODEL_MEMORY_CHOOSE_H
#define FT_MODEL_MEMORY_CHOOSE_H

#include "model/memory_plan.h"
#include "model/model.h"

typedef struct ft_memory_budget {
    ft_memory_ask ask;   /* all but the weights, which ft_memory_choose fills in */
    ft_memory_plan plan; /* out; least_bytes also if the budget is too small */
} ft_memory_budget;

/* For ft_model_opts.stream; stream_ctx: an ft_memory_budget. Errors of ft_memory_plan_make;
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_memory_choose(void *stream_ctx, const ft_model *model, ft_error *err,
                                          ft_stream_choice *out);

#endif
