// SPDX-License-Identifier: Apache-2.0
// Products with packed weights by AVX-512's 8-bit dot product (VNNI). The bytes of 16 weight rows
// are loaded (4-bit ones unpacked) once for up to 8 rows of values; their 16-lane sums stay in
// registers. Every row's arithmetic is the same, in the same order, for any number of rows.
// Stateless.
//
// With one row, memory is the limit. Weights are read strictly front to back, because the
// processor's prefetcher follows that best: 26 to 30 GB/s, against 20 to 27 with prefetch
// instructions at any distance.
#include "engine/gemm_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "base/cpu.h"
#include "model/pack.h"

enum { INTERLEAVED = 4 };

/* IQ4_NL's 16 values, plus 128. */
static const uint8_t iq4_nl[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                   129, 141, 153, 166, 181, 197, 217, 241};

/* Bit i of `fifths` above the 4 bits of w. */
FT_GEMM_INLINE __m512i with_fifth(__m512i w, __m512i fifths, int i)
{
    __m512i bit = i < 4 ? _mm512_slli_epi16(fifths, (unsigned)(4 - i))
                        : _mm512_srli_epi16(fifths, (unsigned)(i - 4));
    return _mm512_or_si512(w, _mm512_and_si512(bit, _mm512_set1_epi8(16)));
}

/* The 8 vectors of a block of weights: vector i has inputs 4 i .. 4 i + 3 of 16 rows. */
FT_GEMM_INLINE void load_weights(enum ggml_type type, const uint8_t *quants, __m512i w[8])
{
    if (type == GGML_TYPE_Q8_0) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            w[i] = _mm512_loadu_si512(quants + 64 * i);
        }
        return;
    }
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)iq4_nl));
    __m512i fifths = _mm512_loadu_si512(quants);
    quants += ft_pack_has_fifth(type) ? 64 : 0;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i both = _mm512_loadu_si512(quants + 64 * i);
        w[2 * i] = _mm512_and_si512(both, low);
        w[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
        if (type == GGML_TYPE_IQ4_NL) {
            w[2 * i] = _mm512_shuffle_epi8(table, w[2 * i]);
            w[2 * i + 1] = _mm512_shuffle_epi8(table, w[2 * i + 1]);
        }
        if (ft_pack_has_fifth(type)) {
            w[2 * i] = with_fifth(w[2 * i], fifths, 2 * i);
            w[2 * i + 1] = with_fifth(w[2 * i + 1], fifths, 2 * i + 1);
        }
    }
}

FT_GEMM_INLINE __m512i dot_start(enum ggml_type type, const ft_gemm_block *x)
{
    if (ft_pack_has_min(type))
        return _mm512_setzero_si512();
    if (type == GGML_TYPE_Q4_0)
        return _mm512_set1_epi32(x->start8);
    if (type == GGML_TYPE_Q5_0)
        return _mm512_slli_epi32(_mm512_set1_epi32(x->start8), 1);
    return _mm512_set1_epi32(x->start128);
}

/* A block of 32 inputs of 16 output rows. */
typedef struct block {
    __m512i w[8]; /* [i]: inputs 4 i .. 4 i + 3 of the rows */
    __m512 scale, min;
} block;

/* The products of n rows with a block of weights are interleaved. A single row would wait for
 * itself: a dot product takes as long as the start of four more. */
FT_GEMM_INLINE void multiply_rows(enum ggml_type type, uint32_t n, const block *b,
                                  const ft_gemm_block *x, __m512 *sum)
{
    __m512i dot[INTERLEAVED];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++)
        dot[r] = dot_start(type, &x[r]);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
#pragma GCC unroll 4
        for (uint32_t r = 0; r < n; r++) {
            int32_t four;
            memcpy(&four, x[r].q + 4 * i, 4);
            dot[r] = _mm512_dpbusd_epi32(dot[r], b->w[i], _mm512_set1_epi32(four));
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < n; r++) {
        __m512 by = _mm512_mul_ps(b->scale, _mm512_set1_ps(x[r].scale));
        sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), by, sum[r]);
        if (ft_pack_has_min(type))
            sum[r] = _mm512_fmadd_ps(b->min, _mm512_set1_ps(x[r].sum), sum[r]);
    }
}

/* One block of weights times n rows of values. */
FT_GEMM_INLINE void multiply_block(enum ggml_type type, uint32_t n, const uint8_t *scales,
                                   const uint8_t *quants, const ft_gemm_block *x, __m512 *sum)
{
    block b;
    load_weights(type, quants, b.w);
    b.scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)scales));
    if (ft_pack_has_min(type))
        b.min = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(scales + 32)));
    uint32_t r = 0;
#pragma GCC unroll 2
    for (; r + INTERLEAVED <= n; r += INTERLEAVED)
        multiply_rows(type, INTERLEAVED, &b, x + r, sum + r);
    if (n % INTERLEAVED)
        multiply_rows(type, n % INTERLEAVED, &b, x + r, sum + r);
}

/* type and n are constants after inlining. */
FT_GEMM_INLINE void tile_of(enum ggml_type type, uint32_t n, const ft_gemm_tile *t)
{
    const size_t s = ft_pack_scale_bytes(type), q = ft_pack_quant_bytes(type);
    const uint8_t *w = t->weights;
    const ft_gemm_block *x = t->rows;
    __m512 sum[FT_GEMM_GROUP];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++)
        sum[r] = _mm512_setzero_ps();
    for (uint32_t pair = 0; pair < t->n_blocks / 2; pair++) {
        for (size_t i = 0; t->prefetch && i < 2 * (s + q); i += 64)
            _mm_prefetch(t->prefetch + (size_t)(w - t->weights) + i, _MM_HINT_T1);
        multiply_block(type, n, w, w + 2 * s, x, sum);
        multiply_block(type, n, w + s, w + 2 * s + q, x + t->row_blocks, sum);
        w += 2 * (s + q);
        x += 2 * t->row_blocks;
    }
    if (t->n_blocks % 2)
        multiply_block(type, n, w, w + s, x, sum);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        if (t->residual)
            sum[r] = _mm512_add_ps(sum[r], _mm512_loadu_ps(t->residual + r * t->residual_stride));
        _mm512_storeu_ps(t->out + r * t->out_stride, sum[r]);
    }
}

FT_GEMM_BLOCK_TYPES(FT_GEMM_FUNCTION_BY_ROWS)

static ft_gemm_tile_fn *tile(enum ggml_type type)
{
    switch (type) {
        FT_GEMM_BLOCK_TYPES(FT_GEMM_CASE)
    default:
        return ft_gemm_k_vnni(type);
    }
}

const ft_gemm_kernel *ft_gemm_kernel_vnni(void)
{
    static const ft_gemm_kernel kernel = {"avx512 vnni", &ft_gemm_rounding_avx2, tile};
    return ft_cpu_get()->vnni ? &kernel : NULL;
}

#else

const ft_gemm_kernel *ft_gemm_kernel_vnni(void)
{
    return NULL;
}

#endif
