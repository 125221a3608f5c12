// SPDX-License-Identifier: Apache-2.0
// edge/batch_known: estimates go to what was measured, and plans are made anew when it matters.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/batch_known.h"

/* Chains whose tokens are accepted with a chance of 0.8, to the first that is not. */
static void test_acceptance(void **state)
{
    ft_batch_known k;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 3);
    ft_batch_known_init(&k, 0.3);
    assert_true(fabs(ft_batch_known_acceptance(&k) - 0.3) < 1e-12);
    for (int i = 0; i < 20000; i++) {
        const uint32_t drafted = 1 + ft_rng_below(&rng, 6);
        uint32_t accepted = 0;
        while (accepted < drafted && ft_rng_below(&rng, 10) < 8)
            accepted++;
        ft_batch_known_saw_chain(&k, drafted, accepted);
    }
    assert_true(fabs(ft_batch_known_acceptance(&k) - 0.8) < 0.01);
}

/* Texts end with a chance of 1 in 40 a token; some are cut off at 30 tokens, some are under way. */
static void test_lengths(void **state)
{
    ft_batch_known k;
    ft_rng rng;
    double sum = 0;
    (void)state;
    ft_rng_init(&rng, 4);
    ft_batch_known_init(&k, 0.5);
    assert_true(ft_batch_known_tokens(&k, 100) == 100);
    for (int i = 0; i < 20000; i++) {
        uint32_t n = 1;
        while (n < 30 && ft_rng_below(&rng, 40) > 0)
            n++;
        ft_batch_known_saw_text(&k, n, n < 30);
        sum += n;
    }
    assert_true(fabs(ft_batch_known_tokens(&k, 30) - sum / 20000) < 1);
    assert_true(ft_batch_known_tokens(&k, 1000) > 35 && ft_batch_known_tokens(&k, 1000) < 45);
    assert_true(ft_batch_known_tokens(&k, 1) == 1);
}

static void test_costs(void **state)
{
    const ft_costs costs = {.us = {[FT_COST_PASS] = 100, [FT_COST_ROW] = 10}, .error = 0.1};
    ft_batch_known k;
    (void)state;
    ft_batch_known_init(&k, 0.5);
    assert_false(k.costs_known[FT_STATION_VERIFY]);
    ft_batch_known_costs(&k, FT_STATION_VERIFY, &costs);
    assert_true(k.costs_known[FT_STATION_VERIFY] && !k.costs_known[FT_STATION_DRAFT]);
    const ft_pass pass = ft_pass_plus((ft_pass){0}, 0, 10, 10);
    assert_int_equal(ft_cost_predict(&k.cost[FT_STATION_VERIFY], &pass), 200);
    for (uint32_t i = 0; i < 40; i++) { /* in truth twice as much */
        const ft_pass other = ft_pass_plus((ft_pass){0}, 0, 1 + i % 20, 1 + i % 20);
        ft_batch_known_saw_pass(&k, FT_STATION_VERIFY, &other, 200 + 20.0 * other.rows);
    }
    assert_true(llabs(ft_cost_predict(&k.cost[FT_STATION_VERIFY], &pass) - 400) < 20);
    ft_batch_known_saw_trip(&k, 0.02);
    assert_true(k.trip_s == 0.02);
    ft_batch_known_saw_trip(&k, 0.04);
    assert_true(fabs(k.trip_s - 0.03) < 1e-12);
}

/* Prompts are read in 300 us a token, and later, as the machine is busy, in 600. */
static void test_reading(void **state)
{
    ft_batch_known k;
    (void)state;
    ft_batch_known_init(&k, 0.5);
    assert_true(ft_batch_known_read_us(&k, FT_STATION_VERIFY) == 0);
    ft_batch_known_saw_reading(&k, FT_STATION_VERIFY, 0, 0); /* no text had any missing */
    assert_true(ft_batch_known_read_us(&k, FT_STATION_VERIFY) == 0);
    ft_batch_known_saw_reading(&k, FT_STATION_VERIFY, 10, 10 * 100);
    ft_batch_known_saw_reading(&k, FT_STATION_VERIFY, 190, 190 * 310.0 + 10 * 110);
    assert_true(fabs(ft_batch_known_read_us(&k, FT_STATION_VERIFY) - 305) < 1e-9);
    for (int i = 0; i < 200; i++)
        ft_batch_known_saw_reading(&k, FT_STATION_VERIFY, 100, 100 * 600);
    assert_true(fabs(ft_batch_known_read_us(&k, FT_STATION_VERIFY) - 600) < 6);
    assert_true(ft_batch_known_read_us(&k, FT_STATION_DRAFT) == 0);
}

static void test_anew(void **state)
{
    const ft_batch_facts then = {.tokens = 2, .round_s = {0.1, 0.2}, .n = 64};
    ft_batch_facts now = then;
    (void)state;
    assert_false(ft_batch_facts_differ(&then, &now));
    now.tokens = 2.3;
    now.n = 56;
    assert_false(ft_batch_facts_differ(&then, &now));
    now.tokens = 2.6;
    assert_true(ft_batch_facts_differ(&then, &now));
    now = then;
    now.round_s[FT_STATION_DRAFT] = 0.07;
    assert_true(ft_batch_facts_differ(&then, &now));
    now = then;
    now.round_s[FT_STATION_VERIFY] = 0.3;
    assert_true(ft_batch_facts_differ(&then, &now));
    now = then;
    now.n = 50;
    assert_true(ft_batch_facts_differ(&then, &now));
    assert_true(ft_batch_worth_changing(10, 9));
    assert_false(ft_batch_worth_changing(10, 9.7));
    assert_false(ft_batch_worth_changing(10, 11));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_acceptance),
                                       cmocka_unit_test(test_lengths), cmocka_unit_test(test_costs),
                                       cmocka_unit_test(test_reading), cmocka_unit_test(test_anew)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
