/* SPDX-License-Identifier: Apache-2.0
 * Conversion of floats to IEEE halves and to bfloat16 (rounded to nearest even) and back. The bits
 * are the same on every machine. Where the including file is compiled for a machine instruction,
 * that is used. */
#ifndef FT_ENGINE_F16_H
#define FT_ENGINE_F16_H

#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef uint16_t ft_f16;  /* bits of an IEEE half */
typedef uint16_t ft_bf16; /* the upper bits of a float */

static inline uint32_t ft_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float ft_f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* With integer arithmetic, so that the compiler can vectorize it. */
static inline ft_f16 ft_f16_of_soft(float x)
{
    uint32_t bits = ft_f32_bits(x), a = bits & 0x7fffffff, h;
    if (a > 0x7f800000) /* NaN: keep the upper bits, make it quiet */
        h = 0x7e00 | (a >> 13 & 0x1ff);
    else if (a >= 0x477ff000) /* from 65520 on: infinity */
        h = 0x7c00;
    else if (a < 0x38800000) /* below 2^-14: multiples of 2^-24, the unit of floats at 0.5 */
        h = ft_f32_bits(ft_f32_of_bits(a) + 0.5f) - ft_f32_bits(0.5f);
    else
        h = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
    return (ft_f16)((bits >> 16 & 0x8000) | h);
}

static inline float ft_f16_to_f32_soft(ft_f16 h)
{
    uint32_t a = h & 0x7fff, bits;
    if (a >= 0x7c00)
        bits = 0x7f800000 | (a & 0x3ff) << 13 | (a > 0x7c00 ? 0x400000 : 0);
    else if (a < 0x400)
        bits = ft_f32_bits((float)a * 0x1p-24f);
    else
        bits = (a << 13) + 0x38000000;
    return ft_f32_of_bits(bits | (uint32_t)(h & 0x8000) << 16);
}

static inline ft_f16 ft_f16_of(float x)
{
#if defined(__F16C__)
    return (ft_f16)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__aarch64__)
    __fp16 half = (__fp16)x;
    ft_f16 bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
#else
    return ft_f16_of_soft(x);
#endif
}

static inline float ft_f16_to_f32(ft_f16 h)
{
#if defined(__F16C__)
    return _cvtsh_ss(h);
#elif defined(__aarch64__)
    __fp16 half;
    memcpy(&half, &h, sizeof half);
    return half;
#else
    return ft_f16_to_f32_soft(h);
#endif
}

static inline void ft_f16_row(const float *x, ft_f16 *out, uint32_t n)
{
    uint32_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        out[i] = ft_f16_of(x[i]);
}

static inline ft_bf16 ft_bf16_of(float x)
{
    uint32_t bits = ft_f32_bits(x), up = bits + 0x7fff + (bits >> 16 & 1);
    return (ft_bf16)(((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : up) >> 16);
}

static inline float ft_bf16_to_f32(ft_bf16 x)
{
    return ft_f32_of_bits((uint32_t)x << 16);
}

#endif
