// SPDX-License-Identifier: Apache-2.0
// A tuning constant of the room that is replaced (tests/bench/test_tuning.c tests the tables).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/promise.h"
#include "sched/tuning.h"

/* A text far ahead of its promise may be made to wait as long as `credit` says. */
static void test_replaced(void **state)
{
    const ft_promise promise = {.tokens_per_s = 10, .asked_us = 1, .had_tok = 10000};
    const ft_promise_round round = {.gain_tok = 2, .at_us = 1000000};
    const ft_sched_tuning *before = ft_sched_tune;
    ft_sched_tuning other = *before;
    (void)state;
    assert_int_equal(ft_promise_due(&promise, &round), 1000000 + 7 * 200000);
    other.promise.credit = 2;
    ft_sched_tune = &other;
    assert_int_equal(ft_promise_due(&promise, &round), 1000000 + 3 * 200000);
    ft_sched_tune = before;
    assert_int_equal(ft_promise_due(&promise, &round), 1000000 + 7 * 200000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
