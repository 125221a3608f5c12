/* SPDX-License-Identifier: Apache-2.0
 *
 * What an instruction set brings to attention: four inner loops over one tile. attn_tile.h writes
 * them once on top of 16-lane primitives; attn_plain.c, attn_avx2.c, attn_avx512.c supply those.
 */
#ifndef FT_ENGINE_ATTN_KERNEL_H
#define FT_ENGINE_ATTN_KERNEL_H

#include "engine/attn.h"

/* Scores of queries against blocks of K. */
typedef struct ft_attn_scores {
    const float *q;         /* [dim, nq] */
    uint32_t nq, dim;       /* nq <= FT_ATTN_NQ */
    const ft_f16 *const *k; /* [n_block] blocks [dim][16] */
    uint32_t n_block;
    const ft_f16 *const *ahead; /* [n_block] memory of the same size to bring near; may be NULL */
    float *s;                   /* out: s[i * s_stride + 16 b + lane] */
    uint32_t s_stride;
} ft_attn_scores;

/* Weighted sums of rows of V. */
typedef struct ft_attn_values {
    const float *p; /* [nq, FT_ATTN_TILE] */
    uint32_t nq, dim;
    const ft_f16 *const *v;     /* [FT_ATTN_TILE] rows [dim] */
    const ft_f16 *const *ahead; /* [FT_ATTN_TILE] as in ft_attn_scores, or NULL: none */
    uint32_t begin, end;        /* lanes of the tile */
    bool fresh;                 /* acc starts at zero */
    float *acc;                 /* out: [nq, dim] */
} ft_attn_values;

/* What a query has of its tiles: maximum, sums of powers by lane, weighted sums of V. */
typedef struct ft_attn_sums {
    float *max; /* [1] */
    float *sum; /* [16] */
    float *acc; /* [dim] */
} ft_attn_sums;

struct ft_attn_kernel {
    const char *name;
    uint32_t dim_multiple; /* head sizes it can take */

    void (*scores)(const ft_attn_scores *args);

    /* s [FT_ATTN_TILE] to powers of two relative to their maximum over the first n > 0; the maximum;
     * and the sum by lanes [16]. Entries from n on are not read. */
    void (*softmax)(float *s, uint32_t n, float *max, float *sum);

    /* acc[i * dim ..] += sum over lanes [begin, end) of p[i * FT_ATTN_TILE + lane] v[lane]. */
    void (*values)(const ft_attn_values *args);

    /* Folds a tile into the total of the tiles before it. */
    void (*fold)(const ft_attn_sums *total, const ft_attn_sums *tile, uint32_t dim);
};

#endif
