// SPDX-License-Identifier: Apache-2.0
// The clock never runs backwards, and a process is as old as it says.
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

/* In steps of 10 ms: a process that began a tick ago may say so. */
static void test_age(void **state)
{
    const int64_t first = ft_process_age_us();
    (void)state;
    assert_in_range(first, 0, 3600 * (int64_t)1000000);
    const int64_t began = ft_monotonic_us();
    while (ft_monotonic_us() == began)
        ;
    assert_true(ft_process_age_us() > first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic),
        cmocka_unit_test(test_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
