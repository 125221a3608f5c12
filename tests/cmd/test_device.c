// SPDX-License-Identifier: Apache-2.0
// `bench logits` and `bench exact` on a device: test_device(), else an RPC server. Logits are no
// further from libllama's on the CPU than libllama's own on that device; and a text with drafts
// leaves the one without only where the two best tokens are nearer than the device's rounding.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "support/device.h"
#include "support/program.h"
#include "support/rpc_server.h"
#include "support/tiny_pair.h"

static char flags[128]; /* that choose the device of both models; "": there is none */

/* The largest of a figure among libllama's own distances. */
static double libllama_most(const json_t *report, const char *key)
{
    double most = 0;
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(report, "rows"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "pair"));
        if (strncmp(name, "libllama/", 9) == 0)
            most = fmax(most, program_number(row, key));
    }
    assert_true(most > 0);
    return most;
}

static const json_t *row_of(const json_t *report, const char *pair)
{
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(report, "rows"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "pair")), pair) == 0)
            return row;
    }
    fail_msg("no row %s", pair);
    return NULL;
}

static json_t *bench_logits(const tiny_pair *pair)
{
    int status;
    json_t *report = program_json(&status, "bench logits -m '%s' %s --prompts '%s' --json",
                                  pair->target, flags, pair->prompts);
    assert_int_equal(status, 0);
    return report;
}

static void check_pair(const char *label, const tiny_pair *pair, const char *args)
{
    int status;
    json_t *report = bench_logits(pair), *m;
    const double ours = program_number(row_of(report, "foretoken/device - libllama/plain"), "nmse");
    const double theirs = libllama_most(report, "nmse");
    const double rounding = libllama_most(report, "max_error");
    size_t i;
    (void)row_of(report, "libllama/device-flash - libllama/plain");
    (void)row_of(report, "libllama/device-plain - libllama/plain");
    print_message("%s: nmse %.2e, libllama's %.2e; largest error %.2e\n", label, ours, theirs,
                  rounding);
    assert_true(ours <= theirs);
    json_decref(report);

    report = tiny_pair_bench(pair, "bench exact", args, &status);
    assert_int_equal(status, 0);
    assert_true(program_number(report, "tokens") > 0 && program_number(report, "acceptance") > 0);
    print_message("%s: %.0f tokens, %.0f of %.0f texts differ by drafts, %.0f from libllama\n",
                  label, program_number(report, "tokens"),
                  program_number(report, "mismatches_plain"), 2 * program_number(report, "prompts"),
                  program_number(report, "mismatches_libllama"));
    json_array_foreach(json_object_get(report, "mismatches"), i, m)
    {
        const double gap = program_number(m, "gap");
        print_message("%s: against %s at %.0f: gap %.2e\n", label,
                      json_string_value(json_object_get(m, "against")), program_number(m, "at"),
                      gap);
        assert_true(gap <= 2 * rounding); /* each of two logits may be off */
    }
    json_decref(report);
}

static void test_tiny(void **state)
{
    char args[256];
    if (!flags[0])
        skip();
    tiny_pair pair = tiny_pair_make("{\"turns\": [\"alpha beta\"]}\n{\"turns\": [\"12 + 30\"]}\n"
                                    "{\"turns\": [\"cabba dada, said the storm of 1887\"]}\n");
    snprintf(args, sizeof args, "%s -n 100 -c 512 -t 1", flags);
    check_pair("tiny", &pair, args);
    tiny_pair_remove(&pair);
}

/* The demo target, where it is, with the draft that ships. */
static void test_target(void **state)
{
    char draft[512], args[256], *target = getenv("FT_TARGET");
    if (!flags[0] || !target)
        skip();
    tiny_pair pair = tiny_pair_make("{\"turns\": [\"Name three fruits.\"]}\n"
                                    "{\"turns\": [\"What is the capital of France?\"]}\n");
    tiny_pair real = pair;
    snprintf(draft, sizeof draft, "%s/models/smollm2-draft-17m-q8_0.gguf", getenv("FT_SOURCE_DIR"));
    real.target = target;
    real.draft = draft;
    snprintf(args, sizeof args, "%s -n 32 -c 512", flags);
    check_pair("demo target", &real, args);
    tiny_pair_remove(&pair);
}

int main(void)
{
    const char *endpoints = test_device() ? NULL : rpc_servers_start();
    if (test_device())
        snprintf(flags, sizeof flags, "--device %s", test_device());
    else if (endpoints) {
        snprintf(flags, sizeof flags, "--rpc %s --device RPC0", endpoints);
        /* Of the programs: ggml's RPC backend frees nothing at exit (support/rpc_server.c). */
        setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
