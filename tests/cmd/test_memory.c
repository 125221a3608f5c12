// SPDX-License-Identifier: Apache-2.0
// `foretoken run --memory`: with the least budget and with more, from a plain file and from a
// packed one, the text is that of the resident model; the plan adds up; a budget below the least, a
// size that is none and flags that do not go with it are refused before anything is loaded.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

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

static json_t *run(int *status, const char *model, const char *args)
{
    return program_json(status,
                        "run -m '%s' -md '%s' -c 128 -p 'hello there' --raw -n 24 -t 2 --seed 5 "
                        "--json %s",
                        model, files.draft, args);
}

static char *text_of(const char *model, const char *args)
{
    int status;
    json_t *o = run(&status, model, args);
    assert_int_equal(status, 0);
    char *text = strdup(json_string_value(json_object_get(o, "text")));
    json_decref(o);
    return text;
}

static json_int_t least(const char *model)
{
    int status;
    json_t *o = run(&status, model, "--memory 16G --dry-run");
    assert_int_equal(status, 0);
    const json_int_t bytes = json_integer_value(json_object_get(o, "least_bytes"));
    json_decref(o);
    return bytes;
}

static void test_same_text(void **state)
{
    (void)state;
    static const char *const sampling[] = {"--temp 0", "--temp 0.5 --top-k 4"};
    for (size_t s = 0; s < 2; s++) {
        char *resident = text_of(files.target, sampling[s]);
        for (int more = 0; more < 3; more++)
            for (int p = 0; p < 2; p++) {
                char args[200];
                const char *file = p ? files.packed : files.target;
                snprintf(args, sizeof args, "%s --memory %lld %s", sampling[s],
                         (long long)least(file) + (4 << 20) + more * 2000000ll,
                         more == 1 ? "--no-overlap" : "");
                char *text = text_of(file, args);
                assert_string_equal(text, resident);
                free(text);
            }
        free(resident);
    }
}

static void test_plan(void **state)
{
    int status;
    size_t i;
    json_t *part;
    char args[100];
    json_int_t sum = 0;
    (void)state;
    const json_int_t budget = least(files.packed) + 5000000;
    snprintf(args, sizeof args, "--memory %lld --dry-run", (long long)budget);
    json_t *o = run(&status, files.packed, args);
    assert_int_equal(status, 0);
    json_array_foreach(json_object_get(o, "parts"), i, part) sum +=
        json_integer_value(json_object_get(part, "bytes"));
    assert_int_equal(sum, json_integer_value(json_object_get(o, "bytes")));
    assert_true(sum <= budget);
    assert_int_equal(json_integer_value(json_object_get(o, "layers")), 20);
    assert_true(json_integer_value(json_object_get(o, "resident_layers")) < 20);
    json_decref(o);
}

/* What the text behind its first piece took, and of it what was read. */
static void test_meter(void **state)
{
    static const char *const both[] = {"streamed_bytes", "streamed_us", "streamed_waited_us"};
    int status;
    char args[100];
    (void)state;
    snprintf(args, sizeof args, "--memory %lld --temp 0 --draft 1",
             (long long)least(files.packed) + (4 << 20));
    for (int resident = 0; resident < 2; resident++) {
        json_t *o = run(&status, files.packed, resident ? "--temp 0 --draft 1" : args);
        assert_int_equal(status, 0);
        const json_t *decode = json_object_get(o, "decode");
        const double tokens = program_number(o, "tokens");
        assert_true(tokens > 2 && program_number(decode, "tokens") > 0);
        assert_true(program_number(decode, "tokens") < tokens);
        assert_true(program_number(decode, "ms") > 0 && program_number(decode, "cpu_ms") > 0);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(!json_object_get(o, both[i]), resident);
            assert_int_equal(!json_object_get(decode, both[i]), resident);
        }
        if (!resident) {
            const double bytes = program_number(decode, "streamed_bytes");
            assert_true(bytes > 0 && bytes < program_number(o, "streamed_bytes"));
        }
        json_decref(o);
    }
}

static void expect_refused(const char *args, const char *why)
{
    program_refuses(why, "run -m '%s' -c 128 -p x %s", files.target, args);
}

static void test_refused(void **state)
{
    char args[100], why[100];
    (void)state;
    expect_refused("--memory 2X", "--memory 2X: pass a size such as 900M or 2G");
    expect_refused("--memory -1", "pass a size");
    expect_refused("--no-overlap", "--no-overlap goes with --memory");
    expect_refused("--dry-run", "--dry-run shows the plan of --memory");
    expect_refused("--memory 1G -ngl 3", "does not go with -ngl");
    snprintf(args, sizeof args, "--memory 1M");
    snprintf(why, sizeof why, "a memory budget of 1048576 bytes is too small: at least ");
    expect_refused(args, why);
    expect_refused(args, "-c or --cache-type q8_0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_meter),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
