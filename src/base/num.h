/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic that the C language lacks, and the length of an array. */
#ifndef FT_BASE_NUM_H
#define FT_BASE_NUM_H

#include <stdint.h>

#define FT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline uint32_t ft_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A running mean of positive samples. Each sample has the weight `share`; the first one becomes the
 * mean. */
static inline void ft_smooth(double *mean, double sample, double share)
{
    *mean += (*mean > 0 ? share : 1) * (sample - *mean);
}

#endif
