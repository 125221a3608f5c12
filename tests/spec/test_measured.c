// SPDX-License-Identifier: Apache-2.0
// spec/measured: what pays is kept, what does not is left out, and a change is noticed.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/measured.h"

/* Rounds of a text: 1 to 5 tokens, and a time that scatters by a fifth. gain: of the speed of
 * rounds that have it. Returns the share of rounds that had it. */
static double play(ft_measured *m, ft_rng *rng, int rounds, double gain)
{
    int with = 0;
    for (int i = 0; i < rounds; i++) {
        const bool has = ft_measured_with(m);
        const uint32_t tokens = 1 + (uint32_t)(5 * ft_rng_unit(rng));
        const double us = 20000 * (1 + 0.2 * ft_rng_normal(rng)) / (has ? 1 + gain : 1);
        with += has;
        ft_measured_saw(m, tokens, (int64_t)fmax(us, 1000));
    }
    return (double)with / rounds;
}

static void test_what_pays_is_kept(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        ft_measured m = {0};
        ft_rng rng;
        ft_rng_init(&rng, seed);
        (void)play(&m, &rng, 400, 0.3);
        assert_true(play(&m, &rng, 1600, 0.3) > 0.9);
        assert_true(ft_measured_pays(&m));
        const double ratio =
            ft_measured_tokens_per_s(&m, true) / ft_measured_tokens_per_s(&m, false);
        assert_true(fabs(ratio - 1.3) < 0.25);
    }
}

/* Where it costs, only the intervals that measure it have it: one in FT_MEASURED_EVERY. */
static void test_what_costs_is_left_out(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        ft_measured m = {0};
        ft_rng rng;
        ft_rng_init(&rng, seed);
        (void)play(&m, &rng, 400, -0.3);
        const double share = play(&m, &rng, 1600, -0.3);
        assert_true(share < 0.1 && share > 0.04);
        assert_false(ft_measured_pays(&m));
    }
}

/* Of no difference it must not be believed that it pays, in most lives. */
static void test_in_doubt_it_is_left_out(void **state)
{
    int believed = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        ft_measured m = {0};
        ft_rng rng;
        ft_rng_init(&rng, seed);
        (void)play(&m, &rng, 1000, 0);
        believed += ft_measured_pays(&m);
    }
    assert_in_range(believed, 0, 33); /* 16 in the mean of a normal law */
}

static void test_a_change_is_noticed(void **state)
{
    ft_measured m = {0};
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 7);
    (void)play(&m, &rng, 1000, 0.5);
    assert_true(ft_measured_pays(&m));
    (void)play(&m, &rng, 1000, -0.5);
    assert_false(ft_measured_pays(&m));
    (void)play(&m, &rng, 20000, 0.5);
    assert_true(ft_measured_pays(&m));
}

/* Both sides are measured in turn before one is chosen: here there is no difference at all. A time
 * of 0 is no measurement. */
static void test_sides_alternate_at_first(void **state)
{
    ft_measured m = {0};
    (void)state;
    for (int i = 0; i < 2 * FT_MEASURED_MOST; i++) {
        assert_int_equal(ft_measured_with(&m), i / FT_MEASURED_INTERVAL % 2);
        assert_false(ft_measured_pays(&m));
        ft_measured_saw(&m, 3, 0);
        ft_measured_saw(&m, 3, 10000);
    }
}

static void test_the_next_process(void **state)
{
    double kept[FT_MEASURED_KEPT];
    ft_measured m = {0}, next = {0};
    const ft_measured none = {0};
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 3);
    (void)play(&m, &rng, 2000, 0.3);
    ft_measured_keep(&m, kept);
    assert_true(ft_measured_take_up(&next, kept));
    assert_true(ft_measured_with(&next) && ft_measured_pays(&next));
    assert_true(next.side[1].n < m.side[1].n);
    next = none;
    for (int i = 0; i < FT_MEASURED_KEPT; i++) {
        static const double wrong[] = {-1, 1e300, NAN, INFINITY};
        for (int k = 0; k < 4; k++) {
            const double right = kept[i];
            kept[i] = wrong[k];
            assert_false(ft_measured_take_up(&next, kept));
            assert_memory_equal(&next, &none, sizeof none);
            kept[i] = right;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_pays_is_kept),
        cmocka_unit_test(test_what_costs_is_left_out),
        cmocka_unit_test(test_in_doubt_it_is_left_out),
        cmocka_unit_test(test_a_change_is_noticed),
        cmocka_unit_test(test_sides_alternate_at_first),
        cmocka_unit_test(test_the_next_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
