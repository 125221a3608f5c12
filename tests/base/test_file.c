// SPDX-License-Identifier: Apache-2.0
// Whole files: what is read is a string, one at the limit is refused, and PEM files are told from
// others.
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

static char path[] = "/tmp/ft-file-XXXXXX";

static int set_up(void **state)
{
    int fd = mkstemp(path);
    (void)state;
    return fd < 0 || close(fd) != 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static void fill(const char *text, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void test_whole(void **state)
{
    char *text;
    size_t n;
    ft_error err = {0};
    (void)state;
    fill("a\0b", 3);
    assert_int_equal(ft_file_read(path, 4, &err, &text, &n), FT_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    assert_int_equal(ft_file_read(path, 3, &err, &text, &n), FT_TOO_LARGE);
    assert_null(text);
    assert_non_null(strstr(err.message, path));
    fill("", 0);
    assert_int_equal(ft_file_read(path, 1, &err, &text, &n), FT_OK);
    assert_int_equal(n, 0);
    assert_string_equal(text, "");
    free(text);
    assert_int_equal(ft_file_read("/nowhere/at/all", 9, &err, &text, &n), FT_IO);
    assert_non_null(strstr(err.message, "cannot read /nowhere/at/all: No such file"));
    assert_int_equal(ft_file_read("/tmp", 9, &err, &text, &n), FT_IO);
    assert_null(text);
}

static void test_pem(void **state)
{
    static const char pem[] = "a line before\n-----BEGIN CERTIFICATE-----\nAAAA\n";
    char *text;
    ft_error err = {0};
    (void)state;
    fill(pem, sizeof pem - 1);
    assert_int_equal(ft_file_read_pem(path, &err, &text), FT_OK);
    assert_string_equal(text, pem);
    free(text);
    fill("garbage", 7);
    assert_int_equal(ft_file_read_pem(path, &err, &text), FT_INVALID);
    assert_null(text);
    assert_non_null(strstr(err.message, "not a PEM file"));
    assert_int_equal(ft_file_read_pem("/nowhere/at/all", &err, &text), FT_INVALID);
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_pem),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
