// SPDX-License-Identifier: Apache-2.0
// json_file: what is read, and what each defect is called.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json_file.h"

static ft_status load(const char *text, size_t n, ft_error *err, json_t **out)
{
    char path[] = "/tmp/ft_json_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    close(fd);
    ft_status status = ft_json_load(path, err, out);
    if (status != FT_OK)
        assert_non_null(strstr(err->message, path));
    unlink(path);
    return status;
}

static void test_files(void **state)
{
    static const char good[] = "{\"a\": [1, 2]}", twice[] = "{\"a\": 1, \"a\": 2}",
                      broken[] = "{\n\"a\": \n}";
    ft_error err = {0};
    json_t *root;
    (void)state;
    assert_int_equal(load(good, strlen(good), &err, &root), FT_OK);
    assert_int_equal(json_array_size(json_object_get(root, "a")), 2);
    json_decref(root);
    assert_int_equal(load(twice, strlen(twice), &err, &root), FT_INVALID);
    assert_null(root);
    assert_int_equal(load(broken, strlen(broken), &err, &root), FT_INVALID);
    assert_non_null(strstr(err.message, "line 3"));
    assert_int_equal(ft_json_load("/nowhere/at/all", &err, &root), FT_IO);
    assert_null(root);
}

/* One byte less than the limit is read, the limit is not. */
static void test_bound(void **state)
{
    char *text = malloc(FT_JSON_FILE_MAX);
    ft_error err = {0};
    json_t *root;
    (void)state;
    memset(text, ' ', FT_JSON_FILE_MAX);
    memcpy(text, "[]", 2);
    assert_int_equal(load(text, FT_JSON_FILE_MAX - 1, &err, &root), FT_OK);
    json_decref(root);
    assert_int_equal(load(text, FT_JSON_FILE_MAX, &err, &root), FT_TOO_LARGE);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
