// SPDX-License-Identifier: Apache-2.0
// The chi-square test. Its distribution is the regularized incomplete gamma function Q(a, x), by
// the power series of P = 1 - Q below the mean, and by its continued fraction above it (DLMF 8.7.1,
// 8.9.2). Stateless.
#include "base/chi_square.h"

#include <math.h>

#define STEPS 10000
#define SMALL 1e-15

/* P(a, x) = x^a e^-x / Gamma(a + 1) (1 + x / (a + 1) + x^2 / (a + 1)(a + 2) + ...) */
static double lower(double a, double x, double log_scale)
{
    double term = 1 / a, sum = term;
    for (int i = 1; i < STEPS && term > sum * SMALL; i++) {
        term *= x / (a + i);
        sum += term;
    }
    return sum * exp(log_scale);
}

/* Q(a, x) = x^a e^-x / Gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), from the
 * front: each step multiplies by the quotient of two denominators. */
static double upper(double a, double x, double log_scale)
{
    double b = x + 1 - a, d = 1 / b, c = INFINITY, product = d;
    for (int i = 1; i < STEPS; i++) {
        const double numerator = -i * (i - a);
        b += 2;
        d = 1 / (numerator * d + b);
        c = b + numerator / c;
        product *= c * d;
        if (fabs(c * d - 1) < SMALL)
            break;
    }
    return product * exp(log_scale);
}

static double gamma_q(double a, double x)
{
    if (x <= 0)
        return 1;
    int sign;
    const double log_scale = a * log(x) - x - lgamma_r(a, &sign);
    return x < a + 1 ? 1 - lower(a, x, log_scale) : upper(a, x, log_scale);
}

double ft_chi_square_p(const double *observed, const double *expected, size_t n)
{
    double x = 0, rest_observed = 0, rest_expected = 0;
    int bins = 0;
    for (size_t i = 0; i < n; i++) {
        if (expected[i] <= 0 && observed[i] > 0)
            return 0;
        if (expected[i] < 5) {
            rest_observed += observed[i];
            rest_expected += expected[i];
            continue;
        }
        x += (observed[i] - expected[i]) * (observed[i] - expected[i]) / expected[i];
        bins++;
    }
    if (rest_expected >= 5) {
        x += (rest_observed - rest_expected) * (rest_observed - rest_expected) / rest_expected;
        bins++;
    }
    return bins > 1 ? gamma_q((bins - 1) / 2.0, x / 2) : 1;
}
