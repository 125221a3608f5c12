// SPDX-License-Identifier: Apache-2.0
// bench/load_set and bench/prompts: which prompts of a file are kept, in which order, and what is
// refused; lists of measured values.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/load_set.h"
#include "support/tiny_gguf.h"

static char *model, *path;
static ft_vocab *vocab;
static ft_error err;

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.seed = 3};
    model = tiny_gguf_temp(&opts);
    path = tiny_temp_path();
    tiny_quiet();
    return ft_vocab_load(model, &err, &vocab) == FT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    ft_vocab_destroy(vocab);
    unlink(model);
    unlink(path);
    free(model);
    free(path);
    return 0;
}

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* n prompts: number i says so many letters, of category "even" or "odd". */
static void write_prompts(uint32_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "{\"prompt\": \"%.*s\", \"category\": \"%s\"}\n", (int)i + 1,
                "abcdefghijklmnopqrstuvwxyz", i % 2 ? "odd" : "even");
    assert_int_equal(fclose(f), 0);
}

static ft_bench_load_set read_set(ft_bench_load_set_opts opts)
{
    ft_bench_load_set set;
    opts.path = path;
    opts.vocab = vocab;
    opts.longest = opts.longest ? opts.longest : 1000;
    opts.multiple = opts.multiple ? opts.multiple : 1;
    assert_int_equal(ft_bench_load_set_read(&opts, &err, &set), FT_OK);
    return set;
}

static void expect_numbers(const ft_bench_load_set *set, const char *numbers)
{
    char text[200] = "";
    for (uint32_t i = 0; i < set->n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%u ", set->prompts[i].number);
    assert_string_equal(text, numbers);
}

static void test_all(void **state)
{
    write_prompts(4);
    ft_bench_load_set set = read_set((ft_bench_load_set_opts){0});
    uint64_t total = 0;
    expect_numbers(&set, "0 1 2 3 ");
    assert_int_equal(set.n_categories, 2);
    assert_string_equal(set.category[0], "even");
    assert_string_equal(set.category[1], "odd");
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(set.prompts[i].category, i % 2);
        assert_int_equal(set.prompts[i].text.n, 0);
        total += set.prompts[i].tokens.n;
    }
    assert_int_equal(set.total, total);
    assert_int_equal(set.longest, set.prompts[3].tokens.n);
    ft_bench_load_set_deinit(&set);
}

/* Spread evenly over the file, in whole batches. */
static void test_limit(void **state)
{
    write_prompts(10);
    ft_bench_load_set set = read_set((ft_bench_load_set_opts){.limit = 5});
    expect_numbers(&set, "0 2 4 6 8 ");
    ft_bench_load_set_deinit(&set);
    set = read_set((ft_bench_load_set_opts){.limit = 5, .multiple = 2});
    expect_numbers(&set, "0 2 5 7 ");
    ft_bench_load_set_deinit(&set);
    set = read_set((ft_bench_load_set_opts){.limit = 50, .multiple = 4});
    assert_int_equal(set.n, 8);
    ft_bench_load_set_deinit(&set);
}

/* So many of each category, one behind the other. */
static void test_each(void **state)
{
    write_prompts(9);
    ft_bench_load_set set = read_set((ft_bench_load_set_opts){.each = 2});
    expect_numbers(&set, "0 4 1 5 ");
    ft_bench_load_set_deinit(&set);
    set = read_set((ft_bench_load_set_opts){.each = 5, .multiple = 2});
    assert_int_equal(set.n, 8); /* four of each: there are but four odd ones */
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(set.prompts[i].category, i / 4);
    ft_bench_load_set_deinit(&set);
}

/* Long and short ones are left out, and the rest is numbered without them. */
static void test_length(void **state)
{
    write_prompts(8);
    ft_bench_load_set all = read_set((ft_bench_load_set_opts){0});
    uint32_t least = (uint32_t)all.prompts[2].tokens.n, most = (uint32_t)all.prompts[5].tokens.n;
    uint32_t inside = 0;
    for (uint32_t i = 0; i < all.n; i++)
        inside += all.prompts[i].tokens.n >= least && all.prompts[i].tokens.n <= most;
    assert_true(inside < all.n);
    ft_bench_load_set set = read_set((ft_bench_load_set_opts){.longest = most, .shortest = least});
    assert_int_equal(set.n, inside);
    assert_int_equal(set.skipped, all.n - inside);
    assert_int_equal(set.prompts[0].number, 0);
    assert_int_equal(set.longest, most);
    ft_bench_load_set_deinit(&set);
    ft_bench_load_set_deinit(&all);
}

/* Those that find no place are "other"; those that have one keep it. */
static void test_many_categories(void **state)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 40; i++)
        fprintf(f, "{\"turns\": [\"hello\", \"again\"], \"category\": \"c%d %s\"}\n", i % 20,
                "with a name of more than 31 letters");
    assert_int_equal(fclose(f), 0);
    ft_bench_load_set set = read_set((ft_bench_load_set_opts){0});
    assert_int_equal(set.n_categories, FT_BENCH_LOAD_CATEGORIES);
    assert_string_equal(set.category[FT_BENCH_LOAD_CATEGORIES - 1], "other");
    for (uint32_t i = 0, last = FT_BENCH_LOAD_CATEGORIES - 1; i < 40; i++)
        assert_int_equal(set.prompts[i].category, i % 20 < last ? i % 20 : last);
    ft_bench_load_set_deinit(&set);
}

static void expect_refused(const char *text, ft_bench_load_set_opts opts, ft_status status,
                           const char *part)
{
    ft_bench_load_set set;
    write_file(text);
    opts.path = path;
    opts.vocab = vocab;
    err = (ft_error){0};
    assert_int_equal(ft_bench_load_set_read(&opts, &err, &set), status);
    assert_int_equal(set.n, 0);
    assert_null(set.prompts);
    if (!strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
}

static void test_refused(void **state)
{
    const ft_bench_load_set_opts all = {.longest = 1000, .multiple = 1};
    const ft_bench_load_set_opts two = {.longest = 1000, .multiple = 2};
    const ft_bench_load_set_opts small = {.longest = 1, .multiple = 1};
    expect_refused("{\"prompt\": \"x\"}\n{\"prompt\": }\n", all, FT_INVALID, "2");
    expect_refused("{\"question\": \"x\"}\n", all, FT_INVALID, "1");
    expect_refused("{\"prompt\": \"x\"}\n", two, FT_INVALID, "fewer than 2 prompts");
    expect_refused("{\"prompt\": \"x\"}\n", small, FT_INVALID, "--batch");
    ft_bench_load_set_opts nowhere = all;
    ft_bench_load_set set;
    nowhere.path = "/nonexistent/prompts";
    nowhere.vocab = vocab;
    assert_int_not_equal(ft_bench_load_set_read(&nowhere, &err, &set), FT_OK);
    assert_null(set.prompts);
}

static void test_values(void **state)
{
    ft_bench_load_values a = {0}, b = {0};
    assert_true(ft_bench_load_values_mean(&a) == 0);
    assert_true(ft_bench_load_values_quantile(&a, 0.5) == 0);
    for (int i = 0; i < 100; i++)
        ft_bench_load_values_add(i % 2 ? &a : &b, 100 - i); /* 100 down to 1 */
    ft_bench_load_values_join(&a, &b);
    assert_int_equal(a.n, 100);
    assert_false(a.failed);
    assert_true(fabs(ft_bench_load_values_mean(&a) - 50.5) < 1e-9);
    assert_true(ft_bench_load_values_quantile(&a, 0) == 1);
    assert_true(ft_bench_load_values_quantile(&a, 0.5) == 51);
    assert_true(ft_bench_load_values_quantile(&a, 0.99) == 100);
    assert_true(ft_bench_load_values_quantile(&a, 1) == 100);
    ft_bench_load_values_deinit(&a);
    ft_bench_load_values_deinit(&b);
    assert_int_equal(a.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_many_categories),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
