/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass: one engine = one loaded model + one paged KV pool + one owner thread. Its central
 * call takes a batch of segments, each a chain or a tree of new tokens of one sequence.
 *
 * A sequence is its committed tokens, n_past of them, in KV, and behind them *pending* nodes: tokens
 * that were computed but not yet kept. Pending nodes are numbered from 0 in the order in which they
 * were computed; a node's parent is an earlier pending node, or -1 for the last committed token.
 * Position of a node = n_past + depth (roots have depth 0). A node attends to all committed tokens of
 * its sequence, to its ancestors and to itself; to nothing of other sequences.
 *
 *      ft_seq_create          forward              commit(path, keep)
 *   -> [n_past = 0, 0 pending] -----> [n_past, pending] --------------> [n_past + |path|, |keep|]
 *                                          |  truncate(n): n_past = n, no pending
 *
 * Row results do not depend on what else is in the batch, nor on whether a token was computed in a
 * tree, a chunk or alone, wherever the weights' matmul kernel is itself batch-invariant (packed
 * weights, gemm.h): the attention sums in order of position.
 *
 * Owner-thread rule: every call on an engine or its sequences comes from one thread at a time.
 */
#ifndef FT_ENGINE_ENGINE_H
#define FT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"
#include "model/model.h"

#define FT_KV_BLOCK_TOK 16  /* tokens a KV block */
#define FT_PENDING_MAX  512 /* pending nodes of a sequence that are not one plain chain */

typedef struct ft_engine ft_engine;
typedef struct ft_seq ft_seq;

typedef enum ft_attn_route {
    FT_ATTN_AUTO,    /* our kernel in layers on the CPU, ggml operators in those on devices */
    FT_ATTN_CPU,     /* our kernel; no layer may be on a device */
    FT_ATTN_PORTABLE /* ggml operators alone: any backend */
} ft_attn_route;

/* What K and V are kept as. */
typedef enum ft_kv_type {
    FT_KV_F16,
    FT_KV_BF16,
    FT_KV_Q8_0 /* 8 bits, a scale every 32 dimensions; head sizes that are multiples of 32 */
} ft_kv_type;

typedef struct ft_engine_opts {
    const ft_model *model;  /* borrowed; outlives the engine */
    uint32_t kv_tok;        /* size of the KV pool in tokens; rounded up to blocks */
    uint32_t max_batch_tok; /* rows of one forward at most; 0: 512 */
    uint32_t max_logits;    /* rows with logits of one forward at most; 0: max_batch_tok */
    int n_threads;          /* 0: all cores */
    ft_attn_route route;
    ft_kv_type kv_type;
} ft_engine_opts;

/* Allocates the pool and compute buffers for the largest batch: forward never runs out of memory
 * later. FT_NOMEM, FT_INVALID. */
FT_WARN_UNUSED ft_status ft_engine_create(const ft_engine_opts *opts, ft_error *err,
                                          ft_engine **out);
#define FT_WARM_PASSES 4
/* What the passes of a warm-up took, with logits of all rows where the engine has so many, on one thread or on all: the faster. */
typedef struct ft_warm {
    uint32_t n;
    uint32_t rows[FT_WARM_PASSES]; /* of an empty sequence, ascending */
    int64_t us[FT_WARM_PASSES];
} ft_warm;
/* Before anybody waits: a pass that touches the weights, and a few of growing size, which build graphs
 * and measure what one thread and all of them take. Those begin for FT_WARM_US at most, and what is still
 * under way after FT_WARM_LIMIT_US is given up, so that a model that is read from a slow disk does not
 * keep one from starting. Logs what it took; passes and rows are not counted as computed. For an engine
 * without sequences. out may be NULL; its times are by `clock`, NULL: the machine's. FT_NOMEM,
 * FT_INTERNAL: as the passes to come would fail. */
#define FT_WARM_US       250000
#define FT_WARM_LIMIT_US 2000000
FT_WARN_UNUSED ft_status ft_engine_warm(ft_engine *engine, const ft_clock *clock, ft_error *err,
                                        ft_warm *out);
/* All sequences must have been destroyed. */
void ft_engine_destroy(ft_engine *engine);

/* An empty sequence, which holds no block yet; the caller destroys it before the engine. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_seq_create(ft_engine *engine, ft_error *err, ft_seq **out);
/* Frees its blocks (those that no other sequence shares). */
void ft_seq_destroy(ft_seq *seq);
/* A new sequence with the same committed tokens, sharing all full blocks; no pending nodes. */
FT_WARN_UNUSED ft_status ft_seq_fork(const ft_seq *seq, ft_error *err, ft_seq **out);
/* As fork, but the KV is copied: no block is shared, and the copy is no tenant's. For
 * measurements, which need many contexts that are real memory each without computing each. */
FT_WARN_UNUSED ft_status ft_seq_dup(const ft_seq *seq, ft_error *err, ft_seq **out);

/* Prefix cache. Full blocks of committed tokens of a tenant's sequences stay findable, by that tenant's
 * other sequences alone, until the pool needs their memory; the pool takes those first that were let
 * go of longest ago, a text's last before its first. Equal texts of a tenant are kept once.
 *
 * Whose text an empty sequence is going to hold; 0 (as created): nobody's, its blocks are never found
 * by others. Forks are the same tenant's. */
void ft_seq_set_tenant(ft_seq *seq, uint64_t tenant);
/* On an empty sequence of a tenant (new, or truncated to 0): takes over the longest cached run of full
 * blocks that tokens[0..n) begin with, at most n - 1 tokens of it, so that something is left to
 * compute. Returns the new n_past. Elsewhere it does nothing and returns n_past. The blocks are held
 * then: ask for blocks_free and ft_seq_blocks_needed afterwards. */
uint32_t ft_seq_attach(ft_seq *seq, const int32_t *tokens, uint32_t n);

/* Committed tokens, and pending nodes behind them. */
uint32_t ft_seq_n_past(const ft_seq *seq);
uint32_t ft_seq_n_pending(const ft_seq *seq);

/* Keeps pending nodes path[0..n_path), a walk from a root downwards (each the parent of the next), as
 * committed tokens, and nodes keep[0..n_keep), ascending, whose parents are the last of path (or,
 * with an empty path, -1) or earlier in keep, as the new pending nodes 0..n_keep. Everything else
 * pending is freed. FT_INVALID leaves the sequence as it was. */
FT_WARN_UNUSED ft_status ft_seq_commit(ft_seq *seq, const uint32_t *path, uint32_t n_path,
                                       const uint32_t *keep, uint32_t n_keep, ft_error *err);

/* Drops all pending nodes and all committed tokens from n_past on (n_past <= the current one). */
void ft_seq_truncate(ft_seq *seq, uint32_t n_past);

typedef struct ft_segment {
    ft_seq *seq;           /* at most one segment a sequence in a batch */
    uint32_t n;            /* new nodes, > 0 */
    const int32_t *tokens; /* [n] */
    const int32_t *parent; /* [n] pending-node numbers (new nodes count on from n_pending), < own
                              number, or -1; NULL: a chain that hangs on the last pending node */
    const uint64_t *want;  /* bitmap [(n + 63) / 64]: nodes that need logits; NULL: none */
    uint32_t first_row;    /* out: number of the first of its rows in ft_engine_logits */
} ft_segment;

/* One pass over all segments; their nodes become pending. Checks everything first: FT_INVALID (ids,
 * parents, counts), FT_EXHAUSTED (the pool lacks blocks) leave all as it was. */
FT_WARN_UNUSED ft_status ft_engine_forward(ft_engine *engine, ft_segment *segments, size_t n,
                                           ft_error *err);

/* Logits [n_vocab] of a wanted node of the last forward; rows are numbered in the order of segments
 * and nodes. Borrowed until the next forward or ft_engine_head. NULL: left for later, and not among
 * the rows of the last ft_engine_head. */
const float *ft_engine_logits(const ft_engine *engine, uint32_t row);

/* Logits on demand: as ft_engine_forward, but for the output head, a large part of a small model. The
 * wanted nodes' last hidden rows are kept, and ft_engine_head computes the logits of those that turn out
 * to matter, any of them, as often as one likes until the next forward: the same bits. Where anything of
 * the model is on a device the pass computes them all at once, and ft_engine_head has nothing to do. */
FT_WARN_UNUSED ft_status ft_engine_forward_rows(ft_engine *engine, ft_segment *segments, size_t n,
                                                ft_error *err);
/* Replaces what logits there are by those of rows[0..n), numbers as in ft_engine_logits. FT_INVALID (no
 * such row), FT_NOMEM and FT_INTERNAL leave the last forward's nodes and kept rows as they were. */
FT_WARN_UNUSED ft_status ft_engine_head(ft_engine *engine, const uint32_t *rows, size_t n,
                                        ft_error *err);

/* Blocks that `n` more tokens would need now. */
uint32_t ft_seq_blocks_needed(const ft_seq *seq, uint32_t n);

typedef struct ft_engine_stats {
    uint32_t blocks, blocks_free; /* free: a forward can have them; blocks_cached are among them */
    uint32_t blocks_cached;       /* hold a tenant's text that no sequence holds */
    uint64_t prefix_lookup_tok, prefix_hit_tok; /* asked of ft_seq_attach, and found */
    uint64_t prefix_evicted;                    /* cached blocks that gave way */
    size_t kv_bytes, compute_bytes;
    uint32_t n_seqs;
    uint64_t forwards, rows;
    uint64_t heads, head_rows; /* runs of the output head by itself; rows with logits */
    uint64_t graphs;           /* built; the other passes found theirs */
} ft_engine_stats;

/* Blocks of the pool, memory, live sequences; passes and rows computed since creation. */
void ft_engine_get_stats(const ft_engine *engine, ft_engine_stats *out);
/* What lies where: the CPU first, then the devices that hold anything of the model. */
typedef struct ft_place_memory {
    const char *name; /* "CPU", "CUDA0"; borrowed from ggml */
    size_t weight_bytes, kv_bytes, compute_bytes;
} ft_place_memory;
/* Writes the first `max` places, returns how many there are. */
size_t ft_engine_get_memory(const ft_engine *engine, ft_place_memory *out, size_t max);

/* As in its opts (the two limits with their defaults filled in). */
const ft_model *ft_engine_model(const ft_engine *engine);
uint32_t ft_engine_max_batch_tok(const ft_engine *engine);
uint32_t ft_engine_max_logits(const ft_engine *engine);

#endif
