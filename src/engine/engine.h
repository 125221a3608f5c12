/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass. One engine = one loaded model + one paged KV pool + one owner thread. Its
 * central call takes a batch of segments. Each segment is a chain or a tree of new tokens of one
 * sequence.
 *
 * A sequence consists of n_past committed tokens in KV and, behind them, *pending* nodes: tokens
 * that were computed but not yet kept. Pending nodes are numbered from 0 in the order in which they
 * were computed. A node's parent is an earlier pending node, or -1 for the last committed token. A
 * node's position is n_past + depth (roots have depth 0). A node attends to all committed tokens of
 * its sequence, to its ancestors and to itself, and to nothing of other sequences.
 *
 *      ft_seq_create          forward              commit(path, keep)
 *   -> [n_past = 0, 0 pending] -----> [n_past, pending] --------------> [n_past + |path|, |keep|]
 *                                          |  truncate(n): n_past = n, no pending
 *
 * A row's result does not depend on the other rows of the batch, nor on whether its token was
 * computed in a tree, in a chunk or alone. This holds where the weights' matmul kernel is itself
 * batch-invariant (packed weights are: gemm.h); attention sums in order of position.
 *
 * Owner-thread rule: all calls on an engine and its sequences come from one thread at a time.
 */
#ifndef FT_ENGINE_ENGINE_H
#define FT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/kept_file.h"
#include "base/status.h"
#include "base/turn.h"
#include "model/model.h"
#include "model/streamed.h"

#define FT_KV_BLOCK_TOK 16  /* tokens of a KV block */
#define FT_PENDING_MAX  512 /* pending nodes of a sequence, unless they are one plain chain */

typedef struct ft_engine ft_engine;
typedef struct ft_seq ft_seq;

typedef enum ft_attn_route {
    FT_ATTN_AUTO,    /* our kernel for layers on the CPU, ggml operators for layers on devices */
    FT_ATTN_CPU,     /* our kernel; no layer may be on a device */
    FT_ATTN_PORTABLE /* ggml operators only: any backend */
} ft_attn_route;

/* The type of K and V in memory. */
typedef enum ft_kv_type {
    FT_KV_F16,
    FT_KV_BF16,
    FT_KV_Q8_0 /* 8 bits, one scale for 32 dimensions; head_dim must be a multiple of 32 */
} ft_kv_type;

/* "f16", "bf16", "q8_0". */
const char *ft_kv_type_name(ft_kv_type type);

typedef struct ft_engine_opts {
    const ft_model *model;  /* borrowed; outlives the engine */
    uint32_t kv_tok;        /* size of the KV pool in tokens; rounded up to blocks */
    uint32_t max_batch_tok; /* most rows of one forward; 0: 512 */
    uint32_t max_logits;    /* most rows with logits of one forward; 0: max_batch_tok */
    int n_threads;          /* 0: all cores */
    ft_attn_route route;
    ft_kv_type kv_type;
    ft_streamed *streamed; /* borrowed; the weights that are not in memory; NULL: all are */
    /* Shared with another engine of this process, so that the two never compute at once; NULL: with
     * nobody. Borrowed. The engine of a model that is not all in memory goes first. */
    ft_turn *turn;
} ft_engine_opts;

/* Allocates the pool and the compute buffers for the largest batch, so that forward never runs out
 * of memory later. FT_NOMEM, FT_INVALID. */
FT_WARN_UNUSED ft_status ft_engine_create(const ft_engine_opts *opts, ft_error *err,
                                          ft_engine **out);
#define FT_WARM_PASSES  4
#define FT_WARM_ROWS(i) (1u << 2 * (i))
/* How long the passes of a warm-up took. They compute logits of all rows, up to max_logits. */
typedef struct ft_warm {
    uint32_t n;
    uint32_t rows[FT_WARM_PASSES]; /* FT_WARM_ROWS(i), on an empty sequence */
    int64_t us[FT_WARM_PASSES];    /* the faster of these two */
    int64_t all_us[FT_WARM_PASSES], alone_us[FT_WARM_PASSES]; /* on all threads; on one; 0: not
                                                                  measured */
} ft_warm;
/* Runs passes before the first user waits: one that reads all weights, then a few of growing size.
 * They build graphs and measure how long one thread and all threads take. No pass starts later than
 * FT_WARM_US, and a pass still running after FT_WARM_LIMIT_US is given up, so that a slow disk does
 * not delay the start for long. The times are logged; these passes and rows are not counted in
 * ft_engine_stats. The engine must have no sequences yet. out may be NULL. Times are measured by
 * `clock`; NULL: the machine's clock. kept: where an earlier process has left the times, which are
 * then not measured again, and where they are left for later ones; NULL: nowhere. FT_NOMEM,
 * FT_INTERNAL: later passes would fail, too. */
#define FT_WARM_US       250000
#define FT_WARM_LIMIT_US 2000000
FT_WARN_UNUSED ft_status ft_engine_warm(ft_engine *engine, const ft_clock *clock,
                                        const ft_kept_place *kept, ft_error *err, ft_warm *out);
/* All sequences must have been destroyed. */
void ft_engine_destroy(ft_engine *engine);

/* An empty sequence that holds no block. The caller destroys it before the engine. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_seq_create(ft_engine *engine, ft_error *err, ft_seq **out);
/* Frees the blocks that no other sequence holds. */
void ft_seq_destroy(ft_seq *seq);
/* A new sequence with the same committed tokens and no pending nodes. It shares all full blocks. */
FT_WARN_UNUSED ft_status ft_seq_fork(const ft_seq *seq, ft_error *err, ft_seq **out);
/* The same, but with copies of all KV blocks and without a cache scope. It is meant for
 * measurements: they need many contexts in memory of their own, and no time to compute each. */
FT_WARN_UNUSED ft_status ft_seq_dup(const ft_seq *seq, ft_error *err, ft_seq **out);

/* The prefix cache. Each sequence may have a *cache scope*, a number that separates tenants. The
 * cache keeps full blocks of committed tokens of sequences with a scope; only sequences of the same
 * scope find them. When the pool needs memory, it evicts cached blocks: of the scope with most
 * blocks, the one released longest ago; a text loses its last block first. Equal texts of a scope
 * are kept once.
 *
 * Sets the scope of an empty sequence. 0 (the value at creation): none, no other sequence finds its
 * blocks. A fork has the scope of its original. */
void ft_seq_set_scope(ft_seq *seq, uint64_t scope);
/* For an empty sequence (new, or truncated to 0) with a scope: takes the longest cached run of full
 * blocks that tokens[0..n) begin with. It takes at most n - 1 tokens, so that one is left to
 * compute. Returns the new n_past. On any other sequence it does nothing and returns n_past. The
 * sequence then holds the blocks: read blocks_free and ft_seq_blocks_needed after this call. */
uint32_t ft_seq_attach(ft_seq *seq, const int32_t *tokens, uint32_t n);

/* Number of committed tokens; number of pending nodes. */
uint32_t ft_seq_n_past(const ft_seq *seq);
uint32_t ft_seq_n_pending(const ft_seq *seq);

/* Commits the pending nodes path[0..n_path). They are a path from a root downwards: each is the
 * parent of the next. The nodes keep[0..n_keep), ascending, become the new pending nodes 0..n_keep.
 * The parent of a kept node is the last node of path (-1 if path is empty) or an earlier node of
 * keep. All other pending nodes are freed. FT_INVALID leaves the sequence unchanged. */
FT_WARN_UNUSED ft_status ft_seq_commit(ft_seq *seq, const uint32_t *path, uint32_t n_path,
                                       const uint32_t *keep, uint32_t n_keep, ft_error *err);

/* Drops all pending nodes and the committed tokens from n_past on (n_past <= the current one). */
void ft_seq_truncate(ft_seq *seq, uint32_t n_past);

typedef struct ft_segment {
    ft_seq *seq;           /* at most one segment of a sequence in a batch */
    uint32_t n;            /* new nodes, > 0 */
    const int32_t *tokens; /* [n] */
    const int32_t *parent; /* [n] pending-node numbers (new nodes count on from n_pending), < own
                              number, or -1; NULL: a chain that hangs on the last pending node */
    const uint64_t *want;  /* bitmap [(n + 63) / 64]: nodes that need logits; NULL: none */
    uint32_t first_row;    /* out: number of its first row with logits, for ft_engine_logits */
} ft_segment;

/* Computes all segments in one pass; their nodes become pending. FT_INVALID: ids, parents, counts;
 * FT_EXHAUSTED: too few free blocks; FT_NOMEM; FT_INTERNAL: a device or a kernel failed; FT_IO,
 * FT_CORRUPT, FT_UNAVAILABLE: weights that are not in memory could not be read (model/streamed.h).
 *
 * A pass that fails has no effect: each sequence has the committed tokens and the pending nodes
 * that it had before, and their K and V are unchanged. So the same segments, or some of them, can
 * be computed again. Only three things may differ: the prefix cache may have lost blocks, a partly
 * filled block may have been copied, and no row has logits. There is one exception: if copying K
 * and V between blocks fails half-way, all later passes fail with FT_INTERNAL. */
FT_WARN_UNUSED ft_status ft_engine_forward(ft_engine *engine, ft_segment *segments, size_t n,
                                           ft_error *err);

/* Logits [n_vocab] of a wanted node of the last forward. Wanted rows are numbered in the order of
 * segments and nodes. Borrowed until the next forward or ft_engine_head. NULL: the row's logits
 * have not been computed, or the last ft_engine_head did not include it. */
const float *ft_engine_logits(const ft_engine *engine, uint32_t row);

/* Like ft_engine_forward, but without the output head, which is a large part of a small model's
 * cost. The last hidden rows of wanted nodes are kept. ft_engine_head computes logits for any of
 * them, as often as needed until the next forward, with the same bits. If a part of the model is on
 * a device, or if the output head is not in memory, the pass computes all wanted logits at once
 * and ft_engine_head does nothing. */
FT_WARN_UNUSED ft_status ft_engine_forward_rows(ft_engine *engine, ft_segment *segments, size_t n,
                                                ft_error *err);
/* Computes the logits of rows[0..n) (numbers as in ft_engine_logits). They replace all earlier
 * logits. FT_INVALID (no such row), FT_NOMEM and FT_INTERNAL leave the last forward's nodes and
 * kept rows unchanged. To give the pass up, truncate its sequences to their n_past. */
FT_WARN_UNUSED ft_status ft_engine_head(ft_engine *engine, const uint32_t *rows, size_t n,
                                        ft_error *err);

/* Blocks that n more tokens would take from the pool. */
uint32_t ft_seq_blocks_needed(const ft_seq *seq, uint32_t n);

typedef struct ft_engine_stats {
    uint32_t blocks, blocks_free; /* free: a forward can take them; includes cached ones */
    uint32_t blocks_cached;       /* cached blocks that no sequence holds */
    uint64_t prefix_lookup_tok, prefix_hit_tok; /* asked of ft_seq_attach; found by it */
    uint64_t prefix_evicted;                    /* cached blocks that were evicted */
    size_t kv_bytes, compute_bytes;
    uint32_t n_seqs;
    uint64_t forwards, rows;
    uint64_t alone;      /* forwards on one thread, where there are several */
    uint64_t compute_us; /* time of forwards and heads, given-up ones included */
    int n_threads;
    uint64_t heads, head_rows; /* separate runs of the output head; rows with logits */
    uint64_t graphs;           /* graphs built; other passes reused a graph */
} ft_engine_stats;

/* Blocks of the pool, memory, live sequences; counts since creation. */
void ft_engine_get_stats(const ft_engine *engine, ft_engine_stats *out);
/* What memory is used where: the CPU first, then each device that holds a part of the model. */
typedef struct ft_place_memory {
    const char *name; /* "CPU", "CUDA0"; borrowed from ggml */
    size_t weight_bytes, kv_bytes, compute_bytes;
} ft_place_memory;
/* Writes the first `max` places, returns how many there are. */
size_t ft_engine_get_memory(const ft_engine *engine, ft_place_memory *out, size_t max);

/* The values from opts, the two limits with defaults filled in. */
const ft_model *ft_engine_model(const ft_engine *engine);
uint32_t ft_engine_max_batch_tok(const ft_engine *engine);
uint32_t ft_engine_max_logits(const ft_engine *engine);

#endif
