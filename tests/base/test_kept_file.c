// SPDX-License-Identifier: Apache-2.0
// base/kept_file: what is written comes back, whole; two kinds and two subjects don't mix; a folder
// that is not there is an error, and a file that is not there another one; an older version is
// told.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/kept_file.h"

static void expect(const ft_kept_place *place, const char *kind, uint64_t subject,
                   const char *wanted)
{
    ft_error err = {0};
    char *text = NULL;
    size_t n = 0;
    const ft_status status = ft_kept_file_read(place, kind, subject, &err, &text, &n);
    if (!wanted) {
        assert_int_equal(status, FT_NOT_FOUND);
        assert_null(text);
        return;
    }
    assert_int_equal(status, FT_OK);
    assert_int_equal(n, strlen(wanted));
    assert_string_equal(text, wanted);
    free(text);
}

static void write_file(const ft_kept_place *place, const char *kind, uint64_t subject,
                       const char *text)
{
    ft_error err = {0};
    if (ft_kept_file_write(place, kind, subject, text, strlen(text), &err) != FT_OK)
        fail_msg("%s", err.message);
}

static void test_round_trip(void **state)
{
    char folder[] = "/tmp/foretoken-test-file-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    const ft_kept_place place = {folder, ""};
    expect(&place, "a", 5, NULL);
    write_file(&place, "a", 5, "first");
    write_file(&place, "a", 5, "second");
    write_file(&place, "b", 5, "other kind");
    write_file(&place, "a", 6, "other subject");
    expect(&place, "a", 5, "second");
    expect(&place, "b", 5, "other kind");
    expect(&place, "a", 6, "other subject");
    expect(&place, "a", 5 + 64, "second"); /* the same name: the text says what it is about */
    for (const char *const *at = (const char *const[]){"a-05", "a-06", "b-05", NULL}; *at; at++) {
        snprintf(path, sizeof path, "%s/%s.json", folder, *at);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0); /* no part of a file is left */
}

static void test_errors(void **state)
{
    char folder[] = "/tmp/foretoken-test-file-XXXXXX", path[64];
    ft_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    const ft_kept_place place = {folder, ""};
    snprintf(path, sizeof path, "%s/a-05.json", folder);
    assert_int_equal(mkdir(path, 0700), 0); /* nothing can be moved over it */
    assert_int_equal(ft_kept_file_write(&place, "a", 5, "x", 1, &err), FT_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0); /* no part of a file is left */
    assert_int_equal(ft_kept_file_write(&place, "a", 5, "x", 1, &err), FT_IO);
    expect(&place, "a", 5, NULL);
}

/* An older version is told from what is wrong. */
static void test_version(void **state)
{
    static const struct {
        const char *json;
        ft_status status;
    } cases[] = {{"{\"version\": 3}", FT_OK},
                 {"{\"version\": 1}", FT_NOT_FOUND},
                 {"{\"version\": 2}", FT_NOT_FOUND},
                 {"{\"version\": 0}", FT_INVALID},
                 {"{\"version\": -1}", FT_INVALID},
                 {"{\"version\": 4}", FT_INVALID},
                 {"{\"version\": 2.5}", FT_INVALID},
                 {"{\"version\": \"2\"}", FT_INVALID},
                 {"{}", FT_INVALID},
                 {"[2]", FT_INVALID}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_error err = {0};
        json_t *file = json_loads(cases[i].json, 0, NULL);
        if (ft_kept_file_check_version(file, 3, &err) != cases[i].status)
            fail_msg("%s", cases[i].json);
        assert_int_equal(cases[i].status == FT_OK, err.message[0] == 0);
        json_decref(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
