/* SPDX-License-Identifier: Apache-2.0
 *
 * The two sides of bench verify. A round verifies one tree (or chain) for each session, each behind
 * a context of its own. It is one pass of the target over all of them, with their roots (the texts'
 * last tokens); on our side then the walks of the verification rule, which ask for logits as they
 * go; and then the return to the bare contexts. Owned by one thread. */
#ifndef FT_BENCH_VERIFY_H
#define FT_BENCH_VERIFY_H

#include "bench/libllama.h"
#include "bench/tree.h"
#include "engine/engine.h"

#define FT_BENCH_PASS_TOK   2048 /* rows of one pass at most: their logits are held at once */
#define FT_BENCH_UBATCH_TOK 512  /* of them libllama computes so many at a time */

/* What a row asks of either side. */
typedef struct ft_bench_job {
    const ft_model *model;
    uint32_t n_sessions, n_ctx; /* committed tokens a session */
    const ft_bench_tree *tree;
    bool chain;
    bool all_logits; /* ours computes all, and walks no tree */
    ft_kv_type kv;   /* of ours; libllama's is f16 */
    int n_threads;
} ft_bench_job;

/* Rows that a session has in a pass: its root and the nodes. */
uint32_t ft_bench_rows(const ft_bench_job *job);

/* Token i of a text; any does for a measurement. */
int32_t ft_bench_token(const ft_bench_job *job, uint32_t session, uint32_t i);

/* ---- ours ---- */

typedef struct ft_bench_ours ft_bench_ours;
/* An engine with all sessions' contexts, for trees of at most max_tree nodes. One context is
 * computed, the others are copies in blocks of their own. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_ours_create(const ft_bench_job *job, uint32_t max_tree,
                                              ft_error *err, ft_bench_ours **out);
void ft_bench_ours_destroy(ft_bench_ours *ours);
/* Sets another job, of which only the tree differs. Puts the target's own greedy text into the
 * trees, in each session as deep as its share of walks would go by the tree's p
 * (docs/BENCHMARKS.md), and lets the walks learn what logits cost. */
FT_WARN_UNUSED ft_status ft_bench_ours_set_job(ft_bench_ours *ours, const ft_bench_job *job,
                                               ft_error *err);
/* For ft_bench_side. */
FT_WARN_UNUSED ft_status ft_bench_ours_round(void *ours, double *seconds, ft_error *err);
/* What the walks of the last round did. All-zero where there were none. */
typedef struct ft_bench_walked {
    double accepted;           /* nodes a session, on average */
    uint32_t heads, head_rows; /* runs of the output head, and rows whose logits were computed */
} ft_bench_walked;
void ft_bench_ours_walked(const ft_bench_ours *ours, ft_bench_walked *out);
/* Bytes of the blocks that the contexts hold, per token. */
double ft_bench_ours_kv_bytes_per_tok(const ft_bench_ours *ours);

/* ---- libllama's ---- */

/* One way to let libllama do a row. */
typedef struct ft_bench_way {
    bool flash;
    bool bf16;    /* keeps K and V as bf16; else f16 */
    bool unified; /* one cache under a mask, trees by tokens of several sequences; else streams */
    uint32_t per_ctx; /* sessions a llama_context; fewer than all: the contexts run in turn */
    bool one_thread;  /* on one thread: faster if other programs use the cores */
} ft_bench_way;

/* The model, as open as `like` is and on the same devices, and the state of one context of n_ctx
 * tokens by kind of attention, which is set for every session of a unified cache. */
typedef struct ft_bench_base {
    ft_bench_llama llama;
    struct {
        uint32_t n_ctx; /* 0: none yet */
        uint8_t *data;
        size_t size;
    } state[4]; /* without and with flash; then both again as bf16 */
} ft_bench_base;
FT_WARN_UNUSED ft_status ft_bench_base_open(const ft_model *like, int n_threads, ft_error *err,
                                            ft_bench_base *out);
void ft_bench_base_close(ft_bench_base *base);

typedef struct ft_bench_theirs ft_bench_theirs;
/* Contexts with all sessions' texts in cells of their own: one text is computed, its state is
 * copied to the others. FT_NOMEM; FT_UNSUPPORTED, with the reason: libllama cannot run the row in
 * this way. */
FT_WARN_UNUSED ft_status ft_bench_theirs_create(const ft_bench_job *job, const ft_bench_way *way,
                                                ft_bench_base *base, ft_error *err,
                                                ft_bench_theirs **out);
void ft_bench_theirs_destroy(ft_bench_theirs *theirs);
/* FT_TIMEOUT: it ran longer than the limit (0: none); the caches are undefined then. */
FT_WARN_UNUSED ft_status ft_bench_theirs_round(void *theirs, double *seconds, ft_error *err);
/* One thread from now on. */
void ft_bench_theirs_use_one_thread(ft_bench_theirs *theirs);
void ft_bench_theirs_set_limit(ft_bench_theirs *theirs, double limit_s);
/* "unified, flash, 4 batches". */
void ft_bench_theirs_describe(const ft_bench_theirs *theirs, char *out, size_t size);
/* The same before it is open, when nobody has counted its batches. */
void ft_bench_way_describe(const ft_bench_job *job, const ft_bench_way *way, char *out,
                           size_t size);

#endif
