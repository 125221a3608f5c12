/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a row of logits for all that a sampler and a rejection predictor want of it. Inside the
 * room only. Pure functions, any thread.
 */
#ifndef FT_SPEC_SHAPE_H
#define FT_SPEC_SHAPE_H

#include <stddef.h>
#include <stdint.h>

/* What a row looks like; logits that are not finite are left out. */
typedef struct ft_logit_scan {
    float max, second; /* the two largest (equal on a tie); minus infinity where there are none */
    float deviation;   /* standard deviation; 0 where there are none */
} ft_logit_scan;

ft_logit_scan ft_logits_scan(const float *logits, uint32_t n);

/* Sums of weights and of weights times logarithms, from which mass and entropy follow. */
typedef struct ft_mass {
    double sum, dot;
} ft_mass;

/* Adds w[n] and w[n] * log_w[n], n <= 256; log_w[i] must be finite. */
void ft_mass_add(ft_mass *mass, const float *w, const float *log_w, size_t n);

/* In nats; the weights need not sum to 1. */
float ft_mass_entropy(const ft_mass *mass);

#endif
