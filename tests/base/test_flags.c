// SPDX-License-Identifier: Apache-2.0
// Flag tables: every kind and way of writing a value, words, errors that name the flag, and a help
// text that shows each row.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/flags.h"

static struct {
    bool color, warm;
    int64_t ctx, any;
    double temp;
    const char *model;
    ft_flag_list hosts;
} opt;

static const ft_flag table[] = {
    {"--color", "-C", FT_FLAG_BOOL, &opt.color, NULL, "coloured output", 0, 0},
    {"--warm", NULL, FT_FLAG_BOOL, &opt.warm, NULL, "warm up", 0, 0},
    {"--ctx-size", "-c", FT_FLAG_INT, &opt.ctx, "N", "context, tokens", 1, 70000000},
    {"--any", NULL, FT_FLAG_INT, &opt.any, "N", "any number", 0, 0},
    {"--temp", NULL, FT_FLAG_FLOAT, &opt.temp, "T", "temperature", 0, 2},
    {"--model", "-m", FT_FLAG_STRING, &opt.model, "FILE", "target", 0, 0},
    {"--host", NULL, FT_FLAG_LIST, &opt.hosts, "NAME", "allowed host", 0, 0},
};
enum { N_FLAGS = sizeof table / sizeof table[0] };

static ft_error err;
static int n_words;
static char *args[80];

static int setup(void **state)
{
    memset(&opt, 0, sizeof opt);
    opt.warm = true;
    opt.ctx = 4096;
    opt.temp = 0.8;
    err = (ft_error){0};
    n_words = -1;
    return 0;
}

/* Parses the words up to NULL as the command line of "prog". */
static ft_status parse(const char *first, ...)
{
    int n = 0;
    va_list list;
    args[n++] = (char *)"prog";
    va_start(list, first);
    for (const char *word = first; word; word = va_arg(list, const char *))
        args[n++] = (char *)word;
    va_end(list);
    args[n] = NULL;
    return ft_flags_parse(table, N_FLAGS, n, args, &err, &n_words);
}

static void expect_error(ft_status status, const char *part)
{
    assert_int_equal(status, FT_INVALID);
    assert_int_equal(err.code, FT_INVALID);
    if (!strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
}

static void test_nothing(void **state)
{
    assert_int_equal(parse(NULL), FT_OK);
    assert_int_equal(n_words, 0);
    assert_true(opt.warm);
    assert_false(opt.color);
    assert_int_equal(opt.ctx, 4096);
    assert_null(opt.model);
}

static void test_every_kind(void **state)
{
    assert_int_equal(parse("--color", "--ctx-size", "512", "--temp", "1.25", "--model", "a.gguf",
                           "--host", "x", "--host", "y", "--any", "-9000000000", NULL),
                     FT_OK);
    assert_true(opt.color);
    assert_int_equal(opt.ctx, 512);
    assert_true(opt.temp == 1.25);
    assert_string_equal(opt.model, "a.gguf");
    assert_int_equal(opt.hosts.n, 2);
    assert_string_equal(opt.hosts.item[0], "x");
    assert_string_equal(opt.hosts.item[1], "y");
    assert_true(opt.any == -9000000000);
    assert_int_equal(n_words, 0);
}

static void test_aliases_and_equals(void **state)
{
    assert_int_equal(
        parse("-C", "-c", "7", "--temp=0", "--model=b=c", "--host=", "-m", "last", NULL), FT_OK);
    assert_true(opt.color);
    assert_int_equal(opt.ctx, 7);
    assert_true(opt.temp == 0);
    assert_string_equal(opt.model, "last");
    assert_string_equal(opt.hosts.item[0], "");
}

static void test_negation(void **state)
{
    assert_int_equal(parse("--no-warm", "--color", "--no-color", NULL), FT_OK);
    assert_false(opt.warm);
    assert_false(opt.color);
    assert_int_equal(parse("--no-color", "--color", NULL), FT_OK); /* the last one counts */
    assert_true(opt.color);
    expect_error(parse("--no-ctx-size", NULL), "--no-ctx-size");
    expect_error(parse("--no-warm=1", NULL), "--no-warm");
}

static void test_words(void **state)
{
    assert_int_equal(parse("one", "-c", "9", "-", "two", "--", "--color", "-c", "--", NULL), FT_OK);
    static const char *const expected[] = {"one", "-", "two", "--color", "-c", "--"};
    assert_int_equal(n_words, 6);
    for (int i = 0; i < n_words; i++)
        assert_string_equal(args[1 + i], expected[i]);
    assert_false(opt.color);
    assert_int_equal(opt.ctx, 9);
}

static void test_values_may_look_like_flags(void **state)
{
    assert_int_equal(parse("--model", "--color", "--any", "-5", NULL), FT_OK);
    assert_string_equal(opt.model, "--color");
    assert_false(opt.color);
    assert_int_equal(opt.any, -5);
}

static void test_errors(void **state)
{
    expect_error(parse("--nope", NULL), "--nope");
    expect_error(parse("--col", NULL), "--col"); /* no abbreviations */
    expect_error(parse("--colorful", NULL), "--colorful");
    expect_error(parse("-x", NULL), "-x");
    expect_error(parse("-c=5", NULL), "-c=5"); /* '=' goes with long names only */
    expect_error(parse("--color=yes", NULL), "--color takes no value");
    expect_error(parse("--ctx-size", NULL), "--ctx-size needs a value: N");
    expect_error(parse("a", "-c", NULL), "--ctx-size needs a value: N");
    expect_error(parse("-c", "", NULL), "--ctx-size: ''");
    expect_error(parse("-c", "5x", NULL), "--ctx-size: '5x'");
    expect_error(parse("-c", "1.5", NULL), "--ctx-size: '1.5'");
    expect_error(parse("--any", "99999999999999999999", NULL), "--any");
    expect_error(parse("-c", "0", NULL), "--ctx-size: 0 is outside 1 to 70000000");
    expect_error(parse("-c", "70000001", NULL), "70000001 is outside 1 to 70000000");
    expect_error(parse("--temp", "warm", NULL), "--temp: 'warm'");
    expect_error(parse("--temp", "nan", NULL), "--temp");
    expect_error(parse("--temp", "inf", NULL), "--temp");
    expect_error(parse("--temp", "2.01", NULL), "--temp: 2.01 is outside 0 to 2");
    expect_error(parse("--temp=-0.1", NULL), "--temp");
}

static void test_value_without_a_name(void **state)
{
    const char *text = NULL;
    const ft_flag flag = {"--text", NULL, FT_FLAG_STRING, &text, NULL, "text", 0, 0};
    char *argv[] = {(char *)"prog", (char *)"--text", NULL};
    expect_error(ft_flags_parse(&flag, 1, 2, argv, &err, &n_words), "--text needs a value");
    assert_int_equal(ft_flags_parse(&flag, 1, 2, argv, NULL, &n_words), FT_INVALID);
}

static void test_list_is_bounded(void **state)
{
    static char item[] = "--host=h";
    char *argv[FT_FLAG_LIST_MAX + 3] = {item};
    for (int i = 1; i <= FT_FLAG_LIST_MAX + 1; i++)
        argv[i] = item;
    assert_int_equal(ft_flags_parse(table, N_FLAGS, FT_FLAG_LIST_MAX + 1, argv, &err, &n_words),
                     FT_OK);
    assert_int_equal(opt.hosts.n, FT_FLAG_LIST_MAX);
    opt.hosts.n = 0;
    expect_error(ft_flags_parse(table, N_FLAGS, FT_FLAG_LIST_MAX + 2, argv, &err, &n_words),
                 "more than 64 times");
}

static void test_want_help(void **state)
{
    char *with[] = {(char *)"p", (char *)"x", (char *)"--help", NULL};
    char *with_h[] = {(char *)"p", (char *)"-h", NULL};
    char *without[] = {(char *)"p", (char *)"x", (char *)"--", (char *)"--help", NULL};
    assert_true(ft_flags_want_help(3, with));
    assert_true(ft_flags_want_help(2, with_h));
    assert_false(ft_flags_want_help(4, without));
    assert_false(ft_flags_want_help(1, with));
}

static void test_help_shows_every_flag_and_default(void **state)
{
    char *text = NULL;
    size_t size = 0;
    opt.model = "m.gguf";
    FILE *out = open_memstream(&text, &size);
    ft_flags_help(out, table, N_FLAGS);
    fclose(out);
    for (int i = 0; i < N_FLAGS; i++) {
        assert_non_null(strstr(text, table[i].name));
        assert_non_null(strstr(text, table[i].help));
    }
    assert_non_null(strstr(text, "-c, --ctx-size N"));
    assert_non_null(strstr(text, "(4096)"));
    assert_non_null(strstr(text, "(0.8)"));
    assert_non_null(strstr(text, "(m.gguf)"));
    assert_non_null(strstr(text, "(on; --no-warm)"));
    assert_non_null(strstr(text, "(may be repeated)"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing, setup),
        cmocka_unit_test_setup(test_every_kind, setup),
        cmocka_unit_test_setup(test_aliases_and_equals, setup),
        cmocka_unit_test_setup(test_negation, setup),
        cmocka_unit_test_setup(test_words, setup),
        cmocka_unit_test_setup(test_values_may_look_like_flags, setup),
        cmocka_unit_test_setup(test_errors, setup),
        cmocka_unit_test_setup(test_value_without_a_name, setup),
        cmocka_unit_test_setup(test_list_is_bounded, setup),
        cmocka_unit_test_setup(test_want_help, setup),
        cmocka_unit_test_setup(test_help_shows_every_flag_and_default, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
