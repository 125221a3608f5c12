/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of weight types that have products, and macros that make one function for each type
 * from one inlined function. A file defines tile_of(type, t) for the first tile, in which type is a
 * constant. It expands a list with FT_GEMM_FUNCTION, and selects a function with FT_GEMM_CASE in a
 * switch over the type.
 */
#ifndef FT_ENGINE_GEMM_TYPES_H
#define FT_ENGINE_GEMM_TYPES_H

#include "engine/gemm_kernel.h"
#include "engine/inlined.h"

#define FT_GEMM_INLINE FT_INLINED

#define FT_GEMM_BLOCK_TYPES(F) F(Q8_0) F(Q4_0) F(Q4_1) F(Q5_0) F(Q5_1) F(IQ4_NL)
#define FT_GEMM_K_TYPES(F)     F(Q4_K) F(Q5_K) F(Q6_K)
#define FT_GEMM_FLOAT_TYPES(F) F(F32) F(F16) F(BF16)

/* Lines of the output are fetched before they are written, because a store that misses the cache
 * delays all stores behind it. */
#define FT_GEMM_FUNCTION(type)                                   \
    static void type##_tile(const ft_gemm_tile *tiles)           \
    {                                                            \
        ft_gemm_tile t = *tiles;                                 \
        for (; t.n_tiles > 0; ft_gemm_tile_next(&t)) {           \
            for (uint32_t r = 0; r < t.n_rows; r++)              \
                __builtin_prefetch(t.out + r * t.out_stride, 1); \
            tile_of(GGML_TYPE_##type, &t);                       \
        }                                                        \
    }
#define FT_GEMM_CASE(type) \
    case GGML_TYPE_##type: \
        return type##_tile;

#endif
