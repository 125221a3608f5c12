/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a policy takes to choose the next pass. Called by one thread. */
#ifndef FT_BENCH_SCHEDULE_H
#define FT_BENCH_SCHEDULE_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_bench_schedule_opts {
    int64_t pending; /* work that waits */
    int64_t rows;    /* of a pass at most */
    int64_t queues;  /* decisions of each policy */
    int64_t seed;
    const char *costs; /* a file of fit verify-time; NULL: typical ones */
} ft_bench_schedule_opts;

/* {pending, queues, rows, policies: {NAME: {mean_us, median_us, p99_us, worst_us, picked}}}.
 * FT_NOMEM and the file's errors leave *report NULL. */
FT_WARN_UNUSED ft_status ft_bench_schedule(const ft_bench_schedule_opts *opts, ft_error *err,
                                           json_t **report);

#endif
