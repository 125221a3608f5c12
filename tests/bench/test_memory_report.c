// SPDX-License-Identifier: Apache-2.0
// The bound of bench memory: which weights a pass must read under a budget.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/memory_report.h"

/* What has no room beside what every program needs; buffers of ours are not counted. */
static void test_must_read(void **state)
{
    (void)state;
    json_t *plan =
        json_pack("{s:[{s:s, s:i}, {s:s, s:i}, {s:s, s:i}]}", "parts", "name", "kv", "bytes", 30,
                  "name", "ring", "bytes", 500, "name", "program", "bytes", 20);
    assert_true(ft_bench_memory_must_read(plan, 1000, 250) == 800);
    assert_true(ft_bench_memory_must_read(plan, 1000, 2000) == 0);
    json_decref(plan);
}

static void test_missing_model(void **state)
{
    const ft_bench_memory_opts opts = {.model = "/no/file", .draft = "/no/file", .prompt = "x"};
    ft_error err = {0};
    json_t *report;
    (void)state;
    assert_int_not_equal(ft_bench_memory(&opts, &err, &report), FT_OK);
    assert_null(report);
    assert_non_null(strstr(err.message, "/no/file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_must_read),
        cmocka_unit_test(test_missing_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
