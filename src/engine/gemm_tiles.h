/* SPDX-License-Identifier: Apache-2.0
 *
 * Macros that make one function for every weight type from one inlined function; the lists of types
 * are only here. A file with products (gemm_kernel.h) defines tile_of(type, t), or tile_of(type, n,
 * t) for n rows, in which type and n are constants. It expands a list with FT_GEMM_FUNCTION or
 * FT_GEMM_FUNCTION_BY_ROWS, and selects a function with FT_GEMM_CASE in a switch over the type.
 */
#ifndef FT_ENGINE_GEMM_TILES_H
#define FT_ENGINE_GEMM_TILES_H

#include "engine/gemm_kernel.h"

#define FT_GEMM_INLINE static inline __attribute__((always_inline))

#define FT_GEMM_BLOCK_TYPES(F) F(Q8_0) F(Q4_0) F(Q4_1) F(Q5_0) F(Q5_1) F(IQ4_NL)
#define FT_GEMM_K_TYPES(F)     F(Q4_K) F(Q5_K) F(Q6_K)
#define FT_GEMM_FLOAT_TYPES(F) F(F32) F(F16) F(BF16)

#define FT_GEMM_FUNCTION(type)                     \
    static void type##_tile(const ft_gemm_tile *t) \
    {                                              \
        tile_of(GGML_TYPE_##type, t);              \
    }

#define FT_GEMM_ROWS(type, n)                     \
    static void type##_##n(const ft_gemm_tile *t) \
    {                                             \
        tile_of(GGML_TYPE_##type, n, t);          \
    }
#define FT_GEMM_FUNCTION_BY_ROWS(type)                                                      \
    FT_GEMM_ROWS(type, 1)                                                                   \
    FT_GEMM_ROWS(type, 2)                                                                   \
    FT_GEMM_ROWS(type, 3)                                                                   \
    FT_GEMM_ROWS(type, 4)                                                                   \
    FT_GEMM_ROWS(type, 5)                                                                   \
    FT_GEMM_ROWS(type, 6)                                                                   \
    FT_GEMM_ROWS(type, 7)                                                                   \
    FT_GEMM_ROWS(type, 8)                                                                   \
    static void type##_tile(const ft_gemm_tile *t)                                          \
    {                                                                                       \
        static ft_gemm_tile_fn *const by_rows[] = {type##_1, type##_2, type##_3, type##_4,  \
                                                   type##_5, type##_6, type##_7, type##_8}; \
        by_rows[t->n_rows - 1](t);                                                          \
    }

#define FT_GEMM_CASE(type) \
    case GGML_TYPE_##type: \
        return type##_tile;

/* tile_of(type, t) for kernels whose registers hold the sums of four rows. It uses the file's
 * multiply_rows(type, first, n, t). */
#define FT_GEMM_TILE_BY_FOURS                                               \
    FT_GEMM_INLINE void tile_of(enum ggml_type type, const ft_gemm_tile *t) \
    {                                                                       \
        uint32_t row = 0;                                                   \
        for (; row + 4 <= t->n_rows; row += 4)                              \
            multiply_rows(type, row, 4, t);                                 \
        if (t->n_rows - row == 3)                                           \
            multiply_rows(type, row, 3, t);                                 \
        else if (t->n_rows - row == 2)                                      \
            multiply_rows(type, row, 2, t);                                 \
        else if (t->n_rows - row == 1)                                      \
            multiply_rows(type, row, 1, t);                                 \
    }

#endif
