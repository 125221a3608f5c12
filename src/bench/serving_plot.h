/* SPDX-License-Identifier: Apache-2.0
 *
 * A serving comparison's figures as SpecEdge's: a panel for each of theirs whose axis was varied,
 * with the paper's numbers and the bound of this run's own times beside ours. Main thread only. */
#ifndef FT_BENCH_SERVING_PLOT_H
#define FT_BENCH_SERVING_PLOT_H

#include <jansson.h>
#include <stdio.h>

#include "base/status.h"

/* Writes gnuplot's script for the report of ft_bench_serving, without output and terminal. The
 * panels stand in two columns. */
void ft_bench_serving_script(const json_t *report, FILE *out);
/* Draws it. As ft_plot_open. */
FT_WARN_UNUSED ft_status ft_bench_serving_plot(const json_t *report, const char *path,
                                               ft_error *err);

#endif
