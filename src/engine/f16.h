/* SPDX-License-Identifier: Apache-2.0
 * Floats to IEEE halves, rounded to nearest even, and back; by the machine's instruction where there
 * is one. */
#ifndef FT_ENGINE_F16_H
#define FT_ENGINE_F16_H

#include <stdint.h>
#include <string.h>

#include "ggml.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

static inline uint16_t ft_f16_of(float x)
{
#ifdef __F16C__
    return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__aarch64__)
    __fp16 half = (__fp16)x;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
#else
    return ggml_fp32_to_fp16(x);
#endif
}

static inline float ft_f16_to_f32(uint16_t bits)
{
#ifdef __F16C__
    return _cvtsh_ss(bits);
#elif defined(__aarch64__)
    __fp16 half;
    memcpy(&half, &bits, sizeof half);
    return half;
#else
    return ggml_fp16_to_fp32(bits);
#endif
}

static inline void ft_f16_row(const float *x, uint16_t *out, uint32_t n)
{
    uint32_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        out[i] = ft_f16_of(x[i]);
}

#endif
