// SPDX-License-Identifier: Apache-2.0
// engine/pace.c against machines that are simulated: passes take a given time on one and on all
// threads. Nothing here reads a clock.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/pace.h"

/* Runs n passes of a size on a machine; returns how many went alone. */
static int run(ft_pace *pace, uint32_t rows, int n, int64_t alone_us, int64_t all_us)
{
    const ft_pace_size size = {rows, rows};
    int alone = 0;
    for (int i = 0; i < n; i++) {
        int threads = ft_pace_threads(pace, &size);
        assert_true(threads == 1 || threads == pace->n_threads);
        alone += threads == 1;
        int64_t limit = ft_pace_limit_us(pace, &size, threads);
        int64_t us = threads == 1 ? alone_us : all_us;
        assert_true(limit == 0 || (threads > 1 && limit >= alone_us));
        ft_pace_observe(pace, &size, threads, limit && us > limit ? limit : us);
    }
    return alone;
}

static const ft_pace_size one = {1, 1}, many = {64, 64};

static void test_quiet_machine_uses_all(void **state)
{
    ft_pace pace;
    ft_pace_init(&pace, 4);
    assert_int_equal(run(&pace, 1, 1000, 6000, 4000), 1); /* the first */
    assert_int_equal(run(&pace, 100, 1000, 60000, 20000), 1);
}

static void test_busy_machine_goes_alone(void **state)
{
    ft_pace pace;
    ft_pace_init(&pace, 2);
    int alone = run(&pace, 1, 4000, 8000, 1000000);
    assert_in_range(4000 - alone, 1, 16); /* probes get rare */
}

static void test_recovers_when_quiet_again(void **state)
{
    ft_pace pace;
    ft_pace_init(&pace, 2);
    run(&pace, 1, 5000, 8000, 1000000);
    run(&pace, 1, 1100, 6000, 4000); /* within the longest backoff */
    assert_int_equal(run(&pace, 1, 1000, 6000, 4000), 0);
}

static void test_one_spike_is_forgiven(void **state)
{
    ft_pace pace;
    ft_pace_init(&pace, 2);
    run(&pace, 1, 10, 6000, 4000);
    ft_pace_observe(&pace, &one, 2, 9000);
    assert_int_equal(ft_pace_threads(&pace, &one), 2);
    ft_pace_observe(&pace, &one, 2, 9000);
    assert_int_equal(ft_pace_threads(&pace, &one), 1);
}

static void test_one_huge_spike_is_not(void **state)
{
    ft_pace pace;
    ft_pace_init(&pace, 2);
    run(&pace, 1, 10, 6000, 4000);
    run(&pace, 64, 10, 60000, 40000);
    ft_pace_observe(&pace, &one, 2, 1000000);
    assert_int_equal(ft_pace_threads(&pace, &one), 1);
    assert_int_equal(ft_pace_threads(&pace, &many), 2); /* other sizes are judged for themselves */
}

/* As many rows behind a long context cost more on any number of threads: no reason to go alone. */
static void test_more_work_may_take_longer(void **state)
{
    const ft_pace_size brief = {512, 1e9}, longer = {512, 3e9};
    ft_pace pace;
    ft_pace_init(&pace, 2);
    ft_pace_observe(&pace, &brief, 1, 400000);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ft_pace_threads(&pace, &longer), 2);
        assert_true(ft_pace_limit_us(&pace, &longer, 2) >= 3 * 400000);
        ft_pace_observe(&pace, &longer, 2, 700000);
    }
}

static void test_one_thread_stays_one(void **state)
{
    ft_pace pace;
    ft_pace_init(&pace, 1);
    assert_int_equal(run(&pace, 1, 100, 6000, 6000), 100);
    assert_int_equal(run(&pace, UINT32_MAX, 100, 6000, 6000), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet_machine_uses_all),
        cmocka_unit_test(test_busy_machine_goes_alone),
        cmocka_unit_test(test_recovers_when_quiet_again),
        cmocka_unit_test(test_one_spike_is_forgiven),
        cmocka_unit_test(test_one_huge_spike_is_not),
        cmocka_unit_test(test_more_work_may_take_longer),
        cmocka_unit_test(test_one_thread_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
