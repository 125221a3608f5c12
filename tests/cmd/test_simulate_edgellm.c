// SPDX-License-Identifier: Apache-2.0
// foretoken simulate edgellm as a program, with the shipped setting and short texts.
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

#include "support/program.h"

static char folder[] = "/tmp/ft-edgellm-XXXXXX";
static char config[64], bad[64];

/* The shipped setting with few short texts, and one that is wrong. */
static int set_up(void **state)
{
    char path[1024];
    if (!mkdtemp(folder))
        return 1;
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(bad, sizeof bad, "%s/bad.json", folder);
    snprintf(path, sizeof path, "%s/sim/edgellm-paper.json", getenv("FT_SOURCE_DIR"));
    json_t *root = json_load_file(path, 0, NULL), *constants = json_object_get(root, "constants");
    json_object_set_new(json_object_get(constants, "texts"), "value", json_integer(4));
    json_object_set_new(json_object_get(constants, "text_tok"), "value", json_integer(32));
    int failed = json_dump_file(root, config, 0);
    json_object_set_new(json_object_get(constants, "texts"), "value", json_integer(0));
    failed |= json_dump_file(root, bad, 0);
    json_decref(root);
    return failed;
}

static int tear_down(void **state)
{
    unlink(config);
    unlink(bad);
    return rmdir(folder);
}

static json_t *must_run(const char *args)
{
    int status;
    json_t *out = program_json(&status, "simulate edgellm --config %s --json %s", config, args);
    if (status != 0 || !out)
        fail_msg("simulate edgellm %s: %d", args, status);
    return out;
}

/* least, most; NULL: the paper has no number */
static void check_range(const json_t *range, bool may_lack)
{
    if (json_is_null(range) && may_lack)
        return;
    assert_int_equal(json_array_size(range), 2);
    assert_true(json_is_number(json_array_get(range, 1)));
    assert_true(json_is_number(json_array_get(range, 0)) ||
                (may_lack && json_is_null(json_array_get(range, 0))));
}

static void test_report(void **state)
{
    static const char *const numbers[] = {"s_per_token",   "tokens_per_verification",
                                          "draft_s",       "verify_s",
                                          "drafted",       "proactive",
                                          "kept",          "errors",
                                          "branches",      "alpha",
                                          "alpha_at_most", "ended_by_alpha"};
    json_t *a = must_run(""), *b = must_run(""), *other = must_run("--seed 2");
    const json_t *rows = json_object_get(a, "rows"), *claims = json_object_get(a, "claims");
    assert_true(json_equal(a, b));
    assert_false(json_equal(rows, json_object_get(other, "rows")));
    assert_true(json_array_size(rows) > 5 * 30 && json_array_size(rows) % 5 == 0); /* datasets */
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            assert_true(program_number(row, numbers[k]) >= 0);
        assert_true(program_number(row, "s_per_token") > 0);
    }
    assert_int_equal(json_array_size(claims), 19);
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *claim = json_array_get(claims, i);
        check_range(json_object_get(claim, "paper"), true);
        check_range(json_object_get(claim, "ours"), false);
        assert_true(strlen(json_string_value(json_object_get(claim, "reading"))) > 20);
    }
    assert_int_equal(json_array_size(json_object_get(a, "budgets")), 6 + 5);
    assert_null(json_object_get(a, "sensitivity"));
    json_decref(a);
    json_decref(b);
    json_decref(other);
}

/* Each open number, halved and doubled. std_s of the phones' pair decides what is over std. */
static void test_sensitivity(void **state)
{
    json_t *out = must_run("--sensitivity");
    const json_t *rows = json_object_get(out, "sensitivity");
    double over_std[2] = {0};
    size_t n = 0;
    assert_int_equal(json_array_size(rows) % 2, 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *claims = json_object_get(row, "claims");
        assert_int_equal(json_array_size(claims), json_array_size(json_object_get(out, "claims")));
        if (strcmp(json_string_value(json_object_get(row, "constant")),
                   "std_s of LLaMA-2-7B, LLaMA-2-13B") != 0)
            continue;
        const json_t *claim = json_array_get(claims, 1);
        assert_string_equal(json_string_value(json_object_get(claim, "name")),
                            "edgellm over std, smartphones");
        over_std[n++] = json_number_value(json_array_get(json_object_get(claim, "ours"), 1));
    }
    assert_int_equal(n, 2);
    assert_float_equal(over_std[1] / over_std[0], 4, 1e-6);
    json_decref(out);
}

/* What it prints. */
static void print(const char *args, const char *said)
{
    char command[512];
    static char text[1 << 17];
    snprintf(command, sizeof command, "'%s' simulate edgellm %s 2>&1", getenv("FT_BINARY"), args);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    const size_t n = fread(text, 1, sizeof text - 1, out);
    text[n] = 0;
    assert_int_equal(pclose(out), 0);
    if (!strstr(text, said))
        fail_msg("%s: %s", args, text);
}

static void test_table(void **state)
{
    char args[128];
    snprintf(args, sizeof args, "--config %s", config);
    print(args, "edgellm over sp, smartphones");
    print(args, "LLaMA-2-7B, LLaMA-2-13B, TruthfulQA");
}

static void test_refused(void **state)
{
    char args[128];
    program_refuses("--config", "simulate edgellm");
    program_refuses("/nowhere", "simulate edgellm --config /nowhere");
    snprintf(args, sizeof args, "--config %s", bad);
    program_refuses("constants.texts: 'value' is missing or no whole number from 2 to 10000",
                    "simulate edgellm %s", args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report), cmocka_unit_test(test_sensitivity),
        cmocka_unit_test(test_table), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
