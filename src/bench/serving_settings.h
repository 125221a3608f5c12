/* SPDX-License-Identifier: Apache-2.0
 *
 * What a serving comparison varies, and the settings that follow: every combination of the lists.
 * All settings are measured in the same rounds. Pure. */
#ifndef FT_BENCH_SERVING_SETTINGS_H
#define FT_BENCH_SERVING_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "bench/bench.h"

#define FT_BENCH_SERVING_SETTINGS_MAX 48
#define FT_BENCH_SERVING_TIMES_MAX    16
#define FT_BENCH_SERVING_DEPTH_MAX    64 /* draft forwards */

typedef enum ft_bench_shape {
    FT_BENCH_SHAPE_TREE,
    FT_BENCH_SHAPE_CHAIN,
    FT_BENCH_SHAPES
} ft_bench_shape;
extern const char *const ft_bench_shape_name[]; /* ends with NULL */

/* The lists; none is empty. */
typedef struct ft_bench_serving_sweep {
    ft_bench_list batch;                         /* sessions at a time */
    ft_bench_list depth;                         /* draft forwards on edges */
    double draft_ms[FT_BENCH_SERVING_TIMES_MAX]; /* of a device's forward; 0: by ratio */
    uint32_t n_draft_ms;
    bool shape[FT_BENCH_SHAPES];
} ft_bench_serving_sweep;

typedef struct ft_bench_serving_setting {
    uint32_t batch;
    uint32_t depth;  /* draft forwards of a device's draft at most */
    bool fixed;      /* edge+pipeline drafts exactly so many; else as FT_DEPTH_PIPELINE chooses */
    double draft_ms; /* 0: by ratio */
    ft_bench_shape shape;
    uint32_t leader; /* the first setting in which servers that are not verifiers do the same */
} ft_bench_serving_setting;

/* Writes the settings, the first of each list first. Several depths give one setting more, the
 * first, in which edge+pipeline chooses among them. FT_INVALID: they are too many. */
FT_WARN_UNUSED ft_status
ft_bench_serving_settings(const ft_bench_serving_sweep *sweep, ft_error *err,
                          ft_bench_serving_setting out[FT_BENCH_SERVING_SETTINGS_MAX], uint32_t *n);

/* The largest batch; and the least number that the sessions of every setting, and twice as many,
 * divide. */
uint32_t ft_bench_serving_most_batch(const ft_bench_serving_sweep *sweep);
uint32_t ft_bench_serving_multiple(const ft_bench_serving_sweep *sweep);

#endif
