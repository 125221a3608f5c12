/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors for the kernels of products: 4 bytes for each of LANES output rows. A tile's 16 output
 * rows are PARTS vectors. They are the compiler's own vectors, whose operators work lane by lane.
 * The including file defines LANES: 16 (AVX-512), 8 (AVX2) or 4 (NEON).
 * (lint: template header)
 */
#include <string.h>

#include "engine/gemm_types.h"
#include "model/pack.h"
#include "model/pack_k.h"

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

#define PARTS  (FT_PACK_ROWS / LANES)
#define UNROLL FT_UNROLL(16)
#define VECTOR __attribute__((vector_size(4 * LANES)))

typedef uint8_t bytes VECTOR;
typedef uint16_t shorts VECTOR;
typedef int32_t ints VECTOR;
typedef uint32_t words VECTOR;
typedef float floats VECTOR;

/* a * b + c, rounded once */
FT_GEMM_INLINE floats fmadd(floats a, floats b, floats c)
{
#if LANES == 16
    return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif LANES == 8
    return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}

/* Halves to floats. */
FT_GEMM_INLINE floats halves(const void *p)
{
#if LANES == 16
    return (floats)_mm512_cvtph_ps(_mm256_loadu_si256(p));
#elif LANES == 8
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128(p));
#else
    return (floats)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
#endif
}

/* Bytes with a sign to floats. */
FT_GEMM_INLINE floats floats_of(const int8_t *p)
{
#if LANES == 16
    return (floats)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif LANES == 8
    return (floats)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#else
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return (floats)vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four)))));
#endif
}

FT_GEMM_INLINE words load(const void *p)
{
    words v;
    memcpy(&v, p, sizeof v);
    return v;
}

FT_GEMM_INLINE uint32_t four_at(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

FT_GEMM_INLINE float float_at(const void *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

FT_GEMM_INLINE floats splat(float x)
{
    return x - (floats){0};
}

/* Four bytes, in all lanes. The compiler does not see that the lanes are equal: it would compute
 * with one of them, and slowly. */
FT_GEMM_INLINE words splat_pair(const void *p)
{
    words v = (words){0} + four_at(p);
#if defined(__x86_64__)
    __asm__("" : "+v"(v));
#else
    __asm__("" : "+w"(v));
#endif
    return v;
}

/* Weights with a sign; the others are stored as numbers from 0 on. */
FT_GEMM_INLINE bool is_signed(enum ggml_type type)
{
    return type == GGML_TYPE_Q8_0 || type == GGML_TYPE_IQ4_NL;
}

/* Bits that a weight has beside a nibble. */
FT_GEMM_INLINE int high_bits(enum ggml_type type)
{
    return type == GGML_TYPE_Q6_K ? 2 : type == GGML_TYPE_Q5_K || ft_pack_has_fifth(type);
}
