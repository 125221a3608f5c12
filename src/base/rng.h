/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers. For reproducible draws: Philox4x32-10 (Salmon et al., Parallel random numbers: as
 * easy as 1, 2, 3, SC 2011), a pure function of counter and key. For secrets: the kernel's
 * generator.
 */
#ifndef FT_BASE_RNG_H
#define FT_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Ten rounds of Philox4x32. Pure; any thread. */
void ft_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A sequence of Philox outputs, for tests and data generation. Owned by one thread. */
typedef struct ft_rng {
    uint32_t key[2];
    uint64_t counter;
    uint32_t out[4];
    unsigned left;
} ft_rng;

/* The same seed gives the same sequence on every machine. */
void ft_rng_init(ft_rng *rng, uint64_t seed);
/* A uniform 32-bit number. */
uint32_t ft_rng_u32(ft_rng *rng);
/* Uniform in [0, n); n > 0. */
uint32_t ft_rng_below(ft_rng *rng, uint32_t n);
/* Uniform in the open interval (0, 1). */
double ft_rng_unit(ft_rng *rng);
/* Standard normal. */
double ft_rng_normal(ft_rng *rng);

/* Unpredictable bytes from the kernel. FT_IO: the kernel has none. */
FT_WARN_UNUSED ft_status ft_random_bytes(void *out, size_t n);

#endif
