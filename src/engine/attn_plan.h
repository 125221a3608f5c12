/* SPDX-License-Identifier: Apache-2.0
 *
 * The work plan of attention: attn_plan.c makes it, attn_cpu.c executes it. Between passes
 * ft_attn_plan belongs to the engine's thread. During a pass each thread writes its own scratch
 * memory and the spans of split chunks that it claimed.
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
    (FT_PENDING_MAX + FT_KV_BLOCK_TOK) /* slots of a tree and of the block in which it begins */

/* A chunk: rows [row0, row0 + n_rows) of the batch, from one segment. Each KV head of a chunk is
 * computed separately (a large group of query heads in several parts). One such piece is a
 * *unit*. */
typedef struct ft_attn_chunk {
    uint32_t seg, row0, n_rows;
    uint32_t n_pos; /* each position below n_pos is seen by some row */
    /* spans are kept separately in plan->parts; the thread that finishes last adds them up */
    bool split;
    uint32_t slot0, count0; /* if split: first slot in parts, first counter */
} ft_attn_chunk;

/* What a thread claims, for one unit of the chunk: some spans. */
typedef struct ft_attn_item {
    uint32_t chunk, span0, n_spans;
    uint64_t cost;
} ft_attn_item;

typedef struct ft_attn_scratch {
    void *q;            /* queries in the kernel's layout */
    float *s;           /* [nq, TILE] */
    float *tail;        /* [nq, TAIL_MAX] scores in order of slot */
    float *head;        /* [dim] */
    char *page;         /* [TILE_BLOCKS] pages of V: one row's positions in order */
    ft_attn_sums span;  /* sums of the present span */
    ft_attn_sums total; /* sums of the spans before it */
    uint16_t *path;     /* [rows, FT_PENDING_MAX] pending nodes from the root to the row */
} ft_attn_scratch;

struct ft_attn_plan {
    ft_attn_geometry geo;
    float q_scale; /* 1 / sqrt(dim), times log2(e) for powers of two */
    /* group: query heads of a KV head; sub: those of them in a unit */
    uint32_t group, sub, n_sub, rows_per_unit;
    uint32_t n_units; /* units of a chunk: n_head_kv x n_sub */
    uint32_t n_threads, max_rows;
    const ft_attn_batch *batch;
    ft_attn_chunk *chunks; /* [max_rows] */
    uint32_t n_chunks;
    ft_attn_item *items, *unsorted; /* [max_rows + max_slots], the largest first */
    uint32_t n_items;
    float *parts;        /* [max_slots] sums, ft_attn_part_floats each */
    atomic_uint *counts; /* [max_slots] finished spans of a split unit; 0 between passes */
    uint32_t max_slots;
    ft_attn_scratch *scratch; /* [n_threads] */
    void *memory;
    size_t bytes;
};

/* Points the sums of a unit into one piece of memory. */
static inline size_t ft_attn_part_floats(const ft_attn_plan *plan)
{
    return 32 + (size_t)FT_ATTN_NQ * (16 + plan->geo.head_dim);
}

static inline ft_attn_sums ft_attn_part(float *base)
{
    return (ft_attn_sums){base, base + 32, base + 32 + FT_ATTN_NQ * 16};
}

#endif
