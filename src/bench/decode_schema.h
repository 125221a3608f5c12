/* SPDX-License-Identifier: Apache-2.0
 *
 * What a constraint costs in decoding: draws under it, beside the pass. Called by one thread. */
#ifndef FT_BENCH_DECODE_SCHEMA_H
#define FT_BENCH_DECODE_SCHEMA_H

#include "bench/decode.h"

typedef struct ft_bench_decode_schema_opts {
    const ft_bench_opts *common;
    const char *schema;          /* file */
    int64_t n_predict, n_prompt; /* as in ft_bench_decode_opts */
} ft_bench_decode_schema_opts;

/* Adds "rows" and "n" to the report: {temperature, pass_us, draw_us, plain_us, share, added_share,
 * rounds} for greedy and for drawn texts. FT_UNSUPPORTED: this build has no constraints; errors of
 * engine, file and schema. */
FT_WARN_UNUSED ft_status ft_bench_decode_schema(const ft_bench_decode_schema_opts *opts,
                                                const ft_model *model, json_t *report,
                                                ft_error *err);

#endif
