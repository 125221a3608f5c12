/* SPDX-License-Identifier: Apache-2.0
 *
 * Tree attention over the paged pool on the CPU, and the step before it that writes K and V. The
 * input is a plain description of the batch (ft_attn_batch) and of the layer (ft_attn_layer), so
 * tests call the same code without a model.
 *
 * Order of summation. A row at position P attends to positions 0..P. They are read in tiles of 64
 * positions that begin at multiples of 64. A tile gives scores, their maximum, powers relative to
 * the largest score so far, and sums that continue from tile to tile. Every 256 positions (a span)
 * new sums begin and the span's sums are merged into the row's total; so spans can be computed
 * separately. Within a span, sums run in order of position.
 *
 * So a row's result depends only on its own tokens, bit for bit: not on the slot of a token, its
 * siblings, the other rows, or how the work is split over threads. With f16 and q8_0 the result is
 * also the same for every instruction set, because each primitive of attn_tile.h is exact or rounds
 * once. With bf16 it can differ: AVX-512's dot product flushes numbers below the smallest normal
 * float to zero. Otherwise that instruction rounds like two fused multiply-adds, which the other
 * kernels use.
 */
#ifndef FT_ENGINE_ATTN_H
#define FT_ENGINE_ATTN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/kv.h"

#define FT_ATTN_TILE 64  /* positions; a multiple of the block */
#define FT_ATTN_SPAN 256 /* positions; a multiple of the tile */
/* Query vectors of one unit of work: rows x grouped attention heads. Their sums fill AVX-512's
 * registers beside one register of K or V. A root and 8 nodes in groups of three heads are 27. */
#define FT_ATTN_NQ 30

/* One segment's rows in the batch. */
typedef struct ft_attn_seg {
    const ft_kv_seq *seq;
    uint32_t first_row, n_rows;
    uint32_t first_node; /* pending-node number of its first row */
} ft_attn_seg;

/* The batch, the same for all layers. */
typedef struct ft_attn_batch {
    const ft_attn_seg *segs; /* [n_segs] */
    uint32_t n_segs, n_rows;
    const uint32_t *row_slot; /* the slot for its K and V */
    const uint32_t *row_pos;  /* [n_rows] */
    const float *rope;        /* [n_rows, n_rot / 2, 2], cosine and sine */
} ft_attn_batch;

typedef struct ft_attn_geometry {
    uint32_t n_head, n_head_kv, head_dim;
    uint32_t n_rot;
    bool rope_neox; /* pairs (i, i + n_rot / 2); else (2 i, 2 i + 1) */
    float rms_eps;  /* for q_norm and k_norm */
} ft_attn_geometry;

/* One layer. Biases are added before norm and RoPE; NULL: none. */
typedef struct ft_attn_layer {
    void *k, *v;                  /* of the first block: [n_head_kv] pages as in attn_layout.h */
    size_t block_bytes;           /* from a block's K (or V) to the next block's */
    const float *bq, *bk, *bv;    /* [heads * head_dim] */
    const float *q_norm, *k_norm; /* [head_dim] */
    const struct ft_attn_kernel *kernel; /* for the type of k and v */
} ft_attn_layer;

/* Output of the Q, K and V projections; strides in floats. */
typedef struct ft_attn_rows {
    const float *q, *k, *v; /* [n_rows, heads * head_dim] */
    size_t q_stride, k_stride, v_stride;
} ft_attn_rows;

typedef struct ft_attn_kernel ft_attn_kernel;
/* The plain C kernel: the reference for the others. */
const ft_attn_kernel *ft_attn_kernel_plain(ft_kv_type type);
/* Writes the kernels for a type that this machine can run, the fastest first, the plain one last.
 * Returns their number. */
#define FT_ATTN_KERNELS 5
size_t ft_attn_kernels(ft_kv_type type, const ft_attn_kernel *out[FT_ATTN_KERNELS]);
/* The fastest kernel that this processor can run for this head_dim. NULL: the type cannot hold
 * it. */
const ft_attn_kernel *ft_attn_kernel_best(ft_kv_type type, uint32_t head_dim);

/* Scratch and work plan of one engine. */
typedef struct ft_attn_plan ft_attn_plan;
/* max_rows of a batch, max_pos of a context: what they need at most is allocated. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_attn_plan_create(const ft_attn_geometry *geometry, uint32_t max_rows,
                                             uint32_t max_pos, uint32_t n_threads,
                                             ft_attn_plan **out);
void ft_attn_plan_destroy(ft_attn_plan *plan);
/* Bytes of scratch memory. */
size_t ft_attn_plan_bytes(const ft_attn_plan *plan);
/* Splits the batch into units of work, the largest first, and large units into spans. Call it
 * before the passes over the layers. Borrows batch. */
void ft_attn_plan_batch(ft_attn_plan *plan, const ft_attn_batch *batch);

/* Options of the RoPE table; factors: [n_rot / 2] or NULL. */
typedef struct ft_rope_opts {
    uint32_t n_rot;
    float base, scale;
    const float *factors;
} ft_rope_opts;
/* Writes the cosines and sines [n_rot / 2, 2] of a position. */
void ft_rope_table(const ft_rope_opts *opts, uint32_t pos, float *out);

/* Writes K and V of all rows (after norm and RoPE). Called by thread ith of nth. All threads must
 * return from it before ft_attn_run. */
void ft_attn_write(const ft_attn_plan *plan, const ft_attn_layer *layer, const ft_attn_rows *rows,
                   unsigned ith, unsigned nth);

/* Writes the attention of all rows to out [n_rows, n_head * head_dim]. Called by thread ith. *next
 * is 0 before the first thread enters. */
void ft_attn_run(ft_attn_plan *plan, const ft_attn_layer *layer, const ft_attn_rows *rows,
                 float *out, unsigned ith, atomic_uint *next);

#endif
