/* SPDX-License-Identifier: Apache-2.0
 *
 * The work plan of attention (attn_plan.c), as attn_cpu.c executes it. ft_attn_plan belongs to the
 * engine's thread between passes; during a pass each thread writes its own scratch and, of a split
 * chunk, the spans that it claimed.
 */
#ifndef FT_ENGINE_ATTN_PLAN_H
#define FT_ENGINE_ATTN_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/attn.h"
#include "engine/attn_kernel.h"

#define FT_ATTN_TAIL_MAX \
    (FT_PENDING_MAX + FT_KV_BLOCK_TOK) /* slots of a tree and of the block it begins in */

/* A few rows of one segment: rows [row0, row0 + n_rows) of the batch. It is computed for each KV head
 * (and, for large groups, part of the group) apart: as many *units*. */
typedef struct ft_attn_chunk {
    uint32_t seg, row0, n_rows;
    uint32_t n_pos;         /* positions below n_pos are seen by some row */
    bool split;             /* spans are kept apart, in plan->parts, and folded by who comes last */
    uint32_t slot0, count0; /* split: its first slot in parts, its first counter */
} ft_attn_chunk;

/* What a thread claims, times the units of a chunk: some spans of a chunk. */
typedef struct ft_attn_item {
    uint32_t chunk, span0, n_spans;
    uint64_t cost;
} ft_attn_item;

typedef struct ft_attn_scratch {
    void *q;            /* as the kernel wants it */
    float *s;           /* [nq, TILE] */
    float *tail;        /* [nq, TAIL_MAX] scores in order of slot */
    float *head;        /* [dim] */
    char *page;         /* [TILE_BLOCKS] pages of V, a row's own positions in order */
    ft_attn_sums span;  /* of a span */
    ft_attn_sums total; /* of the spans so far */
    uint16_t *path;     /* [rows, FT_PENDING_MAX] pending nodes from the root to the row */
} ft_attn_scratch;

struct ft_attn_plan {
    ft_attn_geometry geo;
    float q_scale;                             /* 1 / sqrt(dim), and to powers of two */
    uint32_t group, sub, n_sub, rows_per_unit; /* query heads a KV head; of them in a unit */
    uint32_t n_units;                          /* of a chunk: KV heads x n_sub */
    uint32_t n_threads, max_rows;
    const ft_attn_batch *batch;
    ft_attn_chunk *chunks; /* [max_rows] */
    uint32_t n_chunks;
    ft_attn_item *items, *unsorted; /* [max_rows + max_slots], the largest first */
    uint32_t n_items;
    float *parts;        /* [max_slots] sums, of ft_attn_part_floats each */
    atomic_uint *counts; /* [max_slots], spans finished of a split unit; 0 between passes */
    uint32_t max_slots;
    ft_attn_scratch *scratch; /* [n_threads] */
    void *memory;
    size_t bytes;
};

/* Sums of a unit in one piece of memory. */
static inline size_t ft_attn_part_floats(const ft_attn_plan *plan)
{
    return 32 + (size_t)FT_ATTN_NQ * (16 + plan->geo.head_dim);
}

static inline ft_attn_sums ft_attn_part(float *base)
{
    return (ft_attn_sums){base, base + 32, base + 32 + FT_ATTN_NQ * 16};
}

#endif
