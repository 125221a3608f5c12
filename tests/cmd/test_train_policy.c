// SPDX-License-Identifier: Apache-2.0
// foretoken train policy as a program: the same seed writes the same bytes, and simulate qsv takes
// what was written.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "learn/policy.h"
#include "support/positions.h"
#include "support/program.h"

static char folder[] = "/tmp/ft-train-policy-XXXXXX";
static char config[80], positions[80], policy[3][80];

/* The shipped setting with few replays, lengths and uplinks. */
static int set_up(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/sim/qsv-paper.json", getenv("FT_SOURCE_DIR"));
    if (!mkdtemp(folder))
        return 1;
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(positions, sizeof positions, "%s/positions.jsonl", folder);
    for (int i = 0; i < 3; i++)
        snprintf(policy[i], sizeof policy[i], "%s/policy-%d.json", folder, i);
    json_t *root = json_load_file(path, 0, NULL), *k = json_object_get(root, "constants");
    json_object_set_new(json_object_get(k, "replays"), "value", json_integer(2));
    json_object_set_new(json_object_get(k, "length_most"), "value", json_integer(4));
    json_object_set_new(json_object_get(root, "uplinks_kbit_s"), "value",
                        json_pack("[i, i]", 100, 5000));
    int failed = json_dump_file(root, config, 0);
    json_decref(root);
    ft_positions made = made_positions(2, 4, 40);
    failed |= ft_positions_save(&made, positions, NULL) != FT_OK;
    ft_positions_deinit(&made);
    return failed;
}

static int tear_down(void **state)
{
    unlink(config);
    unlink(positions);
    for (int i = 0; i < 3; i++)
        unlink(policy[i]);
    return rmdir(folder);
}

static json_t *train(int to, int seed)
{
    int status;
    json_t *out = program_json(&status,
                               "train policy --config %s --positions %s -o %s --seed %d --steps 64 "
                               "--batch 8 --json",
                               config, positions, policy[to], seed);
    if (status != 0 || !out)
        fail_msg("train policy: %d", status);
    return out;
}

static void test_same_seed_same_file(void **state)
{
    char *bytes[3];
    size_t n[3];
    for (int i = 0; i < 3; i++) {
        json_decref(train(i, i / 2));
        assert_int_equal(ft_file_read(policy[i], FT_POLICY_FILE_MAX, NULL, &bytes[i], &n[i]),
                         FT_OK);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    assert_true(n[0] != n[2] || memcmp(bytes[0], bytes[2], n[0]) != 0);
    for (int i = 0; i < 3; i++)
        free(bytes[i]);
}

static void test_report_and_use(void **state)
{
    int status;
    ft_policy read;
    json_t *report = train(0, 1);
    const json_t *curve = json_object_get(report, "curve");
    assert_int_equal(json_array_size(curve), 32);
    assert_true(program_number(json_array_get(curve, 31), "step") == 64);
    assert_true(program_number(json_object_get(json_array_get(curve, 0), "validation"), "mean") >
                0);
    assert_true(program_number(report, "train_texts") == 8 - 2);
    json_decref(report);
    assert_int_equal(ft_policy_load(policy[0], NULL, &read), FT_OK);
    assert_true(read.n_lengths == 4 && read.draft == 0xdef && read.target == 0xabc);
    ft_policy_deinit(&read);
    json_t *points =
        program_json(&status, "simulate qsv --config %s --positions %s --policy %s --json", config,
                     positions, policy[0]);
    assert_int_equal(status, 0);
    json_decref(points);
}

static void refuse(const char *args)
{
    int status;
    json_t *out = program_json(&status, "train policy %s --json", args);
    assert_int_not_equal(status, 0);
    assert_null(out);
}

static void test_refused(void **state)
{
    char args[512];
    snprintf(args, sizeof args, "--config %s --positions %s", config, positions);
    refuse(args);
    snprintf(args, sizeof args, "--config %s --positions %s -o %s", positions, positions,
             policy[0]);
    refuse(args);
    snprintf(args, sizeof args, "--config %s --positions %s --steps 8 -o /nowhere/policy.json",
             config, positions);
    refuse(args);
    snprintf(args, sizeof args,
             "--config %s --positions %s --steps 8 -o %s --reward gain --horizon-ms 9", config,
             positions, policy[0]);
    refuse(args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_seed_same_file),
                                       cmocka_unit_test(test_report_and_use),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
