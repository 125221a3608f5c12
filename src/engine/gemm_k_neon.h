/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with packed K-quants on AArch64, 4 output rows to a register. The arithmetic is that of
 * gemm_k_plain.c. Weights have at most 6 bits, so they fit signed bytes, too. Written once on top
 * of dot_lane, like gemm_neon.h.
 */
#ifndef FT_ENGINE_GEMM_K_NEON_H
#define FT_ENGINE_GEMM_K_NEON_H

#include <arm_neon.h>

#include "engine/gemm_tiles.h"
#include "model/pack_k.h"

/* A block of 32 weights of 4 output rows. */
typedef struct block {
    int8x16_t w[8];       /* [i]: inputs 4 i .. 4 i + 3 of the rows */
    float32x4_t scale[2]; /* Q6_K: one for each half */
    float32x4_t min;
} block;

/* ---- loading weights ---- */

/* 6-bit scales and minima, [block][row]. */
typedef struct numbers {
    uint8_t scale[8][16], min[8][16];
} numbers;

/* Two bits of `high`, from bit `shift` on, moved to bits 4 and 5. */
FT_GEMM_INLINE uint8x16_t two_bits(uint8x16_t high, int shift)
{
    high = vshlq_u8(high, vdupq_n_s8((int8_t)(4 - shift)));
    return vandq_u8(high, vdupq_n_u8(0x30));
}

FT_GEMM_INLINE void unpack_numbers(const ft_pack_scales *from, numbers *to)
{
    const uint8x16_t low = vdupq_n_u8(15);
    for (int i = 0; i < 4; i++) {
        uint8x16_t a = vld1q_u8(from->low[i]), b = vld1q_u8(from->low[4 + i]);
        uint8x16_t high = vld1q_u8(from->high[i]);
        vst1q_u8(to->scale[i], vorrq_u8(vandq_u8(a, low), two_bits(high, 0)));
        vst1q_u8(to->min[i], vorrq_u8(vshrq_n_u8(a, 4), two_bits(high, 2)));
        vst1q_u8(to->scale[4 + i], vorrq_u8(vandq_u8(b, low), two_bits(high, 4)));
        vst1q_u8(to->min[4 + i], vorrq_u8(vshrq_n_u8(b, 4), two_bits(high, 6)));
    }
}

FT_GEMM_INLINE float32x4_t halves(const void *p)
{
    uint16x4_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}

FT_GEMM_INLINE float32x4_t unsigned_bytes(const uint8_t *p)
{
    uint32_t four;
    __builtin_memcpy(&four, p, 4);
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four)))));
}

FT_GEMM_INLINE float32x4_t signed_bytes(const int8_t *p)
{
    uint32_t four;
    __builtin_memcpy(&four, p, 4);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four)))));
}

/* For rows 4 quarter .. 4 quarter + 3; so everywhere below. */
FT_GEMM_INLINE void load_nibbles(const uint8_t quants[4][64], int quarter, int8x16_t w[8])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        uint8x16_t both = vld1q_u8(quants[i] + 16 * quarter);
        w[2 * i] = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
        w[2 * i + 1] = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
    }
}

/* Adds the bits of `mask` after a shift to the left (a negative number: to the right). */
FT_GEMM_INLINE int8x16_t add_bits(int8x16_t w, uint8x16_t bits, int shift, uint8_t mask)
{
    bits = vandq_u8(vshlq_u8(bits, vdupq_n_s8((int8_t)shift)), vdupq_n_u8(mask));
    return vorrq_s8(w, vreinterpretq_s8_u8(bits));
}

FT_GEMM_INLINE void load_q5(const uint8_t bits[64], const uint8_t quants[4][64], int quarter,
                            int8x16_t w[8])
{
    uint8x16_t fifth = vld1q_u8(bits + 16 * quarter);
    load_nibbles(quants, quarter, w);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        w[i] = add_bits(w[i], fifth, 4 - i, 0x10);
    }
}

FT_GEMM_INLINE void load_q6(const uint8_t bits[2][64], const uint8_t quants[4][64], int quarter,
                            int8x16_t w[8])
{
    load_nibbles(quants, quarter, w);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        w[i] = add_bits(w[i], vld1q_u8(bits[i / 4] + 16 * quarter), 4 - i % 4 * 2, 0x30);
    }
}

/* ---- multiplying ---- */

FT_GEMM_INLINE int32x4_t dot4(int32x4_t dot, const int8x16_t w[4], const int8_t *q)
{
    int8x16_t x = vld1q_s8(q);
    dot = dot_lane(dot, w[0], x, 0);
    dot = dot_lane(dot, w[1], x, 1);
    dot = dot_lane(dot, w[2], x, 2);
    return dot_lane(dot, w[3], x, 3);
}

FT_GEMM_INLINE float32x4_t add_block(enum ggml_type type, const block *b, const ft_gemm_block *x,
                                     float32x4_t sum)
{
    float32x4_t value;
    if (type == GGML_TYPE_Q6_K) {
        int32x4_t first = dot4(vdupq_n_s32(x->start32[0]), b->w, x->q);
        int32x4_t last = dot4(vdupq_n_s32(x->start32[1]), b->w + 4, x->q + 16);
        value = vmulq_f32(vcvtq_f32_s32(first), b->scale[0]);
        value = vfmaq_f32(value, b->scale[1], vcvtq_f32_s32(last));
    } else {
        int32x4_t dot = dot4(dot4(vdupq_n_s32(0), b->w, x->q), b->w + 4, x->q + 16);
        value = vmulq_f32(vcvtq_f32_s32(dot), b->scale[0]);
        value = vfmaq_f32(value, b->min, vdupq_n_f32((float)x->start8));
    }
    return vfmaq_f32(sum, value, vdupq_n_f32(x->scale));
}

FT_GEMM_INLINE void multiply(enum ggml_type type, uint32_t n, const block *b,
                             const ft_gemm_block *x, float32x4_t *sum)
{
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        sum[r] = add_block(type, b, &x[r], sum[r]);
    }
}

/* A superblock of Q4_K or Q5_K; x: its first block. */
FT_GEMM_INLINE void multiply_q45(enum ggml_type type, uint32_t n, const uint8_t *super,
                                 const ft_gemm_block *x, size_t row_blocks,
                                 float32x4_t sum[4][FT_GEMM_GROUP])
{
    const ft_pack_scales *scales = (const ft_pack_scales *)super;
    const ft_pack_q4_k *q4 = (const ft_pack_q4_k *)super;
    const ft_pack_q5_k *q5 = (const ft_pack_q5_k *)super;
    numbers six;
    unpack_numbers(scales, &six);
    for (int i = 0; i < 8; i++, x += row_blocks)
        for (int quarter = 0; quarter < 4; quarter++) {
            block b;
            float32x4_t d = halves(scales->d + 4 * quarter);
            float32x4_t dmin = vmulq_f32(halves(scales->dmin + 4 * quarter), vdupq_n_f32(0.125f));
            b.scale[0] = vmulq_f32(d, unsigned_bytes(six.scale[i] + 4 * quarter));
            b.min = vmulq_f32(dmin, unsigned_bytes(six.min[i] + 4 * quarter));
            if (type == GGML_TYPE_Q4_K)
                load_nibbles(q4->quants[i], quarter, b.w);
            else
                load_q5(q5->block[i].bits, q5->block[i].quants, quarter, b.w);
            multiply(type, n, &b, x, sum[quarter]);
        }
}

FT_GEMM_INLINE void multiply_q6(uint32_t n, const uint8_t *ds, const ft_pack_q6_k *super,
                                const ft_gemm_block *x, size_t row_blocks,
                                float32x4_t sum[4][FT_GEMM_GROUP])
{
    for (int i = 0; i < 8; i++, x += row_blocks)
        for (int quarter = 0; quarter < 4; quarter++) {
            block b;
            float32x4_t d = halves(ds + 8 * quarter);
            b.scale[0] = vmulq_f32(d, signed_bytes(super->scales[2 * i] + 4 * quarter));
            b.scale[1] = vmulq_f32(d, signed_bytes(super->scales[2 * i + 1] + 4 * quarter));
            load_q6(super->block[i].bits, super->block[i].quants, quarter, b.w);
            multiply(GGML_TYPE_Q6_K, n, &b, x, sum[quarter]);
        }
}

FT_GEMM_INLINE void store(const ft_gemm_tile *t, uint32_t r, size_t at, float32x4_t sum)
{
    if (t->residual)
        sum = vaddq_f32(sum, vld1q_f32(t->residual + r * t->residual_stride + at));
    vst1q_f32(t->out + r * t->out_stride + at, sum);
}

/* type and n are constants after inlining. */
FT_GEMM_INLINE void tile_of(enum ggml_type type, uint32_t n, const ft_gemm_tile *t)
{
    const size_t n_super = t->n_blocks / 8;
    const size_t bytes = type == GGML_TYPE_Q4_K ? sizeof(ft_pack_q4_k) : sizeof(ft_pack_q5_k);
    const ft_gemm_block *x = t->rows;
    float32x4_t sum[4][FT_GEMM_GROUP];
    for (uint32_t r = 0; r < n; r++)
        sum[0][r] = sum[1][r] = sum[2][r] = sum[3][r] = vdupq_n_f32(0);
    for (size_t s = 0; s < n_super; s++, x += 8 * (size_t)t->row_blocks) {
        if (type == GGML_TYPE_Q6_K) {
            ft_pack_q6_k_place at = ft_pack_q6_k_at(s, n_super);
            const ft_pack_q6_k *super = (const ft_pack_q6_k *)(t->weights + at.super);
            multiply_q6(n, t->weights + at.d, super, x, t->row_blocks, sum);
        } else {
            multiply_q45(type, n, t->weights + s * bytes, x, t->row_blocks, sum);
        }
    }
    for (uint32_t r = 0; r < n; r++)
        for (size_t quarter = 0; quarter < 4; quarter++)
            store(t, r, 4 * quarter, sum[quarter][r]);
}

FT_GEMM_K_TYPES(FT_GEMM_FUNCTION_BY_ROWS)

/* NULL for other types. */
static ft_gemm_tile_fn *tile_k(enum ggml_type type)
{
    switch (type) {
        FT_GEMM_K_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}

#endif
