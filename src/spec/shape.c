// SPDX-License-Identifier: Apache-2.0
// Scans of a row of logits. Loops run in lanes, because neither a maximum nor a sum over one float
// variable vectorizes; the lanes are joined in double precision at the end. Nothing here decides a
// draw except the largest logit, which is exact. No state, no allocation.
#include "spec/shape.h"

#include <math.h>

#include "spec/noise.h"

#define LANES FT_SHAPE_LANES

typedef struct lanes {
    float max[LANES], second[LANES], sum[LANES], squares[LANES];
} lanes;

/* LANES logits. One that is not finite makes a sum that is not. */
static inline void look(lanes *l, const float *logits)
{
    for (int j = 0; j < LANES; j++) {
        const float x = logits[j];
        const float less = x < l->max[j] ? x : l->max[j];
        l->second[j] = less > l->second[j] ? less : l->second[j];
        l->max[j] = x > l->max[j] ? x : l->max[j];
        l->sum[j] += x;
        l->squares[j] += x * x;
    }
}

static void add(ft_logit_scan *s, float x)
{
    s->second = fmaxf(s->second, fminf(x, s->max));
    s->max = fmaxf(s->max, x);
}

static float deviation(double sum, double squares, double n)
{
    return n > 0 ? (float)sqrt(fmax(squares / n - (sum / n) * (sum / n), 0)) : 0;
}

/* The same one by one, leaving out what is not finite. */
static ft_logit_scan scan_finite(const float *logits, uint32_t n)
{
    ft_logit_scan s = {.max = -INFINITY, .second = -INFINITY};
    double sum = 0, squares = 0, count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double x = (double)logits[i];
        if (!isfinite(x))
            continue;
        add(&s, logits[i]);
        sum += x;
        squares += x * x;
        count++;
    }
    s.deviation = deviation(sum, squares, count);
    return s;
}

ft_logit_scan ft_logits_scan(const float *logits, uint32_t n)
{
    lanes l = {.sum = {0}};
    ft_logit_scan s = {.max = -INFINITY, .second = -INFINITY};
    double sum = 0, squares = 0;
    uint32_t i = 0;
    for (int j = 0; j < LANES; j++)
        l.max[j] = l.second[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        look(&l, logits + i);
    for (; i < n; i++) {
        add(&s, logits[i]);
        sum += (double)logits[i];
        squares += (double)logits[i] * (double)logits[i];
    }
    for (int j = 0; j < LANES; j++) {
        add(&s, l.max[j]);
        s.second = fmaxf(s.second, l.second[j]);
        sum += (double)l.sum[j];
        squares += (double)l.squares[j];
    }
    if (!isfinite(sum) || !isfinite(squares))
        return scan_finite(logits, n);
    s.deviation = deviation(sum, squares, n);
    return s;
}

void ft_mass_add(ft_mass *restrict mass, const float *restrict w, const float *restrict log_w,
                 size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            mass->sum[j] += w[i + (size_t)j];
            mass->dot[j] += w[i + (size_t)j] * log_w[i + (size_t)j];
        }
    for (; i < n; i++) {
        mass->sum[0] += w[i];
        mass->dot[0] += w[i] * log_w[i];
    }
}

ft_mass ft_logits_mass(const float *logits, uint32_t n, float max)
{
    ft_mass mass = {0};
    float scaled[256], weight[256];
    for (uint32_t first = 0; first < n; first += 256) {
        const uint32_t part = n - first < 256 ? n - first : 256;
        for (uint32_t i = 0; i < part; i++) { /* x > far is false for NaN, x <= 0 for +inf */
            const float x = logits[first + i] - max;
            scaled[i] = x > FT_SHAPE_FAR && x <= 0 ? x : FT_SHAPE_FAR;
        }
        for (uint32_t i = 0; i < part; i++)
            weight[i] = ft_noise_exp(scaled[i]);
        ft_mass_add(&mass, weight, scaled, part);
    }
    return mass;
}

double ft_mass_sum(const ft_mass *mass)
{
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += (double)mass->sum[j];
    return sum;
}

float ft_mass_entropy(const ft_mass *mass)
{
    const double sum = ft_mass_sum(mass);
    double dot = 0;
    for (int j = 0; j < LANES; j++)
        dot += (double)mass->dot[j];
    const double entropy = sum > 0 ? log(sum) - dot / sum : 0;
    return entropy > 0 ? (float)entropy : 0;
}
