// SPDX-License-Identifier: Apache-2.0
// The tables of tuning constants of all rooms: each describes its struct, and the room uses the
// table's values. That each room obeys a replaced value is a test of the room.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "edge/tuning.h"
#include "sched/tuning.h"
#include "spec/tuning.h"

static size_t size_of(ft_tuning_type type)
{
    return type == FT_TUNING_REAL ? sizeof(double) : sizeof(float);
}

static void check(const ft_tuning_table *t, const void *in_use, size_t bytes)
{
    assert_ptr_equal(t->values, in_use);
    assert_int_equal(t->bytes, bytes);
    assert_true(t->n > 0);
    for (size_t i = 0; i < t->n; i++) {
        assert_non_null(strchr(t->items[i].name, '.'));
        assert_true(t->items[i].offset + size_of(t->items[i].type) <= t->bytes);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(t->items[i].name, t->items[j].name);
            assert_int_not_equal(t->items[i].offset, t->items[j].offset);
        }
    }
}

static void test_tables(void **state)
{
    (void)state;
    check(&ft_sched_tuning_table, ft_sched_tune, sizeof(ft_sched_tuning));
    check(&ft_spec_tuning_table, ft_spec_tune, sizeof(ft_spec_tuning));
    check(&ft_edge_tuning_table, ft_edge_tune, sizeof(ft_edge_tuning));
    assert_string_equal(ft_sched_tuning_table.room, "sched");
    assert_string_equal(ft_spec_tuning_table.room, "spec");
    assert_string_equal(ft_edge_tuning_table.room, "edge");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
