/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands beside a measured capacity: the bound of this run's own times (capacity_bound.h), and
 * the paper's numbers. No state. */
#ifndef FT_BENCH_CAPACITY_BESIDE_H
#define FT_BENCH_CAPACITY_BESIDE_H

#include "bench/capacity_bound.h"
#include "bench/capacity_report.h"

/* Counts a probe's passes and drafts. */
void ft_capacity_beside_saw(ft_bench_capacity_report *report, ft_bench_capacity_way way,
                            const ft_bench_capacity_probe *probe);
/* By all probes. False: too little was seen. */
bool ft_capacity_beside_times(const ft_bench_capacity_report *report, ft_capacity_times *out);
/* Of a class, or of mixed classes, as in report->found. */
ft_capacity_bound ft_capacity_beside_bound(const ft_bench_capacity_report *report,
                                           const ft_capacity_times *times, uint32_t class);

/* Sets the bounds of knee: devices that any way can hold at most. */
void ft_capacity_beside_knee(const ft_bench_capacity_report *report, ft_knee *knee);

/* WISP over another way in the paper: devices of a class (table 2, Qwen3-32B on an A100) and, of
 * mixed classes, tokens a second (table 3). 0: it has no such number. */
double ft_capacity_beside_paper(const ft_bench_capacity_report *report, ft_bench_capacity_way other,
                                uint32_t class);

/* Adds "ratio_bound", if there is one, and "paper" to the object. */
void ft_capacity_beside_json(const ft_bench_capacity_report *report, json_t *out);
/* The same for a person, in the columns of ft_bench_capacity_report_print, if it has the ways. */
void ft_capacity_beside_print(const ft_bench_capacity_report *report, FILE *out);

#endif
