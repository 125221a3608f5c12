// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops over bf16 on AVX-512 with dot products of bfloat16: twice the products of
// an ordinary multiply-add. Stateless.
#include "engine/attn_kernel.h"

#if defined(__x86_64__)
#include "engine/attn_avx512.h"

typedef __m512bh x16_pairs;
static inline x16_pairs x16_load_pairs(const void *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}
static inline x16_pairs x16_first_of_pairs(x16_pairs a)
{
    return (__m512bh)_mm512_and_si512((__m512i)a, _mm512_set1_epi32(0xffff));
}
static inline x16 dot2(x16 acc, x16_pairs a, const void *pair)
{
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return _mm512_dpbf16_ps(acc, a, (__m512bh)_mm512_set1_epi32(both));
}
static inline x16 x16_store_bf16(ft_bf16 *p, x16 a)
{
    __m256i rounded = (__m256i)_mm512_cvtneps_pbh(a);
    _mm256_storeu_si256((__m256i *)p, rounded);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
}

#define KERNEL_NAME  "avx512-bf16"
#define KERNEL_TABLE ft_attn_bf16
#define KERNEL_F16   0
#define KERNEL_BF16  1
#define KERNEL_Q8    0
#define KERNEL_DOT   1
#include "engine/attn_tile.h"
#endif
