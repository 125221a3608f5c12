/* SPDX-License-Identifier: Apache-2.0
 *
 * From measurements to figures: those of each cell, and the comparisons between cells; as JSON, and
 * as a table beside SpecEdge's own figures. Stateless. */
#ifndef FT_BENCH_LOAD_REPORT_H
#define FT_BENCH_LOAD_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "bench/load_cells.h"

/* Figures of whole texts. */
json_t *ft_bench_load_tally_json(const ft_bench_load_tally *tally);
/* Adds "modes" and the comparisons to the object. Sorts the cells' values. */
void ft_bench_load_report_json(ft_bench_load_report *report, json_t *out);
/* The same figures, from that object, for a person. */
void ft_bench_load_report_print(const ft_bench_load_report *report, const json_t *figures,
                                FILE *out);

#endif
