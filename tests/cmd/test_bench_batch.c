// SPDX-License-Identifier: Apache-2.0
// `foretoken bench batch` as a program, on tiny models: all modes make the texts of the server
// alone, and the JSON has what readers of its figures ask for. How large times are is not looked
// at.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/program.h"
#include "support/tiny_pair.h"

static tiny_pair pair; /* its prompts are tasks */

static int set_up(void **state)
{
    (void)state;
    pair = tiny_pair_make("{\"id\": \"a\", \"prompt\": \"alpha beta\", \"max_tokens\": 12}\n"
                          "{\"id\": \"b\", \"prompt\": \"12 + 30\", \"max_tokens\": 9}\n"
                          "{\"id\": \"c\", \"prompt\": \"gamma\", \"max_tokens\": 15}\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_pair_remove(&pair);
    return 0;
}

static json_t *run(const char *args, int *status)
{
    return program_json(status, "bench batch -m '%s' -md '%s' --tasks '%s' --json %s", pair.target,
                        pair.draft, pair.prompts, args);
}

static void test_modes(void **state)
{
    static const char *const modes[] = {"pipeline", "no-pipeline", "no-batching", "ad"};
    int status;
    json_t *report = run("--batch 2 --length 3 --rounds 2 --ctx-size 64", &status), *m;
    size_t i;
    (void)state;
    assert_int_equal(status, 0);
    assert_int_equal(json_array_size(json_object_get(report, "modes")), 4);
    json_array_foreach(json_object_get(report, "modes"), i, m)
    {
        assert_string_equal(json_string_value(json_object_get(m, "mode")), modes[i]);
        assert_true(json_is_true(json_object_get(m, "identical")));
        assert_true(program_number(m, "makespan_s") > 0 && program_number(m, "verify_s") > 0);
        assert_true(program_number(m, "tokens_per_s") > 0 && program_number(m, "planned_s") > 0);
        assert_int_equal(program_number(m, "length"), i < 3 ? 3 : 0);
        if (i < 3)
            assert_true(program_number(m, "draft_s") > 0 &&
                        program_number(m, "passes_per_batch") > 0 &&
                        program_number(m, "acceptance") >= 0);
    }
    assert_true(program_number(report, "pipeline_gain") < 1);
    m = json_array_get(json_object_get(report, "modes"), 0);
    const double draft_s = program_number(m, "draft_s"), verify_s = program_number(m, "verify_s");
    assert_true(draft_s < program_number(m, "makespan_s")); /* it waited for verdicts, too */
    assert_true(fabs(program_number(report, "bound") -
                     fmin(draft_s, verify_s) / (draft_s + verify_s)) < 1e-6); /* printed digits */
    assert_true(program_number(report, "stage_ratio") > 0);
    json_decref(report);
}

static void test_some_modes(void **state)
{
    int status;
    json_t *report = run("--modes ad --rounds 1 --ctx-size 64", &status);
    (void)state;
    assert_int_equal(status, 0);
    assert_int_equal(json_array_size(json_object_get(report, "modes")), 1);
    assert_null(json_object_get(report, "pipeline_gain"));
    json_decref(report);
    json_decref(run("--modes pipeline,fast", &status));
    assert_int_equal(status, 2);
    json_decref(run("--ctx-size 64 --tasks /nowhere", &status));
    assert_int_equal(status, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_modes),
                                       cmocka_unit_test(test_some_modes)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
