// SPDX-License-Identifier: Apache-2.0
// The arithmetic of bench local, on tables that are made by hand: medians over rounds, means over
// prompts, regret over all answers and over first ones, chosen in one half of the rounds and judged
// in the other one. Which prompts are kept of a file, and a
// file that is not there.
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

#include "bench/local.h"
#include "bench/local_figures.h"
#include "bench/prompts.h"

enum { PLAIN, DEFAULT, CHAIN, METHODS, PROMPTS = 2, ROUNDS = 4 };

static ft_bench_local_answer answers[METHODS * PROMPTS * ROUNDS];
static const ft_bench_local_table table = {METHODS, PROMPTS, ROUNDS, answers};
static const bool fixed[METHODS] = {true, false, true};

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static int clear(void **state)
{
    (void)state;
    memset(answers, 0, sizeof answers);
    return 0;
}

/* Four rounds of a method's answers to a prompt. The first two are first ones of their processes,
 * and the second of these had a process before it. */
static void set(size_t method, size_t prompt, double a, double b, double c, double d)
{
    const double ms[ROUNDS] = {a, b, c, d};
    for (size_t r = 0; r < ROUNDS; r++)
        *ft_bench_local_at(&table, method, prompt, r) =
            (ft_bench_local_answer){.known = ms[r] > 0,
                                    .first = r <= 1,
                                    .next = r == 1,
                                    .ms_per_token = ms[r],
                                    .ttft_ms = 2 * ms[r],
                                    .start_ms = r <= 1 ? 100 * ms[r] : 0};
}

static double regret_of(ft_bench_local_which which)
{
    double regret;
    assert_true(ft_bench_local_regret(&table, DEFAULT, fixed, which, &regret));
    return regret;
}

static void test_row(void **state)
{
    (void)state;
    set(PLAIN, 0, 30, 10, 12, 12); /* median 12 */
    set(PLAIN, 1, 8, 8, 8, 8);
    ft_bench_local_answer *a = ft_bench_local_at(&table, PLAIN, 1, 2);
    a->rounds = 4;
    a->round_tokens = 10;
    a->drafted = 12;
    a->accepted = 6;
    const ft_bench_local_row row = ft_bench_local_row_of(&table, PLAIN);
    assert_int_equal(row.n, 8);
    assert_true(near(row.tokens_per_s, 100)); /* (12 + 8) / 2 ms a token */
    assert_true(near(row.ttft_ms, 20));
    assert_true(near(row.start_ms, (2000 + 800) / 2.0)); /* first answers only */
    assert_true(near(row.tokens_per_round, 2.5));
    assert_true(near(row.accepted, 0.5));
    assert_true(ft_bench_local_row_of(&table, CHAIN).tokens_per_s == 0);
}

/* The best fixed choice is another one for each prompt. */
static void test_regret(void **state)
{
    (void)state;
    set(PLAIN, 0, 10, 10, 10, 10);
    set(CHAIN, 0, 20, 20, 20, 20);
    set(PLAIN, 1, 40, 40, 40, 40);
    set(CHAIN, 1, 30, 30, 30, 30);
    set(DEFAULT, 0, 30, 20, 11, 11);
    set(DEFAULT, 1, 30, 36, 33, 33);
    assert_int_equal(ft_bench_local_best(&table, fixed, 0, FT_BENCH_LOCAL_BOTH), PLAIN);
    assert_int_equal(ft_bench_local_best(&table, fixed, 1, FT_BENCH_LOCAL_BOTH), CHAIN);
    /* Medians of even rounds 20.5, 31.5; of odd ones 15.5, 34.5. */
    assert_true(near(regret_of(FT_BENCH_LOCAL_ALL), 102.0 / 80 - 1));
    assert_true(near(regret_of(FT_BENCH_LOCAL_FIRST), 116.0 / 80 - 1));
    assert_true(near(regret_of(FT_BENCH_LOCAL_NEXT), 56.0 / 40 - 1));
}

/* Two equal choices whose times scatter: the lower one of a half is not held against us by the
 * chance that made it so. The best of medians would say 20 / 16 - 1. */
static void test_chance_is_no_regret(void **state)
{
    (void)state;
    set(PLAIN, 0, 16, 24, 16, 24);
    set(CHAIN, 0, 24, 16, 24, 16);
    set(DEFAULT, 0, 24, 24, 24, 24);
    assert_true(near(regret_of(FT_BENCH_LOCAL_ALL), 0));
}

/* A prompt that one side has no time for does not count; without any there is no figure, and none
 * of one round. */
static void test_unknown(void **state)
{
    double regret;
    (void)state;
    set(PLAIN, 0, 10, 10, 10, 10);
    assert_false(ft_bench_local_regret(&table, DEFAULT, fixed, FT_BENCH_LOCAL_ALL, &regret));
    assert_int_equal(ft_bench_local_best(&table, fixed, 1, FT_BENCH_LOCAL_BOTH), METHODS);
    set(DEFAULT, 0, 0, 0, 12, 12);
    set(DEFAULT, 1, 99, 99, 99, 99);
    assert_true(near(regret_of(FT_BENCH_LOCAL_ALL), 0.2));
    assert_false(ft_bench_local_regret(&table, DEFAULT, fixed, FT_BENCH_LOCAL_FIRST, &regret));
    set(PLAIN, 0, 10, 0, 0, 0);
    set(DEFAULT, 0, 12, 0, 0, 0);
    assert_false(ft_bench_local_regret(&table, DEFAULT, fixed, FT_BENCH_LOCAL_ALL, &regret));
}

static void load(ft_bench_prompts *out)
{
    static const char *const lines[] = {
        "{\"prompt\":\"a1\",\"category\":\"a\"}", "{\"prompt\":\"a2\",\"category\":\"a\"}",
        "{\"prompt\":\"a3\",\"category\":\"a\"}", "{\"prompt\":\"bb1\",\"category\":\"bb\"}"};
    char path[] = "/tmp/prompts-XXXXXX";
    ft_error err = {0};
    const int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        fprintf(file, "%s\n", lines[i]);
    fclose(file);
    assert_int_equal(ft_bench_prompts_load(path, 0, &err, out), FT_OK);
    unlink(path);
}

static void check_kept(const char *categories, size_t most, const char *expected)
{
    ft_bench_prompts p;
    ft_error err = {0};
    char kept[64] = "";
    load(&p);
    assert_int_equal(ft_bench_prompts_keep(&p, categories, most, &err), FT_OK);
    for (size_t i = 0; i < p.n; i++)
        strcat(strcat(kept, p.items[i].text), " ");
    assert_string_equal(kept, expected);
    ft_bench_prompts_deinit(&p);
}

static void test_kept_prompts(void **state)
{
    ft_bench_prompts p;
    ft_error err = {0};
    (void)state;
    check_kept(NULL, 0, "a1 bb1 a2 a3 ");
    check_kept(NULL, 2, "a1 bb1 ");
    check_kept("bb", 2, "bb1 ");
    check_kept("bb,a", 3, "a1 bb1 a2 ");
    load(&p);
    assert_int_equal(ft_bench_prompts_keep(&p, "a,b", 0, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "'b'"));
    ft_bench_prompts_deinit(&p);
}

static void test_missing_file(void **state)
{
    const ft_bench_local_opts opts = {.model = "/no/model", .prompts = "/no/file", .rounds = 1};
    ft_error err = {0};
    json_t *report;
    (void)state;
    assert_int_not_equal(ft_bench_local(&opts, &err, &report), FT_OK);
    assert_null(report);
    assert_non_null(strstr(err.message, "/no/file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_row, clear),
        cmocka_unit_test_setup(test_regret, clear),
        cmocka_unit_test_setup(test_chance_is_no_regret, clear),
        cmocka_unit_test_setup(test_unknown, clear),
        cmocka_unit_test(test_kept_prompts),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
