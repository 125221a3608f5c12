// SPDX-License-Identifier: Apache-2.0
// foretoken simulate qsv as a program, on made-up positions and the shipped setting with few
// replays and uplinks.
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

#include "learn/policy.h"
#include "support/positions.h"
#include "support/program.h"

static char folder[] = "/tmp/ft-qsv-XXXXXX";
static char config[64], positions[64], policy[64];

static const char *shipped(const char *file, char path[1024])
{
    snprintf(path, 1024, "%s/%s", getenv("FT_SOURCE_DIR"), file);
    return path;
}

/* A shipped setting at two constant rates, with so many replays of each text. */
static int write_config(const char *file, int replays)
{
    char path[1024];
    json_t *root = json_load_file(shipped(file, path), 0, NULL);
    json_object_set_new(json_object_get(json_object_get(root, "constants"), "replays"), "value",
                        json_integer(replays));
    json_object_set_new(json_object_get(root, "uplinks_kbit_s"), "value",
                        json_pack("[i, i]", 100, 5000));
    const int failed = json_dump_file(root, config, 0);
    json_decref(root);
    return failed;
}

static int set_up(void **state)
{
    const ft_policy like = {.n_lengths = 12, .n_l = 2, .l = {240, 720}, .draft = 0xdef};
    ft_policy p;
    if (!mkdtemp(folder))
        return 1;
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(positions, sizeof positions, "%s/positions.jsonl", folder);
    snprintf(policy, sizeof policy, "%s/policy.json", folder);
    int failed = write_config("sim/qsv-paper.json", 2);
    ft_positions made = made_positions(2, 4, 40);
    failed |= ft_positions_save(&made, positions, NULL) != FT_OK;
    ft_positions_deinit(&made);
    failed |= ft_policy_init(&like, NULL, &p) != FT_OK;
    p.net.bias[2][2 * 2] = 1; /* always 3 tokens */
    json_t *root = ft_policy_json(&p);
    failed |= json_dump_file(root, policy, 0);
    json_decref(root);
    ft_policy_deinit(&p);
    return failed;
}

static int tear_down(void **state)
{
    unlink(config);
    unlink(positions);
    unlink(policy);
    return rmdir(folder);
}

static json_t *must_run(const char *args)
{
    int status;
    json_t *out = program_json(&status, "simulate qsv --config %s --positions %s --json %s", config,
                               positions, args);
    if (status != 0 || !out)
        fail_msg("simulate qsv %s: %d", args, status);
    return out;
}

static void test_report(void **state)
{
    static const char *const numbers[] = {"temperature",  "uplink_kbit_s",  "length",    "l",
                                          "tokens_per_s", "bits_per_token", "acceptance"};
    char args[80];
    snprintf(args, sizeof args, "--policy %s", policy);
    json_t *a = must_run(args), *b = must_run(args), *other = must_run("--seed 2");
    const json_t *points = json_object_get(a, "points"), *claims = json_object_get(a, "claims");
    assert_true(json_equal(a, b));
    assert_int_equal(json_array_size(points), 2 * 4 * 9); /* temperatures, uplinks, methods */
    assert_int_equal(json_array_size(json_object_get(other, "points")), 2 * 4 * 8);
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            (void)program_number(point, numbers[k]);
        assert_true(program_number(point, "tokens_per_s") > 0);
        if (strcmp(json_string_value(json_object_get(point, "method")), "policy") == 0)
            assert_true(program_number(point, "length") > 2.5 &&
                        program_number(point, "length") <= 3);
    }
    /* speculation, policy over pairs, policy over the heuristic; 0.98; two of the law */
    assert_int_equal(json_array_size(claims), 2 * 2 * 3 + 1 + 2);
    assert_int_equal(json_array_size(json_object_get(other, "claims")), 2 * 2 + 2);
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *claim = json_array_get(claims, i);
        const bool holds = json_is_true(json_object_get(claim, "holds"));
        assert_true(holds == (program_number(claim, "margin") >= 0));
        assert_true(holds != json_is_string(json_object_get(claim, "reason")));
    }
    assert_int_equal(json_array_size(json_object_get(a, "law")), 2 * 3);
    json_decref(a);
    json_decref(b);
    json_decref(other);
}

#define BY_CHANCE 0.01

/* The policy that ships, on the positions that ship, which are of other prompts than it learnt.
 * These are twelve texts of a temperature: by chance it may be just below the heuristic. */
static void test_shipped_policy(void **state)
{
    char where[2][1024];
    int status;
    size_t n = 0, holds = 0;
    assert_int_equal(write_config("sim/qsv-demo.json", 8), 0);
    json_t *out =
        program_json(&status, "simulate qsv --config %s --positions %s --policy %s --json", config,
                     shipped("sim/qsv-demo-positions.jsonl", where[0]),
                     shipped("models/smollm2-draft-17m-policy.json", where[1]));
    assert_int_equal(status, 0);
    const json_t *claims = json_object_get(out, "claims");
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *claim = json_array_get(claims, i);
        const char *name = json_string_value(json_object_get(claim, "name"));
        if (!strstr(name, "above the heuristic") && !strstr(name, "0.98 of the best"))
            continue;
        n++;
        holds += json_is_true(json_object_get(claim, "holds"));
        if (program_number(claim, "margin") < (strstr(name, "heuristic") ? -BY_CHANCE : 0))
            fail_msg("%s: %s", name, json_string_value(json_object_get(claim, "reason")));
    }
    assert_true(holds >= n - 1);
    assert_int_equal(n, 3 * 2 + 1); /* temperatures and changing uplinks; all constant ones */
    json_decref(out);
}

static void test_refused(void **state)
{
    char args[256];
    program_refuses("--config", "simulate qsv --positions x");
    snprintf(args, sizeof args, "--config %s", config);
    program_refuses("--positions", "simulate qsv %s", args);
    snprintf(args, sizeof args, "--config %s --positions /nowhere", config);
    program_refuses("/nowhere", "simulate qsv %s", args);
    snprintf(args, sizeof args, "--config %s --positions %s", positions, positions);
    program_refuses(positions, "simulate qsv %s", args);
    snprintf(args, sizeof args, "--config %s --positions %s --policy %s", config, positions,
             config);
    program_refuses("policy: 'kind'", "simulate qsv %s", args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_report),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_shipped_policy)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
