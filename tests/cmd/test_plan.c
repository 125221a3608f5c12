// SPDX-License-Identifier: Apache-2.0
// foretoken plan as a program, on the scenario that ships and on made-up costs.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/json_with.h"
#include "support/program.h"

static char folder[] = "/tmp/ft-plan-XXXXXX";
static char shipped[1024], scenario[64], costs[64];

static int set_up(void **state)
{
    if (!mkdtemp(folder))
        return 1;
    snprintf(shipped, sizeof shipped, "%s/sim/zhu-cell.json", getenv("FT_SOURCE_DIR"));
    snprintf(scenario, sizeof scenario, "%s/scenario.json", folder);
    snprintf(costs, sizeof costs, "%s/costs.json", folder);
    json_t *root =
        json_pack("{s:s, s:s, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "kind",
                  "foretoken verify-time", "model", "m", "error", 0.1, "us", "pass", 1000.0, "row",
                  100.0, "logits_row", 10.0, "interaction", 0.0, "cached_tok", 0.0, "head", 0.0);
    const int failed = json_dump_file(root, costs, 0);
    json_decref(root);
    return failed;
}

static int tear_down(void **state)
{
    unlink(scenario);
    unlink(costs);
    return rmdir(folder);
}

/* The shipped scenario with a field changed, in `scenario`. */
static void write_with(const char *path, const char *value)
{
    json_t *root = json_with(shipped, path, value);
    assert_int_equal(json_dump_file(root, scenario, 0), 0);
    json_decref(root);
}

static json_t *must_run(const char *file, const char *flags)
{
    int status;
    json_t *out = program_json(&status, "plan '%s' --json %s", file, flags);
    if (status != 0 || !out)
        fail_msg("plan %s %s: %d", file, flags, status);
    return out;
}

static double total(const char *file, const char *flags)
{
    json_t *out = must_run(file, flags);
    const double s = program_number(out, "total_s");
    json_decref(out);
    return s;
}

static void test_report(void **state)
{
    json_t *a = must_run(shipped, ""), *b = must_run(shipped, "");
    const json_t *batches = json_object_get(a, "batches"),
                 *shares = json_object_get(a, "bandwidth");
    size_t n = 0;
    double share = 0, last = 0;
    assert_true(json_equal(a, b));
    assert_string_equal(json_string_value(json_object_get(a, "algorithm")), "best");
    for (size_t i = 0; i < json_array_size(batches); i++) {
        const json_t *batch = json_array_get(batches, i);
        n += json_array_size(json_object_get(batch, "tasks"));
        last = fmax(last, program_number(batch, "end_s"));
        assert_true(program_number(batch, "rounds") >= 1);
    }
    for (size_t i = 0; i < json_array_size(shares); i++)
        share += program_number(json_array_get(shares, i), "share");
    assert_int_equal(n, 100);
    assert_int_equal(json_array_size(shares), 100);
    assert_true(fabs(share - 1) < 1e-9);
    assert_true(fabs(last / program_number(a, "total_s") - 1) < 1e-9);
    assert_true(fabs(program_number(a, "t_com_s") + program_number(a, "t_inf_s") - last) < 1e-6);
    assert_int_equal(json_array_size(json_object_get(a, "baselines")), 0);
    assert_true(program_number(a, "total_s") <= total(shipped, "--algorithm paper"));
    assert_true(total(shipped, "--rolling") < program_number(a, "total_s"));
    json_decref(a);
    json_decref(b);
}

static void test_baselines(void **state)
{
    json_t *out = must_run(shipped, "--baselines");
    const json_t *list = json_object_get(out, "baselines");
    assert_int_equal(json_array_size(list), 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(program_number(json_array_get(list, i), "total_s") >=
                    program_number(out, "total_s"));
    json_decref(out);
    write_with("lengths",
               "[1, 2]"); /* one batch of all, which heuristic growth may reach, does not fit */
    out = must_run(scenario, "--baselines --algorithm paper");
    list = json_object_get(out, "baselines");
    for (size_t i = 0; i < 8; i++)
        assert_true(program_number(json_array_get(list, i), "batches") >= (i == 3 ? 1 : 4));
    json_decref(out);
}

/* Measured times: one batch, nothing drafted; 2,042 rounds of 100 rows, and the inputs before. */
static void test_costs(void **state)
{
    char flags[256];
    int status;
    write_with("lengths", "[0, 0]");
    snprintf(flags, sizeof flags, "--costs-verify %s", costs);
    json_t *out = must_run(scenario, flags);
    const json_t *batches = json_object_get(out, "batches");
    double s = 0, inputs = 0, rounds = 0;
    json_t *tasks = json_load_file(shipped, 0, NULL);
    for (size_t i = 0; i < 100; i++)
        inputs += program_number(json_array_get(json_object_get(tasks, "tasks"), i), "input");
    s = inputs * 100e-6;
    for (size_t i = 0; i < json_array_size(batches); i++) {
        const json_t *b = json_array_get(batches, i);
        const double rows = (double)json_array_size(json_object_get(b, "tasks"));
        rounds = program_number(b, "rounds");
        s += rounds * 1000e-6 + (rounds - 1) * rows * 110e-6 + rows * 10e-6;
    }
    assert_true(fabs(program_number(out, "t_inf_s") / s - 1) < 1e-6);
    json_decref(tasks);
    json_decref(out);
    write_with("draft.c1", NULL);
    json_t *root = json_with(scenario, "draft.c2", NULL);
    assert_int_equal(json_dump_file(root, scenario, 0), 0);
    json_decref(root);
    json_decref(program_json(&status, "plan %s --json", scenario));
    assert_int_equal(status, 1); /* no times of the draft station */
    snprintf(flags, sizeof flags, "--costs-draft %s --costs-verify %s --rolling", costs, costs);
    json_decref(must_run(scenario, flags));
}

/* One task with 10 tokens in and 7 out; 2 tokens a round, all accepted, so 3 a round: 3 rounds. All
 * six factors count. */
static void test_drafting_costs(void **state)
{
    static const double pass = 1000, row = 100, out = 10, interaction = 2, cached = 3, head = 50;
    char all[80], flags[256];
    double draft_us = 0, verify_us = 0;
    snprintf(all, sizeof all, "%s/all.json", folder);
    json_t *root = json_pack("{s:s, s:s, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "kind",
                             "foretoken verify-time", "model", "m", "error", 0.1, "us", "pass",
                             pass, "row", row, "logits_row", out, "interaction", interaction,
                             "cached_tok", cached, "head", head);
    assert_int_equal(json_dump_file(root, all, 0), 0);
    json_decref(root);
    write_with("tasks", "[{\"id\": \"a\", \"input\": 10, \"output\": 7, \"gain\": 1}]");
    root = json_with(scenario, "lengths", "[2, 2]");
    json_object_set_new(root, "acceptance", json_real(1));
    assert_int_equal(json_dump_file(root, scenario, 0), 0);
    json_decref(root);
    for (int n = 1; n <= 3; n++) {
        const int past = n == 1 ? 0 : 10 + 3 * (n - 1) - 1; /* in the KV when the round begins */
        const int drafted = n == 1 ? 10 : 1, verified = n == 1 ? 12 : 3;
        for (int i = 0; i < 2; i++) { /* the first pass of round 1 reads the input */
            const int rows = i == 0 ? drafted : 1, behind = i == 0 ? past : past + drafted;
            const int kv = n == 1 && i == 1 ? 10 : behind;
            draft_us += pass + head + out + rows * row + kv * cached;
            for (int r = 1; r <= rows; r++)
                draft_us += interaction * (kv + r);
        }
        verify_us += pass + head + 3 * out + verified * row + past * cached;
        for (int r = 1; r <= verified; r++)
            verify_us += interaction * (past + r);
    }
    snprintf(flags, sizeof flags, "--costs-draft %s --costs-verify %s", all, all);
    root = must_run(scenario, flags);
    const json_t *batch = json_array_get(json_object_get(root, "batches"), 0);
    assert_true(program_number(batch, "rounds") == 3);
    assert_true(fabs(program_number(batch, "draft_s") * 1e6 / draft_us - 1) < 1e-9);
    assert_true(fabs(program_number(batch, "verify_s") * 1e6 / verify_us - 1) < 1e-9);
    assert_true(fabs(program_number(root, "t_inf_s") * 1e6 / (draft_us + verify_us) - 1) < 1e-9);
    json_decref(root);
    unlink(all);
}

static void test_selftest(void **state)
{
    static const char *const numbers[] = {"instances",        "contiguous_equal", "worst_gap",
                                          "paper_equal",      "paper_worst_gap",  "memory_broken",
                                          "all_orders_equal", "bandwidth_error"};
    int status;
    json_t *out = program_json(&status, "plan --selftest --instances 60 --seed 9 --json");
    assert_int_equal(status, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)program_number(out, numbers[i]);
    assert_true(json_is_true(json_object_get(out, "holds")));
    json_decref(out);
}

static void test_refused(void **state)
{
    char args[2200];
    program_refuses("SCENARIO.json", "plan");
    program_refuses("/nowhere.json", "plan /nowhere.json");
    write_with("tasks.3.gain", "0");
    program_refuses("tasks[3].gain: is not a number", "plan %s", scenario);
    write_with("draft.memory_gb", "2");
    program_refuses("alone exceeds the draft station's 2 GB", "plan %s", scenario);
    snprintf(args, sizeof args, "'%s' --plot x.gif", shipped);
    program_refuses("--plot takes a FILE.svg", "plan %s", args);
    snprintf(args, sizeof args, "'%s' --costs-draft '%s'", shipped, shipped);
    program_refuses("costs:", "plan %s", args);
    snprintf(args, sizeof args, "'%s' --algorithm worst", shipped);
    program_refuses("'worst' is not best or paper", "plan %s", args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report),   cmocka_unit_test(test_baselines),
        cmocka_unit_test(test_costs),    cmocka_unit_test(test_drafting_costs),
        cmocka_unit_test(test_selftest), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
