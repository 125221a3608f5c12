/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of attention, written once over vectors of 16 floats. A file that includes this
 * defines before it:
 *   x16 and  x16_zero, x16_set1, x16_load, x16_store, x16_load_f16, x16_fma (a * b + c, one
 *   rounding), x16_mul, x16_add, x16_sub, x16_max, x16_round (to nearest even), x16_pow2 (2^n of
 *   whole n in [-126, 0]), x16_zero_below (0 where a < b, else c), x16_keep (lanes >= n become v),
 *   x16_hmax, PREFETCH
 *   TILE_REGS: vectors of 16 that accumulators may take
 *   KERNEL_SYMBOL, KERNEL_NAME
 * Every primitive is exact or rounds once, so all instruction sets give the same bits.
 * (lint: template header)
 */
#include "engine/attn_kernel.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 24")

/* 2^x for x <= 0: 2^n (n whole) times a polynomial in the rest, |r| <= 0.5; relative error below
 * 2e-7 (Taylor in r ln 2 to the sixth power). Below -126 it is 0. */
INLINE x16 exp2_neg(x16 x)
{
    const x16 floor_x = x16_set1(-126.0f);
    x16 c = x16_max(x, floor_x);
    x16 n = x16_round(c);
    x16 r = x16_sub(c, n);
    x16 p = x16_set1(1.54035304e-4f);
    p = x16_fma(p, r, x16_set1(1.33335581e-3f));
    p = x16_fma(p, r, x16_set1(9.61812911e-3f));
    p = x16_fma(p, r, x16_set1(5.55041087e-2f));
    p = x16_fma(p, r, x16_set1(2.40226507e-1f));
    p = x16_fma(p, r, x16_set1(6.93147181e-1f));
    p = x16_fma(p, r, x16_set1(1.0f));
    return x16_zero_below(x, floor_x, x16_mul(p, x16_pow2(n)));
}

/* NQ queries from i0 on x NB blocks from b0 on, all accumulators in registers. What is needed of
 * the arguments is read once: the stores may be to anywhere. */
INLINE void scores_part(const ft_attn_scores *args, uint32_t i0, uint32_t b0, const unsigned NQ,
                        const unsigned NB)
{
    static const ft_f16 *const nothing[4];
    const uint32_t q_stride = args->nq, dim = args->dim, s_stride = args->s_stride;
    const float *q = args->q + i0;
    const ft_f16 *const *k = args->k + b0;
    const ft_f16 *const *ahead = i0 == 0 ? args->ahead + b0 : nothing; /* once is enough */
    float *s = args->s + (size_t)i0 * s_stride + (size_t)b0 * 16;
    x16 acc[TILE_REGS];
    UNROLL for (unsigned i = 0; i < NQ * NB; i++) acc[i] = x16_zero();
    for (uint32_t d = 0; d < dim; d++) {
        x16 kd[4];
        UNROLL for (unsigned b = 0; b < NB; b++)
        {
            kd[b] = x16_load_f16(k[b] + (size_t)d * 16);
            if ((d & 1) == 0 && ahead[b])
                PREFETCH(ahead[b] + (size_t)d * 16);
        }
        UNROLL for (unsigned i = 0; i < NQ; i++)
        {
            x16 qi = x16_set1(q[(size_t)d * q_stride + i]);
            UNROLL for (unsigned b = 0; b < NB; b++) acc[i * NB + b] =
                x16_fma(kd[b], qi, acc[i * NB + b]);
        }
    }
    UNROLL for (unsigned i = 0; i < NQ; i++) UNROLL for (unsigned b = 0; b < NB; b++)
        x16_store(s + (size_t)i * s_stride + (size_t)b * 16, acc[i * NB + b]);
}

/* Query counts, with the blocks at a time that fit the registers; the most queries first, down to
 * one. */
#if TILE_REGS >= 24
#define SCORES_MANY(X)   X(24, 1) X(16, 1) X(12, 2) X(11, 2) X(10, 2) X(9, 2) X(8, 2) X(7, 2)
#define SCORES_FEW(X)    X(6, 4) X(5, 4) X(4, 4) X(3, 4) X(2, 4) X(1, 4)
#define SCORES_SHAPES(X) SCORES_MANY(X) SCORES_FEW(X)
#else
#define SCORES_SHAPES(X) X(4, 1) X(3, 1) X(2, 2) X(1, 4)
#endif

#define SCORES_FUNCTIONS(NQ, NB)                                                       \
    static void scores_one_##NQ(const ft_attn_scores *args, uint32_t i0, uint32_t b0)  \
    {                                                                                  \
        scores_part(args, i0, b0, NQ, 1);                                              \
    }                                                                                  \
    static void scores_many_##NQ(const ft_attn_scores *args, uint32_t i0, uint32_t b0) \
    {                                                                                  \
        scores_part(args, i0, b0, NQ, NB);                                             \
    }
SCORES_SHAPES(SCORES_FUNCTIONS)

typedef void scores_fn(const ft_attn_scores *args, uint32_t i0, uint32_t b0);

#define SCORES_ENTRY(NQ, NB) {NQ, NB, scores_one_##NQ, scores_many_##NQ},
static const struct scores_entry {
    uint32_t nq, nb;
    scores_fn *one, *many;
} scores_table[] = {SCORES_SHAPES(SCORES_ENTRY)};

static void scores(const ft_attn_scores *args)
{
    const struct scores_entry *e = scores_table;
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

static void softmax(float *s, uint32_t n, float *max, float *sum)
{
    const x16 none = x16_set1(-INFINITY);
    x16 v[FT_ATTN_TILE / 16], top = none, total = x16_zero();
    uint32_t n_vec = (n + 15) / 16;
    for (uint32_t i = 0; i < n_vec; i++) {
        v[i] = x16_load(s + (size_t)i * 16);
        if (n < (i + 1) * 16)
            v[i] = x16_keep(v[i], n - i * 16, none);
        top = x16_max(top, v[i]);
    }
    *max = x16_hmax(top);
    x16 m = x16_set1(*max);
    for (uint32_t i = 0; i < n_vec; i++) {
        x16 p = exp2_neg(x16_sub(v[i], m));
        if (n < (i + 1) * 16)
            p = x16_keep(p, n - i * 16, x16_zero());
        total = x16_add(total, p);
        x16_store(s + (size_t)i * 16, p);
    }
    x16_store(sum, total);
}

/* NQ queries from i0 on x 16 ND dimensions from d on, all accumulators in registers. */
INLINE void values_part(const ft_attn_values *args, uint32_t i0, uint32_t d, const unsigned NQ,
                        const unsigned ND)
{
    const uint32_t dim = args->dim, end = args->end;
    const float *p = args->p + (size_t)i0 * FT_ATTN_TILE;
    const ft_f16 *const *v = args->v, *const *ahead = i0 == 0 ? args->ahead : NULL;
    float *acc = args->acc + (size_t)i0 * dim + d;
    const bool fresh = args->fresh;
    x16 a[TILE_REGS];
    UNROLL for (unsigned i = 0; i < NQ * ND; i++) a[i] =
        fresh ? x16_zero() : x16_load(acc + (size_t)(i / ND) * dim + (size_t)(i % ND) * 16);
    for (uint32_t lane = args->begin; lane < end; lane++) {
        x16 vl[4];
        UNROLL for (unsigned j = 0; j < ND; j++) vl[j] = x16_load_f16(v[lane] + d + (size_t)j * 16);
        if (ahead) {
            PREFETCH(ahead[lane] + d);
            if (ND > 2)
                PREFETCH(ahead[lane] + d + 32);
        }
        UNROLL for (unsigned i = 0; i < NQ; i++)
        {
            x16 pi = x16_set1(p[(size_t)i * FT_ATTN_TILE + lane]);
            UNROLL for (unsigned j = 0; j < ND; j++) a[i * ND + j] =
                x16_fma(vl[j], pi, a[i * ND + j]);
        }
    }
    UNROLL for (unsigned i = 0; i < NQ * ND; i++)
        x16_store(acc + (size_t)(i / ND) * dim + (size_t)(i % ND) * 16, a[i]);
}

/* Query counts, with the dimensions at a time (in 16s) that fit the registers; the most queries
 * first, down to one. */
#if TILE_REGS >= 24
#define VALUES_SHAPES(X) X(12, 2) X(8, 2) X(6, 4) X(5, 4) X(4, 4) X(3, 4) X(2, 4) X(1, 4)
#else
#define VALUES_SHAPES(X) X(4, 1) X(3, 1) X(2, 2) X(1, 4)
#endif

#define VALUES_FUNCTIONS(NQ, ND)                                                      \
    static void values_one_##NQ(const ft_attn_values *args, uint32_t i0, uint32_t d)  \
    {                                                                                 \
        values_part(args, i0, d, NQ, 1);                                              \
    }                                                                                 \
    static void values_many_##NQ(const ft_attn_values *args, uint32_t i0, uint32_t d) \
    {                                                                                 \
        values_part(args, i0, d, NQ, ND);                                             \
    }
VALUES_SHAPES(VALUES_FUNCTIONS)

typedef void values_fn(const ft_attn_values *args, uint32_t i0, uint32_t d);

#define VALUES_ENTRY(NQ, ND) {NQ, ND, values_one_##NQ, values_many_##NQ},
static const struct values_entry {
    uint32_t nq, nd;
    values_fn *one, *many;
} values_table[] = {VALUES_SHAPES(VALUES_ENTRY)};

static void values(const ft_attn_values *args)
{
    const struct values_entry *e = values_table;
    for (uint32_t i = 0; i < args->nq; i += e->nq) {
        while (e->nq > args->nq - i)
            e++;
        uint32_t d = 0;
        for (; d + e->nd * 16 <= args->dim; d += e->nd * 16)
            e->many(args, i, d);
        for (; d < args->dim; d += 16)
            e->one(args, i, d);
    }
}

static void fold(const ft_attn_sums *total, const ft_attn_sums *tile, uint32_t dim)
{
    float *sum = total->sum, *acc = total->acc;
    const float *tile_acc = tile->acc;
    float top = *tile->max > *total->max ? *tile->max : *total->max;
    x16 old = exp2_neg(x16_set1(*total->max - top)), new = exp2_neg(x16_set1(*tile->max - top));
    *total->max = top;
    x16_store(sum, x16_fma(x16_load(tile->sum), new, x16_mul(x16_load(sum), old)));
    for (uint32_t d = 0; d < dim; d += 16)
        x16_store(acc + d, x16_fma(x16_load(tile_acc + d), new, x16_mul(x16_load(acc + d), old)));
}

static const ft_attn_kernel kernel = {
    .name = KERNEL_NAME,
    .dim_multiple = 16,
    .scores = scores,
    .softmax = softmax,
    .values = values,
    .fold = fold,
};
