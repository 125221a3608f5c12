// SPDX-License-Identifier: Apache-2.0
// foretoken simulate zhu as a program, with few cells.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/json_with.h"
#include "support/program.h"

static char config[] = "/tmp/ft-zhu-XXXXXX";

static int set_up(void **state)
{
    char path[1024];
    const int fd = mkstemp(config);
    if (fd < 0)
        return 1;
    close(fd);
    snprintf(path, sizeof path, "%s/sim/zhu-paper.json", getenv("FT_SOURCE_DIR"));
    json_t *root = json_with(path, "constants.seeds.value", "2");
    const int failed = json_dump_file(root, config, 0);
    json_decref(root);
    return failed;
}

static int tear_down(void **state)
{
    return unlink(config);
}

static json_t *must_run(const char *args)
{
    int status;
    json_t *out = program_json(&status, "simulate zhu --config %s --json %s", config, args);
    if (status != 0 || !out)
        fail_msg("simulate zhu %s: %d", args, status);
    return out;
}

static void check_rows(const json_t *report)
{
    const json_t *rows = json_object_get(report, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *schemes = json_object_get(row, "schemes");
        (void)program_number(row, "x");
        assert_true(json_array_size(schemes) >= 2);
        for (size_t k = 0; k < json_array_size(schemes); k++)
            assert_true(program_number(json_array_get(schemes, k), "total_s") > 0);
    }
}

static void test_all(void **state)
{
    static const char *const texts[] = {"name", "figure", "reading"};
    static const char *const numbers[] = {"paper", "ours", "low", "high"};
    json_t *a = must_run("--all"), *b = must_run("--all"), *other = must_run("--all --seed 50");
    const json_t *claims = json_object_get(a, "claims");
    assert_true(json_equal(a, b));
    assert_false(json_equal(a, other));
    assert_int_equal(json_array_size(json_object_get(a, "rows")), 102);
    check_rows(a);
    assert_int_equal(json_array_size(claims), 8);
    assert_int_equal(json_array_size(json_object_get(a, "other_readings")), 24);
    for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < 3; k++)
            assert_true(json_is_string(json_object_get(json_array_get(claims, i), texts[k])));
        for (size_t k = 0; k < 4; k++)
            (void)program_number(json_array_get(claims, i), numbers[k]);
    }
    json_decref(a);
    json_decref(b);
    json_decref(other);
}

static void test_figure(void **state)
{
    json_t *out = must_run("--figure 8");
    assert_int_equal(json_array_size(json_object_get(out, "rows")), 6 + 7 + 8);
    assert_int_equal(json_array_size(json_object_get(out, "claims")), 3);
    json_decref(out);
    out = must_run("--figure 6");
    assert_int_equal(json_array_size(json_object_get(out, "rows")), 15);
    assert_int_equal(json_array_size(json_object_get(out, "claims")), 0);
    json_decref(out);
}

static void test_refused(void **state)
{
    program_refuses("--figure N or --all", "simulate zhu");
    program_refuses("--figure N or --all", "simulate zhu --figure 7 --all");
    program_refuses("5 is outside 6 to 9", "simulate zhu --figure 5");
    program_refuses("/nowhere.json", "simulate zhu --all --config /nowhere.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_figure),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
