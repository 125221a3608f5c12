// SPDX-License-Identifier: Apache-2.0
// Scans of a row of logits. Loops run in 16 lanes, because neither a maximum nor a sum over one float
// variable vectorizes; lanes are joined in double precision. Nothing here decides a draw except the
// largest logit, which is exact. No state, no allocation.
#include "spec/shape.h"

#include <float.h>
#include <math.h>

#define LANES 16

typedef struct lanes {
    float max[LANES], second[LANES], sum[LANES], squares[LANES], count[LANES];
} lanes;

static inline void look(lanes *l, int j, float logit)
{
    const float magnitude = fabsf(logit);
    const float one = magnitude <= FLT_MAX ? 1.0f : 0.0f; /* NaN compares false */
    const float x = magnitude <= FLT_MAX ? logit : -INFINITY;
    const float finite = magnitude <= FLT_MAX ? logit : 0.0f;
    const float less = x < l->max[j] ? x : l->max[j];
    l->second[j] = less > l->second[j] ? less : l->second[j];
    l->max[j] = x > l->max[j] ? x : l->max[j];
    l->sum[j] += finite;
    l->squares[j] += finite * finite;
    l->count[j] += one;
}

ft_logit_scan ft_logits_scan(const float *logits, uint32_t n)
{
    lanes l = {.count = {0}};
    uint32_t i = 0;
    for (int j = 0; j < LANES; j++)
        l.max[j] = l.second[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            look(&l, j, logits[i + (uint32_t)j]);
    for (; i < n; i++)
        look(&l, 0, logits[i]);
    ft_logit_scan s = {.max = -INFINITY, .second = -INFINITY};
    double sum = 0, squares = 0, count = 0;
    for (int j = 0; j < LANES; j++) {
        const float lower = l.max[j] < s.max ? l.max[j] : s.max;
        s.second = fmaxf(s.second, fmaxf(lower, l.second[j]));
        s.max = l.max[j] > s.max ? l.max[j] : s.max;
        sum += (double)l.sum[j];
        squares += (double)l.squares[j];
        count += (double)l.count[j];
    }
    if (count > 0)
        s.deviation = (float)sqrt(fmax(squares / count - (sum / count) * (sum / count), 0));
    return s;
}

void ft_mass_add(ft_mass *mass, const float *w, const float *log_w, size_t n)
{
    float sum[LANES] = {0}, dot[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            sum[j] += w[i + j];
            dot[j] += w[i + j] * log_w[i + j];
        }
    for (; i < n; i++) {
        sum[0] += w[i];
        dot[0] += w[i] * log_w[i];
    }
    for (int j = 0; j < LANES; j++) {
        mass->sum += (double)sum[j];
        mass->dot += (double)dot[j];
    }
}

float ft_mass_entropy(const ft_mass *mass)
{
    if (!(mass->sum > 0))
        return 0;
    const double entropy = log(mass->sum) - mass->dot / mass->sum;
    return entropy > 0 ? (float)entropy : 0;
}
