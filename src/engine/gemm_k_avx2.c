// SPDX-License-Identifier: Apache-2.0
// Products with packed K-quants by AVX2, 8 output rows to a register. The arithmetic is that of
// gemm_k_plain.c. Stateless.
//
// Pairs of 8-bit products are added in 16 bits. With |q| <= 127, a pair is at most 3810 for Q4_K,
// 7874 for Q5_K and 16002 for Q6_K in magnitude. So 8, 4 and 2 pairs can be summed before widening,
// and nothing saturates.
#include "engine/gemm_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/cpu.h"
#include "model/pack_k.h"

/* A block of 32 weights of 8 output rows. */
typedef struct block {
    __m256i w[8];    /* [i]: inputs 4 i .. 4 i + 3 of the rows */
    __m256 scale[2]; /* Q6_K: one for each half */
    __m256 min;
} block;

/* ---- loading weights ---- */

/* 6-bit scales and minima, [block][row]. */
typedef struct numbers {
    _Alignas(32) uint8_t scale[8][16], min[8][16];
} numbers;

FT_GEMM_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* The four bits of `low` below the two bits of `high`; both are shifted into their places. */
FT_GEMM_INLINE __m256i six_bits(__m256i low, __m256i high)
{
    low = _mm256_and_si256(low, _mm256_set1_epi8(15));
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
}

FT_GEMM_INLINE void unpack_numbers(const ft_pack_scales *from, numbers *to)
{
    for (int i = 0; i < 4; i += 2) {
        __m256i a = load(from->low[i]), b = load(from->low[4 + i]), high = load(from->high[i]);
        _mm256_store_si256((__m256i *)to->scale[i], six_bits(a, _mm256_slli_epi16(high, 4)));
        _mm256_store_si256((__m256i *)to->scale[4 + i], six_bits(b, high));
        _mm256_store_si256((__m256i *)to->min[i],
                           six_bits(_mm256_srli_epi16(a, 4), _mm256_slli_epi16(high, 2)));
        _mm256_store_si256((__m256i *)to->min[4 + i],
                           six_bits(_mm256_srli_epi16(b, 4), _mm256_srli_epi16(high, 2)));
    }
}

FT_GEMM_INLINE __m256 halves(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

FT_GEMM_INLINE __m256 unsigned_bytes(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

FT_GEMM_INLINE __m256 signed_bytes(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* For rows 8 half .. 8 half + 7; so everywhere below. */
FT_GEMM_INLINE void load_nibbles(const uint8_t quants[4][64], int half, __m256i w[8])
{
    const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256i both = load(quants[i] + 32 * half);
        w[2 * i] = _mm256_and_si256(both, low);
        w[2 * i + 1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
    }
}

/* Adds the bits of `mask` after a shift to the left (a negative number: to the right). */
FT_GEMM_INLINE __m256i add_bits(__m256i w, __m256i bits, int shift, char mask)
{
    bits = shift >= 0 ? _mm256_slli_epi16(bits, shift) : _mm256_srli_epi16(bits, -shift);
    return _mm256_or_si256(w, _mm256_and_si256(bits, _mm256_set1_epi8(mask)));
}

FT_GEMM_INLINE void load_q5(const uint8_t bits[64], const uint8_t quants[4][64], int half,
                            __m256i w[8])
{
    __m256i fifth = load(bits + 32 * half);
    load_nibbles(quants, half, w);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        w[i] = add_bits(w[i], fifth, 4 - i, 0x10);
    }
}

FT_GEMM_INLINE void load_q6(const uint8_t bits[2][64], const uint8_t quants[4][64], int half,
                            __m256i w[8])
{
    load_nibbles(quants, half, w);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        w[i] = add_bits(w[i], load(bits[i / 4] + 32 * half), 4 - i % 4 * 2, 0x30);
    }
}

/* ---- multiplying ---- */

/* Products of n vectors summed in pairs, 16 bits. */
FT_GEMM_INLINE __m256i pairs(int n, const __m256i *w, const int8_t *q)
{
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        int32_t four;
        __builtin_memcpy(&four, q + 4 * i, 4);
        __m256i products = _mm256_maddubs_epi16(w[i], _mm256_set1_epi32(four));
        sum = i ? _mm256_add_epi16(sum, products) : products;
    }
    return sum;
}

FT_GEMM_INLINE __m256i widen(__m256i sum16)
{
    return _mm256_madd_epi16(sum16, _mm256_set1_epi16(1));
}

/* Products of 16 values of Q6_K, added to a start value. */
FT_GEMM_INLINE __m256 half_dot(const __m256i *w, const int8_t *q, int32_t start)
{
    __m256i dot = _mm256_add_epi32(widen(pairs(2, w, q)), widen(pairs(2, w + 2, q + 8)));
    return _mm256_cvtepi32_ps(_mm256_add_epi32(dot, _mm256_set1_epi32(start)));
}

FT_GEMM_INLINE __m256 full_dot(enum ggml_type type, const __m256i *w, const int8_t *q)
{
    if (type == GGML_TYPE_Q4_K)
        return _mm256_cvtepi32_ps(widen(pairs(8, w, q)));
    return _mm256_cvtepi32_ps(
        _mm256_add_epi32(widen(pairs(4, w, q)), widen(pairs(4, w + 4, q + 16))));
}

FT_GEMM_INLINE __m256 add_block(enum ggml_type type, const block *b, const ft_gemm_block *x,
                                __m256 sum)
{
    __m256 value;
    if (type == GGML_TYPE_Q6_K) {
        value = _mm256_mul_ps(half_dot(b->w, x->q, x->start32[0]), b->scale[0]);
        value = _mm256_fmadd_ps(b->scale[1], half_dot(b->w + 4, x->q + 16, x->start32[1]), value);
    } else {
        value = _mm256_mul_ps(full_dot(type, b->w, x->q), b->scale[0]);
        value = _mm256_fmadd_ps(b->min, _mm256_set1_ps((float)x->start8), value);
    }
    return _mm256_fmadd_ps(value, _mm256_set1_ps(x->scale), sum);
}

FT_GEMM_INLINE void multiply(enum ggml_type type, uint32_t n, const block *b,
                             const ft_gemm_block *x, __m256 *sum)
{
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        sum[r] = add_block(type, b, &x[r], sum[r]);
    }
}

/* A superblock of Q4_K or Q5_K; x: its first block. */
FT_GEMM_INLINE void multiply_q45(enum ggml_type type, uint32_t n, const uint8_t *super,
                                 const ft_gemm_block *x, size_t row_blocks,
                                 __m256 sum[2][FT_GEMM_GROUP])
{
    const ft_pack_scales *scales = (const ft_pack_scales *)super;
    const ft_pack_q4_k *q4 = (const ft_pack_q4_k *)super;
    const ft_pack_q5_k *q5 = (const ft_pack_q5_k *)super;
    numbers six;
    unpack_numbers(scales, &six);
    for (int i = 0; i < 8; i++, x += row_blocks)
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            block b;
            __m256 d = halves(scales->d + 8 * half);
            __m256 dmin = _mm256_mul_ps(halves(scales->dmin + 8 * half), _mm256_set1_ps(0.125f));
            b.scale[0] = _mm256_mul_ps(d, unsigned_bytes(six.scale[i] + 8 * half));
            b.min = _mm256_mul_ps(dmin, unsigned_bytes(six.min[i] + 8 * half));
            if (type == GGML_TYPE_Q4_K)
                load_nibbles(q4->quants[i], half, b.w);
            else
                load_q5(q5->block[i].bits, q5->block[i].quants, half, b.w);
            multiply(type, n, &b, x, sum[half]);
        }
}

FT_GEMM_INLINE void multiply_q6(uint32_t n, const uint8_t *ds, const ft_pack_q6_k *super,
                                const ft_gemm_block *x, size_t row_blocks,
                                __m256 sum[2][FT_GEMM_GROUP])
{
    for (int i = 0; i < 8; i++, x += row_blocks)
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            block b;
            __m256 d = halves(ds + 16 * half);
            b.scale[0] = _mm256_mul_ps(d, signed_bytes(super->scales[2 * i] + 8 * half));
            b.scale[1] = _mm256_mul_ps(d, signed_bytes(super->scales[2 * i + 1] + 8 * half));
            load_q6(super->block[i].bits, super->block[i].quants, half, b.w);
            multiply(GGML_TYPE_Q6_K, n, &b, x, sum[half]);
        }
}

FT_GEMM_INLINE void store(const ft_gemm_tile *t, uint32_t r, int half, __m256 sum)
{
    size_t at = 8 * (size_t)half;
    if (t->residual)
        sum = _mm256_add_ps(sum, _mm256_loadu_ps(t->residual + r * t->residual_stride + at));
    _mm256_storeu_ps(t->out + r * t->out_stride + at, sum);
}

/* type and n are constants after inlining. */
FT_GEMM_INLINE void tile_of(enum ggml_type type, uint32_t n, const ft_gemm_tile *t)
{
    const size_t n_super = t->n_blocks / 8;
    const size_t bytes = type == GGML_TYPE_Q4_K ? sizeof(ft_pack_q4_k) : sizeof(ft_pack_q5_k);
    const ft_gemm_block *x = t->rows;
    __m256 sum[2][FT_GEMM_GROUP];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        sum[0][r] = sum[1][r] = _mm256_setzero_ps();
    }
    for (size_t s = 0; s < n_super; s++, x += 8 * (size_t)t->row_blocks) {
        if (type == GGML_TYPE_Q6_K) {
            ft_pack_q6_k_place at = ft_pack_q6_k_at(s, n_super);
            const ft_pack_q6_k *super = (const ft_pack_q6_k *)(t->weights + at.super);
            multiply_q6(n, t->weights + at.d, super, x, t->row_blocks, sum);
        } else {
            multiply_q45(type, n, t->weights + s * bytes, x, t->row_blocks, sum);
        }
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        store(t, r, 0, sum[0][r]);
        store(t, r, 1, sum[1][r]);
    }
}

FT_GEMM_K_TYPES(FT_GEMM_FUNCTION_BY_ROWS)

ft_gemm_tile_fn *ft_gemm_k_avx2(enum ggml_type type)
{
    if (!ft_cpu_get()->avx2)
        return NULL;
    switch (type) {
        FT_GEMM_K_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}

#else

ft_gemm_tile_fn *ft_gemm_k_avx2(enum ggml_type type)
{
    return NULL;
}

#endif
