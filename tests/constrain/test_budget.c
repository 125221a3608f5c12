// SPDX-License-Identifier: Apache-2.0
// Processor time that a tenant's compilations waste: what counts, when it is too much, how it is
// forgiven, and that tenants have their own.
#include "constrain/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ALL = FT_BUDGET_AT_ONCE_US, PART = FT_BUDGET_PART, NOW = 5000000 };

static void test_wasted_and_forgiven(void **state)
{
    ft_budget b;
    ft_budget_init(&b);
    ft_budget_count(&b, "a", ALL, true, NOW);
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW), 0);
    assert_true(ft_budget_wasted(&b, "a", NOW));
    assert_false(ft_budget_wasted(&b, "b", NOW));
    assert_false(ft_budget_wasted(&b, "a", NOW + (int64_t)ALL * PART));
    ft_budget_count(&b, "a", 1000, true, NOW);
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW), 1000 * PART);
    assert_int_equal(ft_budget_owes_us(&b, "b", NOW), 0); /* has its own */
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW + 999 * PART), PART);
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW + 1000 * PART), 0);
    ft_budget_count(&b, "a", 7, true, NOW + 1000 * PART);
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW + 1000 * PART), 7 * PART);
}

/* What is not refused counts from a large one's time on. */
static void test_not_refused(void **state)
{
    ft_budget b;
    ft_budget_init(&b);
    for (int i = 0; i < 100; i++)
        ft_budget_count(&b, "a", FT_BUDGET_COMPILE_US, false, NOW);
    ft_budget_count(&b, "a", ALL, true, NOW);
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW), 0);
    ft_budget_count(&b, "a", FT_BUDGET_COMPILE_US + 3, false, NOW);
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW), 3 * PART);
}

/* Patience does not become more, and debts end. */
static void test_bounds(void **state)
{
    ft_budget b;
    ft_budget_init(&b);
    const int64_t later_us = NOW + 1000000ll * PART * 100;
    ft_budget_count(&b, "a", 100ll * ALL, true, NOW);
    assert_int_equal(ft_budget_owes_us(&b, "a", NOW), (int64_t)FT_BUDGET_MOST_US * PART);
    ft_budget_count(&b, "a", ALL + 5, true, later_us);
    assert_int_equal(ft_budget_owes_us(&b, "a", later_us), 5 * PART);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wasted_and_forgiven),
        cmocka_unit_test(test_not_refused),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
