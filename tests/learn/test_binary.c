// SPDX-License-Identifier: Apache-2.0
// Quality of predictions, on cases worked out by hand and against counting all pairs.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/binary.h"

static ft_error err;

static ft_binary_quality measure(const float *odds, const uint8_t *y, size_t n, float least)
{
    const ft_binary_data data = {odds, y, n};
    ft_binary_quality q;
    assert_int_equal(ft_binary_measure(&data, least, &err, &q), FT_OK);
    return q;
}

static void test_by_hand(void **state)
{
    const float odds[] = {3, 1, 0, 0, -1, -2};
    const uint8_t y[] = {1, 0, 1, 1, 0, 0};
    const ft_binary_quality q = measure(odds, y, 6, 0);
    assert_true(q.tp == 3 && q.fp == 1 && q.tn == 2 && q.fn == 0);
    assert_true(fabs(q.fpr - 1.0 / 3) < 1e-12 && q.recall == 1);
    assert_true(fabs(q.specificity - 2.0 / 3) < 1e-12);
    assert_true(fabs(q.balanced - 5.0 / 6) < 1e-12 && fabs(q.accuracy - 5.0 / 6) < 1e-12);
    assert_true(fabs(q.auc - 7.0 / 9) < 1e-12); /* the 0 at 1 beats two 1s of 3 */
}

static void test_auc_counts_pairs(void **state)
{
    enum { N = 200 };
    float odds[N];
    uint8_t y[N];
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (int i = 0; i < N; i++) {
        y[i] = ft_rng_below(&rng, 3) > 0;
        odds[i] = (float)ft_rng_below(&rng, 9) + (y[i] ? 1 : 0);
    }
    double pairs = 0, won = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            if (y[i] && !y[k]) {
                pairs++;
                won += odds[i] > odds[k] ? 1 : odds[i] == odds[k] ? 0.5 : 0;
            }
    assert_true(fabs(measure(odds, y, N, 0).auc - won / pairs) < 1e-12);
}

/* Odds that are right have no calibration error to speak of; the same doubled have. */
static void test_calibration(void **state)
{
    enum { N = 50000 };
    static float odds[N], sure[N];
    static uint8_t y[N];
    ft_rng rng;
    ft_rng_init(&rng, 2);
    for (int i = 0; i < N; i++) {
        odds[i] = 2 * (float)ft_rng_normal(&rng);
        sure[i] = 2 * odds[i];
        y[i] = ft_rng_unit(&rng) < 1 / (1 + exp(-(double)odds[i]));
    }
    const ft_binary_quality q = measure(odds, y, N, 0), s = measure(sure, y, N, 0);
    assert_true(q.ece < 0.01 && s.ece > 0.04);
    assert_true(q.balanced == s.balanced && q.auc == s.auc);
    uint64_t n = 0;
    for (int b = 0; b < FT_BINARY_BINS; b++) {
        n += q.bin[b].n;
        assert_true(q.bin[b].predicted >= 0.1 * b && q.bin[b].predicted <= 0.1 * (b + 1));
    }
    assert_int_equal(n, N);
}

static void test_threshold(void **state)
{
    const float odds[] = {3, 2, 1, 0, -1, -2, -3, -4};
    const uint8_t y[] = {1, 1, 0, 1, 0, 1, 0, 0};
    const ft_binary_data data = {odds, y, 8};
    float least;
    assert_int_equal(ft_binary_threshold(&data, 1, &err, &least), FT_OK);
    assert_true(least == 2 || least == 0 || least == -2); /* all of balanced accuracy 3/4 */
    assert_int_equal(ft_binary_threshold(&data, 0.1, &err, &least), FT_OK);
    assert_true(least == 2);
    const uint8_t none[] = {0, 1, 0, 1, 0, 1, 0, 0};
    const ft_binary_data hard = {odds, none, 8};
    assert_int_equal(ft_binary_threshold(&hard, 0.1, &err, &least), FT_OK);
    assert_true(least > 3);
    const ft_binary_data empty = {odds, y, 0};
    assert_int_equal(ft_binary_threshold(&empty, 0.1, &err, &least), FT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_auc_counts_pairs),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_threshold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
