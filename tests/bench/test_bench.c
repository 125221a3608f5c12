// SPDX-License-Identifier: Apache-2.0
// bench: lists, medians, and how sides take turns.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/bench.h"

static void test_lists(void **state)
{
    static const char *const bad[] = {"", "0", "5", "-1", "1,", ",1", "1;2", "x", "1,2,x"};
    ft_bench_list list;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_bench_list_parse("--rows", "1,4,2", 4, &err, &list), FT_OK);
    assert_int_equal(list.n, 3);
    assert_int_equal(list.value[1], 4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ft_bench_list_parse("--rows", bad[i], 4, &err, &list), FT_INVALID);
        assert_non_null(strstr(err.message, "--rows"));
    }
}

static void test_median(void **state)
{
    double odd[] = {5, 1, 3}, even[] = {8, 2, 4, 6};
    (void)state;
    assert_true(ft_bench_median(odd, 3) == 3);
    assert_true(ft_bench_median(even, 4) == 5);
}

/* Rounds of both sides, in their order. */
typedef struct log {
    char order[256];
    size_t n;
} log;

typedef struct side {
    log *to;
    char name;
    double seconds, more; /* of a round; of each further one */
} side;

static ft_status a_round(void *ctx, double *seconds, ft_error *err)
{
    side *s = ctx;
    if (s->to->n == sizeof s->to->order - 1)
        return ft_error_set(err, FT_EXHAUSTED, "too many rounds");
    s->to->order[s->to->n++] = s->name;
    *seconds = s->seconds;
    s->seconds += s->more;
    return FT_OK;
}

static void test_turns(void **state)
{
    log to = {.n = 0};
    side a = {&to, 'a', 1, 1}, b = {&to, 'b', 4, 0};
    const ft_bench_side sides[] = {{&a, a_round, true}, {&b, a_round, false}};
    const ft_bench_opts opts = {.rounds = 3, .row_s = 100};
    double s[2];
    ft_bench_rounds rounds;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_bench_interleave(&opts, sides, 2, &err, s, &rounds), FT_OK);
    assert_string_equal(to.order, "aabababab"); /* ours needs a round more to warm up */
    assert_int_equal(rounds.n, 3);
    assert_true(s[0] == 4 && s[1] == 4); /* behind rounds of 1 and 2 s: 3, 4 and 5 */
    assert_true(rounds.least_s[0] == 3 && rounds.least_s[1] == 4);
}

/* A side that is ten times as fast has several rounds a turn. */
static void test_fast_side(void **state)
{
    log to = {.n = 0};
    side a = {&to, 'a', 0.1, 0}, b = {&to, 'b', 1, 0};
    const ft_bench_side sides[] = {{&a, a_round, false}, {&b, a_round, false}};
    const ft_bench_opts opts = {.rounds = 2, .row_s = 100};
    double s[2];
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_bench_interleave(&opts, sides, 2, &err, s, NULL), FT_OK);
    assert_string_equal(to.order, "abaabaab");
    assert_true(s[0] == 0.1 && s[1] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_median),
                                       cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_fast_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
