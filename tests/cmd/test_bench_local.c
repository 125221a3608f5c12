// SPDX-License-Identifier: Apache-2.0
// `foretoken bench local` as a program, on tiny models: a row for each method, texts that
// speculation does not change, and figures that follow from the rows. How large times are is not
// looked at. llama.cpp's rows have figures, or say why not.
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

static memory_models files;
static char prompts[] = "/tmp/prompts-XXXXXX";

static int set_up(void **state)
{
    const int fd = mkstemp(prompts);
    (void)state;
    if (fd < 0)
        return -1;
    dprintf(fd, "{\"prompt\":\"hello there\"}\n{\"turns\":[\"one two\"],\"category\":\"c\"}\n");
    close(fd);
    return memory_models_make(&files) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(prompts);
    memory_models_remove(&files);
    return 0;
}

static json_t *bench(int *status, const char *args)
{
    return program_json(status,
                        "bench local -m '%s' -md '%s' --prompts %s -c 128 -n 12 -t 1 --rounds 4 "
                        "--json %s",
                        files.target, files.draft, prompts, args);
}

/* The program's cache folder is this one. */
static char *make_cache(char *folder)
{
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    return folder;
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static void check_row(const json_t *row)
{
    static const char *const figures[] = {"tokens_per_s", "ttft_ms", "start_ms"};
    const bool theirs = strncmp(text_of(row, "method"), "llama", 5) == 0;
    const char *why = text_of(row, "why");
    if (theirs && why) {
        print_message("%s: %s\n", text_of(row, "method"), why);
        assert_true(json_is_null(json_object_get(row, "tokens_per_s")));
        return;
    }
    if (why)
        fail_msg("%s: %s", text_of(row, "method"), why);
    for (size_t i = 0; i < 3; i++)
        assert_true(program_number(row, figures[i]) > 0);
    assert_true(program_number(row, "start_ms") >= program_number(row, "ttft_ms"));
    if (!theirs)
        assert_true(json_is_true(json_object_get(row, "identical")));
    if (strncmp(text_of(row, "method"), "chain:", 6) == 0)
        assert_true(program_number(row, "tokens_per_round") >= 1);
}

/* The user's own cache folder is neither read nor written. */
static void test_rows(void **state)
{
    static const char *const temps[] = {"0", "0.8"};
    char cache[] = "/tmp/foretoken-test-XXXXXX";
    (void)state;
    make_cache(cache);
    for (size_t t = 0; t < 2; t++) {
        int status;
        size_t i;
        const json_t *row;
        char args[200];
        snprintf(args, sizeof args,
                 "--temp %s --answers 2 --methods "
                 "plain,default,no-memory,chain:2,tree:4,"
                 "llamacpp,llamacpp-draft:2,llamacpp-ngram-simple",
                 temps[t]);
        json_t *o = bench(&status, args);
        assert_int_equal(status, 0);
        assert_int_equal(json_array_size(json_object_get(o, "rows")), 8);
        assert_int_equal(json_array_size(json_object_get(o, "prompts")), 2);
        json_array_foreach(json_object_get(o, "rows"), i, row) check_row(row);
        assert_true(json_is_number(json_object_get(o, "regret")));
        assert_true(json_is_number(json_object_get(o, "regret_first")));
        assert_true(json_is_number(json_object_get(o, "regret_next")));
        const json_t *start = json_object_get(o, "start");
        assert_true(program_number(start, "first_ms") > 0);
        assert_float_equal(program_number(start, "ratio") * program_number(start, "first_ms"),
                           program_number(start, "second_ms"), 1e-3f);
        json_decref(o);
    }
    assert_int_equal(rmdir(cache), 0);
}

/* A method that fails has a row that says why, and the others go on. */
static void test_too_small(void **state)
{
    int status;
    size_t i;
    const json_t *row;
    (void)state;
    json_t *o = program_json(&status,
                             "bench local -m '%s' -md '%s' --prompts %s -c 64 -n 4096 -t 1 "
                             "--rounds 1 --methods plain,default,llamacpp --json",
                             files.target, files.draft, prompts);
    assert_int_equal(status, 0);
    json_array_foreach(json_object_get(o, "rows"), i,
                       row) if (strcmp(text_of(row, "method"), "llamacpp") == 0)
        assert_non_null(text_of(row, "why"));
    assert_true(json_is_null(json_object_get(o, "ratio")));
    json_decref(o);
}

/* A method that fails later has no figures of what it did before. */
static void test_fails_later(void **state)
{
    char path[] = "/tmp/prompts-XXXXXX";
    int status;
    (void)state;
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fprintf(file, "{\"prompt\":\"hello there\"}\n{\"prompt\":\"");
    for (int i = 0; i < 400; i++)
        fputs("word ", file);
    fputs("\"}\n", file);
    fclose(file);
    json_t *o = program_json(&status,
                             "bench local -m '%s' -md '%s' --prompts %s -c 128 -n 12 -t 1 "
                             "--rounds 2 --answers 1 --methods plain,default --json",
                             files.target, files.draft, path);
    unlink(path);
    assert_int_equal(status, 0);
    const json_t *first = json_array_get(json_object_get(o, "prompts"), 0);
    for (size_t i = 0; i < 2; i++)
        assert_non_null(text_of(json_array_get(json_object_get(o, "rows"), i), "why"));
    assert_true(json_is_null(json_object_get(first, "default_ms_per_token")));
    assert_true(json_is_null(json_object_get(o, "regret")));
    json_decref(o);
}

static void test_refused(void **state)
{
    static const char *const args[] = {"--methods chain", "--categories none", "--answers 0"};
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
        cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_fails_later),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
