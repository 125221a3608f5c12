// SPDX-License-Identifier: Apache-2.0
// The share of prompts in a pass.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/prompt_share.h"

static int64_t share(int64_t budget_us, int64_t read_us, bool others)
{
    return ft_prompt_share_us(
        &(ft_prompt_share){.budget_us = budget_us, .read_us = read_us, .others = others});
}

/* A round meets two passes with prompts: together they delay it by nine tenths of the budget. */
static void test_share(void **state)
{
    (void)state;
    assert_int_equal(share(50000, 0, true), 22501);
    assert_int_equal(share(50000, 20000, true), 2501); /* the draft model has read meanwhile */
    assert_int_equal(share(50000, 22501, true), 1);
    assert_int_equal(share(50000, 90000, true), 1); /* prompts go on */
    assert_int_equal(share(0, 0, true), 1);
    assert_int_equal(share(50000, 0, false), 0); /* nobody is delayed: no limit */
    assert_int_equal(share(50000, 90000, false), 0);
}

static void test_awaits(void **state)
{
    assert_true(ft_prompt_awaits(0));
    assert_true(ft_prompt_awaits(1999999));
    assert_false(ft_prompt_awaits(2000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_awaits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
