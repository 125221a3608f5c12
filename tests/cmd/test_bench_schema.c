// SPDX-License-Identifier: Apache-2.0
// `bench exact`, `bench decode` and `bench serving` with --schema, as programs on tiny models: the
// texts are the same without drafts and with a server that is killed; figures belong together; a
// schema that cannot be had is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "constrain/constraint.h"
#include "support/program.h"
#include "support/tiny_gguf.h"
#include "support/tiny_pair.h"

static const char schema_text[] =
    "{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"aba\",\"baba\",\"cab\"]},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"cabba\",\"dada\"]},\"minItems\":2,"
    "\"maxItems\":3},\"name\":{\"type\":\"string\",\"maxLength\":4}},"
    "\"required\":[\"kind\",\"tags\",\"name\"],\"additionalProperties\":false}";

static tiny_pair pair;
static char *schema, *bad;

static char *file_of(const char *text)
{
    char *path = tiny_temp_path();
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0 && fclose(out) == 0);
    return path;
}

static int set_up(void **state)
{
    pair = tiny_pair_make("{\"turns\": [\"alpha beta\"]}\n{\"turns\": [\"12 + 30\"]}\n");
    schema = file_of(schema_text);
    bad = file_of("{\"type\": \"object\", \"if\": {}}");
    return 0;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    unlink(schema);
    unlink(bad);
    free(schema);
    free(bad);
    return 0;
}

static json_t *run(const char *command, const char *args)
{
    char all[400];
    int status;
    if (!ft_constrain_available())
        skip();
    snprintf(all, sizeof all, "--schema '%s' %s", schema, args);
    json_t *json = tiny_pair_bench(&pair, command, all, &status);
    assert_int_equal(status, 0);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "schema")), schema);
    return json;
}

static void test_exact(void **state)
{
    json_t *json = run("bench exact", "-n 80 -c 512 -t 1");
    assert_true(program_number(json, "prompts") == 2 && program_number(json, "tokens") > 80);
    assert_true(program_number(json, "mismatches_plain") == 0);
    assert_true(program_number(json, "mismatches_undrafted") == 0);
    assert_true(program_number(json, "mismatches_killed") == 0);
    assert_true(program_number(json, "killed") >= 4); /* greedy and drawn, of two prompts */
    assert_true(program_number(json, "reconnects") >= 4);
    assert_true(json_is_null(json_object_get(json, "mismatches_libllama")));
    json_decref(json);
}

static void test_decode(void **state)
{
    int status;
    if (!ft_constrain_available())
        skip();
    json_t *json = program_json(&status,
                                "bench decode -m '%s' --schema '%s' -t 1 --rounds 2 "
                                "--row-s 0.01 -n 40 --json",
                                pair.target, schema);
    assert_int_equal(status, 0);
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 2);
    json_array_foreach((json_t *)rows, i, row)
    {
        const double pass = program_number(row, "pass_us"), drawn = program_number(row, "draw_us"),
                     plain = program_number(row, "plain_us");
        assert_true(program_number(row, "temperature") == (double)i);
        assert_true(pass > 0 && drawn > 0 && plain > 0);
        assert_true(fabs(program_number(row, "share") - drawn / pass) < 1e-6 * drawn / pass);
        assert_true(fabs(program_number(row, "added_share") - (drawn - plain) / pass) < 1e-6);
    }
    json_decref(json);
}

static void test_serving(void **state)
{
    static const char *const keys[] = {"free", "schema", "unforced"};
    double per_verify[3];
    json_t *json = run("bench serving", "-n 60 --rounds 2 --rtt 0 --draft-depth 3 --depth fixed");
    assert_true(json_is_true(json_object_get(json, "identical")));
    for (size_t i = 0; i < 3; i++) {
        const json_t *way = json_object_get(json_object_get(json, "ways"), keys[i]);
        assert_true(program_number(way, "texts") == 4 && program_number(way, "tokens") > 4);
        assert_true(program_number(way, "nodes_per_tree") > 0);
        per_verify[i] = program_number(way, "tokens_per_verify");
        assert_true(per_verify[i] >= 1);
    }
    const double over_free = program_number(json, "schema_over_free");
    const double over_unforced = program_number(json, "forced_over_unforced");
    assert_true(fabs(over_free - per_verify[1] / per_verify[0]) < 1e-6 * over_free);
    assert_true(fabs(over_unforced - per_verify[1] / per_verify[2]) < 1e-6 * over_unforced);
    assert_true(over_unforced > 1); /* what is forced is not drafted by chance */
    json_decref(json);
}

static void test_refusals(void **state)
{
    if (!ft_constrain_available())
        skip();
    program_refuses("if", "bench decode -m '%s' --schema '%s'", pair.target, bad);
    program_refuses("/nowhere", "bench decode -m '%s' --schema /nowhere", pair.target);
    program_refuses("timeline",
                    "bench serving -m '%s' -md '%s' --prompts '%s' --schema '%s' --timeline x",
                    pair.target, pair.draft, pair.prompts, schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_serving),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
