/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with packed weights on AArch64, written once on top of one primitive. The including file
 * defines it before: dot_lane(sum, w, x, lane) adds to each of 4 numbers the four products of w's
 * bytes with the four bytes of x that begin at byte 4 lane. gemm_neon.c has a version for any
 * machine, gemm_dotprod.c one as a single instruction. A tile is multiplied with up to 4 rows at a
 * time.
 */
#ifndef FT_ENGINE_GEMM_NEON_H
#define FT_ENGINE_GEMM_NEON_H

#include <arm_neon.h>

#include "engine/gemm_tiles.h"
#include "model/pack.h"

enum { ROWS_AT_ONCE = 4, QUARTERS = 4 };

FT_GEMM_INLINE float32x4_t halves(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* Bit i of `fifths` above the 4 bits of w. */
FT_GEMM_INLINE uint8x16_t with_fifth(uint8x16_t w, uint8x16_t fifths, int i)
{
    uint8x16_t bit = vshlq_u8(fifths, vdupq_n_s8((int8_t)(4 - i)));
    return vorrq_u8(w, vandq_u8(bit, vdupq_n_u8(16)));
}

/* Inputs 8 i .. 8 i + 7 of 4 output rows as signed numbers: w[0] has the first four of each row. */
FT_GEMM_INLINE void load_weights(enum ggml_type type, const uint8_t *quants, int i, int8x16_t w[2])
{
    static const int8_t iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    if (type == GGML_TYPE_Q8_0) {
        const uint8x16_t offset = vdupq_n_u8(0x80);
        w[0] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(quants + 128 * i), offset));
        w[1] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(quants + 128 * i + 64), offset));
        return;
    }
    uint8x16_t fifths = vld1q_u8(quants);
    quants += ft_pack_has_fifth(type) ? 64 : 0;
    uint8x16_t both = vld1q_u8(quants + 64 * i);
    uint8x16_t q[2] = {vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8(both, 4)};
    const int8_t offset = type == GGML_TYPE_Q4_0 ? 8 : type == GGML_TYPE_Q5_0 ? 16 : 0;
    for (int j = 0; j < 2; j++) {
        if (ft_pack_has_fifth(type))
            q[j] = with_fifth(q[j], fifths, 2 * i + j);
        w[j] = type == GGML_TYPE_IQ4_NL ? vqtbl1q_s8(vld1q_s8(iq4_nl), q[j])
                                        : vsubq_s8(vreinterpretq_s8_u8(q[j]), vdupq_n_s8(offset));
    }
}

/* Sums of all 16 output rows, 4 to a register. */
typedef struct sums {
    float32x4_t quarter[QUARTERS];
} sums;

/* A quarter of a block of weights (4 output rows), times n rows of values. */
FT_GEMM_INLINE void multiply_quarter(enum ggml_type type, uint32_t n, const uint8_t *quants,
                                     const ft_gemm_block *x, int32x4_t *dot)
{
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++)
        dot[r] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int8x16_t w[2];
        load_weights(type, quants, i, w);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < n; r++) {
            int8x16_t v = vld1q_s8(x[r].q + i / 2 * 16);
            if (i % 2 == 0) {
                dot[r] = dot_lane(dot[r], w[0], v, 0);
                dot[r] = dot_lane(dot[r], w[1], v, 1);
            } else {
                dot[r] = dot_lane(dot[r], w[0], v, 2);
                dot[r] = dot_lane(dot[r], w[1], v, 3);
            }
        }
    }
}

FT_GEMM_INLINE void multiply_block(enum ggml_type type, uint32_t n, const uint8_t *scales,
                                   const uint8_t *quants, const ft_gemm_block *x, sums *sum)
{
    for (int k = 0; k < QUARTERS; k++) {
        int32x4_t dot[ROWS_AT_ONCE];
        float32x4_t scale = halves(scales + 8 * k);
        float32x4_t min = ft_pack_has_min(type) ? halves(scales + 32 + 8 * k) : scale;
        multiply_quarter(type, n, quants + 16 * k, x, dot);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < n; r++) {
            float32x4_t by = vmulq_n_f32(scale, x[r].scale), *to = &sum[r].quarter[k];
            *to = vfmaq_f32(*to, vcvtq_f32_s32(dot[r]), by);
            if (ft_pack_has_min(type))
                *to = vfmaq_n_f32(*to, min, x[r].sum);
        }
    }
}

/* Rows [first, first + n). type and n are constants after inlining. */
FT_GEMM_INLINE void multiply_rows(enum ggml_type type, uint32_t first, uint32_t n,
                                  const ft_gemm_tile *t)
{
    const size_t s = ft_pack_scale_bytes(type), q = ft_pack_quant_bytes(type);
    const uint8_t *w = t->weights;
    const ft_gemm_block *x = t->rows + first;
    sums sum[ROWS_AT_ONCE] = {0};
    for (uint32_t b = 0; b < t->n_blocks; b += 2, w += 2 * (s + q), x += 2 * t->row_blocks) {
        bool alone = b + 1 == t->n_blocks;
        multiply_block(type, n, w, w + (alone ? s : 2 * s), x, sum);
        if (!alone)
            multiply_block(type, n, w + s, w + 2 * s + q, x + t->row_blocks, sum);
    }
    for (uint32_t r = 0; r < n; r++)
        for (size_t k = 0; k < QUARTERS; k++) {
            float32x4_t y = sum[r].quarter[k];
            size_t row = first + r;
            if (t->residual)
                y = vaddq_f32(y, vld1q_f32(t->residual + row * t->residual_stride + 4 * k));
            vst1q_f32(t->out + row * t->out_stride + 4 * k, y);
        }
}

FT_GEMM_TILE_BY_FOURS
FT_GEMM_BLOCK_TYPES(FT_GEMM_FUNCTION)

static ft_gemm_tile_fn *tile_32(enum ggml_type type)
{
    switch (type) {
        FT_GEMM_BLOCK_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}

#endif
