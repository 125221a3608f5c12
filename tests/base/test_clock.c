// SPDX-License-Identifier: Apache-2.0
// The clocks: the machine's never runs backwards, the manual one moves only when it is told to.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static void test_monotonic(void **state)
{
    ft_clock clock = ft_clock_monotonic();
    int64_t first = ft_clock_now_us(&clock), last = first;
    assert_true(first > 0);
    for (long i = 0; last == first && i < 100000000; i++) {
        int64_t now = ft_clock_now_us(&clock);
        assert_true(now >= last);
        last = now;
    }
    assert_true(last > first);
}

static void test_manual(void **state)
{
    int64_t now_us = 5;
    ft_clock clock = ft_clock_manual(&now_us);
    assert_int_equal(ft_clock_now_us(&clock), 5);
    assert_int_equal(ft_clock_now_us(&clock), 5);
    now_us = INT64_MAX;
    assert_true(ft_clock_now_us(&clock) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic),
        cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
