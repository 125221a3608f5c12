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

/* A table that is included by one that is itself included. */
typedef struct inner {
    int64_t size;
    double share;
} inner;

typedef struct middle {
    bool deep;
    inner in;
} middle;

typedef struct options {
    bool color, warm;
    int64_t ctx, any;
    double temp;
    const char *model;
    ft_flag_list hosts;
    middle mid;
    int32_t port;
    uint32_t rows;
    float share;
    enum { RED, GREEN, BLUE } paint;
} options;

static const char *const colors[] = {"red", "green", "blue", NULL};

static const ft_flag inner_rows[] = {
    {"--size", "-s", FT_FLAG(inner, size), "N", "its size", 1, 9},
    {"--share", NULL, FT_FLAG(inner, share), "P", "its share", 0, 1},
};
static const ft_flag_group inner_group = FT_FLAG_ROWS(inner_rows);

static const ft_flag middle_rows[] = {
    {"--deep", NULL, FT_FLAG(middle, deep), NULL, "go deep"},
    FT_FLAG_INCLUDE(middle, in, inner_group),
};
static const ft_flag_group middle_group = FT_FLAG_ROWS(middle_rows);

static const ft_flag rows[] = {
    {"--color", "-C", FT_FLAG(options, color), NULL, "coloured output"},
    {"--warm", NULL, FT_FLAG(options, warm), NULL, "warm up"},
    {"--ctx-size", "-c", FT_FLAG(options, ctx), "N", "context, tokens", 1, 70000000},
    FT_FLAG_INCLUDE(options, mid, middle_group),
    {"--any", NULL, FT_FLAG(options, any), "N", "any number"},
    {"--temp", NULL, FT_FLAG(options, temp), "T", "temperature", 0, 2},
    {"--model", "-m", FT_FLAG(options, model), "FILE", "target"},
    {"--host", NULL, FT_FLAG(options, hosts), "NAME", "allowed host"},
    {"--port", NULL, FT_FLAG(options, port), "N", "port", -1, 65535},
    {"--rows", NULL, FT_FLAG(options, rows), "N", "rows", 0, UINT32_MAX},
    {"--portion", NULL, FT_FLAG(options, share), "P", "portion", 0, 1},
    {"--paint", "-P", FT_FLAG_ENUM(options, paint, colors), "COLOR", "what to paint in"},
};
static const ft_flag_group table = FT_FLAG_ROWS(rows);

static const options defaults = {.warm = true,
                                 .ctx = 4096,
                                 .temp = 0.8,
                                 .mid = {.in = {.size = 3, .share = 0.5}},
                                 .port = 80,
                                 .share = 0.95f,
                                 .paint = GREEN};
static options opt;

static ft_error err;
static int n_words;
static char *args[80];

static int setup(void **state)
{
    opt = defaults;
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
    return ft_flags_parse(&table, &opt, n, args, &err, &n_words);
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

/* Fields of 32 bits: the fields beside them stay. */
static void test_narrow_kinds(void **state)
{
    assert_int_equal(
        parse("--port", "-1", "--rows", "4294967295", "--portion", "0.25", "-P", "blue", NULL),
        FT_OK);
    assert_int_equal(opt.port, -1);
    assert_true(opt.rows == UINT32_MAX);
    assert_true(opt.share == 0.25f);
    assert_int_equal(opt.paint, BLUE);
    assert_int_equal(parse("--rows=7", NULL), FT_OK);
    assert_int_equal(opt.port, -1);
    assert_int_equal(opt.rows, 7);
    assert_true(opt.share == 0.25f);
    expect_error(parse("--port", "65536", NULL), "--port: 65536 is outside -1 to 65535");
    expect_error(parse("--rows", "4294967296", NULL), "--rows: 4294967296 is outside");
    expect_error(parse("--rows", "-1", NULL), "--rows: -1 is outside");
    expect_error(parse("--portion", "1.5", NULL), "--portion: 1.5 is outside 0 to 1");
    assert_int_equal(opt.rows, 7); /* what is refused is not stored */
    expect_error(parse("--paint", "pink", NULL), "--paint: 'pink' is not red, green or blue");
    expect_error(parse("--paint", "", NULL), "--paint: '' is not red");
    assert_int_equal(opt.paint, BLUE);
}

static void test_required(void **state)
{
    struct only {
        const char *in;
        bool quiet;
    } only = {0};
    static const ft_flag required_rows[] = {
        {"--quiet", NULL, FT_FLAG(struct only, quiet), NULL, "say nothing"},
        {"--in", "-i", FT_FLAG(struct only, in), "FILE", "what to read", .required = true}};
    static const ft_flag_group required = FT_FLAG_ROWS(required_rows);
    char *without[] = {(char *)"p", (char *)"--quiet", NULL};
    char *with[] = {(char *)"p", (char *)"-i", (char *)"x", NULL};
    expect_error(ft_flags_parse(&required, &only, 2, without, &err, &n_words),
                 "--in FILE is missing: what to read");
    assert_int_equal(ft_flags_parse(&required, &only, 3, with, &err, &n_words), FT_OK);
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
    struct only {
        const char *text;
    } only = {0};
    const ft_flag flag = {"--text", NULL, FT_FLAG(struct only, text), NULL, "text"};
    const ft_flag_group group = {&flag, 1};
    char *argv[] = {(char *)"prog", (char *)"--text", NULL};
    expect_error(ft_flags_parse(&group, &only, 2, argv, &err, &n_words), "--text needs a value");
    assert_int_equal(ft_flags_parse(&group, &only, 2, argv, NULL, &n_words), FT_INVALID);
}

/* The struct of an included table lies where the table that includes it says. */
static void test_included_tables(void **state)
{
    assert_int_equal(parse("--deep", "-s", "7", "--share=0.25", "-c", "5", NULL), FT_OK);
    assert_true(opt.mid.deep);
    assert_int_equal(opt.mid.in.size, 7);
    assert_true(opt.mid.in.share == 0.25);
    assert_int_equal(opt.ctx, 5);
    assert_int_equal(opt.any, 0);
    assert_true(opt.warm && opt.temp == 0.8 && !opt.model);
    expect_error(parse("--size", "10", NULL), "--size: 10 is outside 1 to 9");
    expect_error(parse("--share=2", NULL), "--share: 2 is outside 0 to 1");
    opt = defaults;
    assert_int_equal(parse("--no-deep", NULL), FT_OK);
    assert_int_equal(opt.mid.in.size, 3); /* what no flag names keeps its default */
    assert_memory_equal(&opt, &defaults, sizeof opt);
}

/* Two tables of one struct: each inclusion has a place of its own. */
static void test_same_struct_twice(void **state)
{
    struct two {
        inner a, b;
    } two = {{1, 0}, {2, 0}};
    static const ft_flag other_rows[] = {{"--other", NULL, FT_FLAG(inner, size), "N", "size"}};
    static const ft_flag_group other = FT_FLAG_ROWS(other_rows);
    const ft_flag both_rows[] = {FT_FLAG_INCLUDE(struct two, a, inner_group),
                                 FT_FLAG_INCLUDE(struct two, b, other)};
    const ft_flag_group both = FT_FLAG_ROWS(both_rows);
    char *argv[] = {(char *)"p", (char *)"--other=8", (char *)"--size=4", NULL};
    assert_int_equal(ft_flags_parse(&both, &two, 3, argv, &err, &n_words), FT_OK);
    assert_int_equal(two.a.size, 4);
    assert_int_equal(two.b.size, 8);
}

static void test_flags_in_order(void **state)
{
    static const struct {
        const char *name;
        size_t at;
    } expected[] = {
        {"--color", offsetof(options, color)},      {"--warm", offsetof(options, warm)},
        {"--ctx-size", offsetof(options, ctx)},     {"--deep", offsetof(options, mid.deep)},
        {"--size", offsetof(options, mid.in.size)}, {"--share", offsetof(options, mid.in.share)},
        {"--any", offsetof(options, any)},          {"--temp", offsetof(options, temp)},
        {"--model", offsetof(options, model)},      {"--host", offsetof(options, hosts)},
        {"--port", offsetof(options, port)},        {"--rows", offsetof(options, rows)},
        {"--portion", offsetof(options, share)},    {"--paint", offsetof(options, paint)},
    };
    const size_t n = sizeof expected / sizeof expected[0];
    for (size_t i = 0, at; i < n; i++) {
        const ft_flag *flag = ft_flags_nth(&table, i, &at);
        assert_non_null(flag);
        assert_string_equal(flag->name, expected[i].name);
        assert_int_equal(at, expected[i].at);
    }
    for (size_t i = n, at; i < n + 3; i++)
        assert_null(ft_flags_nth(&table, i, &at));
}

static void test_list_is_bounded(void **state)
{
    static char item[] = "--host=h";
    char *argv[FT_FLAG_LIST_MAX + 3] = {item};
    for (int i = 1; i <= FT_FLAG_LIST_MAX + 1; i++)
        argv[i] = item;
    assert_int_equal(ft_flags_parse(&table, &opt, FT_FLAG_LIST_MAX + 1, argv, &err, &n_words),
                     FT_OK);
    assert_int_equal(opt.hosts.n, FT_FLAG_LIST_MAX);
    opt.hosts.n = 0;
    expect_error(ft_flags_parse(&table, &opt, FT_FLAG_LIST_MAX + 2, argv, &err, &n_words),
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
    ft_flags_help(out, &table, &opt);
    fclose(out);
    for (size_t i = 0; i < table.n; i++)
        if (rows[i].kind != FT_FLAG_GROUP) {
            assert_non_null(strstr(text, rows[i].name));
            assert_non_null(strstr(text, rows[i].help));
        }
    assert_non_null(strstr(text, "-s, --size N"));
    assert_non_null(strstr(text, "its share (0.5)"));
    assert_non_null(strstr(text, "-c, --ctx-size N"));
    assert_non_null(strstr(text, "(4096)"));
    assert_non_null(strstr(text, "(0.8)"));
    assert_non_null(strstr(text, "(m.gguf)"));
    assert_non_null(strstr(text, "(on; --no-warm)"));
    assert_non_null(strstr(text, "(may be repeated)"));
    assert_non_null(strstr(text, "port (80)"));
    assert_non_null(strstr(text, "portion (0.95)"));
    assert_non_null(strstr(text, "what to paint in: red, green or blue (green)"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing, setup),
        cmocka_unit_test_setup(test_every_kind, setup),
        cmocka_unit_test_setup(test_narrow_kinds, setup),
        cmocka_unit_test_setup(test_required, setup),
        cmocka_unit_test_setup(test_aliases_and_equals, setup),
        cmocka_unit_test_setup(test_negation, setup),
        cmocka_unit_test_setup(test_words, setup),
        cmocka_unit_test_setup(test_values_may_look_like_flags, setup),
        cmocka_unit_test_setup(test_errors, setup),
        cmocka_unit_test_setup(test_value_without_a_name, setup),
        cmocka_unit_test_setup(test_included_tables, setup),
        cmocka_unit_test_setup(test_same_struct_twice, setup),
        cmocka_unit_test_setup(test_flags_in_order, setup),
        cmocka_unit_test_setup(test_list_is_bounded, setup),
        cmocka_unit_test_setup(test_want_help, setup),
        cmocka_unit_test_setup(test_help_shows_every_flag_and_default, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
