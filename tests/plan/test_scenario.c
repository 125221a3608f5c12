// SPDX-License-Identifier: Apache-2.0
// Scenarios: what is read, and what is refused with which line, field and range.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/memory.h"
#include "plan/scenario.h"

static const char good[] =
    "{\n"
    "  \"kind\": \"foretoken plan\", \"acceptance\": 0.5, \"lengths\": [0, 4], \"context\": 900,\n"
    "  \"draft\": {\"layers\": 2, \"hidden\": 10, \"ffn\": 30, \"c1\": 1e-9, \"c2\": 0.1,\n"
    "            \"memory_gb\": 1},\n"
    "  \"verify\": {\"layers\": 3, \"hidden\": 20, \"ffn\": 40, \"c1\": 1e-9, \"c2\": 0.2},\n"
    "  \"uplink\": {\"bandwidth_mhz\": 2, \"power_w\": 0.5, \"noise_dbm\": 30},\n"
    "  \"tasks\": [\n"
    "    {\"id\": \"a\", \"input\": 100, \"output\": 20, \"gain\": 6},\n"
    "    {\"id\": \"b [{\\\"\", \"input\": 7, \"output\": 9, \"gain\": 14, \"power_w\": 0.5,\n"
    "     \"release_s\": 2.5}\n"
    "  ]\n"
    "}\n";

/* The text with the first `what` replaced. */
static const char *with(const char *what, const char *by)
{
    static char text[4096];
    const char *at = strstr(good, what);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, by, at + strlen(what));
    return text;
}

static void refuse_text(const char *text, const char *said)
{
    ft_plan_scenario s;
    ft_error err = {0};
    assert_int_equal(ft_plan_scenario_parse(text, strlen(text), &err, &s), FT_INVALID);
    assert_null(s.tasks);
    if (!strstr(err.message, said))
        fail_msg("'%s' is not in: %s", said, err.message);
}

static void refuse(const char *what, const char *by, const char *said)
{
    refuse_text(with(what, by), said);
}

static void take(const char *text, ft_plan_scenario *s)
{
    ft_error err = {0};
    if (ft_plan_scenario_parse(text, strlen(text), &err, s) != FT_OK)
        fail_msg("%s", err.message);
}

static void test_read(void **state)
{
    ft_plan_scenario s;
    take(good, &s);
    const ft_plan_problem p = ft_plan_scenario_problem(&s);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.length_least, 0);
    assert_int_equal(p.length_most, 4);
    assert_true(p.acceptance == 0.5);
    assert_string_equal(p.tasks[1].id, "b [{\"");
    assert_int_equal(p.tasks[0].in_tok, 100);
    assert_int_equal(p.tasks[1].out_tok, 9);
    assert_true(p.tasks[1].release_s == 2.5);
    assert_true(p.tasks[0].payload_bits == 100 * 16 * (10 + 20));
    assert_true(fabs(p.tasks[0].rate_bits_s - 2e6 * 2) < 1e-3); /* 1 + 0.5 * 6 / 1 = 4 */
    assert_true(fabs(p.tasks[1].rate_bits_s - 2e6 * 3) < 1e-3);
    assert_true(p.draft.most_bytes == 1e9 && p.verify.most_bytes == 0);
    assert_true(p.draft.token_bytes == ft_plan_token_bytes(2, 10));
    assert_true(p.verify.model_bytes == ft_plan_weight_bytes(3, 20, 40));
    assert_true(s.timed[0] && s.timed[1]);
    ft_plan_scenario_deinit(&s);
    take(with(", \"c1\": 1e-9, \"c2\": 0.1", ""), &s);
    assert_true(!s.timed[0] && s.timed[1]);
    ft_plan_scenario_deinit(&s);
    take(with("\"noise_dbm\": 30", "\"noise_dbm\": 30, \"payload_bits\": 20"), &s);
    assert_true(s.tasks[0].payload_bits == 2000);
    ft_plan_scenario_deinit(&s);
}

static void test_fields(void **state)
{
    refuse("\"foretoken plan\"", "\"plan\"", "line 2: kind: is missing or not");
    refuse("\"acceptance\": 0.5", "\"acceptance\": 1.5", "line 2: acceptance: is not a number");
    refuse("\"acceptance\": 0.5, ", "",
           "line 1: acceptance: is missing: it must be a number from 0");
    refuse("\"lengths\": [0, 4]", "\"lengths\": [5, 4]", "line 2: lengths: is missing or not two");
    refuse("\"lengths\": [0, 4]", "\"lengths\": [0, 65]", "from 0 to 64");
    refuse("\"lengths\": [0, 4]", "\"lengths\": [0.5, 4]", "whole numbers");
    refuse("\"layers\": 2", "\"layers\": 2.5",
           "line 3: draft.layers: is not a whole number from 1");
    refuse("\"memory_gb\": 1", "\"memory\": 1", "line 4: draft.memory: there is no such field");
    refuse("\"memory_gb\": 1", "\"a\\nb\": 1", "draft.a b: there is no such field");
    refuse(", \"c2\": 0.1", "", "line 3: draft: has only one of c1 and c2");
    refuse("\"hidden\": 20", "\"hidden\": \"x\"", "line 5: verify.hidden");
    refuse("\"bandwidth_mhz\": 2, ", "", "line 6: uplink: has neither");
    refuse("\"bandwidth_mhz\": 2, ", "\"bandwidth_mhz\": 2, \"rate_mbit_s\": 2, ", "or both");
    refuse("\"bandwidth_mhz\": 2, ", "\"bandwidth_mhz\": 0, ", "line 6: uplink.bandwidth_mhz");
    refuse("1e-9", "1e999", "line 3: ");
    refuse("1e-9", "NaN", "line 3: ");
    refuse_text("", "line");
    refuse_text("[]", "kind");
}

static void test_tasks(void **state)
{
    char text[4096];
    refuse("\"gain\": 6", "\"gain\": 0", "line 8: tasks[0].gain: is not a number from 1e-30");
    refuse(", \"gain\": 6", "", "line 8: tasks[0].gain: is missing");
    refuse("\"gain\": 14", "\"gain\": 1e-29", "line 9: tasks[1].gain: is too small");
    refuse("\"release_s\": 2.5", "\"release_s\": -1", "line 10: tasks[1].release_s: is not");
    refuse("\"input\": 7", "\"input\": 0",
           "line 9: tasks[1].input: is not a whole number from 1 to");
    refuse("\"output\": 9", "\"output\": 894", "line 9: tasks[1].input: with the output it is 901");
    refuse("\"output\": 9", "\"output\": 894", "the context has 900");
    refuse("\"b [{\\\"\"", "\"a\"", "line 9: tasks[1].id: another task has the same");
    refuse("\"b [{\\\"\"", "\"\"", "line 9: tasks[1].id: is missing or not a text");
    refuse("\"b [{\\\"\"", "\"a\\nb\"", "without line breaks");
    refuse("\"b [{\\\"\"", "17", "tasks[1].id");
    refuse("{\"id\": \"a\", \"input\": 100, \"output\": 20, \"gain\": 6}", "3",
           "line 8: tasks[0]: is missing or not an object");
    const char *list = strstr(good, "[\n    {");
    snprintf(text, sizeof text, "%.*s[]}", (int)(list - good), good);
    refuse_text(text, "line 7: tasks: is missing or not a list of 1 to 16384");
}

static void test_rate(void **state)
{
    char text[4096];
    ft_plan_scenario s;
    const char *uplink = strstr(good, "  \"uplink\"");
    snprintf(text, sizeof text,
             "%.*s\"uplink\": {\"rate_mbit_s\": 3, \"payload_bits\": 24},\n"
             "\"tasks\": [{\"id\": \"a\", \"input\": 10, \"output\": 1}]}",
             (int)(uplink - good), good);
    take(text, &s);
    assert_true(s.tasks[0].rate_bits_s == 3e6 && s.tasks[0].payload_bits == 240);
    ft_plan_scenario_deinit(&s);
    strcpy(strrchr(text, '}') - 2, ", \"gain\": 1}]}");
    refuse_text(text, "line 7: tasks[0].gain: is for an uplink with bandwidth_mhz");
}

static void test_too_many(void **state)
{
    const size_t n = 16385, size = 2048 + n * 64;
    char *text = malloc(size);
    const char *list = strstr(good, "[\n    {");
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, size, "%.*s[", (int)(list - good), good);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at,
                               "%s{\"id\": \"%zu\", \"input\": 1, \"output\": 1, \"gain\": 1}",
                               i ? "," : "", i);
    snprintf(text + at, size - at, "]}");
    refuse_text(text, "not a list of 1 to 16384");
    free(text);
}

/* The setting that ships. */
static void test_file(void **state)
{
    char path[1024];
    ft_plan_scenario s;
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/sim/zhu-cell.json", getenv("FT_SOURCE_DIR"));
    if (ft_plan_scenario_load(path, &err, &s) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(s.n, 100);
    ft_plan_scenario_deinit(&s);
    assert_int_equal(ft_plan_scenario_load("/nowhere.json", &err, &s), FT_IO);
    assert_non_null(strstr(err.message, "/nowhere.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read), cmocka_unit_test(test_fields),   cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_rate), cmocka_unit_test(test_too_many), cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
