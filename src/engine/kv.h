/* SPDX-License-Identifier: Apache-2.0
 *
 * The bookkeeping of the paged KV pool: which sequences hold a block, which tokens of a sequence
 * are committed or pending, and the parents of pending tokens. It knows no tensors: a callback
 * copies K and V (store.h implements it). Owned by the engine's thread.
 *
 * A *slot* is one token's place in the pool: block * 16 + lane. Token i of a sequence (committed
 * tokens first, then pending ones in the order of their numbers) is in lane i % 16 of the
 * sequence's block i / 16. So the slots of a plain chain are in order of position.
 */
#ifndef FT_ENGINE_KV_H
#define FT_ENGINE_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/prefix.h"

typedef struct ft_kv_move {
    uint32_t src, dst; /* slots */
} ft_kv_move;

typedef struct ft_kv_seq ft_kv_seq;

/* How pending nodes hang together. A sequence borrows one from its pool while it has pending nodes,
 * so that an idle sequence needs none. */
typedef struct ft_kv_shape {
    struct ft_kv_shape *next;       /* in the pool's list */
    int16_t parent[FT_PENDING_MAX]; /* [n_pending], only if n_chain < n_pending */
    uint16_t depth[FT_PENDING_MAX]; /* as parent; roots have 0 */
} ft_kv_shape;

typedef struct ft_kv {
    uint32_t n_blocks;
    uint32_t n_free;
    uint32_t *free; /* [n_free] stack; capacity n_blocks */
    uint32_t *ref;  /* [n_blocks] number of sequences that hold the block */
    ft_prefix prefix;
    uint64_t lookup_tok, hit_tok; /* tokens that attach was asked for; tokens that it found */
    ft_kv_shape *shapes;          /* shapes that no sequence has borrowed */
    uint32_t n_seqs;
    ft_kv_seq *seqs; /* all of them, for the check */
    /* Copies K and V of all layers in the given order. A move may read a slot that an earlier move
     * has freed, but never one that an earlier move has written. */
    void (*move)(void *ctx, const ft_kv_move *moves, uint32_t n);
    void *move_ctx;
    ft_kv_move moves[FT_PENDING_MAX + FT_KV_BLOCK_TOK];
} ft_kv;

struct ft_kv_seq {
    ft_kv *kv;
    ft_kv_seq *prev, *next;
    uint64_t scope;  /* cache scope (engine.h); 0: none */
    uint32_t *block; /* [n_block], the block table */
    uint32_t n_block, cap_block;
    uint32_t n_past, n_pending;
    uint32_t n_chain;   /* leading pending nodes, each the child of the one before */
    ft_kv_shape *shape; /* shape of the pending nodes; NULL: none was reserved */
};

/* move may be NULL: nothing is copied (for tests of the bookkeeping alone). FT_NOMEM, FT_IO (the
 * system has no random numbers). */
FT_WARN_UNUSED ft_status ft_kv_init(ft_kv *kv, uint32_t n_blocks,
                                    void (*move)(void *ctx, const ft_kv_move *moves, uint32_t n),
                                    void *move_ctx);
/* Makes n more shapes. When all are borrowed, reserving makes another one, which allocates.
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_kv_add_shapes(ft_kv *kv, uint32_t n);
/* All sequences of the pool must be deinitialised before. */
void ft_kv_deinit(ft_kv *kv);

/* Blocks that can be taken: free ones and idle ones of the prefix cache. */
static inline uint32_t ft_kv_available(const ft_kv *kv)
{
    return kv->n_free + kv->prefix.n_idle;
}

/* An empty sequence of this pool. It holds no block and has no cache scope. */
void ft_kv_seq_init(ft_kv_seq *seq, ft_kv *kv);
/* Frees the blocks that no other sequence holds. */
void ft_kv_seq_deinit(ft_kv_seq *seq);
/* Initialises `out` with src's committed tokens. Full blocks are shared. FT_NOMEM, FT_EXHAUSTED (no
 * block for the last, partly filled one): `out` needs no deinit then. */
FT_WARN_UNUSED ft_status ft_kv_seq_fork(const ft_kv_seq *src, ft_kv_seq *out);
/* The same, but with copies of all blocks and without a cache scope. */
FT_WARN_UNUSED ft_status ft_kv_seq_dup(const ft_kv_seq *src, ft_kv_seq *out);

/* See ft_seq_set_scope and ft_seq_attach. */
void ft_kv_seq_set_scope(ft_kv_seq *seq, uint64_t scope);
uint32_t ft_kv_seq_attach(ft_kv_seq *seq, const int32_t *tokens, uint32_t n);

/* Blocks that n more tokens would take from the pool. */
uint32_t ft_kv_seq_need(const ft_kv_seq *seq, uint64_t n);
/* Checks that n new nodes may be added (parent as in ft_segment). FT_INVALID. */
FT_WARN_UNUSED ft_status ft_kv_seq_validate(const ft_kv_seq *seq, const int32_t *parent, uint32_t n,
                                            ft_error *err);
/* Makes room in the block table for n more tokens, so that extend cannot fail. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_kv_seq_reserve(ft_kv_seq *seq, uint32_t n);
/* Adds n nodes. They were checked, room was reserved, and the pool has the blocks. */
void ft_kv_seq_extend(ft_kv_seq *seq, const int32_t *parent, uint32_t n);
/* Sets the token ids of the last n nodes. A sequence with a cache scope needs them for every node
 * before it is committed. */
void ft_kv_seq_set_tokens(ft_kv_seq *seq, const int32_t *tokens, uint32_t n);
/* Removes the last n nodes: undoes the last extend. */
void ft_kv_seq_retract(ft_kv_seq *seq, uint32_t n);

/* See ft_seq_commit and ft_seq_truncate. */
FT_WARN_UNUSED ft_status ft_kv_seq_commit(ft_kv_seq *seq, const uint32_t *path, uint32_t n_path,
                                          const uint32_t *keep, uint32_t n_keep, ft_error *err);
void ft_kv_seq_truncate(ft_kv_seq *seq, uint32_t n_past);

/* Slot of the i-th token. */
static inline uint32_t ft_kv_seq_slot(const ft_kv_seq *seq, uint32_t i)
{
    return seq->block[i / FT_KV_BLOCK_TOK] * FT_KV_BLOCK_TOK + i % FT_KV_BLOCK_TOK;
}

/* Parent and depth of pending node i. */
static inline int32_t ft_kv_seq_parent(const ft_kv_seq *seq, uint32_t i)
{
    return i < seq->n_chain ? (int32_t)i - 1 : seq->shape->parent[i];
}
static inline uint32_t ft_kv_seq_depth(const ft_kv_seq *seq, uint32_t i)
{
    return i < seq->n_chain ? i : seq->shape->depth[i];
}

/* True if the invariants stated in kv.c hold over the whole pool. */
bool ft_kv_check(const ft_kv *kv);

#endif
