// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops over q8_0 on AVX-512 with dot products of bytes, for the scores.
// Stateless.
#include "engine/attn_kernel.h"

#if defined(__x86_64__)
#include "engine/attn_avx512.h"

typedef __m512i x16_bytes;
/* Unsigned: value + 128. The sum starts with a correction for the 128 (attn_head.h). */
static inline x16_bytes x16_load_bytes(const void *p)
{
    return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8((char)0x80));
}
static inline x16 dot4_start(int32_t excess)
{
    return _mm512_castsi512_ps(_mm512_set1_epi32(excess));
}
static inline x16 dot4(x16 acc, x16_bytes a, const void *four)
{
    int32_t all;
    memcpy(&all, four, sizeof all);
    return _mm512_castsi512_ps(
        _mm512_dpbusd_epi32(_mm512_castps_si512(acc), a, _mm512_set1_epi32(all)));
}
static inline x16 dot4_end(x16 acc)
{
    return _mm512_cvtepi32_ps(_mm512_castps_si512(acc));
}

#define KERNEL_NAME  "avx512-vnni"
#define KERNEL_TABLE ft_attn_vnni
#define KERNEL_F16   0
#define KERNEL_BF16  0
#define KERNEL_Q8    1
#define KERNEL_DOT   1
#include "engine/attn_tile.h"
#endif
