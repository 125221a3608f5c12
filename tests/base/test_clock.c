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

/* A timed wait on such a condition ends, and not before its time. */
static void test_wait(void **state)
{
    ft_clock clock = ft_clock_monotonic();
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    ft_cond_init(&cond);
    const int64_t from_us = ft_clock_now_us(&clock);
    const struct timespec at = ft_clock_after(2000);
    assert_true(at.tv_nsec >= 0 && at.tv_nsec < 1000000000);
    const struct timespec later = ft_clock_after(5000000999999);
    assert_true(later.tv_sec >= at.tv_sec + 5000000 && later.tv_nsec < 1000000000);
    pthread_mutex_lock(&lock);
    while (pthread_cond_timedwait(&cond, &lock, &at) == 0) {
    }
    pthread_mutex_unlock(&lock);
    assert_true(ft_clock_now_us(&clock) - from_us >= 1999);
    pthread_cond_destroy(&cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic),
        cmocka_unit_test(test_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
