// SPDX-License-Identifier: Apache-2.0
// The rows of one forward pass. Owned by the engine's thread; no allocation after init.
#include "engine/batch.h"

#include <stdlib.h>

ft_status ft_batch_init(ft_batch *batch, uint32_t max_rows, uint32_t n_rot)
{
    *batch = (ft_batch){.max_rows = max_rows, .n_rot = n_rot};
    batch->token = calloc(max_rows, sizeof *batch->token);
    batch->pos = calloc(max_rows, sizeof *batch->pos);
    batch->slot = calloc(max_rows, sizeof *batch->slot);
    batch->out = calloc(max_rows, sizeof *batch->out);
    batch->rope = calloc((size_t)max_rows * n_rot + 1, sizeof *batch->rope);
    batch->segs = calloc(max_rows, sizeof *batch->segs);
    if (batch->token && batch->pos && batch->slot && batch->out && batch->rope && batch->segs)
        return FT_OK;
    ft_batch_deinit(batch);
    return FT_NOMEM;
}

void ft_batch_deinit(ft_batch *batch)
{
    free(batch->token);
    free(batch->pos);
    free(batch->slot);
    free(batch->out);
    free(batch->rope);
    free(batch->segs);
    *batch = (ft_batch){0};
}

void ft_batch_clear(ft_batch *batch)
{
    batch->n_rows = batch->n_segs = batch->n_out = 0;
    batch->n_seen = 0;
    batch->attn = (ft_attn_batch){
        .segs = batch->segs, .row_slot = batch->slot, .row_pos = batch->pos, .rope = batch->rope};
}

static bool wanted(const uint64_t *want, uint32_t i)
{
    return want && (want[i / 64] >> (i % 64) & 1);
}

uint32_t ft_want_count(const uint64_t *want, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; want && i < n; i++)
        count += wanted(want, i);
    return count;
}

void ft_batch_add(ft_batch *batch, ft_segment *segment, const ft_kv_seq *seq,
                  const ft_rope_opts *rope)
{
    uint32_t first = seq->n_pending - segment->n;
    batch->segs[batch->n_segs++] = (ft_attn_seg){seq, batch->n_rows, segment->n, first};
    segment->first_row = batch->n_out;
    for (uint32_t i = 0; i < segment->n; i++) {
        uint32_t row = batch->n_rows++;
        batch->token[row] = segment->tokens[i];
        batch->pos[row] = seq->n_past + ft_kv_seq_depth(seq, first + i);
        batch->n_seen += batch->pos[row] + 1;
        batch->slot[row] = ft_kv_seq_slot(seq, seq->n_past + first + i);
        if (wanted(segment->want, i))
            batch->out[batch->n_out++] = (int32_t)row;
        ft_rope_table(rope, batch->pos[row], batch->rope + (size_t)row * batch->n_rot);
    }
    batch->attn.n_rows = batch->n_rows;
    batch->attn.n_segs = batch->n_segs;
}
