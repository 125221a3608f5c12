/* SPDX-License-Identifier: Apache-2.0
 *
 * The opponent: a server that drafts itself, as well as it can. SpecEdge's authors search for its
 * best draft depth (appendix C). Here depths and tree budgets race, for each batch and shape. For
 * serving.c; one thread. */
#ifndef FT_BENCH_SERVING_SPEC_H
#define FT_BENCH_SERVING_SPEC_H

#include <stdio.h>

#include "bench/serving_parts.h"

/* Starts server-spec for every leading setting, tuned first unless its depth was asked for. The
 * set's texts are known. FT_CANCELLED; errors of server and edges. */
FT_WARN_UNUSED ft_status ft_serving_start_spec(ft_serving *x, ft_error *err);

/* What server-spec drafts in a leading setting, and what was tried. */
json_t *ft_serving_tuned_json(const ft_serving_tuned *tuned);
/* The same for a person, in a line. */
void ft_serving_tuned_print(const ft_serving_tuned *tuned, FILE *out);

#endif
