// SPDX-License-Identifier: Apache-2.0
// A tuning constant of the room that is replaced (tests/bench/test_tuning.c tests the tables).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "spec/control.h"
#include "spec/tuning.h"

static void test_replaced(void **state)
{
    const ft_spec_tuning *before = ft_spec_tune;
    ft_spec_tuning other = *before;
    (void)state;
    assert_int_equal(ft_control_pipeline_depth(94200, 40000, 11000, 16), 5);
    other.trees.pipeline_slack = 2;
    ft_spec_tune = &other;
    assert_int_equal(ft_control_pipeline_depth(94200, 40000, 11000, 16), 13);
    ft_spec_tune = before;
    assert_int_equal(ft_control_pipeline_depth(94200, 40000, 11000, 16), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
