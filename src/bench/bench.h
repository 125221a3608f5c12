/* SPDX-License-Identifier: Apache-2.0
 *
 * What the comparisons share: options, number lists, clocks, the interleaved measurement and its
 * statistics. Used by one thread. */
#ifndef FT_BENCH_BENCH_H
#define FT_BENCH_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "bench/machine.h"
#include "engine/engine.h"
#include "model/model.h"

#define FT_BENCH_ROUNDS_MAX 100
#define FT_BENCH_LIST_MAX   32

/* What every comparison on one model is told. */
typedef struct ft_bench_opts {
    const char *path;  /* of the model */
    int64_t n_threads; /* of either side; 0: all cores */
    int64_t rounds;    /* pairs of rounds at most */
    double row_s;      /* seconds after which a row begins no further round */
    ft_kv_type kv;     /* how ours keeps K and V */
    void (*on_row)(void *ctx, const json_t *row); /* each row, once it is measured; NULL is legal */
    void *ctx;                                    /* of on_row */
} ft_bench_opts;

/* Threads of either side, all cores for 0. */
int ft_bench_threads(const ft_bench_opts *opts);

/* Calls on_row. */
void ft_bench_row(const ft_bench_opts *opts, const json_t *row);

/* A list of numbers such as "1,4,16", each from 1 to max. */
typedef struct ft_bench_list {
    uint32_t value[FT_BENCH_LIST_MAX];
    uint32_t n;
} ft_bench_list;
/* FT_INVALID names the flag. */
FT_WARN_UNUSED ft_status ft_bench_list_parse(const char *flag, const char *text, uint32_t max,
                                             ft_error *err, ft_bench_list *out);

/* Returns true to end the measurement early, with FT_CANCELLED; NULL: it never ends early. */
typedef bool (*ft_bench_stop)(void);

/* A monotonic clock. */
int64_t ft_bench_now_us(void);
double ft_bench_now_s(void);
/* Processor time of this process so far. */
double ft_bench_cpu_s(void);
/* Memory that programs can still use, in bytes; 0: the system does not say. */
size_t ft_bench_memory_free(void);
#define FT_BENCH_READ_TOK 512 /* tokens of a chunk at most */
/* Computes tokens[n] behind a sequence, in chunks, and commits them. With `want`, row 0 then has
 * the logits of the last one. Errors are the engine's. */
FT_WARN_UNUSED ft_status ft_bench_read(ft_engine *engine, ft_seq *seq, const int32_t *tokens,
                                       uint32_t n, bool want, ft_error *err);
/* Index of the largest of n logits. */
int32_t ft_bench_argmax(const float *logits, uint32_t n);
/* Median of n > 0 values; sorts in place. */
double ft_bench_median(double *values, uint32_t n);

/* One round of a side: the seconds of its timed part go to *seconds. */
typedef struct ft_bench_side {
    void *ctx;
    FT_WARN_UNUSED ft_status (*round)(void *ctx, double *seconds, ft_error *err);
    bool ours; /* warms up twice: its first pass of a size has one thread (engine/pace.h) */
} ft_bench_side;

#define FT_BENCH_SIDES_MAX 4

/* The rounds of a measurement: how many there were, and a side's fastest one. */
typedef struct ft_bench_rounds {
    uint32_t n;
    double least_s[FT_BENCH_SIDES_MAX];
} ft_bench_rounds;

/* Interleaves the sides: one round of each to warm up, then one round of each again and again, in
 * which a much faster side repeats its round. Ends after opts->rounds rounds, or when opts->row_s
 * is over, but not before the first. If the warm-up alone takes longer than row_s, it is the only
 * round and counts. Median times go to median_s[n], the rest to *rounds (NULL is legal). The first
 * failure ends it. */
FT_WARN_UNUSED ft_status ft_bench_interleave(const ft_bench_opts *opts, const ft_bench_side *sides,
                                             uint32_t n, ft_error *err, double *median_s,
                                             ft_bench_rounds *rounds);

/* The least work of one pass: all matrices of the layers and the head once, every row's products
 * with them, K and V of the contexts once, and the attention scores and sums of each row. */
typedef struct ft_bench_pass {
    uint32_t rows, out_rows; /* computed; of them with logits */
    uint64_t kv_tok;         /* tokens whose K and V are read, over all sequences */
    uint64_t row_tok;        /* tokens attended to, summed over rows */
    ft_kv_type kv;
} ft_bench_pass;
void ft_bench_pass_work(const ft_model *model, const ft_bench_pass *pass, ft_bench_work *out);
/* Bytes of K and V of a token. */
size_t ft_bench_kv_tok_bytes(const ft_model *model, ft_kv_type type);

#endif
