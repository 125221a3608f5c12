// SPDX-License-Identifier: Apache-2.0
// `foretoken bench uplink` as a program, on tiny models: all methods over a constant and a changing
// uplink. Texts under rule exact are the target's own, and the JSON has what readers of its figures
// ask for. How large rates and times are is not looked at.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "learn/policy.h"
#include "support/program.h"
#include "support/tiny_gguf.h"
#include "support/tiny_pair.h"

static tiny_pair pair;
static char *policy;

static int set_up(void **state)
{
    const ft_policy like = {.n_lengths = 3, .n_l = 2, .l = {8, 240}};
    ft_policy fresh;
    pair = tiny_pair_make("{\"turns\": [\"alpha beta\"]}\n{\"turns\": [\"12 + 30\"]}\n");
    policy = tiny_temp_path();
    if (ft_policy_init(&like, NULL, &fresh) != FT_OK)
        return 1;
    json_t *json = ft_policy_json(&fresh);
    const int failed = json_dump_file(json, policy, 0);
    json_decref(json);
    ft_policy_deinit(&fresh);
    return failed;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    unlink(policy);
    free(policy);
    return 0;
}

static json_t *run(const char *args, int *status)
{
    return tiny_pair_bench(&pair, "bench uplink", args, status);
}

static void check_row(const json_t *row)
{
    static const char *const drafts[] = {"nodes_per_round", "draft_ms", "line_ms", "verify_ms",
                                         "rest_ms"};
    const char *method = json_string_value(json_object_get(row, "method"));
    const json_t *identical = json_object_get(row, "identical");
    const bool ratio = strcmp(method, "fixed") == 0 || strcmp(method, "policy") == 0;
    assert_true(program_number(row, "texts") == 4); /* two prompts in two rounds */
    assert_true(program_number(row, "tokens") > 0 && program_number(row, "tokens_per_s") > 0);
    assert_true(program_number(row, "simulated_tokens_per_s") > 0);
    assert_true(program_number(row, "slowest_round") <= program_number(row, "fastest_round"));
    assert_true(program_number(row, "rate_estimate_mbit") >= 0);
    assert_true(ratio ? json_is_null(identical) : json_is_true(identical));
    if (strcmp(method, "plain") == 0)
        return;
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
        (void)program_number(row, drafts[i]);
    assert_true(program_number(row, "bytes_per_round") > 20);
    assert_true(program_number(row, "simulated_bytes_per_round") > 20);
    if (strcmp(method, "policy") == 0)
        assert_true(program_number(row, "policy_share") <= 1);
}

static void test_all_methods(void **state)
{
    static const char *const methods[] = {"plain", "policy", "fixed", "exact chain", "exact tree"};
    char args[512];
    int status;
    snprintf(args, sizeof args,
             "-n 24 --limit 2 --rounds 2 --up 2,markov --up-steps 1,4 --up-step-ms 5 "
             "--draft-length 3 --tree-width 2 --l 100 --seed 7 --policy %s",
             policy);
    json_t *json = run(args, &status);
    assert_int_equal(status, 0);
    const json_t *rows = json_object_get(json, "rows");
    assert_int_equal(json_array_size(rows), 10);
    for (size_t i = 0; i < 10; i++) {
        const json_t *row = json_array_get(rows, i);
        assert_string_equal(json_string_value(json_object_get(row, "uplink")),
                            i < 5 ? "2" : "markov");
        assert_string_equal(json_string_value(json_object_get(row, "method")), methods[i % 5]);
        check_row(row);
    }
    assert_true(program_number(json, "seed") == 7 && program_number(json, "temperature") == 1);
    assert_true(program_number(json_object_get(json, "markov"), "step_ms") == 5);
    const json_t *times = json_object_get(json, "times");
    assert_true(json_array_size(json_object_get(times, "verify")) > 2);
    assert_int_equal(json_object_size(json_object_get(times, "rtt_ms")), 4);
    assert_int_equal(json_object_size(json_object_get(times, "draft_ms")), 4);
    const json_t *rates = json_object_get(json, "rates"); /* the changing uplink has none */
    assert_int_equal(json_array_size(rates), 1);
    assert_int_equal(json_array_size(json_object_get(json_array_get(rates, 0), "estimates_mbit")),
                     2);
    const json_t *claims = json_object_get(json, "claims"), *claim;
    size_t i;
    bool exact = false;
    json_array_foreach(claims, i, claim)
    {
        (void)program_number(claim, "margin");
        exact |= strstr(json_string_value(json_object_get(claim, "name")), "exact") &&
                 json_is_true(json_object_get(claim, "holds"));
    }
    assert_true(exact);
    json_decref(json);
}

/* Chosen methods, and links with a round trip. */
static void test_some_methods(void **state)
{
    int status;
    json_t *json =
        run("-n 12 --limit 1 --rounds 1 --up 5 --rtt 1 --methods 'plain,exact chain'", &status);
    assert_int_equal(status, 0);
    assert_int_equal(json_array_size(json_object_get(json, "rows")), 2);
    assert_true(json_is_null(json_object_get(json, "markov")));
    assert_true(program_number(json, "rtt_ms") == 1);
    json_decref(json);
}

static void test_refusals(void **state)
{
    static const char *const args[] = {"--up 2,",
                                       "--up ''",
                                       "--up 0",
                                       "--up 2,fast",
                                       "--up -2",
                                       "--up 1,2,3,4,5,6,7,8,9",
                                       "--up markov --up-steps 2",
                                       "--methods plain,faster",
                                       "--methods policy",
                                       "--policy /nonexistent/file",
                                       "--temp 0",
                                       "--draft-length 32 --tree-width 3",
                                       "--l 2000",
                                       "--ctx-size 64 -n 64"};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        int status;
        json_t *json = run(args[i], &status);
        if (status == 0)
            fail_msg("accepted: %s", args[i]);
        assert_null(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_methods),
        cmocka_unit_test(test_some_methods),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
