/* SPDX-License-Identifier: Apache-2.0
 * libllama as the other side of a benchmark: one loaded file and one context. Used by one
 * thread. */
#ifndef FT_BENCH_LIBLLAMA_H
#define FT_BENCH_LIBLLAMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "bench/bench.h"
#include "llama.h"
#include "model/model.h"
#include "model/vocab.h"

typedef struct ft_bench_llama {
    struct llama_model *model;
    struct llama_context *ctx;
    struct ggml_threadpool *pool; /* attached to ctx, or NULL: libllama makes threads per call */
    struct llama_batch batch;
    int32_t n_vocab;
    double give_up_s; /* a pass that runs past this time ends; 0: never */
    bool borrows;     /* model and pool are another's */
} ft_bench_llama;

typedef struct ft_bench_llama_opts {
    const char *path;            /* was accepted by ft_model_load before */
    const ft_bench_llama *share; /* an open one whose model and threads to use, or NULL */
    uint32_t n_ctx;              /* tokens a stream */
    uint32_t n_streams;
    uint32_t n_seq; /* sequence ids of a unified cache; 0: n_streams */
    uint32_t max_batch_tok;
    uint32_t max_ubatch_tok; /* rows that it computes at a time; 0: max_batch_tok */
    int n_threads;           /* 0: all cores */
    const ft_model *like;    /* whose layers are on devices: on the same; NULL: on the CPU */
    bool flash;              /* flash attention */
    bool bf16;               /* keep K and V as bf16, not f16 */
    bool q8;                 /* keep K and V as q8_0; with flash */
    bool mapped;             /* compute with the weights where the file is mapped: repack none */
    bool unified;            /* one cache for all streams, under a mask; else one each */
} ft_bench_llama_opts;

/* FT_CORRUPT (libllama refuses the file), FT_NOMEM. `out` stays where it is until it is closed. */
FT_WARN_UNUSED ft_status ft_bench_llama_open(const ft_bench_llama_opts *opts, ft_error *err,
                                             ft_bench_llama *out);
void ft_bench_llama_close(ft_bench_llama *llama);
/* Empties the batch; adds a token to it, of one sequence or of n (at most FT_BENCH_SEQ_MAX). */
#define FT_BENCH_SEQ_MAX 256
void ft_bench_llama_clear(ft_bench_llama *llama);
void ft_bench_llama_add(ft_bench_llama *llama, int32_t token, int32_t pos, int32_t stream,
                        bool want);
void ft_bench_llama_add_shared(ft_bench_llama *llama, int32_t token, int32_t pos,
                               const int32_t *seqs, uint32_t n);
/* One pass. FT_TIMEOUT (past give_up_s), FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_bench_llama_run(ft_bench_llama *llama, ft_error *err);
/* Its threads sleep until the next resume. Otherwise they would poll for a while after a pass, on
 * cores that the other side needs. */
void ft_bench_llama_pause(ft_bench_llama *llama);
void ft_bench_llama_resume(ft_bench_llama *llama);

/* Opens libllama in the fastest of n ways. Each is tried twice on all threads and twice on one,
 * which is faster if other programs use the cores. *best and *one_thread say which it was. */
typedef struct ft_bench_llama_trial {
    void *ctx;
    ft_bench_llama *llama;
    size_t n_ways;
    int n_threads; /* all */
    ft_status (*open)(void *ctx, size_t way, ft_error *err);
    ft_status (*round)(void *ctx, double *seconds, ft_error *err);
} ft_bench_llama_trial;
FT_WARN_UNUSED ft_status ft_bench_llama_open_best(const ft_bench_llama_trial *trial, ft_error *err,
                                                  size_t *best, bool *one_thread);

/* Reads tokens into stream 0 from position pos on, with logits of the last one. FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_bench_llama_extend(ft_bench_llama *llama, const int32_t *tokens,
                                               size_t n, int32_t pos, ft_error *err);
/* Clears stream 0 and continues a prompt greedily: at most *n tokens into out, fewer if an
 * end-of-text token comes (it is not written). *n becomes their number. FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_bench_llama_greedy(ft_bench_llama *llama, const ft_tokens *prompt,
                                               ft_error *err, int32_t *out, uint32_t *n);

#endif
