// SPDX-License-Identifier: Apache-2.0
// Thoughts and answer, however the text is cut.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "http/think.h"

static const struct {
    const char *text, *thought, *said;
} cases[] = {
    {"<think>\nfirst\nthen\n</think>\n\nThe answer.\n", "first\nthen", "The answer.\n"},
    {"<think>a < b </thin </think>c</think>", "a < b </thin", "c</think>"},
    {" \n<think>a</think>b", "a", "b"},
    {"<think>\n\n</think>\n\nb", "", "b"},
    {"<think></think>", "", ""},
    {"<think>", "", ""},
    {"<think>cut off  </th", "cut off  </th", ""},
    {"<think>\xc3\xa4 </think> \xc3\xb6", "\xc3\xa4", "\xc3\xb6"},
    {"no thoughts", "", "no thoughts"},
    {"\n<thinks", "", "\n<thinks"},
    {"<thin", "", "<thin"},
    {"  ", "", "  "},
    {"", "", ""},
    {"a<think>b</think>", "", "a<think>b</think>"},
    {"<think>a</think>b<think>c</think>", "a", "b<think>c</think>"},
};

/* In exact copies, so that a read past an end is caught. */
static void push(ft_http_think *t, const char *text, size_t n, ft_buf *thought, ft_buf *said)
{
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    assert_int_equal(ft_http_think_push(t, copy, n, thought, said), FT_OK);
    free(copy);
}

static void test_every_cut(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t n = strlen(cases[i].text);
        for (size_t a = 0; a <= n; a++)
            for (size_t b = a; b <= n; b++) {
                ft_http_think t = {0};
                ft_buf thought = {0}, said = {0};
                push(&t, cases[i].text, a, &thought, &said);
                push(&t, cases[i].text + a, b - a, &thought, &said);
                push(&t, cases[i].text + b, n - b, &thought, &said);
                assert_int_equal(ft_http_think_finish(&t, &thought, &said), FT_OK);
                assert_string_equal(ft_buf_str(&thought), cases[i].thought);
                assert_string_equal(ft_buf_str(&said), cases[i].said);
                ft_buf_deinit(&thought);
                ft_buf_deinit(&said);
            }
    }
}

/* What cannot be a mark any more is not held back. */
static void test_at_once(void **state)
{
    ft_http_think t = {0};
    ft_buf thought = {0}, said = {0};
    push(&t, "<think>one two ", 15, &thought, &said);
    assert_string_equal(ft_buf_str(&thought), "one two");
    push(&t, "three", 5, &thought, &said);
    assert_string_equal(ft_buf_str(&thought), "one two three");
    push(&t, "</think>\nfour ", 14, &thought, &said);
    assert_string_equal(ft_buf_str(&said), "four ");
    ft_http_think_deinit(&t);
    ft_buf_deinit(&thought);
    ft_buf_deinit(&said);
}

static void test_marked(void **state)
{
    assert_true(ft_http_think_marked("{{ '<think>' }}{{ c.split('</think>')[-1] }}"));
    assert_false(ft_http_think_marked("{{ '<think>' }}"));
    assert_false(ft_http_think_marked("{{ messages }}"));
    assert_false(ft_http_think_marked(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
