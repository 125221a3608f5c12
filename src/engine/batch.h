/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of one forward pass, in one list over all segments: token, position, slot, and whether
 * logits are wanted. Arrays are allocated once, for the largest batch. Owned by the engine's
 * thread.
 */
#ifndef FT_ENGINE_BATCH_H
#define FT_ENGINE_BATCH_H

#include "base/status.h"
#include "engine/attn.h"
#include "engine/engine.h"

typedef struct ft_batch {
    uint32_t max_rows, n_rot;
    uint32_t n_rows, n_segs, n_out;
    uint64_t n_seen;    /* sum over rows of the number of tokens they attend to */
    int32_t *token;     /* [max_rows] */
    uint32_t *pos;      /* [max_rows] */
    uint32_t *slot;     /* [max_rows] */
    int32_t *out;       /* [max_rows]; the n_out rows that want logits, ascending */
    float *rope;        /* [max_rows, n_rot / 2, 2] */
    ft_attn_seg *segs;  /* [max_rows] */
    ft_attn_batch attn; /* the same for attention */
    uint64_t number;    /* number of this batch; finds a sequence that is named twice */
} ft_batch;

/* FT_NOMEM: nothing needs a deinit then. */
FT_WARN_UNUSED ft_status ft_batch_init(ft_batch *batch, uint32_t max_rows, uint32_t n_rot);
void ft_batch_deinit(ft_batch *batch);

/* Empties it. */
void ft_batch_clear(ft_batch *batch);
/* Adds the rows of a segment and sets its first_row. Its nodes are already pending in seq. */
void ft_batch_add(ft_batch *batch, ft_segment *segment, const ft_kv_seq *seq,
                  const ft_rope_opts *rope);

/* How many of the first n nodes want logits. */
uint32_t ft_want_count(const uint64_t *want, uint32_t n);

#endif
