/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with packed float weights, written once over vectors of 16 floats. Before it includes
 * this, a file defines:
 *   x16 and  x16_zero, x16_load, x16_load_f16, x16_set1 (of a float in memory), x16_store, x16_add,
 *   x16_fma (a * b + c, one rounding)
 *   pair16, pair16_load (2 bf16 of each of 16 outputs) and pair16_dot(w, x, c): c + w's products
 *   with the 2 bf16 at x, the second product first, each added with one rounding
 *   AT_ONCE: number of rows whose 2 vectors of sums fit the registers
 *   BF16_ALONE: no other weights (then of x16 only zero, load, store, add are needed)
 *   KERNEL_SYMBOL: the function to define, from a type to its product; KERNEL_SCOPE: static or
 *   nothing
 *
 * The order of a sum is the same for any number of rows and on all machines. Steps along the input
 * (values, or pairs of bf16) are numbered: even steps go into one partial sum, odd steps into
 * another, and then both are added. With only one partial sum, a single row would wait for each
 * addition to end (4 to 6 cycles), which takes longer than loading the next weights.
 * (lint: template header)
 */
#include <string.h>

#include "engine/gemm_tiles.h"
#include "model/pack.h"

#define UNROLL _Pragma("GCC unroll 16")

/* Reads the weights of one step (memory is read front to back) and multiplies them with n rows. */
FT_GEMM_INLINE const char *step(enum ggml_type type, uint32_t n, const char *w, const char *x,
                                x16 *sum)
{
    if (type == GGML_TYPE_BF16) {
        pair16 w16 = pair16_load(w);
        UNROLL for (uint32_t r = 0; r < n; r++) sum[r] = pair16_dot(w16, x + 4 * r, sum[r]);
        return w + 64;
    }
#ifndef BF16_ALONE
    x16 w16 = type == GGML_TYPE_F32 ? x16_load(w) : x16_load_f16(w);
    UNROLL for (uint32_t r = 0; r < n; r++) sum[r] = x16_fma(w16, x16_set1(x + 4 * r), sum[r]);
    w += type == GGML_TYPE_F32 ? 64 : 32;
#endif
    return w;
}

/* Rows [first, first + n). type and n are constants after inlining. */
FT_GEMM_INLINE void rows_of(enum ggml_type type, uint32_t n, const ft_gemm_tile *t, uint32_t first)
{
    const char *w = (const char *)t->weights, *x = (const char *)(t->units + first);
    const size_t n_steps = t->n_in / (type == GGML_TYPE_BF16 ? 2 : 1), stride = 4 * t->row_blocks;
    x16 even[AT_ONCE], odd[AT_ONCE];
    UNROLL for (uint32_t r = 0; r < n; r++) even[r] = odd[r] = x16_zero();
    for (size_t pair = 0; pair < n_steps / 2; pair++, x += 2 * stride) {
        w = step(type, n, w, x, even);
        w = step(type, n, w, x + stride, odd);
    }
    if (n_steps % 2)
        step(type, n, w, x, even);
    UNROLL for (uint32_t r = 0; r < n; r++)
    {
        x16 sum = x16_add(even[r], odd[r]);
        if (t->residual)
            sum = x16_add(sum, x16_load(t->residual + (first + r) * t->residual_stride));
        x16_store(t->out + (first + r) * t->out_stride, sum);
    }
}

FT_GEMM_INLINE void tile_of(enum ggml_type type, const ft_gemm_tile *t)
{
    uint32_t first = 0;
    for (; t->n_rows - first > AT_ONCE; first += AT_ONCE)
        rows_of(type, AT_ONCE, t, first);
    switch (t->n_rows - first) {
#define CASE(n)                                              \
    case n:                                                  \
        rows_of(type, n <= AT_ONCE ? n : AT_ONCE, t, first); \
        break;
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
#undef CASE
    default:
        break;
    }
}

#ifdef BF16_ALONE
#define KERNEL_TYPES(F) F(BF16)
#else
#define KERNEL_TYPES FT_GEMM_FLOAT_TYPES
#endif
KERNEL_TYPES(FT_GEMM_FUNCTION)

KERNEL_SCOPE ft_gemm_tile_fn *KERNEL_SYMBOL(enum ggml_type type)
{
    switch (type) {
        KERNEL_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}
