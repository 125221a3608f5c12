// SPDX-License-Identifier: Apache-2.0
// Chi-square p-values by Wilson and Hilferty's normal approximation (good to a percent or so from
// three degrees of freedom on, plenty for tests that ask for p > 0.001).
#include "support/stats.h"

#include <math.h>

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
    double dof = bins > 1 ? bins - 1 : 1;
    double z = (cbrt(x / dof) - (1 - 2 / (9 * dof))) / sqrt(2 / (9 * dof));
    return 0.5 * erfc(z / sqrt(2));
}
