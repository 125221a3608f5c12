// SPDX-License-Identifier: Apache-2.0
// `foretoken bench sessions` as a program, on a tiny model and few sessions: its JSON has what
// readers of its figures ask for, the parts add up, and what cannot be is refused. How much memory
// a session takes shows only with many of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "support/program.h"
#include "support/tiny_pair.h"

static tiny_pair pair;

static int set_up(void **state)
{
    pair = tiny_pair_make("{\"turns\": [\"alpha beta\"], \"category\": \"letters\"}\n");
    return 0;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    return 0;
}

static void test_fields(void **state)
{
    int status;
    json_t *json = program_json(
        &status, "bench sessions -m %s --idle 200 --active 2 --rounds 5 --json", pair.target);
    assert_int_equal(status, 0);
    assert_true(program_number(json, "sessions") == 200);
    const double rss = program_number(json, "rss_bytes_per_session"),
                 kv = program_number(json, "kv_bytes_per_session"),
                 grpc = program_number(json, "grpc_bytes_per_stream"),
                 ours = program_number(json, "ours_bytes_per_session");
    assert_float_equal(ours, rss - kv - grpc, 1);
    assert_true(kv > 0 && grpc > 0);
    assert_true(program_number(json, "round_ms_p99_beside_2_active") >=
                program_number(json, "round_ms_p50_beside_2_active"));
    assert_true(program_number(json, "round_ms_p99_of_2_active_alone") > 0);
    json_decref(json);
}

static void test_refusals(void **state)
{
    int status;
    assert_null(program_json(&status, "bench sessions --json"));
    assert_int_equal(status, 2);
    assert_null(program_json(&status, "bench sessions -m '%s' --idle 1 --json", pair.target));
    assert_int_equal(status, 2);
    assert_null(program_json(&status, "bench sessions -m '%s' --json", pair.prompts));
    assert_int_equal(status, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
