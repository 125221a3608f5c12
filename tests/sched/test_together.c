// SPDX-License-Identifier: Apache-2.0
// Which drafts of a batch are held for the rest, and for how long.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "sched/together.h"

#define HOLD FT_TOGETHER_HOLD_US

static ft_together ready(uint32_t batch, uint32_t expected, int64_t arrival_us)
{
    return (ft_together){
        .owner = 1, .batch = batch, .expected = expected, .arrival_us = arrival_us, .ready = true};
}

static void test_waits_for_the_rest(void **state)
{
    ft_together d[] = {ready(7, 3, 1000), ready(7, 3, 1400), ready(7, 3, 2000)};
    (void)state;
    /* Two of three: until the first has waited long enough. */
    assert_int_equal(ft_together_hold(d, 2, 1400), HOLD - 400);
    assert_true(d[0].held && d[1].held);
    assert_int_equal(ft_together_hold(d, 2, 1000 + HOLD - 1), 1);
    assert_int_equal(ft_together_hold(d, 2, 1000 + HOLD), -1);
    assert_true(!d[0].held && !d[1].held);
    /* All three: nobody waits. */
    assert_int_equal(ft_together_hold(d, 3, 2000), -1);
    assert_true(!d[0].held && !d[1].held && !d[2].held);
    assert_int_equal(ft_together_hold(d, 0, 2000), -1);
}

/* A draft whose prompt is not computed yet has not come, for the others. */
static void test_unready(void **state)
{
    ft_together d[] = {ready(7, 2, 1000), ready(7, 2, 900)};
    (void)state;
    d[1].index = 1;
    d[1].ready = false;
    assert_int_equal(ft_together_hold(d, 2, 1000), HOLD);
    assert_true(d[0].held && !d[1].held);
    d[0].ready = false;
    assert_int_equal(ft_together_hold(d, 2, 1000), -1);
}

/* One that comes after the others were verified goes at once. */
static void test_late(void **state)
{
    ft_together d[] = {ready(7, 2, 1000), ready(7, 2, 90000)};
    (void)state;
    d[0].ready = false;
    d[0].answered = true;
    assert_int_equal(ft_together_hold(d, 2, 90000), -1);
    assert_false(d[0].held || d[1].held);
}

/* Owners and batches do not mix, in whatever order they come. */
static void test_apart(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 1);
    for (int round = 0; round < 100; round++) {
        ft_together d[] = {ready(7, 2, 1000), ready(8, 2, 1000), ready(7, 2, 1300),
                           ready(8, 2, 1200), ready(9, 2, 1100)};
        d[3].owner = 2; /* batch 8 of another owner */
        for (uint32_t i = 0; i < FT_COUNT(d); i++)
            d[i].index = i;
        for (uint32_t i = FT_COUNT(d) - 1; i > 0; i--) {
            const uint32_t j = ft_rng_below(&rng, i + 1);
            const ft_together swap = d[i];
            d[i] = d[j];
            d[j] = swap;
        }
        assert_int_equal(ft_together_hold(d, FT_COUNT(d), 1500), HOLD - 500);
        for (uint32_t i = 0; i < FT_COUNT(d); i++)
            assert_int_equal(d[i].held, d[i].batch != 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_the_rest),
        cmocka_unit_test(test_unready),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
