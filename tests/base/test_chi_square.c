// SPDX-License-Identifier: Apache-2.0
// base/chi_square: p-values of tables and of closed forms; which bins count.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/chi_square.h"
#include "base/rng.h"

enum { BINS_MAX = 1001, EXPECTED = 1000 };

/* The p-value of a statistic x with so many degrees of freedom: one bin is off, all others are as
 * expected. */
static double p_of(int dof, double x)
{
    static double observed[BINS_MAX], expected[BINS_MAX];
    for (int i = 0; i <= dof; i++)
        observed[i] = expected[i] = EXPECTED;
    observed[0] += sqrt(x * EXPECTED);
    return ft_chi_square_p(observed, expected, (size_t)dof + 1);
}

static void expect(double value, double expected)
{
    if (fabs(value - expected) > 1e-3 * expected)
        fail_msg("%.9g is not %.9g", value, expected);
}

static void tables(void **state)
{
    expect(p_of(1, 3.841459), 0.05);
    expect(p_of(1, 10.827566), 0.001);
    expect(p_of(10, 18.307038), 0.05);
    expect(p_of(10, 3.940299), 0.95);
    expect(p_of(30, 59.703064), 0.001);
    expect(p_of(100, 149.449253), 0.001);
    expect(p_of(1000, 1074.679), 0.05);
    for (double x = 0.1; x < 100; x *= 1.5) /* closed forms */
        expect(p_of(2, x), exp(-x / 2));
    for (double x = 0.1; x < 100; x *= 1.5)
        expect(p_of(4, x), exp(-x / 2) * (1 + x / 2));
    for (double x = 0.1; x < 50; x *= 1.5)
        expect(p_of(1, x), erfc(sqrt(x / 2)));
}

static void bins(void **state)
{
    const double expected[] = {50, 4, 4, 42, 0};
    assert_true(ft_chi_square_p(expected, expected, 5) == 1);
    /* the two small ones count as one: three bins */
    const double observed[] = {50, 0, 16, 34, 0};
    expect(ft_chi_square_p(observed, expected, 5), exp(-(64 / 8.0 + 64 / 42.0) / 2));
    const double odd[] = {50, 4, 4, 41, 1};
    assert_true(ft_chi_square_p(odd, expected, 5) == 0);
    assert_true(ft_chi_square_p(expected, expected, 1) == 1);
}

/* Draws from the distribution itself have p-values that are uniform. */
static void true_draws(void **state)
{
    static const double share[] = {0.5, 0.2, 0.1, 0.1, 0.06, 0.04};
    enum { N = 6, ROUNDS = 2000, DRAWS = 1000 };
    double below[3] = {0};
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (int r = 0; r < ROUNDS; r++) {
        double observed[N] = {0}, expected[N];
        for (int d = 0; d < DRAWS; d++) {
            double u = ft_rng_unit(&rng);
            int i = 0;
            while (i < N - 1 && (u -= share[i]) >= 0)
                i++;
            observed[i]++;
        }
        for (int i = 0; i < N; i++)
            expected[i] = DRAWS * share[i];
        const double p = ft_chi_square_p(observed, expected, N);
        below[0] += p < 0.1;
        below[1] += p < 0.5;
        below[2] += p < 0.9;
    }
    assert_true(fabs(below[0] / ROUNDS - 0.1) < 0.03);
    assert_true(fabs(below[1] / ROUNDS - 0.5) < 0.05);
    assert_true(fabs(below[2] / ROUNDS - 0.9) < 0.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(bins),
        cmocka_unit_test(true_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
