// SPDX-License-Identifier: Apache-2.0
// What a row costs others: cases by hand, and what it says of nodes in a pass.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/price.h"
#include "sched/tuning.h"

#define S 1000000 /* us */

static ft_cost known(double pass_us, double row_us)
{
    const double us[FT_COST_FACTORS] = {[FT_COST_PASS] = pass_us, [FT_COST_ROW] = row_us};
    ft_cost cost;
    ft_cost_init(&cost);
    ft_cost_prime(&cost, us, 0.05);
    return cost;
}

static double price(const ft_cost *cost, uint32_t n)
{
    ft_pass plain = {0};
    for (uint32_t i = 0; i < n; i++)
        plain = ft_pass_plus(plain, 100, 1, 1);
    return ft_price_row(cost, &plain, n, &(ft_price_speed){0});
}

static void test_by_hand(void **state)
{
    const ft_cost cost = known(6000, 1000);
    ft_cost unknown;
    (void)state;
    ft_cost_init(&unknown);
    assert_true(price(&unknown, 5) == 0);
    assert_true(price(&cost, 0) == 0);
    assert_true(price(&cost, 1) == 0); /* nobody else waits for it */
    assert_float_equal(price(&cost, 2), 1. / 8, 1e-3);
    assert_float_equal(price(&cost, 4), 3. / 10, 1e-3);
    assert_float_equal(price(&cost, 24), 23. / 30, 1e-3);
}

/* Dearer the more texts there are and the less of a pass is its own, and never a token. */
static void test_grows(void **state)
{
    (void)state;
    for (double pass_us = 100; pass_us < 1e6; pass_us *= 10) {
        const ft_cost cost = known(pass_us, 1000), heavy = known(2 * pass_us, 1000);
        for (uint32_t n = 1; n < 300; n += 7) {
            assert_true(price(&cost, n) < 1 && price(&cost, n) < price(&cost, n + 1));
            assert_true(price(&heavy, n + 1) < price(&cost, n + 1));
        }
    }
}

/* All texts together get on faster by a node a text that is accepted with a chance of p where p is
 * above the price, slower where it is below. */
static void test_tells_what_pays(void **state)
{
    const ft_cost cost = known(6000, 1000);
    (void)state;
    for (uint32_t n = 2; n < 100; n++)
        for (double p = 0.05; p < 1; p += 0.05) {
            double one =
                price(&cost, n) * n / (n - 1.); /* all n have one: each delays itself, too */
            double plain = n / (6000. + 1000 * n), drafted = n * (1 + p) / (6000. + 2000 * n);
            if (p > one + 0.01)
                assert_true(drafted > plain);
            if (p < one - 0.01)
                assert_true(drafted < plain);
        }
}

/* A pass of 20 rows, 9 of which are the text's own: 6 ms and 12 rows without its tree. */
static void test_token(void **state)
{
    const ft_cost cost = known(6000, 1000), dear = known(1e10, 1000);
    const ft_pass mine = ft_pass_plus((ft_pass){0}, 100, 9, 9),
                  pass = ft_pass_plus(mine, 200, 11, 11);
    (void)state;
    assert_int_equal(ft_price_token_us(&cost, &pass, &mine, 104), 6000 + 12 * 1000);
    assert_int_equal(ft_price_token_us(&dear, &pass, &mine, 104), UINT32_MAX);
}

/* Of four texts that have 200 tokens/s together the three others have 150: 0.15 of them in the
 * millisecond of a row. Decoding they have 400. */
static void test_speed(void **state)
{
    const ft_cost cost = known(6000, 1000);
    const ft_pass plain = {.rows = 4};
    ft_price_speed speed = {0};
    (void)state;
    uint64_t tokens = 1000;
    ft_price_saw(&speed, tokens, S); /* since when is not known */
    assert_true(speed.tok_per_us == 0);
    for (int64_t s = 2; s < 40; s++)
        ft_price_saw(&speed, tokens += 200, s * S);
    assert_float_equal(speed.tok_per_us * S, 200, 1e-6);
    assert_float_equal(ft_price_row(&cost, &plain, 4, &speed), 3. / 10, 1e-3);
    for (int64_t s = 40; s < 80; s++)
        ft_price_saw(&speed, tokens += 800, s * S);
    assert_float_equal(ft_price_row(&cost, &plain, 4, &speed), 0.6, 1e-3);
    ft_price_saw(&speed, tokens, 79 * S); /* no time has passed */
    assert_float_equal(speed.tok_per_us * S, 800, 1e-6);
    ft_price_saw(&speed, tokens, 80 * S); /* the last second counts two thirds */
    assert_float_equal(speed.tok_per_us * S, 800 / 2.718281828, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),         cmocka_unit_test(test_grows),
        cmocka_unit_test(test_tells_what_pays), cmocka_unit_test(test_token),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
