// SPDX-License-Identifier: Apache-2.0
// The clock never runs backwards.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
