// SPDX-License-Identifier: Apache-2.0
// When a pass is split, and that splitting it pays: sessions that think for as long as a pass keep
// the engine busy although all of them begin at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/num.h"
#include "sched/groups.h"

static void test_cap(void **state)
{
    (void)state;
    assert_int_equal(ft_groups_cap(0, false), 0);
    assert_int_equal(ft_groups_cap(1, false), 0);
    assert_int_equal(ft_groups_cap(2, false), 1);
    assert_int_equal(ft_groups_cap(7, false), 4);
    assert_int_equal(ft_groups_cap(7, true), 0);
}

#define MOST 9

/* The share of time in which the engine works for n sessions that all wait at first. Every pass
 * takes pass_us. */
static double busy_share(uint32_t n, int64_t pass_us, int64_t think_us, bool split)
{
    int64_t due_us[MOST] = {0}, now_us = 0, busy_us = 0;
    for (int pass = 0; pass < 100; pass++) {
        int64_t next_us = INT64_MAX;
        uint32_t waiting = 0, served = 0;
        for (uint32_t i = 0; i < n; i++)
            next_us = due_us[i] < next_us ? due_us[i] : next_us;
        now_us = next_us > now_us ? next_us : now_us;
        for (uint32_t i = 0; i < n; i++)
            waiting += due_us[i] <= now_us;
        const uint32_t cap = split ? ft_groups_cap(waiting, waiting < n) : 0;
        const uint32_t most = cap ? cap : waiting;
        for (uint32_t i = 0; i < n && served < most; i++)
            if (due_us[i] <= now_us) {
                due_us[i] = now_us + pass_us + think_us;
                served++;
            }
        now_us += pass_us;
        busy_us += pass_us;
    }
    return (double)busy_us / (double)now_us;
}

static void test_engine_stays_busy(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MOST; n++) {
        assert_true(busy_share(n, 1000, 1000, false) < 0.52);
        assert_true(busy_share(n, 1000, 1000, true) > 0.99);
        assert_true(busy_share(n, 1000, 3000, true) > 1.9 * busy_share(n, 1000, 3000, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_engine_stays_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
