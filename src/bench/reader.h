/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that reads a text token by token and gives its logits, for benches that compare
 * distributions. Used by one thread. */
#ifndef FT_BENCH_READER_H
#define FT_BENCH_READER_H

#include "base/progress.h"
#include "engine/engine.h"
#include "spec/sampling.h"

typedef struct ft_bench_reader_opts {
    const char *path;  /* of the model */
    int64_t n_ctx;     /* tokens of a text at most */
    int64_t n_threads; /* 0: all cores */
    ft_progress loading;
} ft_bench_reader_opts;

typedef struct ft_bench_reader {
    ft_model *model;
    ft_engine *engine;
    ft_seq *seq;
    ft_sampler *sampler;
    uint32_t n_vocab, n_ctx;
} ft_bench_reader;

/* Errors of file and engine. The caller deinits *out in any case. */
FT_WARN_UNUSED ft_status ft_bench_reader_init(const ft_bench_reader_opts *opts, ft_error *err,
                                              ft_bench_reader *out);
/* The target at opts->path, and the draft model. FT_INVALID: their vocabularies differ. Else as
 * init. */
FT_WARN_UNUSED ft_status ft_bench_reader_init_pair(const ft_bench_reader_opts *opts,
                                                   const char *draft_path, ft_error *err,
                                                   ft_bench_reader *target, ft_bench_reader *draft);
/* All-zero is legal. */
void ft_bench_reader_deinit(ft_bench_reader *reader);

/* Reads and commits tokens[n]; *logits are those behind the last one, borrowed until the next call.
 * Errors are the engine's. */
FT_WARN_UNUSED ft_status ft_bench_reader_feed(ft_bench_reader *reader, const int32_t *tokens,
                                              uint32_t n, ft_error *err, const float **logits);

#endif
