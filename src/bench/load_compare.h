/* SPDX-License-Identifier: Apache-2.0
 *
 * What the modes of a report are worth beside each other. For load_report.c. */
#ifndef FT_BENCH_LOAD_COMPARE_H
#define FT_BENCH_LOAD_COMPARE_H

#include <jansson.h>

#include "bench/load_cells.h"

/* Adds the comparisons to the object, as docs/BENCHMARKS.md names them. */
void ft_bench_load_compare(const ft_bench_load_report *report, json_t *out);

/* The median of a[i] / b[i]: of two cells' values, a round each. n <= FT_BENCH_ROUNDS_MAX. */
double ft_bench_load_median_ratio(const double *a, const double *b, uint32_t n);

#endif
