/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of bench uplink. Pure; any thread. */
#ifndef FT_BENCH_UPLINK_REPORT_H
#define FT_BENCH_UPLINK_REPORT_H

#include <jansson.h>

#include "bench/uplink_sim.h"

/* One of `rows`: what was measured of an edge, beside what was simulated. */
json_t *ft_bench_uplink_row(const ft_bench_uplink_edge *edge, const ft_bench_uplink_total *total,
                            const ft_bench_uplink_simulated *simulated);

/* One of `rates`: what known[n] edges know of an uplink of a constant rate, and their median. */
json_t *ft_bench_uplink_rate(const ft_qsv_link *link, const ft_bench_uplink_known *known,
                             uint32_t n);

/* What was fed to the simulator, of the methods that totals[n] have. */
json_t *ft_bench_uplink_times_json(const ft_bench_uplink_times *times,
                                   const ft_bench_uplink_total *totals, uint32_t n);

/* `claims`, from `rows` and `rates`: name, holds, margin, and the reason where a claim does not
 * hold. A claim of which there is no case is left out. */
json_t *ft_bench_uplink_claims(const json_t *rows, const json_t *rates);

#endif
