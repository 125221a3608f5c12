/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of users as section IV of Zhu et al. draws them, and how long each scheme takes to serve
 * one. Nothing is measured: the planner's own functions (plan/) say it. Pure, but for `stop`: the
 * same options give the same result on every machine. */
#ifndef FT_SIM_ZHU_H
#define FT_SIM_ZHU_H

#include "plan/baselines.h"
#include "sim/zhu_config.h"

/* The paper's scheme, its benchmarks in the order of ft_plan_baseline, and the same algorithm with
 * lengths from 0. */
#define FT_ZHU_PLANNED         0
#define FT_ZHU_BASELINE(which) (1 + (which))
#define FT_ZHU_FROM_0          (1 + FT_PLAN_BASELINES)
#define FT_ZHU_SCHEMES         (2 + FT_PLAN_BASELINES)
const char *ft_zhu_scheme_name(uint32_t scheme);

/* How two facts are read that the paper does not fix. */
typedef struct ft_zhu_reading {
    double g0;
    bool own_outputs;
} ft_zhu_reading;

/* What a point of a figure sets. */
typedef struct ft_zhu_point {
    uint32_t pair, tasks, in_most, out_most;
    uint32_t length_least; /* 1: (24f) */
    double acceptance, bandwidth_mhz;
    ft_zhu_reading reading;
} ft_zhu_point;
/* The setting's. */
ft_zhu_point ft_zhu_point_of(const ft_zhu_config *c, uint32_t pair);

/* One cell by all schemes that are wanted. */
typedef struct ft_zhu_cell {
    double total_s[FT_ZHU_SCHEMES]; /* NAN: not wanted, or the scheme has no plan */
    double inf_s[FT_ZHU_SCHEMES];
    uint32_t length[FT_ZHU_SCHEMES];
    uint32_t batches[FT_ZHU_SCHEMES];
} ft_zhu_cell;

/* wanted: a bit for each scheme; PLANNED is always made. FT_INVALID: the setting's tasks do not fit
 * in its memory; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_zhu_cell_run(const ft_zhu_config *c, const ft_zhu_point *point,
                                         uint64_t seed, uint32_t wanted, ft_error *err,
                                         ft_zhu_cell *out);

/* Median, 10 % and 90 % of n numbers, which it sorts; those that are NAN do not count. */
typedef struct ft_zhu_range {
    double median, low, high; /* NAN: no numbers */
} ft_zhu_range;
ft_zhu_range ft_zhu_range_of(double *values, uint32_t n);

#endif
