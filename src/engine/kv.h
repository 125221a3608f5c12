/* SPDX-License-Identifier: Apache-2.0
 *
 * Bookkeeping of the paged KV pool: which block belongs to which sequences, which tokens of a sequence
 * are committed, which are pending, and how pending ones hang on one another. Knows nothing of
 * tensors: what must be copied goes out through a callback (store.h does it). Owned by the engine's
 * thread.
 *
 * A *slot* is one token's place in the pool: block * 16 + lane. The i-th token of a sequence
 * (committed first, then pending in the order of their numbers) lives in lane i % 16 of the
 * sequence's block i / 16, so that a plain chain's slots are in order of position.
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

typedef struct ft_kv {
    uint32_t n_blocks;
    uint32_t n_free;
    uint32_t *free; /* [n_blocks], a stack of n_free */
    uint32_t *ref;  /* [n_blocks], sequences that hold the block */
    ft_prefix prefix;
    uint64_t lookup_tok, hit_tok; /* asked of attach, and taken over by it */
    uint32_t table_blocks; /* block tables begin with room for so many; set before the first one */
    uint32_t n_seqs;
    ft_kv_seq *seqs; /* all of them, for the check */
    /* Copies K and V of all layers, in order: a later move may read what an earlier one has freed,
     * never what it has written. */
    void (*move)(void *ctx, const ft_kv_move *moves, uint32_t n);
    void *move_ctx;
    ft_kv_move moves[FT_PENDING_MAX + FT_KV_BLOCK_TOK];
} ft_kv;

struct ft_kv_seq {
    ft_kv *kv;
    ft_kv_seq *prev, *next;
    uint64_t tenant; /* 0: nobody's */
    uint32_t *block; /* [n_block], the block table */
    uint32_t n_block, cap_block;
    uint32_t n_past, n_pending;
    uint32_t n_chain;               /* leading pending nodes, each the child of the one before */
    int16_t parent[FT_PENDING_MAX]; /* [n_pending], only if n_chain < n_pending */
    uint16_t depth[FT_PENDING_MAX]; /* as parent; roots have 0 */
};

/* move may be NULL: nothing is copied (tests of the bookkeeping alone). FT_NOMEM, FT_IO (no random
 * numbers). */
FT_WARN_UNUSED ft_status ft_kv_init(ft_kv *kv, uint32_t n_blocks,
                                    void (*move)(void *ctx, const ft_kv_move *moves, uint32_t n),
                                    void *move_ctx);
/* All its sequences were deinitialised before. */
void ft_kv_deinit(ft_kv *kv);

/* Blocks that can be taken: free ones, and idle ones of the prefix cache. */
static inline uint32_t ft_kv_available(const ft_kv *kv)
{
    return kv->n_free + kv->prefix.n_idle;
}

/* An empty sequence of this pool, which holds no block yet, and is no tenant's. */
void ft_kv_seq_init(ft_kv_seq *seq, ft_kv *kv);
/* Gives back the blocks that no other sequence holds. */
void ft_kv_seq_deinit(ft_kv_seq *seq);
/* Initialises `out` with src's committed tokens. FT_NOMEM, FT_EXHAUSTED (a block for the part that
 * does not fill one); `out` needs no deinit then. */
FT_WARN_UNUSED ft_status ft_kv_seq_fork(const ft_kv_seq *src, ft_kv_seq *out);
/* As fork, but in blocks of its own alone, and no tenant's. */
FT_WARN_UNUSED ft_status ft_kv_seq_dup(const ft_kv_seq *src, ft_kv_seq *out);

/* As ft_seq_set_tenant and ft_seq_attach. */
void ft_kv_seq_set_tenant(ft_kv_seq *seq, uint64_t tenant);
uint32_t ft_kv_seq_attach(ft_kv_seq *seq, const int32_t *tokens, uint32_t n);

/* Blocks that n more tokens would take from the pool. */
uint32_t ft_kv_seq_need(const ft_kv_seq *seq, uint64_t n);
/* Whether these n new nodes are legal behind the pending ones (parent as in ft_segment). */
FT_WARN_UNUSED ft_status ft_kv_seq_validate(const ft_kv_seq *seq, const int32_t *parent, uint32_t n,
                                            ft_error *err);
/* Makes room in the block table for n more tokens, so that extend cannot fail. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_kv_seq_reserve(ft_kv_seq *seq, uint32_t n);
/* Adds n validated nodes; room was reserved and the pool has the blocks. */
void ft_kv_seq_extend(ft_kv_seq *seq, const int32_t *parent, uint32_t n);
/* What the last n nodes are. A tenant's sequence wants it said of every node before it is committed. */
void ft_kv_seq_set_tokens(ft_kv_seq *seq, const int32_t *tokens, uint32_t n);
/* Takes the last n nodes back. */
void ft_kv_seq_retract(ft_kv_seq *seq, uint32_t n);

/* As ft_seq_commit and ft_seq_truncate. */
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
    return i < seq->n_chain ? (int32_t)i - 1 : seq->parent[i];
}
static inline uint32_t ft_kv_seq_depth(const ft_kv_seq *seq, uint32_t i)
{
    return i < seq->n_chain ? i : seq->depth[i];
}

/* True if the invariants stated in kv.c hold over the whole pool. */
bool ft_kv_check(const ft_kv *kv);

#endif
