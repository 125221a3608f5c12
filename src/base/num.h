/* SPDX-License-Identifier: Apache-2.0
 *
 * Small arithmetic that C lacks, and the length of an array. */
#ifndef FT_BASE_NUM_H
#define FT_BASE_NUM_H

#include <stdint.h>

#define FT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* gcc and clang have it on every 64-bit machine. */
__extension__ typedef unsigned __int128 ft_u128;

static inline uint32_t ft_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t ft_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline double ft_clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Adds a sample to a running mean of positive samples, with the weight `share`. The first sample
 * becomes the mean. */
static inline void ft_smooth(double *mean, double sample, double share)
{
    *mean += (*mean > 0 ? share : 1) * (sample - *mean);
}

#endif
