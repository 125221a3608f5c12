// SPDX-License-Identifier: Apache-2.0
// Products with packed K-quants by AVX-512's 8-bit dot product (VNNI): the scheme of gemm_vnni.c,
// the arithmetic of gemm_k_plain.c. Stateless.
#include "engine/gemm_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/cpu.h"
#include "model/pack_k.h"

/* A block of 32 weights of 16 output rows. */
typedef struct block {
    __m512i w[8];    /* [i]: inputs 4 i .. 4 i + 3 of the rows */
    __m512 scale[2]; /* Q6_K: one for each half */
    __m512 min;
} block;

/* ---- loading weights ---- */

/* 6-bit scales and minima, [block][row]. */
typedef struct numbers {
    _Alignas(64) uint8_t scale[8][16], min[8][16];
} numbers;

/* The four bits of `low` below the two bits of `high`; both are shifted into their places. */
FT_GEMM_INLINE __m512i six_bits(__m512i low, __m512i high)
{
    low = _mm512_and_si512(low, _mm512_set1_epi8(15));
    return _mm512_or_si512(low, _mm512_and_si512(high, _mm512_set1_epi8(0x30)));
}

FT_GEMM_INLINE void unpack_numbers(const ft_pack_scales *from, numbers *to)
{
    __m512i a = _mm512_loadu_si512(from->low[0]), b = _mm512_loadu_si512(from->low[4]);
    __m512i high = _mm512_loadu_si512(from->high[0]);
    _mm512_store_si512(to->scale[0], six_bits(a, _mm512_slli_epi16(high, 4)));
    _mm512_store_si512(to->scale[4], six_bits(b, high));
    _mm512_store_si512(to->min[0], six_bits(_mm512_srli_epi16(a, 4), _mm512_slli_epi16(high, 2)));
    _mm512_store_si512(to->min[4], six_bits(_mm512_srli_epi16(b, 4), _mm512_srli_epi16(high, 2)));
}

FT_GEMM_INLINE __m512 halves(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

FT_GEMM_INLINE __m512 unsigned_bytes(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

FT_GEMM_INLINE __m512 signed_bytes(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

FT_GEMM_INLINE void load_nibbles(const uint8_t quants[4][64], __m512i w[8])
{
    const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i both = _mm512_loadu_si512(quants[i]);
        w[2 * i] = _mm512_and_si512(both, low);
        w[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
}

/* Adds the bits of `mask` after a shift to the left (a negative number: to the right). */
FT_GEMM_INLINE __m512i add_bits(__m512i w, __m512i bits, int shift, char mask)
{
    bits = shift >= 0 ? _mm512_slli_epi16(bits, (unsigned)shift)
                      : _mm512_srli_epi16(bits, (unsigned)-shift);
    return _mm512_or_si512(w, _mm512_and_si512(bits, _mm512_set1_epi8(mask)));
}

FT_GEMM_INLINE void load_q5(const uint8_t bits[64], const uint8_t quants[4][64], __m512i w[8])
{
    __m512i fifth = _mm512_loadu_si512(bits);
    load_nibbles(quants, w);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        w[i] = add_bits(w[i], fifth, 4 - i, 0x10);
    }
}

FT_GEMM_INLINE void load_q6(const uint8_t bits[2][64], const uint8_t quants[4][64], __m512i w[8])
{
    load_nibbles(quants, w);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        w[i] = add_bits(w[i], _mm512_loadu_si512(bits[i / 4]), 4 - i % 4 * 2, 0x30);
    }
}

/* ---- multiplying ---- */

/* Rows whose products with a block are interleaved, as in gemm_vnni.c. */
#define INTERLEAVED 4

/* dot[r] += four vectors of weights times the 16 values of row r from `first` on. */
FT_GEMM_INLINE void dot_rows(uint32_t n, const __m512i w[4], const ft_gemm_block *x, int first,
                             __m512i *dot)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
#pragma GCC unroll 4
        for (uint32_t r = 0; r < n; r++) {
            int32_t four;
            __builtin_memcpy(&four, x[r].q + first + 4 * i, 4);
            dot[r] = _mm512_dpbusd_epi32(dot[r], w[i], _mm512_set1_epi32(four));
        }
    }
}

FT_GEMM_INLINE void multiply_rows(enum ggml_type type, uint32_t n, const block *b,
                                  const ft_gemm_block *x, __m512 *sum)
{
    const bool halved = type == GGML_TYPE_Q6_K;
    __m512i dot[INTERLEAVED];
    __m512 value[INTERLEAVED];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++)
        dot[r] = halved ? _mm512_set1_epi32(x[r].start32[0]) : _mm512_setzero_si512();
    dot_rows(n, b->w, x, 0, dot);
    if (halved) {
#pragma GCC unroll 4
        for (uint32_t r = 0; r < n; r++) {
            value[r] = _mm512_mul_ps(_mm512_cvtepi32_ps(dot[r]), b->scale[0]);
            dot[r] = _mm512_set1_epi32(x[r].start32[1]);
        }
    }
    dot_rows(n, b->w + 4, x, 16, dot);
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++) {
        if (halved) {
            value[r] = _mm512_fmadd_ps(b->scale[1], _mm512_cvtepi32_ps(dot[r]), value[r]);
        } else {
            __m512 start = _mm512_cvtepi32_ps(_mm512_set1_epi32(x[r].start8));
            value[r] = _mm512_mul_ps(_mm512_cvtepi32_ps(dot[r]), b->scale[0]);
            value[r] = _mm512_fmadd_ps(b->min, start, value[r]);
        }
        sum[r] = _mm512_fmadd_ps(value[r], _mm512_set1_ps(x[r].scale), sum[r]);
    }
}

FT_GEMM_INLINE void multiply(enum ggml_type type, uint32_t n, const block *b,
                             const ft_gemm_block *x, __m512 *sum)
{
    uint32_t r = 0;
#pragma GCC unroll 2
    for (; r + INTERLEAVED <= n; r += INTERLEAVED)
        multiply_rows(type, INTERLEAVED, b, x + r, sum + r);
    if (n % INTERLEAVED)
        multiply_rows(type, n % INTERLEAVED, b, x + r, sum + r);
}

/* Prefetches an eighth of a superblock of the next tile, while this tile's block i is
 * multiplied. */
FT_GEMM_INLINE void prefetch_next(const uint8_t *prefetch, size_t bytes, size_t i)
{
    for (size_t at = i * bytes / 8; prefetch && at < (i + 1) * bytes / 8; at += 64)
        _mm_prefetch(prefetch + at, _MM_HINT_T1);
}

/* Superblock s of Q4_K or Q5_K; x: its first block. */
FT_GEMM_INLINE void multiply_q45(enum ggml_type type, uint32_t n, const ft_gemm_tile *t, size_t s,
                                 const ft_gemm_block *x, __m512 *sum)
{
    const size_t bytes = type == GGML_TYPE_Q4_K ? sizeof(ft_pack_q4_k) : sizeof(ft_pack_q5_k);
    const uint8_t *super = t->weights + s * bytes;
    const ft_pack_scales *scales = (const ft_pack_scales *)super;
    const ft_pack_q4_k *q4 = (const ft_pack_q4_k *)super;
    const ft_pack_q5_k *q5 = (const ft_pack_q5_k *)super;
    __m512 d = halves(scales->d);
    __m512 dmin = _mm512_mul_ps(halves(scales->dmin), _mm512_set1_ps(0.125f));
    numbers six;
    unpack_numbers(scales, &six);
    for (size_t i = 0; i < 8; i++, x += t->row_blocks) {
        block b;
        prefetch_next(t->prefetch ? t->prefetch + s * bytes : NULL, bytes, i);
        if (type == GGML_TYPE_Q4_K)
            load_nibbles(q4->quants[i], b.w);
        else
            load_q5(q5->block[i].bits, q5->block[i].quants, b.w);
        b.scale[0] = _mm512_mul_ps(d, unsigned_bytes(six.scale[i]));
        b.min = _mm512_mul_ps(dmin, unsigned_bytes(six.min[i]));
        multiply(type, n, &b, x, sum);
    }
}

FT_GEMM_INLINE void multiply_q6(uint32_t n, const ft_gemm_tile *t, size_t s, const ft_gemm_block *x,
                                __m512 *sum)
{
    ft_pack_q6_k_place at = ft_pack_q6_k_at(s, t->n_blocks / 8);
    const ft_pack_q6_k *super = (const ft_pack_q6_k *)(t->weights + at.super);
    __m512 d = halves(t->weights + at.d);
    for (size_t i = 0; i < 8; i++, x += t->row_blocks) {
        block b;
        prefetch_next(t->prefetch ? t->prefetch + at.super : NULL, sizeof *super, i);
        load_q6(super->block[i].bits, super->block[i].quants, b.w);
        b.scale[0] = _mm512_mul_ps(d, signed_bytes(super->scales[2 * i]));
        b.scale[1] = _mm512_mul_ps(d, signed_bytes(super->scales[2 * i + 1]));
        multiply(GGML_TYPE_Q6_K, n, &b, x, sum);
    }
}

/* type and n are constants after inlining. */
FT_GEMM_INLINE void tile_of(enum ggml_type type, uint32_t n, const ft_gemm_tile *t)
{
    const ft_gemm_block *x = t->rows;
    __m512 sum[FT_GEMM_GROUP];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        sum[r] = _mm512_setzero_ps();
    }
    for (size_t s = 0; s < t->n_blocks / 8; s++, x += 8 * (size_t)t->row_blocks) {
        if (type == GGML_TYPE_Q6_K)
            multiply_q6(n, t, s, x, sum);
        else
            multiply_q45(type, n, t, s, x, sum);
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        if (t->residual)
            sum[r] = _mm512_add_ps(sum[r], _mm512_loadu_ps(t->residual + r * t->residual_stride));
        _mm512_storeu_ps(t->out + r * t->out_stride, sum[r]);
    }
}

FT_GEMM_K_TYPES(FT_GEMM_FUNCTION_BY_ROWS)

ft_gemm_tile_fn *ft_gemm_k_vnni(enum ggml_type type)
{
    if (!ft_cpu_get()->vnni)
        return NULL;
    switch (type) {
        FT_GEMM_K_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}

#else

ft_gemm_tile_fn *ft_gemm_k_vnni(enum ggml_type type)
{
    return NULL;
}

#endif
