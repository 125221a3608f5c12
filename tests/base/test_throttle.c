// SPDX-License-Identifier: Apache-2.0
// How long clients must wait, with times that the test chooses.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/throttle.h"

static const ft_client_id alice = {.address = "10.0.0.1"}, bob = {.address = "10.0.0.2"},
                          team = {.address = "10.0.0.1", .tenant = "team"};

static ft_throttle make(void)
{
    return (ft_throttle){.interval_us = 100, .burst = 3, .most_us = 500};
}

/* Three at once, then one each 100 us; the waits add up, and end at the longest. */
static void test_waits(void **state)
{
    static const int64_t wanted[] = {0, 0, 0, 100, 200, 300, 400, 500, 500, 500};
    ft_throttle throttle = make();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(ft_throttle_take(&throttle, &alice, 7000), wanted[i]);
    /* 500 us later the last one is over */
    assert_int_equal(ft_throttle_take(&throttle, &alice, 7500), 100);
    assert_int_equal(ft_throttle_take(&throttle, &alice, 7700), 0);
    assert_int_equal(ft_throttle_take(&throttle, &alice, 7700), 100);
    assert_int_equal(ft_throttle_take_many(&throttle, &alice, 3, 7700), 400); /* as three of them */
    assert_int_equal(ft_throttle_take_many(&throttle, &alice, 9, 7700), 500); /* the longest wait */
}

/* Who does one each interval never waits, and a client that was silent has its burst again. */
static void test_within_rate(void **state)
{
    ft_throttle throttle = make();
    for (int64_t now = -1000; now < 1000; now += 100)
        assert_int_equal(ft_throttle_take(&throttle, &alice, now), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ft_throttle_take(&throttle, &alice, 2000), 0);
    assert_int_equal(ft_throttle_take(&throttle, &alice, 2000), 100);
}

static void test_clients(void **state)
{
    const ft_client_id own = {0};
    ft_throttle throttle = make();
    for (int i = 0; i < 9; i++) {
        (void)ft_throttle_take(&throttle, &alice, 0);
        assert_int_equal(ft_throttle_take(&throttle, &own, 0), 0);
    }
    assert_int_equal(ft_throttle_take(&throttle, &alice, 0), 500);
    assert_int_equal(ft_throttle_take(&throttle, &team, 0), 0);
    assert_int_equal(ft_throttle_take(&throttle, &bob, 0), 0);
}

/* However many others come, one that must wait is remembered. */
static void test_many(void **state)
{
    ft_throttle throttle = make();
    for (int i = 0; i < 5; i++)
        (void)ft_throttle_take(&throttle, &alice, 0);
    for (int i = 0; i < 3 * FT_THROTTLE_CLIENTS; i++) {
        ft_client_id other = {0};
        snprintf(other.address, sizeof other.address, "10.1.%d.%d", i / 250, i % 250);
        assert_int_equal(ft_throttle_take(&throttle, &other, 0), 0);
    }
    assert_int_equal(throttle.n_entries, FT_THROTTLE_CLIENTS);
    assert_int_equal(ft_throttle_take(&throttle, &alice, 0), 300);
}

/* What a refusal counts as, and which ones count. */
static void test_refusals(void **state)
{
    static const int counts[] = {400, 401, 403, 404, 409, 413}, others[] = {200, 429, 500, 503};
    (void)state;
    assert_int_equal(ft_throttle_of_bytes(0), 0);
    assert_int_equal(ft_throttle_of_bytes(8191), 0);
    assert_int_equal(ft_throttle_of_bytes(8192), 1);
    assert_int_equal(ft_throttle_of_bytes(65536), 8);
    assert_int_equal(ft_throttle_of_us(1000), 0);
    assert_int_equal(ft_throttle_of_us(1000000) - ft_throttle_of_us(900000), 200);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_true(ft_throttle_counts(counts[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(ft_throttle_counts(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),    cmocka_unit_test(test_within_rate),
        cmocka_unit_test(test_clients),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
