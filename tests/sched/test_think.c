// SPDX-License-Identifier: Apache-2.0
// Think times, and until when a draft is expected.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/think.h"

#define S 1000000 /* us */

static void test_mean(void **state)
{
    ft_think think = {0};
    (void)state;
    ft_think_said(&think, 40000); /* all there is to go by */
    assert_true(think.known);
    assert_float_equal(think.us, 40000, 1e-6);
    ft_think_said(&think, 90000); /* not any more */
    assert_float_equal(think.us, 40000, 1e-6);
    ft_think_saw(&think, 50000);
    assert_float_equal(think.us, 43000, 1e-6);
    ft_think_saw(&think, 2 * S); /* a pause */
    ft_think_saw(&think, -1);
    assert_float_equal(think.us, 43000, 1e-6);
    ft_think_saw(&think, 2 * S - 1);
    assert_true(think.us > 600000);
    think = (ft_think){0};
    ft_think_said(&think, 2 * S); /* no edge thinks for so long */
    assert_false(think.known);
    ft_think_saw(&think, 50000);
    assert_float_equal(think.us, 50000, 1e-6);
}

static void test_expects(void **state)
{
    const ft_think none = {0}, quick = {.known = true, .us = 50000},
                   slow = {.known = true, .us = 900000};
    (void)state;
    assert_true(ft_think_active(2 * S - 1));
    assert_false(ft_think_active(2 * S));
    assert_false(ft_think_expects(&none, 0));
    assert_true(ft_think_expects(&quick, 0));
    assert_true(ft_think_expects(&quick, 199999));
    assert_false(ft_think_expects(&quick, 200000)); /* four times as long as it takes */
    assert_true(ft_think_expects(&slow, 2 * S - 1));
    assert_false(ft_think_expects(&slow, 2 * S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_expects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
