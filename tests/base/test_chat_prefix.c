// SPDX-License-Identifier: Apache-2.0
// The header foretoken-prefix: the number of a chat's beginning, and the log's line about a value
// from outside.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/chat_prefix.h"
#include "support/caught_log.h"

static void test_number(void **state)
{
    const ft_chat_message turns[] = {{.role = "system", .content = "be brief"},
                                     {.role = "user", .content = "hello"},
                                     {.role = "assistant"},
                                     {.role = "user", .content = "and?"}};
    const ft_chat_message other[] = {{.role = "system", .content = "be briefuser"},
                                     {.role = "user", .content = "hello"}};
    (void)state;
    const uint64_t chat = ft_chat_prefix_of(turns, 2);
    assert_true(chat != 0 && chat == ft_chat_prefix_of(turns, 4));
    assert_true(chat != ft_chat_prefix_of(turns + 1, 1));
    assert_true(chat != ft_chat_prefix_of(other, 2));
    assert_true(ft_chat_prefix_of(turns, 1) == 0 && ft_chat_prefix_of(NULL, 0) == 0);
}

static void test_right(void **state)
{
    caught_log log;
    (void)state;
    caught_log_begin(&log);
    const bool right = ft_chat_prefix_check("test", "0123456789abcdef", 16);
    caught_log_end(&log);
    assert_true(right);
    assert_string_equal(log.text, "");
}

/* One line, in which the value ends where its quotes do. */
static void check_wrong(const char *value, size_t n, const char *said)
{
    caught_log log;
    char expected[256];
    caught_log_begin(&log);
    const bool right = ft_chat_prefix_check("test", value, n);
    caught_log_end(&log);
    assert_false(right);
    snprintf(expected, sizeof expected,
             " info test: foretoken-prefix ignored value=\"%s\" reason=\"not 16 digits of "
             "0-9a-f\"\n",
             said);
    const char *line = strstr(log.text, " info test: ");
    assert_non_null(line);
    assert_string_equal(line, expected);
}

static void test_wrong(void **state)
{
    char longest[200];
    (void)state;
    memset(longest, 'a', sizeof longest);
    check_wrong("", 0, "");
    check_wrong("0123456789ABCDEF", 16, "0123456789ABCDEF");
    check_wrong("0123456789abcdef0", 17, "0123456789abcdef0");
    check_wrong("a\" status=\"ok\\", 14, "a? status=?ok?");
    check_wrong("a\nb\xff", 4, "a b?");
    check_wrong("0123456789abcde\0", 16, "0123456789abcde");
    check_wrong(longest, sizeof longest, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_number), cmocka_unit_test(test_right),
                                       cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
