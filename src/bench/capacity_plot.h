/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices held over promised speed, with the bound of this run's own times and the paper's gain
 * beside them. Main thread only. */
#ifndef FT_BENCH_CAPACITY_PLOT_H
#define FT_BENCH_CAPACITY_PLOT_H

#include <stdio.h>

#include "bench/capacity_report.h"

/* Writes gnuplot's script, without output and terminal. */
void ft_bench_capacity_script(const ft_bench_capacity_report *report, FILE *out);
/* Draws it. FT_INVALID: the path's ending; FT_UNAVAILABLE: no gnuplot. */
FT_WARN_UNUSED ft_status ft_bench_capacity_plot(const ft_bench_capacity_report *report,
                                                const char *path, ft_error *err);

#endif
