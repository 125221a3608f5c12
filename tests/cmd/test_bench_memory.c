// SPDX-License-Identifier: Apache-2.0
// `foretoken bench memory` as a program, on tiny models: under a budget that makes weights be
// streamed, under one that holds all, and under one that is refused. Texts are the resident
// target's, and a row has what readers of its figures ask for. How large times are is not looked
// at. Where no memory cgroups may be made, libllama's rows say so.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/memory_models.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

static memory_models files;

static int set_up(void **state)
{
    return memory_models_make(&files) ? 0 : -1;
}

static int tear_down(void **state)
{
    memory_models_remove(&files);
    return 0;
}

static json_t *bench(int *status, const char *args)
{
    return program_json(status,
                        "bench memory -m '%s' --packed '%s' -md '%s' -c 128 -n 16 -t 1 --rounds 1 "
                        "-p 'hello there' --json %s",
                        files.target, files.packed, files.draft, args);
}

static json_int_t least(void)
{
    int status;
    json_t *o = program_json(&status,
                             "run -m '%s' -md '%s' -c 128 --cache-type q8_0 -p x -t 1 --json "
                             "--dry-run --memory 16G",
                             files.packed, files.draft);
    assert_int_equal(status, 0);
    const json_int_t bytes = json_integer_value(json_object_get(o, "least_bytes"));
    json_decref(o);
    return bytes;
}

static bool is(const json_t *row, const char *key, const char *value)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text && strcmp(text, value) == 0;
}

static void check_row(const json_t *row, bool streamed)
{
    static const char *const figures[] = {"ms_per_token", "tokens_per_pass", "cpu_s_per_token"};
    const bool theirs = strncmp(json_string_value(json_object_get(row, "method")), "llama", 5) == 0;
    const json_t *peak = json_object_get(row, "peak_bytes");
    if (theirs && is(row, "why", "this process may make no memory cgroups")) {
        print_message("skipped a row: no memory cgroups\n");
        assert_true(json_is_null(json_object_get(row, "ms_per_token")));
        return;
    }
    if (!json_is_null(json_object_get(row, "why")))
        fail_msg("%s: %s", json_string_value(json_object_get(row, "method")),
                 json_string_value(json_object_get(row, "why")));
    for (size_t i = 0; i < 3; i++)
        assert_true(program_number(row, figures[i]) > 0);
    assert_true(program_number(row, "ms_per_token_min") <= program_number(row, "ms_per_token"));
    assert_true(program_number(row, "bound") > 0);
    assert_true(json_is_null(peak) ||
                json_number_value(peak) <= program_number(row, "budget_bytes"));
    if (theirs || is(row, "method", "draft")) {
        assert_true(json_is_null(json_object_get(row, "identical")));
        return;
    }
    assert_true(json_is_true(json_object_get(row, "identical")));
    if (is(row, "method", "foretoken"))
        assert_int_equal(program_number(row, "bytes_per_token") > 0, streamed);
}

static void test_rows(void **state)
{
    int status;
    char args[300];
    size_t i;
    json_t *row;
    (void)state;
    snprintf(args, sizeof args,
             "--budget %lld,600M,%lld --methods "
             "foretoken,std,sp:4,no-tree,specinfer,fallback,draft",
             (long long)least() + (4 << 20), (long long)least() * 9 / 10);
    json_t *o = bench(&status, args);
    assert_int_equal(status, 0);
    assert_true(program_number(o, "disk_mb_s") > 0 &&
                program_number(o, "disk_mb_s_min") <= program_number(o, "disk_mb_s_max") &&
                program_number(o, "weights_bytes") > 0);
    assert_int_equal(json_array_size(json_object_get(o, "rows")), 3 * 7);
    json_array_foreach(json_object_get(o, "rows"), i, row)
    {
        if (i < 14)
            check_row(row, i < 7);
        else if (is(row, "method", "foretoken"))
            assert_non_null(strstr(json_string_value(json_object_get(row, "why")), "is too small"));
        if (is(row, "method", "std"))
            assert_true(i > 14 || program_number(row, "tokens_per_pass") == 1);
    }
    json_decref(o);
}

static void test_libllama(void **state)
{
    int status;
    size_t i;
    json_t *row;
    (void)state;
    json_t *o = bench(&status, "--budget 600M --methods foretoken,llamacpp,llamacpp-spec");
    assert_int_equal(status, 0);
    assert_int_equal(json_array_size(json_object_get(o, "rows")), 3);
    json_array_foreach(json_object_get(o, "rows"), i, row)
    {
        check_row(row, false);
        const json_t *ratio = json_object_get(row, "speedup_vs_llamacpp");
        if (is(row, "method", "llamacpp") && !json_is_null(ratio))
            assert_true(json_number_value(ratio) == 1 &&
                        program_number(row, "tokens_per_pass") == 1);
    }
    json_decref(o);
}

static void test_refused(void **state)
{
    static const char *const args[] = {"--budget 25%%",     "--budget 0%",  "--budget 10,",
                                       "--budget 3X",       "--budget -5%", "--methods plain",
                                       "--prompts /no/file"};
    (void)state;
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        int status;
        json_t *o = bench(&status, args[i]);
        assert_null(o);
        assert_int_not_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_libllama),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
