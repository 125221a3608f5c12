/* SPDX-License-Identifier: Apache-2.0
 *
 * What a serving comparison does before it measures: the texts that the target makes, and the
 * draft model's forwards, which devices replay. For serving.c; one thread. */
#ifndef FT_BENCH_SERVING_RECORD_H
#define FT_BENCH_SERVING_RECORD_H

#include "bench/serving_parts.h"

/* Writes all texts by the server alone; this also fills its prefix cache. FT_CANCELLED; errors of
 * server and edges. */
FT_WARN_UNUSED ft_status ft_serving_learn(ft_serving *x, ft_error *err);
/* Records the drafts that the modes will ask for, and measures how long the server takes to verify
 * a batch: T_verify of a ratio. The same errors. */
FT_WARN_UNUSED ft_status ft_serving_record(ft_serving *x, ft_error *err);

#endif
