/* SPDX-License-Identifier: Apache-2.0
 * libllama as the other side of a benchmark: one loaded file and one context. Used by one thread. */
#ifndef FT_CMD_BENCH_LLAMA_H
#define FT_CMD_BENCH_LLAMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "llama.h"
#include "model/vocab.h"

typedef struct ft_bench_llama {
    struct llama_model *model;
    struct llama_context *ctx;
    struct llama_batch batch;
    int32_t n_vocab;
} ft_bench_llama;

typedef struct ft_bench_llama_opts {
    const char *path; /* was accepted by ft_model_load before */
    uint32_t n_ctx;   /* tokens a stream */
    uint32_t n_streams;
    uint32_t max_batch_tok;
    int n_threads; /* 0: all cores */
    bool flash;    /* flash attention */
} ft_bench_llama_opts;

/* FT_CORRUPT (libllama refuses the file), FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_llama_open(const ft_bench_llama_opts *opts, ft_error *err,
                                             ft_bench_llama *out);
void ft_bench_llama_close(ft_bench_llama *llama);
/* Empties the batch; adds a token to it. */
void ft_bench_llama_clear(ft_bench_llama *llama);
void ft_bench_llama_add(ft_bench_llama *llama, int32_t token, int32_t pos, int32_t stream,
                        bool want);
/* One pass. FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_bench_llama_run(ft_bench_llama *llama, ft_error *err);

/* Greedy continuation of a prompt in stream 0, which is cleared before: at most *n tokens into out,
 * fewer where an end-of-generation token comes (not written); *n becomes how many. FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_bench_llama_greedy(ft_bench_llama *llama, const ft_tokens *prompt,
                                               ft_error *err, int32_t *out, uint32_t *n);

/* Index of the largest of n logits. */
int32_t ft_bench_argmax(const float *logits, uint32_t n);
/* Median; sorts in place. */
double ft_bench_median(double *values, uint32_t n);

#endif
