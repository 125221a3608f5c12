/* SPDX-License-Identifier: Apache-2.0
 * Sixteen floats on AVX-512: the primitives of attn_tile.h, for the files that are compiled for it.
 * (lint: template header)
 */
#include "engine/f16.h"

#include <immintrin.h>

typedef __m512 x16;
#define TILE_REGS   30
#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

static inline x16 x16_zero(void)
{
    return _mm512_setzero_ps();
}
static inline x16 x16_set1(float a)
{
    return _mm512_set1_ps(a);
}
static inline x16 x16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void x16_store(float *p, x16 a)
{
    _mm512_storeu_ps(p, a);
}
static inline x16 x16_load_f16(const ft_f16 *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline x16 x16_fma(x16 a, x16 b, x16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline x16 x16_mul(x16 a, x16 b)
{
    return _mm512_mul_ps(a, b);
}
static inline x16 x16_add(x16 a, x16 b)
{
    return _mm512_add_ps(a, b);
}
static inline x16 x16_sub(x16 a, x16 b)
{
    return _mm512_sub_ps(a, b);
}
static inline x16 x16_max(x16 a, x16 b)
{
    return _mm512_max_ps(a, b);
}
static inline x16 x16_round(x16 a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline x16 x16_from(x16 x, x16 lowest)
{
    (void)lowest;
    return x;
}
static inline x16 x16_scale(x16 x, x16 lowest, x16 p, x16 n)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ), p, n);
}
static inline x16 x16_keep(x16 a, uint32_t n, x16 other)
{
    return _mm512_mask_mov_ps(other, (__mmask16)((1u << n) - 1), a);
}
static inline float x16_hmax(x16 a)
{
    return _mm512_reduce_max_ps(a);
}
static inline x16 x16_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline __attribute__((always_inline)) x16 x16_byte(const void *p, const unsigned j)
{
    __m512i four = _mm512_slli_epi32(_mm512_loadu_si512(p), 24 - 8 * j);
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(four, 24));
}
static inline x16 x16_pair_lo(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
static inline x16 x16_pair_hi(const void *p)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), upper));
}
static inline x16 x16_round_bf16(x16 a)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    __m512i bits = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_castsi512_ps(_mm512_and_si512(bits, upper));
}
