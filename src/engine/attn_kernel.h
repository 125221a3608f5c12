/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of an attention kernel: inner loops over one tile, and the preparation of queries,
 * K and V, for one instruction set and one type of K and V. attn_tile.h implements the loops once
 * on top of 16-lane primitives. attn_avx2.c, attn_avx512.c, attn_bf16.c, attn_vnni.c and
 * attn_neon.c supply these primitives. attn_plain.c has loops of its own.
 */
#ifndef FT_ENGINE_ATTN_KERNEL_H
#define FT_ENGINE_ATTN_KERNEL_H

#include "engine/attn.h"
#include "engine/attn_layout.h"

#define FT_ATTN_TILE_BLOCKS (FT_ATTN_TILE / FT_KV_BLOCK_TOK)

/* One attention head of Q or K, as the projection gave it, and the steps to apply. NULL: no such
 * step. */
typedef struct ft_attn_head {
    const ft_attn_geometry *geo;
    const float *x;    /* [head_dim] */
    const float *bias; /* [head_dim] */
    const float *norm; /* [head_dim] */
    const float *rope; /* [n_rot / 2, 2] */
    float scale;       /* applied last */
} ft_attn_head;

/* Computes scores of queries against blocks of K. */
typedef struct ft_attn_scores {
    const void *q;               /* queries, written by the kernel's set_query */
    uint32_t nq, dim;            /* nq <= FT_ATTN_NQ */
    const void *const *k;        /* [n_block] pages */
    uint32_t n_block;            /* <= FT_ATTN_TILE_BLOCKS */
    const void *const *prefetch; /* [n_block] pages to prefetch, or NULL */
    float *s;                    /* out: s[i * s_stride + 16 b + lane] */
    uint32_t s_stride;
} ft_attn_scores;

/* State of the queries in a span: maximum, sums of powers by lane, weighted sums of V. */
typedef struct ft_attn_sums {
    float *max; /* [nq] */
    float *sum; /* [nq, 16] */
    float *acc; /* [nq, dim] */
} ft_attn_sums;

/* Turns the scores of one tile into weights: powers of two relative to the largest score so far. */
typedef struct ft_attn_weights {
    float *s; /* in and out: [nq, FT_ATTN_TILE] */
    uint32_t nq, dim;
    const uint32_t *n; /* [nq] positions of the tile that the query sees; 0: skip this query */
    /* first tile of the span: the sums hold nothing yet, and acc is not touched */
    bool fresh;
    ft_attn_sums sums; /* max and sum are updated; acc is scaled to the new maximum */
} ft_attn_weights;

/* Adds weighted rows of V to acc. */
typedef struct ft_attn_values {
    const float *p; /* [nq, FT_ATTN_TILE] weights */
    uint32_t nq, dim;
    const void *const *v;        /* [FT_ATTN_TILE_BLOCKS] pages */
    const void *const *prefetch; /* [FT_ATTN_TILE_BLOCKS] pages to prefetch, or NULL */
    uint32_t begin, end;         /* lanes of the tile; begin is even */
    bool fresh;                  /* acc starts at zero */
    float *acc;                  /* [nq, dim] */
} ft_attn_values;

struct ft_attn_kernel {
    const char *name;
    ft_kv_type type;
    uint32_t dim_multiple; /* head_dim must be a multiple of it */

    /* out[head_dim] = RoPE(norm(x + bias)) * scale. */
    void (*prepare)(const ft_attn_head *head, float *out);
    /* Stores a prepared head as query i of nq. A query takes at most dim + dim / 16 floats. */
    void (*set_query)(const float *head, uint32_t dim, void *q, uint32_t nq, uint32_t i);
    /* Stores a token's K (prepared) or V in a lane of a page. */
    void (*write_k)(const float *head, uint32_t dim, void *page, uint32_t lane);
    void (*write_v)(const float *head, uint32_t dim, void *page, uint32_t lane);

    void (*scores)(const ft_attn_scores *args);
    void (*weights)(const ft_attn_weights *args);
    /* acc[i * dim ..] += sum over lanes [begin, end) of p[i * FT_ATTN_TILE + lane] v[lane]. */
    void (*values)(const ft_attn_values *args);
    /* Merges query i of a span into the total of the spans before it. */
    void (*fold)(const ft_attn_sums *total, const ft_attn_sums *span, uint32_t i, uint32_t dim);
};

/* By ft_kv_type. An entry without a name: there is no such kernel for the type. Each table is
 * defined only in builds for its machine. */
#define FT_ATTN_TYPES (FT_KV_Q8_0 + 1)
extern const ft_attn_kernel ft_attn_avx2[FT_ATTN_TYPES], ft_attn_avx512[FT_ATTN_TYPES];
extern const ft_attn_kernel ft_attn_bf16[FT_ATTN_TYPES]; /* dot products of bfloat16 */
extern const ft_attn_kernel ft_attn_vnni[FT_ATTN_TYPES]; /* dot products of bytes */
extern const ft_attn_kernel ft_attn_neon[FT_ATTN_TYPES];

#endif
