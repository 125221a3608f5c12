// SPDX-License-Identifier: Apache-2.0
// The status map and error messages: every code has its names and numbers, a message is one line of
// valid UTF-8 whatever it quotes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "base/text.h"

static void test_map(void **state)
{
    static const struct {
        ft_status code;
        const char *name;
        int grpc, http;
    } expected[] = {
        {FT_OK, "OK", 0, 200},
        {FT_CANCELLED, "CANCELLED", 1, 499},
        {FT_INVALID, "INVALID", 3, 400},
        {FT_TIMEOUT, "TIMEOUT", 4, 504},
        {FT_NOT_FOUND, "NOT_FOUND", 5, 404},
        {FT_FORBIDDEN, "FORBIDDEN", 7, 403},
        {FT_EXHAUSTED, "EXHAUSTED", 8, 429},
        {FT_PRECONDITION, "PRECONDITION", 9, 412},
        {FT_ABORTED, "ABORTED", 10, 409},
        {FT_TOO_LARGE, "TOO_LARGE", 11, 413},
        {FT_UNSUPPORTED, "UNSUPPORTED", 12, 501},
        {FT_INTERNAL, "INTERNAL", 13, 500},
        {FT_UNAVAILABLE, "UNAVAILABLE", 14, 503},
        {FT_CORRUPT, "CORRUPT", 15, 422},
        {FT_UNAUTHENTICATED, "UNAUTHENTICATED", 16, 401},
        {FT_IO, "IO", 2, 500},
        {FT_NOMEM, "NOMEM", 8, 503},
    };
    assert_int_equal(sizeof expected / sizeof expected[0], FT_STATUS_COUNT);
    for (size_t i = 0; i < FT_STATUS_COUNT; i++) {
        assert_string_equal(ft_status_name(expected[i].code), expected[i].name);
        assert_int_equal(ft_status_grpc(expected[i].code), expected[i].grpc);
        assert_int_equal(ft_status_http(expected[i].code), expected[i].http);
        assert_true(strlen(ft_status_text(expected[i].code)) > 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(ft_status_text((ft_status)i), ft_status_text((ft_status)j));
    }
}

static void test_unknown_code(void **state)
{
    assert_string_equal(ft_status_name((ft_status)999), "INTERNAL");
    assert_string_equal(ft_status_text((ft_status)-1), ft_status_text(FT_INTERNAL));
    assert_int_equal(ft_status_http(FT_STATUS_COUNT), 500);
    assert_int_equal(ft_status_grpc(FT_STATUS_COUNT), 13);
}

static void test_from_grpc(void **state)
{
    for (int code = 0; code < FT_STATUS_COUNT; code++) {
        ft_status back = ft_status_from_grpc(ft_status_grpc((ft_status)code));
        if (code == FT_NOMEM)
            assert_int_equal(back, FT_EXHAUSTED);
        else
            assert_int_equal(back, code);
    }
    assert_int_equal(ft_status_from_grpc(6), FT_INTERNAL); /* ALREADY_EXISTS: not in the map */
    assert_int_equal(ft_status_from_grpc(-1), FT_INTERNAL);
    assert_int_equal(ft_status_from_grpc(77), FT_INTERNAL);
}

static void test_error_set(void **state)
{
    ft_error err = {0};
    assert_int_equal(ft_error_set(NULL, FT_IO, "%d", 1), FT_IO);
    assert_int_equal(ft_error_set(&err, FT_INVALID, "%s: %d", "-c", 7), FT_INVALID);
    assert_int_equal(err.code, FT_INVALID);
    assert_string_equal(err.message, "-c: 7");
    ft_error_set(&err, FT_CORRUPT, "file: %s", err.message); /* may quote itself */
    assert_string_equal(err.message, "file: -c: 7");
    assert_int_equal(err.code, FT_CORRUPT);
}

static void test_message_is_one_line(void **state)
{
    ft_error err;
    ft_error_set(&err, FT_INVALID, "a%sb", "\r\n\x01\t\x7f");
    assert_string_equal(err.message, "a     b");
    ft_error_set(&err, FT_INVALID, "%s", "x\xff\xc3\xa9\xe2\x82y\xf0\x9f\x98\x80");
    assert_string_equal(err.message, "x?\xc3\xa9??y\xf0\x9f\x98\x80");
    ft_error_set(&err, FT_INVALID, "%s", "");
    assert_string_equal(err.message, "");
}

static void test_message_is_cut_between_characters(void **state)
{
    char text[1024];
    ft_error err;
    for (size_t offset = 0; offset < 4; offset++) {
        memset(text, 'a', sizeof text);
        for (size_t i = offset; i + 4 < sizeof text; i += 4)
            memcpy(text + i, "\xf0\x9f\x98\x80", 4);
        text[sizeof text - 1] = 0;
        ft_error_set(&err, FT_INVALID, "%s", text);
        size_t n = strlen(err.message);
        assert_true(n < sizeof err.message && n + 4 >= sizeof err.message);
        assert_true(ft_utf8_valid(err.message, n));
        assert_memory_equal(err.message, text, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_unknown_code),
        cmocka_unit_test(test_from_grpc),
        cmocka_unit_test(test_error_set),
        cmocka_unit_test(test_message_is_one_line),
        cmocka_unit_test(test_message_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
