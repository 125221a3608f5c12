/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with packed weights on AArch64, on top of one primitive that the including file defines:
 * dot_lane(sum, w, x, lane) adds to each of 4 numbers the four products of w's bytes with the four
 * bytes of x that begin at byte 4 lane. Weights have a sign or at most 6 bits, so they fit signed
 * bytes.
 * (lint: template header)
 */

FT_GEMM_INLINE bytes lookup(bytes table, bytes i)
{
    return (bytes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)i);
}

FT_GEMM_INLINE ints dot_step(enum ggml_type type, ints dot, const bytes *w, const int8_t *x)
{
    int8x16_t eight = vreinterpretq_s8_u64(vld1q_dup_u64((const uint64_t *)(const void *)x));
    int32x4_t sum = dot_lane((int32x4_t)dot, (int8x16_t)w[0], eight, 0);
    return (ints)dot_lane(sum, (int8x16_t)w[1], eight, 1);
}

#define KERNEL_QUANTIZE      ft_gemm_quantize_neon
#define INT_ROWS             4
#define FLOAT_ROWS           3
#define PREFETCH             3
#define STEP_MOST            2
#define STEP(type)           STEP_MOST
#define STORED_SUMS(type, n) false
#define NARROW(type)         false
#define widen(dot)           dot
#define OFFSET               0
#define PAIR_DOT             0
#include "engine/gemm_tile.h"
