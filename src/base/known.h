/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that may not be known yet: a flag says so, never a zero. All-zero is "not known". */
#ifndef FT_BASE_KNOWN_H
#define FT_BASE_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

/* A time or a duration. */
typedef struct ft_known_us {
    bool known;
    int64_t us;
} ft_known_us;

static inline ft_known_us ft_known(int64_t us)
{
    return (ft_known_us){.known = true, .us = us};
}

static inline ft_known_us ft_unknown(void)
{
    return (ft_known_us){0};
}

/* A running mean of positive samples. */
typedef struct ft_mean {
    bool known;
    double value; /* 0 while it is not known */
} ft_mean;

/* Each sample has the weight `share`; the first positive sample becomes the mean. */
static inline void ft_mean_saw(ft_mean *mean, double sample, double share)
{
    mean->value += (mean->known ? share : 1) * (sample - mean->value);
    mean->known = mean->known || mean->value > 0;
}

#endif
