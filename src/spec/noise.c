// SPDX-License-Identifier: Apache-2.0
// Gumbel noise that edge and server compute alike. Both sides of a session draw with the same
// noise, and a session may move to another server, so the bits may not depend on the machine, the
// compiler or the vector width. Therefore:
//   - the random bits are Philox4x32-10 with key = seed and counter = (token / 4, position, tag,
//     0), one call for four tokens;
//   - the logarithms are our own, in double precision from + - * / alone, which IEEE 754 fixes to
//     the bit; libm's differ between versions, and its vector variants from its scalar ones;
//   - the build forbids fused multiply-add (-ffp-contract=off) and fast-math; loops may be
//     vectorized freely, as lanes do the same operations in the same order.
// tests/spec/test_sampling.c pins values: a change of this file that moves them breaks every
// session between an old edge and a new server. Pure functions; no state.
#include "spec/noise.h"

#include <float.h>

#include "base/rng.h"
#include "spec/sampling.h"

#ifdef __FAST_MATH__
#error "noise must be the same everywhere: build without -ffast-math"
#endif
/* 16: gcc's value for processors with AVX512-FP16. Only _Float16 is computed otherwise. */
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16,
               "noise needs plain IEEE arithmetic (x87 is not)");

/* Keeps these counters apart from those of ft_rng, which leaves this word 0. */
static const uint32_t counter_tag = 0x6c626d67u;

void ft_noise_bits(uint64_t seed, uint32_t position, const uint32_t block[FT_NOISE_LANES],
                   uint32_t bits[4][FT_NOISE_LANES])
{
    uint32_t *c0 = bits[0], *c1 = bits[1], *c2 = bits[2], *c3 = bits[3];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < FT_NOISE_LANES; i++) {
        c0[i] = block[i];
        c1[i] = position;
        c2[i] = counter_tag;
        c3[i] = 0;
    }
    for (int round = 0; round < 10; round++) { /* as ft_philox4x32, many counters at once */
        for (int i = 0; i < FT_NOISE_LANES; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c0[i] = n0;
            c1[i] = (uint32_t)p1;
            c2[i] = n2;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

double ft_noise_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* x = 2^k m with m in [sqrt(1/2), sqrt(2)): subtracting sqrt(1/2)'s bits carries into k. */
    uint64_t shifted = bits - 0x3fe6a09e667f3bcdu;
    int k = (int)((int64_t)shifted >> 52);
    uint64_t mantissa = bits - ((uint64_t)(int64_t)k << 52);
    double m;
    memcpy(&m, &mantissa, sizeof m);
    /* log m = 2 artanh(s), s = (m - 1) / (m + 1), |s| < 0.172: nine terms of the series. */
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 1.0 / 17.0;
    p = p * z + 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    return (double)k * 0.69314718055994530942 + 2.0 * (s + s * (z * p));
}

float ft_noise_gumbel(uint32_t bits)
{
    double u = ((double)bits + 0.5) * 0x1p-32; /* exact; never 0 or 1 */
    return (float)-ft_noise_log(-ft_noise_log(u));
}

float ft_gumbel(uint64_t seed, uint32_t position, int32_t token)
{
    uint32_t out[4];
    uint32_t counter[4] = {(uint32_t)token >> 2, position, counter_tag, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    ft_philox4x32(counter, key, out);
    return ft_noise_gumbel(out[(uint32_t)token & 3]);
}
