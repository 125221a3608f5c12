/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic that the language lacks. */
#ifndef FT_BASE_NUM_H
#define FT_BASE_NUM_H

#include <stdint.h>

static inline uint32_t ft_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A running mean of what is positive, in which each sample weighs `share`; the first is taken as it is. */
static inline void ft_smooth(double *mean, double sample, double share)
{
    *mean += (*mean > 0 ? share : 1) * (sample - *mean);
}

#endif
