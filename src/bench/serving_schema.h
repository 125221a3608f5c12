/* SPDX-License-Identifier: Apache-2.0
 *
 * What speculation makes of texts under a constraint: tokens a verification of the same prompts
 * without a constraint, with it, and with it but without drafts of what it forces. A part of the
 * serving comparison. Called by one thread. */
#ifndef FT_BENCH_SERVING_SCHEMA_H
#define FT_BENCH_SERVING_SCHEMA_H

#include "bench/serving_parts.h"

/* With x->plain started. Errors of files, schema, server and edge leave *report NULL. */
FT_WARN_UNUSED ft_status ft_bench_serving_schema(ft_serving *x, ft_error *err, json_t **report);

#endif
