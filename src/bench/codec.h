/* SPDX-License-Identifier: Apache-2.0
 *
 * Size and time of the two codes of lattice points, on made-up distributions and on a draft model's
 * own. Called by one thread. */
#ifndef FT_BENCH_CODEC_H
#define FT_BENCH_CODEC_H

#include <jansson.h>

#include "base/progress.h"
#include "bench/bench.h"
#include "spec/sampling.h"

#define FT_BENCH_CODEC_TEMPS 8

typedef struct ft_bench_codec_opts {
    int64_t distributions; /* of a row */
    int64_t seed;
    const char *draft, *prompts;        /* NULL: made-up distributions alone */
    int64_t n_ctx, n_threads;           /* longer prompts are left out; 0: all cores */
    double temps[FT_BENCH_CODEC_TEMPS]; /* [n_temps] at which the draft writes, above 0 */
    uint32_t n_temps;
    int64_t top_k;
    double top_p, min_p;
    ft_progress loading, progress; /* of the model; in distributions */
    ft_bench_stop stop;
} ft_bench_codec_opts;

/* {rows: [{source, vocab, l, distributions, unchanged, support, bits, formula_bits, quantize_ms,
 * encode_ms, decode_ms, adaptive_bits, adaptive_bits_ratio, adaptive_encode_ms,
 * adaptive_decode_ms}]}; of a draft also `temperature`. If it was stopped, rows cover what there
 * was until then. FT_INVALID: an option; FT_NOMEM; errors of files and engine; then *report is
 * NULL. */
FT_WARN_UNUSED ft_status ft_bench_codec(const ft_bench_codec_opts *opts, ft_error *err,
                                        json_t **report);

#endif
