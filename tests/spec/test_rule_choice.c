// SPDX-License-Identifier: Apache-2.0
// spec/rule_choice: the formula against numbers worked by hand and against rounds drawn at random,
// and what is chosen while something is not known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/rule_choice.h"

static const ft_uplink_rate mbit = {.known = true, .bits_per_s = 1e6, .empty_us = 20000};

/* Trees of 8 levels with 4 nodes each; chains whose nodes carry a point of 150 bytes. */
static ft_rule_view view(double distance, double bits_per_s)
{
    return (ft_rule_view){.rate = {.known = true, .bits_per_s = bits_per_s, .empty_us = 20000},
                          .distance_known = true,
                          .distance = distance,
                          .exact = {8, 30, 16, 30000, 400, 5000},
                          .ratio = {8, 30, 150, 30000, 100, 5000}};
}

static void test_by_hand(void **state)
{
    (void)state;
    /* no level: a token in 20 ms + 1 ms for 125 bytes + 9 ms */
    const ft_rule_rounds none = {0, 125, 0, 9000, 0, 0};
    assert_true(fabs(ft_rule_tokens_per_s(&none, 0.9, &mbit) - 1e6 / 30000) < 1e-9);
    /* two levels, free: 1 + 0.5 + 0.25 tokens */
    const ft_rule_rounds two = {2, 125, 0, 9000, 0, 0};
    assert_true(fabs(ft_rule_tokens_per_s(&two, 0.5, &mbit) - 1.75e6 / 30000) < 1e-9);
    /* a level costs 125 bytes, 2 ms to draft, 1 ms to verify: one pays, and a second does not */
    const ft_rule_rounds dear = {2, 125, 125, 9000, 1000, 2000};
    assert_true(fabs(ft_rule_tokens_per_s(&dear, 0.3, &mbit) - 1.3e6 / 34000) < 1e-9);
}

/* Tokens of rounds whose levels are drawn. */
static void test_drawn(void **state)
{
    (void)state;
    enum { N = 200000, LEVELS = 6 };
    const ft_rule_rounds rounds = {LEVELS, 0, 0, 10000, 0, 0};
    ft_rng rng;
    double tokens = 0;
    ft_rng_init(&rng, 4);
    for (int i = 0; i < N; i++) {
        int n = 0;
        while (n < LEVELS && ft_rng_unit(&rng) < 0.7)
            n++;
        tokens += 1 + n;
    }
    const double drawn = 1e6 * tokens / N / 30000;
    assert_true(fabs(ft_rule_tokens_per_s(&rounds, 0.7, &mbit) / drawn - 1) < 0.01);
}

/* On a thin uplink points cost too much; on a fast one the higher acceptance wins. There is one
 * rate between. */
static void test_by_rate(void **state)
{
    (void)state;
    bool before = false;
    for (double rate = 1e4; rate < 1e9; rate *= 2) {
        const ft_rule_view v = view(0.4, rate);
        const ft_rule_choice choice = ft_rule_choose(&v);
        const double share = choice.ratio_tokens_per_s / choice.exact_tokens_per_s;
        assert_int_equal(choice.reason, FT_RULE_REASON_FASTER);
        assert_int_equal(choice.rule == FT_RULE_KIND_RATIO, share > 1);
        assert_true(share > 1 || !before);
        before = share > 1;
    }
    const ft_rule_view thin = view(0.4, 2e4), fast = view(0.4, 1e8);
    assert_int_equal(ft_rule_choose(&thin).rule, FT_RULE_KIND_EXACT);
    assert_int_equal(ft_rule_choose(&fast).rule, FT_RULE_KIND_RATIO);
}

/* With the same costs: the same speed if nothing or everything agrees, and then `exact`. */
static void test_by_distance(void **state)
{
    (void)state;
    for (double d = 0; d <= 1; d += 0.25) {
        ft_rule_view v = view(d, 1e6);
        v.ratio = v.exact;
        const ft_rule_choice choice = ft_rule_choose(&v);
        const bool equal = d == 0 || d == 1;
        assert_int_equal(choice.rule, equal ? FT_RULE_KIND_EXACT : FT_RULE_KIND_RATIO);
        assert_int_equal(choice.exact_tokens_per_s == choice.ratio_tokens_per_s, equal);
    }
}

static void test_unknown(void **state)
{
    (void)state;
    ft_rule_view v = view(0.4, 1e8);
    uint32_t tries = 0;
    v.rate = (ft_uplink_rate){0};
    for (uint32_t i = 0; i < 3 * (FT_RULE_TRY_AFTER + 1); i++) {
        const ft_rule_choice choice = ft_rule_choose(&v);
        const bool tried = choice.rule == FT_RULE_KIND_RATIO;
        assert_int_equal(tried, i % (FT_RULE_TRY_AFTER + 1) == FT_RULE_TRY_AFTER);
        assert_int_equal(choice.reason, tried ? FT_RULE_REASON_TRY : FT_RULE_REASON_UNKNOWN);
        v.texts_unknown = choice.texts_unknown;
        tries += tried;
    }
    assert_int_equal(tries, 3);
    v = view(0.4, 1e8);
    v.texts_unknown = FT_RULE_TRY_AFTER;
    v.distance_known = false; /* a try would tell nothing new of a rate that is known */
    const ft_rule_choice choice = ft_rule_choose(&v);
    assert_int_equal(choice.rule, FT_RULE_KIND_EXACT);
    assert_int_equal(choice.reason, FT_RULE_REASON_UNKNOWN);
    assert_int_equal(choice.texts_unknown, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_by_rate), cmocka_unit_test(test_by_distance),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
