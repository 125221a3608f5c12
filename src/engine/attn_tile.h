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

/* NQ queries x NB blocks, all accumulators in registers. */
INLINE void scores_part(const float *q, const unsigned NQ, uint32_t q_stride, uint32_t dim,
                        const ft_f16 *const *k, const ft_f16 *const *ahead, const unsigned NB,
                        float *s, uint32_t s_stride)
{
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

typedef void scores_fn(const float *q, uint32_t q_stride, uint32_t dim, const ft_f16 *const *k,
                       const ft_f16 *const *ahead, float *s, uint32_t s_stride);

#define SCORES(NQ, NB)                                                                           \
    static void scores_##NQ##_##NB(const float *q, uint32_t q_stride, uint32_t dim,              \
                                   const ft_f16 *const *k, const ft_f16 *const *ahead, float *s, \
                                   uint32_t s_stride)                                            \
    {                                                                                            \
        scores_part(q, NQ, q_stride, dim, k, ahead, NB, s, s_stride);                            \
    }

/* Query counts and blocks at a time that fit the registers; [NQ] = {1, several blocks}. */
#if TILE_REGS >= 24
SCORES(1, 1)
SCORES(2, 1) SCORES(3, 1) SCORES(4, 1) SCORES(5, 1) SCORES(6, 1) SCORES(7, 1) SCORES(8, 1)
    SCORES(9, 1) SCORES(10, 1) SCORES(11, 1) SCORES(12, 1) SCORES(16, 1) SCORES(24, 1) SCORES(1, 4)
        SCORES(2, 4) SCORES(3, 4) SCORES(4, 4) SCORES(5, 4) SCORES(6, 4) SCORES(7, 2) SCORES(8, 2)
            SCORES(9, 2) SCORES(10, 2) SCORES(11, 2) SCORES(12, 2) static const
    struct scores_entry {
    uint32_t nq, nb;
    scores_fn *one, *many;
} scores_table[] = {
    {24, 1, scores_24_1, scores_24_1}, {16, 1, scores_16_1, scores_16_1},
    {12, 2, scores_12_1, scores_12_2}, {11, 2, scores_11_1, scores_11_2},
    {10, 2, scores_10_1, scores_10_2}, {9, 2, scores_9_1, scores_9_2},
    {8, 2, scores_8_1, scores_8_2},    {7, 2, scores_7_1, scores_7_2},
    {6, 4, scores_6_1, scores_6_4},    {5, 4, scores_5_1, scores_5_4},
    {4, 4, scores_4_1, scores_4_4},    {3, 4, scores_3_1, scores_3_4},
    {2, 4, scores_2_1, scores_2_4},    {1, 4, scores_1_1, scores_1_4},
};
#else
SCORES(1, 1)
SCORES(2, 1) SCORES(3, 1) SCORES(4, 1) SCORES(1, 4) SCORES(2, 2) static const struct scores_entry {
    uint32_t nq, nb;
    scores_fn *one, *many;
} scores_table[] = {
    {4, 1, scores_4_1, scores_4_1},
    {3, 1, scores_3_1, scores_3_1},
    {2, 2, scores_2_1, scores_2_2},
    {1, 4, scores_1_1, scores_1_4},
};
#endif

static void scores(const float *q, uint32_t nq, uint32_t dim, const ft_f16 *const *k,
                   const ft_f16 *const *ahead, uint32_t n_block, float *s, uint32_t s_stride)
{
    static const ft_f16 *const nothing[4];
    const struct scores_entry *e = scores_table;
    for (uint32_t i = 0; i < nq; i += e->nq) {
        while (e->nq > nq - i)
            e++;
        const ft_f16 *const *near = i == 0 ? ahead : nothing; /* once is enough */
        uint32_t b = 0;
        for (; b + e->nb <= n_block; b += e->nb)
            e->many(q + i, nq, dim, k + b, near + (i == 0 ? b : 0),
                    s + (size_t)i * s_stride + (size_t)b * 16, s_stride);
        for (; b < n_block; b++)
            e->one(q + i, nq, dim, k + b, near + (i == 0 ? b : 0),
                   s + (size_t)i * s_stride + (size_t)b * 16, s_stride);
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

/* NQ queries x 16 ND dimensions, all accumulators in registers. */
INLINE void values_part(const float *p, const unsigned NQ, uint32_t dim, uint32_t d,
                        const unsigned ND, const ft_f16 *const *v, const ft_f16 *const *ahead,
                        uint32_t begin, uint32_t end, bool fresh, float *acc)
{
    x16 a[TILE_REGS];
    UNROLL for (unsigned i = 0; i < NQ * ND; i++) a[i] =
        fresh ? x16_zero() : x16_load(acc + (size_t)(i / ND) * dim + d + (size_t)(i % ND) * 16);
    for (uint32_t lane = begin; lane < end; lane++) {
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
        x16_store(acc + (size_t)(i / ND) * dim + d + (size_t)(i % ND) * 16, a[i]);
}

typedef void values_fn(const float *p, uint32_t dim, uint32_t d, const ft_f16 *const *v,
                       const ft_f16 *const *ahead, uint32_t begin, uint32_t end, bool fresh,
                       float *acc);

#define VALUES(NQ, ND)                                                                   \
    static void values_##NQ##_##ND(const float *p, uint32_t dim, uint32_t d,             \
                                   const ft_f16 *const *v, const ft_f16 *const *ahead,   \
                                   uint32_t begin, uint32_t end, bool fresh, float *acc) \
    {                                                                                    \
        values_part(p, NQ, dim, d, ND, v, ahead, begin, end, fresh, acc);                \
    }

/* Query counts, with the dimensions at a time (in 16s) that fit the registers, and with one. */
#if TILE_REGS >= 24
VALUES(1, 1)
VALUES(2, 1) VALUES(3, 1) VALUES(4, 1) VALUES(5, 1) VALUES(6, 1) VALUES(8, 1) VALUES(12, 1)
    VALUES(1, 4) VALUES(2, 4) VALUES(3, 4) VALUES(4, 4) VALUES(5, 4) VALUES(6, 4) VALUES(8, 2)
        VALUES(12, 2) static const struct values_entry {
    uint32_t nq, nd;
    values_fn *one, *many;
} values_table[] = {
    {12, 2, values_12_1, values_12_2}, {8, 2, values_8_1, values_8_2},
    {6, 4, values_6_1, values_6_4},    {5, 4, values_5_1, values_5_4},
    {4, 4, values_4_1, values_4_4},    {3, 4, values_3_1, values_3_4},
    {2, 4, values_2_1, values_2_4},    {1, 4, values_1_1, values_1_4},
};
#else
VALUES(1, 1)
VALUES(2, 1) VALUES(3, 1) VALUES(4, 1) VALUES(1, 4) VALUES(2, 2) static const struct values_entry {
    uint32_t nq, nd;
    values_fn *one, *many;
} values_table[] = {
    {4, 1, values_4_1, values_4_1},
    {3, 1, values_3_1, values_3_1},
    {2, 2, values_2_1, values_2_2},
    {1, 4, values_1_1, values_1_4},
};
#endif

static void values(const float *p, uint32_t nq, uint32_t dim, const ft_f16 *const *v,
                   const ft_f16 *const *ahead, uint32_t begin, uint32_t end, bool fresh, float *acc)
{
    const struct values_entry *e = values_table;
    for (uint32_t i = 0; i < nq; i += e->nq) {
        while (e->nq > nq - i)
            e++;
        const float *pi = p + (size_t)i * FT_ATTN_TILE;
        float *acc_i = acc + (size_t)i * dim;
        const ft_f16 *const *near = i == 0 ? ahead : NULL;
        uint32_t d = 0;
        for (; d + e->nd * 16 <= dim; d += e->nd * 16)
            e->many(pi, dim, d, v, near, begin, end, fresh, acc_i);
        for (; d < dim; d += 16)
            e->one(pi, dim, d, v, near, begin, end, fresh, acc_i);
    }
}

static void fold(float *total_max, float *total_sum, float *total_acc, float max, const float *sum,
                 const float *acc, uint32_t dim)
{
    float top = max > *total_max ? max : *total_max;
    x16 old = exp2_neg(x16_set1(*total_max - top)), new = exp2_neg(x16_set1(max - top));
    *total_max = top;
    x16_store(total_sum, x16_fma(x16_load(sum), new, x16_mul(x16_load(total_sum), old)));
    for (uint32_t d = 0; d < dim; d += 16)
        x16_store(total_acc + d,
                  x16_fma(x16_load(acc + d), new, x16_mul(x16_load(total_acc + d), old)));
}

static const ft_attn_kernel kernel = {
    .name = KERNEL_NAME,
    .dim_multiple = 16,
    .scores = scores,
    .softmax = softmax,
    .values = values,
    .fold = fold,
};
