// SPDX-License-Identifier: Apache-2.0
// Least squares: exact data give their coefficients whatever the columns' units; noise gives
// intervals that hold the truth as often as they say; quality and cross-validation on cases worked
// out by hand.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "learn/lsq.h"

enum { N = 120, K = 4 };

/* As the features of passes: rows, rows x context, context, 1. */
static const double truth[K] = {143.39, 2.53e-3, 2.67, 14860};

static void make(ft_rng *rng, double noise, double *x, double *y)
{
    for (int i = 0; i < N; i++) {
        double rows = 1 + ft_rng_below(rng, 512), context = ft_rng_below(rng, 16384);
        const double row[K] = {rows, rows * context, context, 1};
        y[i] = noise * ft_rng_normal(rng);
        for (int j = 0; j < K; j++) {
            x[i * K + j] = row[j];
            y[i] += row[j] * truth[j];
        }
    }
}

static void test_exact(void **state)
{
    double x[N * K], y[N], weight[N], coef[K];
    ft_error err = {0};
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 1);
    make(&rng, 0, x, y);
    for (int i = 0; i < N; i++)
        weight[i] = 1 / (y[i] * y[i]);
    for (int weighted = 0; weighted < 2; weighted++) {
        const ft_lsq_data data = {
            .x = x, .y = y, .weight = weighted ? weight : NULL, .n = N, .k = K};
        ft_lsq_quality q;
        assert_int_equal(ft_lsq_fit(&data, &err, coef), FT_OK);
        for (int j = 0; j < K; j++)
            assert_true(fabs(coef[j] / truth[j] - 1) < 1e-6);
        ft_lsq_measure(&data, coef, &q);
        assert_true(q.r2 > 1 - 1e-12 && q.adjusted_r2 > 1 - 1e-12 && q.mape < 1e-9);
    }
}

/* Weights say which of two contradicting halves counts. */
static void test_weights(void **state)
{
    const double x[] = {1, 1, 1, 1}, y[] = {10, 10, 20, 20}, weight[] = {3, 3, 1, 1};
    ft_error err = {0};
    double coef;
    (void)state;
    const ft_lsq_data data = {.x = x, .y = y, .weight = weight, .n = 4, .k = 1};
    assert_int_equal(ft_lsq_fit(&data, &err, &coef), FT_OK);
    assert_true(fabs(coef - 12.5) < 1e-12);
}

/* y = 2 x but for one sample, by hand: errors 0, 0, 0, 2. */
static void test_quality(void **state)
{
    const double x[] = {1, 2, 3, 4}, y[] = {2, 4, 6, 10}, coef = 2;
    const ft_lsq_data data = {.x = x, .y = y, .n = 4, .k = 1};
    ft_lsq_quality q;
    (void)state;
    ft_lsq_measure(&data, &coef, &q);
    double total = 3.5 * 3.5 + 1.5 * 1.5 + 0.5 * 0.5 + 4.5 * 4.5;
    assert_true(fabs(q.r2 - (1 - 4 / total)) < 1e-12);
    assert_true(fabs(q.adjusted_r2 - (1 - 4 / total * 3 / 3)) < 1e-12);
    assert_true(q.rmse == 1 && q.mae == 0.5 && q.max_error == 2 && fabs(q.mape - 0.05) < 1e-12);
}

/* 95 % intervals hold the truth in most of 40 data sets: fewer than 30 would be a chance of
 * 1e-6. */
static void test_intervals(void **state)
{
    double x[N * K], y[N], low[K], high[K];
    int held = 0;
    ft_error err = {0};
    ft_rng rng, draws;
    (void)state;
    ft_rng_init(&rng, 2);
    ft_rng_init(&draws, 3);
    for (int set = 0; set < 40; set++) {
        const ft_lsq_data data = {.x = x, .y = y, .n = N, .k = K};
        const ft_lsq_bootstrap how = {.rounds = 200, .level = 0.95, .rng = &draws};
        make(&rng, 3000, x, y);
        assert_int_equal(ft_lsq_intervals(&data, &how, &err, low, high), FT_OK);
        assert_true(low[0] < high[0]);
        held += low[0] <= truth[0] && truth[0] <= high[0];
    }
    assert_in_range(held, 30, 40);
}

static void test_cross_validation(void **state)
{
    double x[N * K], y[N], mean, sd;
    ft_error err = {0};
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 4);
    make(&rng, 0, x, y);
    ft_lsq_data data = {.x = x, .y = y, .n = N, .k = K};
    assert_int_equal(ft_lsq_cross_validate(&data, 5, &rng, &err, &mean, &sd), FT_OK);
    assert_true(mean > 1 - 1e-9 && sd < 1e-9);
    for (int i = 0; i < N; i++)
        y[i] = ft_rng_normal(&rng); /* nothing to learn: worse than the mean on unseen data */
    assert_int_equal(ft_lsq_cross_validate(&data, 5, &rng, &err, &mean, &sd), FT_OK);
    assert_true(mean < 0.1);
    assert_int_equal(ft_lsq_cross_validate(&data, 1, &rng, &err, &mean, &sd), FT_INVALID);
    assert_int_equal(ft_lsq_cross_validate(&data, N + 1, &rng, &err, &mean, &sd), FT_INVALID);
}

static void test_refusals(void **state)
{
    double x[] = {1, 2, 2, 4, 3, 6}, y[] = {1, 2, 3}, coef[2];
    ft_error err = {0};
    (void)state;
    ft_lsq_data data = {.x = x, .y = y, .n = 3, .k = 2};
    assert_int_equal(ft_lsq_fit(&data, &err, coef), FT_PRECONDITION); /* twice the other */
    data.n = 1;
    assert_int_equal(ft_lsq_fit(&data, &err, coef), FT_INVALID);
    data.n = 3;
    x[3] = NAN;
    assert_int_equal(ft_lsq_fit(&data, &err, coef), FT_INVALID);
    data.k = FT_LSQ_MAX_COEF + 1;
    assert_int_equal(ft_lsq_fit(&data, &err, coef), FT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_quality),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_cross_validation),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
