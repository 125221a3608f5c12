/* SPDX-License-Identifier: Apache-2.0
 *
 * What the paper compares its plans with (section IV). Batches that are not planned are made in
 * order of arrival. Pure; any thread. */
#ifndef FT_PLAN_BASELINES_H
#define FT_PLAN_BASELINES_H

#include "plan/plan.h"

#define FT_PLAN_FIXED_TOK 7 /* of baseline fixed-length (section IV-A) */

/* X(NAME, "name in reports") */
#define FT_PLAN_BASELINE_LIST(X)                                                               \
    X(NO_PIPELINE, "no-pipeline")       /* the plan's batches, one stage at a time */          \
    X(NO_BATCHING, "no-batching")       /* each task is a batch */                             \
    X(FIXED_LENGTH, "fixed-length")     /* planned batches, 7 tokens drafted a round */        \
    X(AUTOREGRESSIVE, "autoregressive") /* the verify station alone, heuristic batches */      \
    X(STATIC, "static")                 /* batches of a small fixed size */                    \
    X(MAXIMUM, "maximum")               /* as many tasks as memory holds if all are longest */ \
    X(HEURISTIC, "heuristic")           /* batches of 2, 3, ... tasks, until latency rises */  \
    X(UNIFORM, "uniform-bandwidth")     /* the plan, the same share of the uplink for all */
typedef enum ft_plan_baseline {
#define X(id, name) FT_PLAN_##id,
    FT_PLAN_BASELINE_LIST(X)
#undef X
        FT_PLAN_BASELINES
} ft_plan_baseline;
extern const char *const ft_plan_baseline_name[FT_PLAN_BASELINES];

typedef struct ft_plan_baseline_opts {
    const ft_batch_plan *plan;   /* of the same problem, by `algorithm` */
    ft_plan_algorithm algorithm; /* for FIXED_LENGTH */
    uint32_t static_size;        /* tasks of a batch of STATIC, fewer where memory holds fewer */
} ft_plan_baseline_opts;

/* Makes the baseline's plan. As ft_batch_plan_make; FT_INVALID also if a batch or a length that it
 * wants does not fit. */
FT_WARN_UNUSED ft_status ft_plan_baseline_make(const ft_plan_problem *p, ft_plan_baseline which,
                                               const ft_plan_baseline_opts *opts, ft_error *err,
                                               ft_batch_plan *out);

#endif
