// SPDX-License-Identifier: Apache-2.0
// Waiting on a condition: a signal ends the wait, a deadline ends it, and without one it lasts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cond.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool told; /* guarded by lock */

static void *tell(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    told = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void expect_signal(int64_t deadline_us)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    told = false;
    assert_int_equal(pthread_create(&thread, NULL, tell, NULL), 0);
    while (!told)
        assert_true(ft_cond_wait_until(&changed, &lock, deadline_us));
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void test_signal(void **state)
{
    (void)state;
    expect_signal(FT_NO_DEADLINE);
    expect_signal(ft_deadline_us(60 * 1000000));
}

static void test_deadline(void **state)
{
    ft_clock clock = ft_clock_monotonic();
    (void)state;
    assert_true(ft_deadline_us(-1) == FT_NO_DEADLINE);
    pthread_mutex_lock(&lock);
    for (int64_t timeout_us = 0; timeout_us <= 2000; timeout_us += 2000) {
        int64_t deadline_us = ft_deadline_us(timeout_us);
        while (ft_cond_wait_until(&changed, &lock, deadline_us)) {
        }
        assert_true(ft_clock_now_us(&clock) >= deadline_us);
    }
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signal),
        cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
