/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of a serving comparison with all its settings; as JSON, and for a person. For
 * serving.c; one thread. */
#ifndef FT_BENCH_SERVING_FIGURES_H
#define FT_BENCH_SERVING_FIGURES_H

#include <stdio.h>

#include "bench/serving_parts.h"

/* The report: the first setting's figures, and with several settings those of each in `settings`.
 * Sorts the cells' values. */
json_t *ft_serving_figures(ft_serving *x);
/* The same, from that object. */
void ft_serving_print(const ft_serving *x, const json_t *figures, FILE *out);

#endif
