// SPDX-License-Identifier: Apache-2.0
// Products with packed weights by AVX-512's 8-bit dot product (VNNI). The bytes of 16 weight rows are
// loaded (4-bit ones taken apart) once for up to 8 rows of values, whose 16-lane sums stay in
// registers. Every row's arithmetic is the same, in the same order, for any number of rows. Stateless.
//
// With one row the memory is the limit. Weights are read strictly from front to back, which the processor's
// own prefetcher follows best: prefetch instructions at any distance made it slower (26 to 30 GB/s
// without, 20 to 27 with).
#include "engine/gemm_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/cpu.h"

#define INLINE static inline __attribute__((always_inline))

/* ---- values to 8 bits ---- */

INLINE float to_half(float x)
{
    return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
}

/* 32 values: scale is the largest magnitude / 127, sum the sum; both in half precision as ggml has
 * them (Q8_0, Q8_1), so that results differ from its own by order of summation alone. */
INLINE void quantize_block(__m512 a, __m512 b, ft_gemm_block *out)
{
    __m512 magnitude = _mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b));
    float max = _mm512_reduce_max_ps(magnitude);
    __m512 inverse = _mm512_set1_ps(max > 0 ? 127.0f / max : 0.0f);
    __m512i qa = _mm512_cvtps_epi32(_mm512_mul_ps(a, inverse));
    __m512i qb = _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse));
    int32_t sum_a = _mm512_reduce_add_epi32(qa), sum_b = _mm512_reduce_add_epi32(qb);
    int32_t sum = sum_a + sum_b;
    _mm_storeu_si128((__m128i *)out->q, _mm512_cvtsepi32_epi8(qa));
    _mm_storeu_si128((__m128i *)(out->q + 16), _mm512_cvtsepi32_epi8(qb));
    out->scale = to_half(max / 127.0f);
    out->start8 = -8 * sum;
    out->start128 = -128 * sum;
    out->start32[0] = -32 * sum_a;
    out->start32[1] = -32 * sum_b;
    out->sum = to_half(max / 127.0f * (float)sum);
}

static void quantize(const float *x, uint32_t n_blocks, ft_gemm_block *out, size_t stride)
{
    for (uint32_t b = 0; b < n_blocks; b++, x += 32, out += stride)
        quantize_block(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), out);
}

/* In the order that all kernels have: halves, quarters, ... */
INLINE float sum_halves(__m512 x)
{
    __m256 x8 = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
    x4 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
    return _mm_cvtss_f32(_mm_add_ss(x4, _mm_movehdup_ps(x4)));
}

static void quantize_norm(const float *x, const float *weight, float eps, uint32_t n_blocks,
                          ft_gemm_block *out, size_t stride)
{
    __m512 square_a = _mm512_setzero_ps(), square_b = _mm512_setzero_ps();
    for (uint32_t b = 0; b < n_blocks; b++) {
        __m512 va = _mm512_loadu_ps(x + 32 * b), vb = _mm512_loadu_ps(x + 32 * b + 16);
        square_a = _mm512_fmadd_ps(va, va, square_a);
        square_b = _mm512_fmadd_ps(vb, vb, square_b);
    }
    float mean = sum_halves(_mm512_add_ps(square_a, square_b)) / (float)(32 * n_blocks);
    __m512 factor = _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_sqrt_ps(_mm512_set1_ps(mean + eps)));
    for (uint32_t b = 0; b < n_blocks; b++, x += 32, weight += 32, out += stride) {
        __m512 va = _mm512_mul_ps(_mm512_loadu_ps(x), factor);
        __m512 vb = _mm512_mul_ps(_mm512_loadu_ps(x + 16), factor);
        quantize_block(_mm512_mul_ps(va, _mm512_loadu_ps(weight)),
                       _mm512_mul_ps(vb, _mm512_loadu_ps(weight + 16)), out);
    }
}

/* As exp_bounded in gemm_plain.c. */
INLINE __m512 exp16(__m512 x)
{
    x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-87.0f)), _mm512_set1_ps(87.0f));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e400p-1f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 y = _mm512_set1_ps(1.0f / 720);
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 120));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 24));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 6));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.5f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(y, n);
}

INLINE __m512 swiglu16(const float *gate, const float *up)
{
    __m512 g = _mm512_loadu_ps(gate), one = _mm512_set1_ps(1.0f);
    __m512 e = exp16(_mm512_sub_ps(_mm512_setzero_ps(), g));
    return _mm512_mul_ps(_mm512_div_ps(g, _mm512_add_ps(one, e)), _mm512_loadu_ps(up));
}

static void quantize_swiglu(const float *gate, const float *up, uint32_t n_blocks,
                            ft_gemm_block *out, size_t stride)
{
    for (uint32_t b = 0; b < n_blocks; b++, gate += 32, up += 32, out += stride)
        quantize_block(swiglu16(gate, up), swiglu16(gate + 16, up + 16), out);
}

/* ---- tiles ---- */

/* IQ4_NL's 16 values, plus 128. */
static const uint8_t iq4_nl[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                   129, 141, 153, 166, 181, 197, 217, 241};

/* The 8 vectors of a block of weights: vector i has inputs 4 i .. 4 i + 3 of 16 rows. */
INLINE void load_weights(enum ggml_type type, const uint8_t *quants, __m512i w[8])
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
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i both = _mm512_loadu_si512(quants + 64 * i);
        w[2 * i] = _mm512_and_si512(both, low);
        w[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
        if (type == GGML_TYPE_IQ4_NL) {
            w[2 * i] = _mm512_shuffle_epi8(table, w[2 * i]);
            w[2 * i + 1] = _mm512_shuffle_epi8(table, w[2 * i + 1]);
        }
    }
}

INLINE int32_t dot_start(enum ggml_type type, const ft_gemm_block *x)
{
    return type == GGML_TYPE_Q4_0 ? x->start8 : type == GGML_TYPE_Q4_1 ? 0 : x->start128;
}

INLINE __m512 dot_block(enum ggml_type type, const __m512i w[8], const ft_gemm_block *x)
{
    __m512i dot = _mm512_set1_epi32(dot_start(type, x));
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        int32_t four;
        __builtin_memcpy(&four, x->q + 4 * i, 4);
        dot = _mm512_dpbusd_epi32(dot, w[i], _mm512_set1_epi32(four));
    }
    return _mm512_cvtepi32_ps(dot);
}

/* One block of weights times n rows of values. */
INLINE void multiply_block(enum ggml_type type, uint32_t n, const uint8_t *scales,
                           const uint8_t *quants, const ft_gemm_block *x, __m512 *sum)
{
    __m512i w[8];
    load_weights(type, quants, w);
    __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)scales)), min = scale;
    if (type == GGML_TYPE_Q4_1)
        min = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(scales + 32)));
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++) {
        __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(x[r].scale));
        sum[r] = _mm512_fmadd_ps(dot_block(type, w, &x[r]), by, sum[r]);
        if (type == GGML_TYPE_Q4_1)
            sum[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(x[r].sum), sum[r]);
    }
}

/* type and n are constants where this is inlined. */
INLINE void tile_of(enum ggml_type type, uint32_t n, const ft_gemm_tile *t)
{
    const size_t s = type == GGML_TYPE_Q4_1 ? 64 : 32, q = type == GGML_TYPE_Q8_0 ? 512 : 256;
    const uint8_t *w = t->weights;
    const ft_gemm_block *x = t->rows;
    __m512 sum[FT_GEMM_GROUP];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < n; r++)
        sum[r] = _mm512_setzero_ps();
    for (uint32_t pair = 0; pair < t->n_blocks / 2; pair++) {
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

#define TILE(type, n)                             \
    static void type##_##n(const ft_gemm_tile *t) \
    {                                             \
        tile_of(GGML_TYPE_##type, n, t);          \
    }
#define TILES(type)                                                                         \
    TILE(type, 1)                                                                           \
    TILE(type, 2)                                                                           \
    TILE(type, 3)                                                                           \
    TILE(type, 4)                                                                           \
    TILE(type, 5)                                                                           \
    TILE(type, 6)                                                                           \
    TILE(type, 7)                                                                           \
    TILE(type, 8)                                                                           \
    static void type##_tile(const ft_gemm_tile *t)                                          \
    {                                                                                       \
        static ft_gemm_tile_fn *const by_rows[] = {type##_1, type##_2, type##_3, type##_4,  \
                                                   type##_5, type##_6, type##_7, type##_8}; \
        by_rows[t->n_rows - 1](t);                                                          \
    }
TILES(Q8_0)
TILES(Q4_0)
TILES(Q4_1)
TILES(IQ4_NL)

static ft_gemm_tile_fn *tile(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_Q8_0:
        return Q8_0_tile;
    case GGML_TYPE_Q4_0:
        return Q4_0_tile;
    case GGML_TYPE_Q4_1:
        return Q4_1_tile;
    case GGML_TYPE_IQ4_NL:
        return IQ4_NL_tile;
    default:
        return ft_gemm_k_vnni(type);
    }
}

const ft_gemm_kernel *ft_gemm_kernel_vnni(void)
{
    static const ft_gemm_kernel kernel = {"avx512 vnni", quantize, quantize_norm, quantize_swiglu,
                                          tile};
    return ft_cpu_get()->vnni ? &kernel : NULL;
}

#else

const ft_gemm_kernel *ft_gemm_kernel_vnni(void)
{
    return NULL;
}

#endif
