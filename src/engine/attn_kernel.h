/* SPDX-License-Identifier: Apache-2.0
 *
 * What an instruction set brings to attention: four inner loops over one tile. attn_tile.h writes
 * them once on top of 16-lane primitives; attn_plain.c, attn_avx2.c, attn_avx512.c supply those.
 */
#ifndef FT_ENGINE_ATTN_KERNEL_H
#define FT_ENGINE_ATTN_KERNEL_H

#include "engine/attn.h"

struct ft_attn_kernel {
    const char *name;
    uint32_t dim_multiple; /* head sizes it can take */

    /* Scores of nq <= FT_ATTN_NQ queries against n_block blocks of K: s[i * s_stride + 16 b + lane].
     * q: [dim, nq]. k: [n_block] blocks [dim][16]. ahead: [n_block] memory of the same size to bring
     * near, entries may be NULL. */
    void (*scores)(const float *q, uint32_t nq, uint32_t dim, const ft_f16 *const *k,
                   const ft_f16 *const *ahead, uint32_t n_block, float *s, uint32_t s_stride);

    /* s [FT_ATTN_TILE] to powers of two relative to their maximum over the first n > 0; the maximum;
     * and the sum by lanes [16]. Entries from n on are not read. */
    void (*softmax)(float *s, uint32_t n, float *max, float *sum);

    /* acc[i * dim ..] += sum over lanes [begin, end) of p[i * FT_ATTN_TILE + lane] v[lane], for nq
     * queries; fresh: acc starts at zero. v: [FT_ATTN_TILE] rows [dim]. ahead: as in scores, a list
     * of rows [FT_ATTN_TILE] or NULL. */
    void (*values)(const float *p, uint32_t nq, uint32_t dim, const ft_f16 *const *v,
                   const ft_f16 *const *ahead, uint32_t begin, uint32_t end, bool fresh,
                   float *acc);

    /* Folds a tile (max, sum [16], acc [dim]) into the total of the tiles before it. */
    void (*fold)(float *total_max, float *total_sum, float *total_acc, float max, const float *sum,
                 const float *acc, uint32_t dim);
};

#endif
