/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic under the sampler that must give the same bits on every machine: Gumbel noise from
 * Philox, a logarithm and an exponential. Inside the room only; ft_gumbel (sampling.h) is its
 * public face. Pure functions, any thread.
 */
#ifndef FT_SPEC_NOISE_H
#define FT_SPEC_NOISE_H

#include <stdint.h>
#include <string.h>

#define FT_NOISE_LANES 16 /* blocks of four tokens a call: one AVX-512 register of counters */

/* bits[k][i]: the 32 random bits of token 4 block[i] + k. */
void ft_noise_bits(uint64_t seed, uint32_t position, const uint32_t block[FT_NOISE_LANES],
                   uint32_t bits[4][FT_NOISE_LANES]);

/* Standard Gumbel value -log(-log u) for u = (bits + 1/2) / 2^32, rounded once to float. Rises with
 * bits; between -3.14 and 22.88. */
float ft_noise_gumbel(uint32_t bits);

/* 1 - u for the same u, exact. As -log u >= 1 - u, the noise is at most -log(1 - u). */
static inline double ft_noise_rest(uint32_t bits)
{
    return ((double)(UINT32_MAX - bits) + 0.5) * 0x1p-32;
}

/* Natural logarithm of a normal, positive, finite number; relative error under 1e-12. */
double ft_noise_log(double x);

/* exp(x) for x <= 0 within 2e-7, relative; 0 below -87. A loop over it vectorizes. */
static inline float ft_noise_exp(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float clamped = x > -87.0f ? x : -87.0f;
    float k = (clamped * 1.44269504f + magic) - magic;
    float r = (clamped - k * 0.693145752f) - k * 1.42860677e-6f; /* ln 2 in two parts */
    float p = 1.0f + r * (1.0f + r * (0.5f + r * (0.166666672f +
                                                  r * (0.0416666679f + r * (0.00833333377f +
                                                                            r * 0.00138888892f)))));
    uint32_t bits = (uint32_t)((int32_t)k + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x > -87.0f ? p * scale : 0.0f;
}

#endif
