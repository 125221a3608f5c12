/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a row of logits for all that a sampler and a rejection predictor want of it. Inside
 * the room only. Pure functions, any thread.
 */
#ifndef FT_SPEC_SHAPE_H
#define FT_SPEC_SHAPE_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* A logit, or minus infinity for what is not finite. */
static inline float ft_or_minus_inf(float x)
{
    return x <= FLT_MAX ? x : -INFINITY; /* NaN compares false */
}

/* The largest finite logit, minus infinity where there is none. Lanes, because a float maximum over
 * one variable does not vectorize. */
static inline float ft_logits_max(const float *logits, uint32_t n)
{
    float lane[16], max = -INFINITY;
    uint32_t i = 0;
    for (int j = 0; j < 16; j++)
        lane[j] = -INFINITY;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            float x = ft_or_minus_inf(logits[i + (uint32_t)j]);
            lane[j] = x > lane[j] ? x : lane[j];
        }
    for (int j = 0; j < 16; j++)
        max = lane[j] > max ? lane[j] : max;
    for (; i < n; i++)
        max = ft_or_minus_inf(logits[i]) > max ? ft_or_minus_inf(logits[i]) : max;
    return max;
}

/* What a row looks like; logits that are not finite are left out. */
typedef struct ft_logit_scan {
    float max, second; /* the two largest (equal on a tie); minus infinity where there are none */
    float deviation;   /* standard deviation; 0 where there are none */
} ft_logit_scan;

/* Of logits[n], in one pass where all are finite. */
ft_logit_scan ft_logits_scan(const float *logits, uint32_t n);

/* As many as make a loop over them vectorize and not wait for itself. */
#define FT_SHAPE_LANES 32

/* Sums of weights and of weights times their logarithms, from which mass and entropy follow, in
 * lanes. All-zero to begin with. */
typedef struct ft_mass {
    float sum[FT_SHAPE_LANES], dot[FT_SHAPE_LANES];
} ft_mass;

/* Adds w[n] and w[n] * log_w[n]; log_w[i] must be finite. */
void ft_mass_add(ft_mass *mass, const float *w, const float *log_w, size_t n);

#define FT_SHAPE_FAR -88.0f /* exp of what is down here counts as 0 */

/* The mass exp(logit - max) of the finite ones of logits[n]; max is the largest of these. */
ft_mass ft_logits_mass(const float *logits, uint32_t n, float max);

/* The mass of all weights. */
double ft_mass_sum(const ft_mass *mass);
/* In nats; the weights need not sum to 1. */
float ft_mass_entropy(const ft_mass *mass);

#endif
