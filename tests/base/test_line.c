// SPDX-License-Identifier: Apache-2.0
// base/line: what a line takes for bytes; that its rate is a function of seed and time, and the
// chain that was asked for. Seeds are fixed, so a bound that holds once always holds.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/line.h"

#define MS 1000000ll

static ft_line make(ft_line_rate rate)
{
    ft_line line;
    ft_line_init(&line, &rate);
    return line;
}

static ft_line_rate steps(double stay, uint64_t seed)
{
    return (ft_line_rate){{2e6, 6e6}, 10 * MS, stay, seed};
}

static void test_constant(void **state)
{
    (void)state;
    ft_line line = make((ft_line_rate){{8e6}, 0, 0, 0}); /* 1,000 bytes take 1 ms */
    assert_true(ft_line_wait_ns(&line, 0) == 0);
    assert_true(ft_line_take(&line, 5 * MS, 1000) == 6 * MS);
    assert_true(ft_line_take(&line, 5 * MS, 500) == 6 * MS + MS / 2);
    assert_true(ft_line_wait_ns(&line, 6 * MS) == MS / 2);
    assert_true(ft_line_wait_ns(&line, 7 * MS) == 0);
    assert_true(ft_line_take(&line, 9 * MS, 1000) == 10 * MS); /* idle, it saves up nothing */
    line = make((ft_line_rate){0});
    assert_true(ft_line_take(&line, 5 * MS, 1 << 30) == 5 * MS);
    assert_true(ft_line_wait_ns(&line, 5 * MS) == 0);
}

/* The chain has the chance to stay that was asked for, and is as often in either state. */
static void test_chain(void **state)
{
    (void)state;
    enum { N = 100000 };
    static const double stay[] = {0.05, 0.3, 0.5, 0.8, 0.98};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        const ft_line_rate rate = steps(stay[i], 11 + i);
        double before = ft_line_rate_at(&rate, 0);
        uint32_t stayed = 0, high = 0;
        for (int64_t step = 1; step <= N; step++) {
            const double now = ft_line_rate_at(&rate, step * rate.step_ns);
            assert_true(now == 2e6 || now == 6e6);
            assert_true(now == ft_line_rate_at(&rate, (step + 1) * rate.step_ns - 1));
            stayed += now == before;
            high += now == 6e6;
            before = now;
        }
        /* 5 standard deviations; those of the share grow with the time that a state lasts */
        assert_true(fabs((double)stayed / N - stay[i]) < 5 * sqrt(stay[i] * (1 - stay[i]) / N));
        assert_true(fabs((double)high / N - 0.5) < 5 * 0.5 * sqrt(stay[i] / (1 - stay[i]) / N));
    }
}

static void test_extremes(void **state)
{
    (void)state;
    bool begins_low = false, begins_high = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const ft_line_rate still = steps(1, seed), turning = steps(0, seed);
        const double first = ft_line_rate_at(&still, 0);
        begins_low = begins_low || first == 2e6;
        begins_high = begins_high || first == 6e6;
        for (int64_t step = 0; step < 50; step++) {
            assert_true(ft_line_rate_at(&still, step * still.step_ns) == first);
            assert_true((ft_line_rate_at(&turning, step * still.step_ns) == first) ==
                        (step % 2 == 0));
        }
    }
    assert_true(begins_low && begins_high);
}

static void test_seeds(void **state)
{
    (void)state;
    const ft_line_rate a = steps(0.7, 1), b = steps(0.7, 2), far = steps(0.7, 1ull << 40 | 1);
    int same_b = 0, same_far = 0;
    for (int64_t step = 0; step < 1000; step++) {
        same_b += ft_line_rate_at(&a, step * a.step_ns) == ft_line_rate_at(&b, step * a.step_ns);
        same_far +=
            ft_line_rate_at(&a, step * a.step_ns) == ft_line_rate_at(&far, step * a.step_ns);
    }
    assert_in_range(same_b, 350, 650);
    assert_in_range(same_far, 350, 650);
}

/* The bits that pass between two times by the rate's definition. */
static double bits_between(const ft_line_rate *rate, int64_t from_ns, int64_t to_ns)
{
    double bits = 0;
    while (from_ns < to_ns) {
        int64_t end_ns = (from_ns / rate->step_ns + 1) * rate->step_ns;
        if (end_ns > to_ns)
            end_ns = to_ns;
        bits += (double)(end_ns - from_ns) / 1e9 * ft_line_rate_at(rate, from_ns);
        from_ns = end_ns;
    }
    return bits;
}

/* Bytes of any size at any time take as long as the rate says, within a step and over many; the
 * rate's time begins with the first. */
static void test_takes_what_the_rate_says(void **state)
{
    (void)state;
    static const double stay[] = {0, 0.3, 0.9, 1};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        const ft_line_rate rate = steps(stay[i], 5);
        const int64_t began_ns = 12345 * MS;
        ft_line line = make(rate);
        int64_t now_ns = began_ns;
        for (size_t j = 0; j < 500; j++) {
            const size_t n = 1 + j * j * 13 % 60000;
            const int64_t begin_ns = now_ns + ft_line_wait_ns(&line, now_ns);
            const int64_t sent_ns = ft_line_take(&line, now_ns, n);
            const double bits = bits_between(&rate, begin_ns - began_ns, sent_ns - began_ns);
            assert_true(fabs(bits - 8.0 * (double)n) < 0.1); /* times are whole ns */
            now_ns += (int64_t)(j % 7) * 9 * MS;
        }
    }
}

/* A line that was idle for a year looks at no more steps than it must. */
static void test_long_idle(void **state)
{
    (void)state;
    const ft_line_rate rate = steps(0.99, 3);
    const int64_t year_ns = 31536000000 * MS;
    ft_line line = make(rate);
    assert_true(ft_line_take(&line, 0, 1) > 0);
    const int64_t sent_ns = ft_line_take(&line, year_ns, 1000);
    assert_true(fabs(bits_between(&rate, year_ns, sent_ns) - 8000) < 0.1);
}

static void test_parse(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "2",    "2,",    "2,6,1", "2;6",  "0,6",
                                      "6,0", "-1,2", "nan,2", "2,inf", "2,6x", "1e9,2"};
    ft_line_rate rate = {0};
    ft_error err = {0};
    assert_int_equal(ft_line_parse_steps("--up-steps", "0.02,6.5", &err, &rate), FT_OK);
    assert_true(fabs(rate.bits_per_s[0] - 2e4) < 1e-6 && rate.bits_per_s[1] == 6.5e6);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ft_line_parse_steps("--up-steps", bad[i], &err, &rate), FT_INVALID);
        assert_non_null(strstr(err.message, "--up-steps"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_takes_what_the_rate_says),
        cmocka_unit_test(test_long_idle),
        cmocka_unit_test(test_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
