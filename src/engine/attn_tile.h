/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of attention, written once over vectors of 16 floats. Before it includes this, a
 * file defines:
 *
 *   x16 and  x16_zero, x16_set1, x16_load, x16_store, x16_load_f16, x16_load_i8 (16 bytes to
 *            floats),
 *   x16_byte (byte j of 16 groups of four, to floats), x16_pair_lo and x16_pair_hi (of 16 pairs of
 *   bf16), x16_round_bf16, x16_fma (a * b + c, one rounding), x16_mul, x16_add, x16_sub, x16_max,
 *   x16_round (to nearest even), x16_from (x, or b where x < b; may return x unchanged if x16_scale
 *   takes any n), x16_scale (p 2^n, or 0 where x < b), x16_keep (lanes >= n become v), x16_hmax,
 *   PREFETCH
 *   TILE_REGS: number of x16 accumulators that fit the registers
 *   KERNEL_NAME, KERNEL_TABLE, and the types to make: KERNEL_F16, KERNEL_BF16, KERNEL_Q8 (0 or 1)
 *   KERNEL_DOT: 1 if bf16 and q8_0 have dot products: dot2(acc, pairs of bf16, pair) and
 *   dot4(acc, unsigned bytes, signed bytes)
 * Every primitive is exact or rounds once, so all instruction sets give the same bits.
 * (lint: template header)
 */
#include "engine/attn_head.h"
#include "engine/attn_kernel.h"
#include "engine/inlined.h"

#include <math.h>

#if !KERNEL_DOT
#define dot4_start(excess) ((void)(excess), x16_zero())
#define dot4_end(sum)      (sum)
#endif

#define INLINE FT_INLINED
#define UNROLL FT_UNROLL(32)
#define TOK    FT_KV_BLOCK_TOK
#define TILE   FT_ATTN_TILE

/* 2^x for x <= 0: 2^n (n a whole number) times a polynomial in the rest r, |r| <= 0.5. Of all
 * polynomials of degree five with exp2(0) = 1 it has the smallest maximal relative error, 1e-7.
 * Below -126 the result is 0. */
INLINE x16 exp2_neg(x16 x)
{
    const x16 lowest = x16_set1(-126.0f);
    x16 c = x16_from(x, lowest);
    x16 n = x16_round(c);
    x16 r = x16_sub(c, n);
    x16 p = x16_set1(1.32647e-3f);
    p = x16_fma(p, r, x16_set1(9.67151e-3f));
    p = x16_fma(p, r, x16_set1(5.550734e-2f));
    p = x16_fma(p, r, x16_set1(2.4022242e-1f));
    p = x16_fma(p, r, x16_set1(6.9314698e-1f));
    p = x16_fma(p, r, x16_set1(1.0f));
    return x16_scale(x, lowest, p, n);
}

/* ---- scores ---- */

/* K of one block times the queries: one dimension of f16, or */
INLINE void scores_step_f16(x16 *acc, const char *k, const float *q, const unsigned NQ,
                            const unsigned NB)
{
    x16 kd = x16_load_f16((const ft_f16 *)k);
    UNROLL for (unsigned i = 0; i < NQ; i++) acc[i * NB] = x16_fma(kd, x16_set1(q[i]), acc[i * NB]);
}

/* two dimensions of bf16. */
INLINE void scores_step_bf16(x16 *acc, const char *k, const float *q, uint32_t nq,
                             const unsigned NQ, const unsigned NB)
{
#if KERNEL_DOT && KERNEL_BF16
    x16_pairs kd = x16_load_pairs(k);
    UNROLL for (unsigned i = 0; i < NQ; i++) acc[i * NB] =
        dot2(acc[i * NB], kd, (const uint32_t *)q + i);
    (void)nq;
#else
    x16 lo = x16_pair_lo(k), hi = x16_pair_hi(k);
    UNROLL for (unsigned i = 0; i < NQ; i++) acc[i * NB] =
        x16_fma(hi, x16_set1(q[nq + i]), acc[i * NB]);
    UNROLL for (unsigned i = 0; i < NQ; i++) acc[i * NB] = x16_fma(lo, x16_set1(q[i]), acc[i * NB]);
#endif
}

/* Queries [i0, i0 + NQ) x blocks [b0, b0 + NB), all accumulators in registers. The arguments are
 * copied first, because the compiler must assume that a store can change them. */
INLINE void scores_part(const ft_attn_scores *args, uint32_t i0, uint32_t b0, const unsigned NQ,
                        const unsigned NB, const int TYPE)
{
    static const void *const nothing[4];
    const uint32_t nq = args->nq, dim = args->dim, s_stride = args->s_stride;
    const unsigned step = TYPE == FT_KV_BF16 ? 2 : 1, q_step = KERNEL_DOT ? 1 : step;
    const float *q = (const float *)args->q + i0;
    const char *const *k = (const char *const *)args->k + b0;
    const char *const *prefetch =
        (const char *const *)(i0 == 0 ? args->prefetch + b0 : nothing); /* prefetch once only */
    float *s = args->s + (size_t)i0 * s_stride + (size_t)b0 * TOK;
    x16 acc[TILE_REGS];
    UNROLL for (unsigned i = 0; i < NQ * NB; i++) acc[i] = x16_zero();
    for (uint32_t d = 0; d < dim; d += step, q += (size_t)q_step * nq)
        UNROLL for (unsigned b = 0; b < NB; b++)
        {
            if ((d & 1) == 0 && prefetch[b])
                PREFETCH(prefetch[b] + (size_t)d * TOK * 2);
            const char *kd = k[b] + (size_t)d * TOK * 2;
            if (TYPE == FT_KV_F16)
                scores_step_f16(acc + b, kd, q, NQ, NB);
            else
                scores_step_bf16(acc + b, kd, q, nq, NQ, NB);
        }
    UNROLL for (unsigned i = 0; i < NQ; i++) UNROLL for (unsigned b = 0; b < NB; b++)
        x16_store(s + (size_t)i * s_stride + (size_t)b * TOK, acc[i * NB + b]);
}

#if KERNEL_Q8
/* Four dimensions of a block in bytes times the queries. */
INLINE void scores_step_q8(x16 *acc, const char *k, const float *q, uint32_t nq, const unsigned NQ,
                           const unsigned NB)
{
#if KERNEL_DOT
    x16_bytes kd = x16_load_bytes(k);
    UNROLL for (unsigned i = 0; i < NQ; i++) acc[i * NB] = dot4(acc[i * NB], kd, q + i);
    (void)nq;
#else
    UNROLL for (unsigned j = 0; j < 4; j++)
    {
        x16 kd = x16_byte(k, j);
        UNROLL for (unsigned i = 0; i < NQ; i++) acc[i * NB] =
            x16_fma(kd, x16_set1(q[j * (size_t)nq + i]), acc[i * NB]);
    }
#endif
}

/* A sum of 32 products of bytes is a whole number below 2^24: exact as a float and as an
 * integer. */
INLINE void scores_part_q8(const ft_attn_scores *args, uint32_t i0, uint32_t b0, const unsigned NQ,
                           const unsigned NB)
{
    static const void *const nothing[4];
    const uint32_t nq = args->nq, dim = args->dim, s_stride = args->s_stride;
    const char *const *k = (const char *const *)args->k + b0;
    const char *const *prefetch = (const char *const *)(i0 == 0 ? args->prefetch + b0 : nothing);
    const size_t values = ft_attn_scale_bytes(dim), q_step = KERNEL_DOT ? nq : (size_t)4 * nq;
    const float *q = (const float *)args->q + i0, *q_scale = q + dim / 4 * q_step;
    float *s = args->s + (size_t)i0 * s_stride + (size_t)b0 * TOK;
    for (uint32_t g = 0; g < dim / FT_Q8_GROUP; g++, q_scale += nq) {
        const int32_t *excess = (const int32_t *)q_scale + (size_t)(dim / FT_Q8_GROUP) * nq;
        x16 acc[TILE_REGS];
        UNROLL for (unsigned i = 0; i < NQ * NB; i++) acc[i] = dot4_start(excess[i / NB]);
        for (uint32_t d = 0; d < FT_Q8_GROUP; d += 4, q += q_step) {
            size_t at = values + (size_t)(g * FT_Q8_GROUP + d) * TOK;
            UNROLL for (unsigned b = 0; b < NB; b++)
            {
                if (prefetch[b])
                    PREFETCH(prefetch[b] + at);
                scores_step_q8(acc + b, k[b] + at, q, nq, NQ, NB);
            }
        }
        UNROLL for (unsigned i = 0; i < NQ * NB; i++)
        {
            float *to = s + (size_t)(i / NB) * s_stride + (size_t)(i % NB) * TOK;
            x16 scale = x16_load_f16((const ft_f16 *)k[i % NB] + (size_t)g * TOK);
            scale = x16_mul(scale, x16_set1(q_scale[i / NB]));
            x16 before = g ? x16_load(to) : x16_zero();
            x16_store(to, x16_fma(dot4_end(acc[i]), scale, before));
        }
    }
}
#endif

/* Numbers of queries, each with the number of blocks that fit the registers at once; the most
 * queries first, down to one. */
#if TILE_REGS >= 30
#define SCORES_MOST(X, T) X(T, 30, 1) X(T, 28, 1) X(T, 27, 1) X(T, 24, 1)
#define SCORES_MANY(X, T) \
    SCORES_MOST(X, T) X(T, 16, 1) X(T, 12, 2) X(T, 11, 2) X(T, 10, 2) X(T, 9, 2)
#define SCORES_FEW(X, T)    X(T, 8, 2) X(T, 7, 2) X(T, 6, 4) X(T, 5, 4) X(T, 4, 4) X(T, 3, 4)
#define SCORES_SHAPES(X, T) SCORES_MANY(X, T) SCORES_FEW(X, T) X(T, 2, 4) X(T, 1, 4)
#else
#define SCORES_SHAPES(X, T) X(T, 6, 1) X(T, 5, 1) X(T, 4, 1) X(T, 3, 2) X(T, 2, 2) X(T, 1, 4)
#endif

typedef void scores_fn(const ft_attn_scores *args, uint32_t i0, uint32_t b0);
typedef struct scores_entry {
    uint32_t nq, nb;
    scores_fn *one, *many;
} scores_entry;

INLINE void scores_any(const ft_attn_scores *args, const scores_entry *e)
{
    for (uint32_t i = 0; i < args->nq; i += e->nq) {
        while (e->nq > args->nq - i)
            e++;
        uint32_t b = 0;
        for (; b + e->nb <= args->n_block; b += e->nb)
            e->many(args, i, b);
        for (; b < args->n_block; b++)
            e->one(args, i, b);
    }
}

#define part_f16(a, i, b, NQ, NB)  scores_part(a, i, b, NQ, NB, FT_KV_F16)
#define part_bf16(a, i, b, NQ, NB) scores_part(a, i, b, NQ, NB, FT_KV_BF16)
#define part_q8(a, i, b, NQ, NB)   scores_part_q8(a, i, b, NQ, NB)
#define SCORES_FUNCTIONS(T, NQ, NB)                                                          \
    static void scores_one_##T##_##NQ(const ft_attn_scores *args, uint32_t i0, uint32_t b0)  \
    {                                                                                        \
        part_##T(args, i0, b0, NQ, 1);                                                       \
    }                                                                                        \
    static void scores_many_##T##_##NQ(const ft_attn_scores *args, uint32_t i0, uint32_t b0) \
    {                                                                                        \
        part_##T(args, i0, b0, NQ, NB);                                                      \
    }
#define SCORES_ENTRY(T, NQ, NB) {NQ, NB, scores_one_##T##_##NQ, scores_many_##T##_##NQ},
#define DEFINE_SCORES(T)                                                             \
    SCORES_SHAPES(SCORES_FUNCTIONS, T)                                               \
    static const scores_entry scores_table_##T[] = {SCORES_SHAPES(SCORES_ENTRY, T)}; \
    static void scores_##T(const ft_attn_scores *args)                               \
    {                                                                                \
        scores_any(args, scores_table_##T);                                          \
    }

/* ---- weights ---- */

/* The type of the weights: pairs of bf16 with dot products, else floats. For bf16 they are rounded
 * to it. */
INLINE x16 weights_store(float *s, unsigned vec, x16 p, const int TYPE)
{
#if KERNEL_DOT && KERNEL_BF16
    (void)TYPE;
    return x16_store_bf16((ft_bf16 *)s + (size_t)vec * 16, p);
#else
    if (TYPE == FT_KV_BF16)
        p = x16_round_bf16(p);
    x16_store(s + (size_t)vec * 16, p);
    return p;
#endif
}

/* Vector j of query i's scores; -infinity where the query does not see the position. */
INLINE x16 weights_load(const ft_attn_weights *args, uint32_t i, uint32_t j)
{
    const x16 none = x16_set1(-INFINITY);
    uint32_t n = args->n[i], before = j * 16;
    x16 v = x16_load(args->s + (size_t)i * TILE + before);
    return n >= before + 16 ? v : n > before ? x16_keep(v, n - before, none) : none;
}

INLINE float weights_max(const ft_attn_weights *args, uint32_t i)
{
    x16 v[TILE / 16];
    UNROLL for (uint32_t j = 0; j < TILE / 16; j++) v[j] = weights_load(args, i, j);
    return x16_hmax(x16_max(x16_max(v[0], v[1]), x16_max(v[2], v[3])));
}

INLINE void weights_one(const ft_attn_weights *args, uint32_t i, float tile_max, const bool WHOLE,
                        const int TYPE)
{
    const uint32_t n = args->n[i], dim = args->dim, n_vec = WHOLE ? TILE / 16 : (n + 15) / 16;
    float *s = args->s + (size_t)i * TILE, *max = args->sums.max + i;
    float *sum = args->sums.sum + (size_t)i * 16, *acc = args->sums.acc + (size_t)i * dim;
    x16 total = x16_zero();
    if (args->fresh) {
        *max = tile_max;
    } else {
        total = x16_load(sum);
        if (tile_max > *max) { /* rare after a span's first tiles; a factor of 1 changes nothing */
            x16 factor = exp2_neg(x16_set1(*max - tile_max));
            total = x16_mul(total, factor);
            for (uint32_t d = 0; d < dim; d += 16)
                x16_store(acc + d, x16_mul(x16_load(acc + d), factor));
            *max = tile_max;
        }
    }
    x16 m = x16_set1(*max);
    UNROLL for (uint32_t j = 0; j < n_vec; j++)
    {
        x16 p = exp2_neg(x16_sub(x16_load(s + (size_t)j * 16), m));
        if (!WHOLE && n < (j + 1) * 16)
            p = x16_keep(p, n - j * 16, x16_zero());
        total = x16_add(total, weights_store(s, j, p, TYPE));
    }
    x16_store(sum, total);
}

/* All maxima first. Each is a chain of dependent steps, and several chains run at the same time. */
INLINE void weights_any(const ft_attn_weights *args, const int TYPE)
{
    float max[FT_ATTN_NQ];
    for (uint32_t i = 0; i < args->nq; i++)
        max[i] = weights_max(args, i);
    for (uint32_t i = 0; i < args->nq; i++) {
        if (args->n[i] == TILE)
            weights_one(args, i, max[i], true, TYPE);
        else if (args->n[i])
            weights_one(args, i, max[i], false, TYPE);
    }
}

/* ---- values ---- */

/* Sixteen dimensions of V times the queries' weights: one token of f16 or q8_0, or */
INLINE void values_step(x16 *a, x16 v, const float *p, const unsigned NQ, const unsigned ND)
{
    UNROLL for (unsigned i = 0; i < NQ; i++) a[i * ND] =
        x16_fma(v, x16_set1(p[(size_t)i * TILE]), a[i * ND]);
}

/* two tokens of bf16, of which the second may be absent. */
INLINE void values_step_bf16(x16 *a, const char *v, const float *p, const unsigned NQ,
                             const unsigned ND, const bool ODD)
{
#if KERNEL_DOT && KERNEL_BF16
    x16_pairs both = x16_load_pairs(v);
    if (ODD)
        both = x16_first_of_pairs(both);
    UNROLL for (unsigned i = 0; i < NQ; i++) a[i * ND] =
        dot2(a[i * ND], both, (const uint32_t *)(p + (size_t)i * TILE));
#else
    if (!ODD)
        values_step(a, x16_pair_hi(v), p + 1, NQ, ND);
    values_step(a, x16_pair_lo(v), p, NQ, ND);
#endif
}

/* Queries [i0, i0 + NQ) x dimensions [d, d + 16 ND), all accumulators in registers. */
INLINE void values_part(const ft_attn_values *args, uint32_t i0, uint32_t d, const unsigned NQ,
                        const unsigned ND, const int TYPE)
{
    static const void *const nothing[FT_ATTN_TILE_BLOCKS];
    const uint32_t dim = args->dim, end = args->end;
    const unsigned step = TYPE == FT_KV_BF16 ? 2 : 1;
    const size_t unit = TYPE == FT_KV_Q8_0 ? 1 : 2; /* bytes of a value */
    const size_t first = TYPE == FT_KV_Q8_0 ? ft_attn_scale_bytes(dim) : 0;
    const char *const *prefetch =
        (const char *const *)(i0 == 0 && args->prefetch ? args->prefetch : nothing);
    const float *p = args->p + (size_t)i0 * TILE;
    float *acc = args->acc + (size_t)i0 * dim + d;
    const bool fresh = args->fresh;
    x16 a[TILE_REGS];
    UNROLL for (unsigned i = 0; i < NQ * ND; i++) a[i] =
        fresh ? x16_zero() : x16_load(acc + (size_t)(i / ND) * dim + (size_t)(i % ND) * 16);
    for (uint32_t lane = args->begin; lane < end;) {
        const char *page = (const char *)args->v[lane / TOK] + first, *near = prefetch[lane / TOK];
        uint32_t stop = lane / TOK * TOK + TOK < end ? lane / TOK * TOK + TOK : end;
        for (; lane + step <= stop; lane += step) {
            size_t at = (lane % TOK * (size_t)dim + d * step) * unit;
            const float *pl = p + (KERNEL_DOT && KERNEL_BF16 ? lane / 2 : lane);
            if (near)
                UNROLL for (unsigned j = 0; j < ND * 16 * step * unit; j += 64)
                    PREFETCH(near + at + j);
            UNROLL for (unsigned j = 0; j < ND; j++)
            {
                const char *v = page + at + j * 16 * step * unit;
                if (TYPE == FT_KV_F16)
                    values_step(a + j, x16_load_f16((const ft_f16 *)v), pl, NQ, ND);
                else if (TYPE == FT_KV_Q8_0)
                    values_step(a + j, x16_load_i8((const int8_t *)v), pl, NQ, ND);
                else
                    values_step_bf16(a + j, v, pl, NQ, ND, false);
            }
        }
        if (TYPE == FT_KV_BF16 && lane < stop) {
            const char *v = page + (lane % TOK * (size_t)dim + d * 2) * 2;
            const float *pl = p + (KERNEL_DOT && KERNEL_BF16 ? lane / 2 : lane);
            UNROLL for (unsigned j = 0; j < ND; j++)
                values_step_bf16(a + j, v + (size_t)j * 64, pl, NQ, ND, true);
            lane++;
        }
    }
    UNROLL for (unsigned i = 0; i < NQ * ND; i++)
        x16_store(acc + (size_t)(i / ND) * dim + (size_t)(i % ND) * 16, a[i]);
}

/* Numbers of queries, each with the number of dimensions (in 16s) that fit the registers at once;
 * the most queries first, down to one. q8_0 takes at most 32 dimensions, which share a scale. */
#if TILE_REGS >= 30
#define VALUES_MOST(X, T)   X(T, 30, 1) X(T, 28, 1) X(T, 27, 1) X(T, 24, 1)
#define VALUES_MANY(X, T)   VALUES_MOST(X, T) X(T, 12, 2) X(T, 8, 2)
#define VALUES_FEW(X, T)    X(T, 6, 4) X(T, 5, 4) X(T, 4, 4) X(T, 3, 4) X(T, 2, 4) X(T, 1, 4)
#define VALUES_SHAPES(X, T) VALUES_MANY(X, T) VALUES_FEW(X, T)
#define VALUES_NARROW(X, T) VALUES_MANY(X, T) X(T, 4, 2) X(T, 3, 2) X(T, 2, 2) X(T, 1, 2)
#else
#define VALUES_SHAPES(X, T) X(T, 6, 1) X(T, 4, 1) X(T, 3, 2) X(T, 2, 2) X(T, 1, 4)
#define VALUES_NARROW(X, T) X(T, 6, 1) X(T, 4, 1) X(T, 3, 2) X(T, 2, 2) X(T, 1, 2)
#endif

typedef void values_fn(const ft_attn_values *args, uint32_t i0, uint32_t d);
typedef struct values_entry {
    uint32_t nq, nd;
    values_fn *one, *many;
} values_entry;

/* Dimensions [d, end). */
INLINE void values_any(const ft_attn_values *args, const values_entry *e, uint32_t d0, uint32_t end)
{
    for (uint32_t i = 0; i < args->nq; i += e->nq) {
        while (e->nq > args->nq - i)
            e++;
        uint32_t d = d0;
        for (; d + e->nd * 16 <= end; d += e->nd * 16)
            e->many(args, i, d);
        for (; d < end; d += 16)
            e->one(args, i, d);
    }
}

/* q8_0: first multiplies weights by scales, then treats each group of dimensions separately. */
INLINE void values_scaled(const ft_attn_values *args, const values_entry *table)
{
    float p[FT_ATTN_NQ * TILE];
    ft_attn_values part = *args;
    part.p = p;
    for (uint32_t g = 0; g < args->dim / FT_Q8_GROUP; g++) {
        for (uint32_t lane = args->begin / 16 * 16; lane < args->end; lane += 16) {
            const ft_f16 *scales = (const ft_f16 *)args->v[lane / TOK] + (size_t)g * TOK;
            x16 scale = x16_load_f16(scales);
            for (uint32_t i = 0; i < args->nq; i++)
                x16_store(p + (size_t)i * TILE + lane,
                          x16_mul(x16_load(args->p + (size_t)i * TILE + lane), scale));
        }
        values_any(&part, table, g * FT_Q8_GROUP, (g + 1) * FT_Q8_GROUP);
    }
}

#define VALUES_FUNCTIONS(T, NQ, ND)                                                         \
    static void values_one_##T##_##NQ(const ft_attn_values *args, uint32_t i0, uint32_t d)  \
    {                                                                                       \
        values_part(args, i0, d, NQ, 1, values_type_##T);                                   \
    }                                                                                       \
    static void values_many_##T##_##NQ(const ft_attn_values *args, uint32_t i0, uint32_t d) \
    {                                                                                       \
        values_part(args, i0, d, NQ, ND, values_type_##T);                                  \
    }
#define VALUES_ENTRY(T, NQ, ND) {NQ, ND, values_one_##T##_##NQ, values_many_##T##_##NQ},
enum { values_type_f16 = FT_KV_F16, values_type_bf16 = FT_KV_BF16, values_type_q8 = FT_KV_Q8_0 };
#define DEFINE_VALUES(T, SHAPES) \
    SHAPES(VALUES_FUNCTIONS, T)  \
    static const values_entry values_table_##T[] = {SHAPES(VALUES_ENTRY, T)};

/* ---- spans ---- */

static void fold(const ft_attn_sums *total, const ft_attn_sums *span, uint32_t i, uint32_t dim)
{
    float *sum = total->sum + (size_t)i * 16, *acc = total->acc + (size_t)i * dim;
    const float *span_sum = span->sum + (size_t)i * 16, *span_acc = span->acc + (size_t)i * dim;
    float a = total->max[i], b = span->max[i], top = b > a ? b : a;
    x16 old = exp2_neg(x16_set1(a - top)), new = exp2_neg(x16_set1(b - top));
    total->max[i] = top;
    x16_store(sum, x16_fma(x16_load(span_sum), new, x16_mul(x16_load(sum), old)));
    for (uint32_t d = 0; d < dim; d += 16)
        x16_store(acc + d, x16_fma(x16_load(span_acc + d), new, x16_mul(x16_load(acc + d), old)));
}

/* ---- kernels ---- */

#define WEIGHTS_FUNCTION(T)                              \
    static void weights_##T(const ft_attn_weights *args) \
    {                                                    \
        weights_any(args, values_type_##T);              \
    }
#define KERNEL(T, MULTIPLE, QUERY)                                                                 \
    {                                                                                              \
        .name = KERNEL_NAME, .type = (ft_kv_type)values_type_##T, .dim_multiple = MULTIPLE,        \
        .prepare = head_prepare, .set_query = QUERY, .write_k = head_k_##T, .write_v = head_v_##T, \
        .scores = scores_##T, .weights = weights_##T, .values = values_##T, .fold = fold           \
    }

#if KERNEL_F16
DEFINE_SCORES(f16)
DEFINE_VALUES(f16, VALUES_SHAPES)
WEIGHTS_FUNCTION(f16)
static void values_f16(const ft_attn_values *args)
{
    values_any(args, values_table_f16, 0, args->dim);
}
#endif

#if KERNEL_BF16
DEFINE_SCORES(bf16)
DEFINE_VALUES(bf16, VALUES_SHAPES)
WEIGHTS_FUNCTION(bf16)
static void values_bf16(const ft_attn_values *args)
{
    values_any(args, values_table_bf16, 0, args->dim);
}
#endif

#if KERNEL_Q8
DEFINE_SCORES(q8)
DEFINE_VALUES(q8, VALUES_NARROW)
WEIGHTS_FUNCTION(q8)
static void values_q8(const ft_attn_values *args)
{
    values_scaled(args, values_table_q8);
}
#endif

const ft_attn_kernel KERNEL_TABLE[FT_ATTN_TYPES] = {
#if KERNEL_F16
    [FT_KV_F16] = KERNEL(f16, 16, head_query_f16),
#endif
#if KERNEL_BF16
    [FT_KV_BF16] = KERNEL(bf16, 16, KERNEL_DOT ? head_query_bf16_pairs : head_query_bf16),
#endif
#if KERNEL_Q8
    [FT_KV_Q8_0] = KERNEL(q8, FT_Q8_GROUP, KERNEL_DOT ? head_query_q8_dot : head_query_q8),
#endif
};
