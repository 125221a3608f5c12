// SPDX-License-Identifier: Apache-2.0
// The room's tuning constants: the table describes the struct, and what stands in it is what the
// policies use.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sched/promise.h"
#include "sched/tuning.h"

static size_t size_of(ft_tuning_type type)
{
    return type == FT_TUNING_REAL ? sizeof(double) : sizeof(float);
}

static void test_table(void **state)
{
    const ft_tuning_table *t = &ft_sched_tuning_table;
    (void)state;
    assert_ptr_equal(t->values, ft_sched_tune);
    assert_int_equal(t->bytes, sizeof(ft_sched_tuning));
    for (size_t i = 0; i < t->n; i++) {
        assert_non_null(strchr(t->items[i].name, '.'));
        assert_true(t->items[i].offset + size_of(t->items[i].type) <= t->bytes);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(t->items[i].name, t->items[j].name);
            assert_int_not_equal(t->items[i].offset, t->items[j].offset);
        }
    }
}

/* A text far ahead of its promise may be made to wait as long as `credit` says. */
static void test_replaced(void **state)
{
    const ft_promise promise = {.tokens_per_s = 10, .since_us = 1, .had_tok = 10000};
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
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
