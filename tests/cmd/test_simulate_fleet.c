// SPDX-License-Identifier: Apache-2.0
// foretoken simulate fleet as a program, with few devices.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/program.h"

static json_t *must_run(const char *args)
{
    int status;
    json_t *out = program_json(&status, "simulate fleet --config %s/sim/fleet.json --json %s",
                               getenv("FT_SOURCE_DIR"), args);
    if (status != 0 || !out)
        fail_msg("simulate fleet %s: %d", args, status);
    return out;
}

static void test_rows(void **state)
{
    json_t *out = must_run("--devices 40,80 --servers 2 --threads 2"), *again, *row;
    const json_t *rows = json_object_get(out, "rows");
    size_t i;
    (void)state;
    assert_int_equal(json_array_size(rows), 2 * 3);
    json_array_foreach(rows, i, row)
    {
        const json_t *lost = json_object_get(json_object_get(row, "accident"), "lost");
        assert_true(program_number(row, "devices") == (i < 3 ? 40 : 80));
        assert_true(program_number(row, "servers") == 2 && program_number(row, "ended") > 0);
        assert_true(program_number(lost, "moved") > 0);
    }
    again = must_run("--devices 40,80 --servers 2 --threads 1");
    assert_true(json_equal(out, again));
    json_decref(out);
    json_decref(again);
}

/* One server is enough for ten devices, and cannot be lost. */
static void test_search(void **state)
{
    json_t *out = must_run("--devices 10 --assign ring --policy edf");
    const json_t *row = json_array_get(json_object_get(out, "rows"), 0);
    (void)state;
    assert_int_equal(json_array_size(json_object_get(out, "rows")), 1);
    assert_true(program_number(row, "servers") == 1);
    assert_true(program_number(row, "late_share") <= 0.05);
    assert_int_equal(json_object_size(json_object_get(row, "accident")), 0);
    json_decref(out);
}

static void test_refused(void **state)
{
    char with[1200];
    (void)state;
    program_refuses("pass --config", "simulate fleet");
    program_refuses("/nowhere.json", "simulate fleet --config /nowhere.json");
    snprintf(with, sizeof with, "simulate fleet --config %s/sim/fleet.json ",
             getenv("FT_SOURCE_DIR"));
    static const char *const wrong[][2] = {{"--devices 10,", "not 1 to 16 numbers"},
                                           {"--devices 0", "not 1 to 16 numbers"},
                                           {"--devices 3000000", "not 1 to 16 numbers"},
                                           {"--assign robin", "ring, least or random"},
                                           {"--policy static", "wisp, edf or fcfs"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char args[1300];
        snprintf(args, sizeof args, "%s%s", with, wrong[i][0]);
        program_refuses(wrong[i][1], args);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_search),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
