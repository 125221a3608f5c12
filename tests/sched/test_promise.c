// SPDX-License-Identifier: Apache-2.0
// Deadlines by what a text is owed: cases by hand, bounds over random ones, and that a text whose
// verdicts all come when they are due is as fast as promised whatever its rounds bring.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/promise.h"

#define S 1000000 /* us */

/* 4 tokens/s; rounds of 2 tokens, half a second each, 0.1 s of which is the edge's. */
static void test_by_hand(void **state)
{
    ft_promise p = {.tokens_per_s = 4, .asked_us = 90 * S};
    const ft_promise_round r = {.gain_tok = 2, .away_us = S / 10, .at_us = 100 * S};
    (void)state;
    assert_int_equal(ft_promise_budget(&p, &r), 100 * S + 4 * S / 10);
    p.had_tok = 40 + 24; /* 40 tokens are owed by now; 12 rounds are 24 */
    assert_int_equal(ft_promise_owed(&p), 106 * S + S / 4);
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + 1); /* less than a round ahead: at once */
    p.had_tok += 2;                                        /* and one is sure */
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + 3 * S / 4);
    p.had_tok += 1000; /* far ahead: waits six rounds more, no longer */
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + 4 * S / 10 + 3 * S);
    p.had_tok = 40; /* not far enough ahead: at once */
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + 1);
    p.had_tok = 0; /* lost: at once, too, and no earlier */
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + 1);
    assert_int_equal(ft_promise_owed(&p), 90 * S + S / 4);
}

/* The time until the first verdict counts, too: a text whose prompt took long is behind, and due at
 * once, until it has caught up. A prompt that took no time leaves the round its budget. */
static void test_first_round(void **state)
{
    const ft_promise p = {.tokens_per_s = 4, .asked_us = 90 * S};
    const ft_promise_round late = {.gain_tok = 2, .at_us = 93 * S};
    const ft_promise_round sure = {.gain_tok = 1, .at_us = 90 * S};
    (void)state;
    assert_int_equal(ft_promise_owed(&p), 90 * S + S / 4);
    assert_int_equal(ft_promise_due(&p, &late), 93 * S + 1);
    assert_int_equal(ft_promise_budget(&p, &late), 93 * S + S / 2);
    assert_int_equal(ft_promise_budget(&p, &sure), 90 * S + S / 4);
}

/* All that a run's pass brings is sure: two tokens ahead are enough. */
static void test_runs_by_hand(void **state)
{
    const ft_promise_round r = {.gain_tok = 1, .at_us = 100 * S};
    ft_promise p = {.tokens_per_s = 4, .asked_us = 90 * S, .had_tok = 40};
    (void)state;
    assert_int_equal(ft_promise_budget(&p, &r), 100 * S + S / 4);
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + 1);
    p.had_tok = 42;
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + S / 4);
    p.had_tok = 44;
    assert_int_equal(ft_promise_due(&p, &r), 100 * S + 3 * S / 4);
}

static void test_bounds(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 1);
    for (int i = 0; i < 10000; i++) {
        const ft_promise p = {.tokens_per_s = 0.1 + 20 * ft_rng_unit(&rng),
                              .asked_us = ft_rng_below(&rng, 1000) * (int64_t)S,
                              .had_tok = ft_rng_below(&rng, 1u << ft_rng_below(&rng, 14))};
        const ft_promise_round r = {.gain_tok = 1 + 5 * ft_rng_unit(&rng),
                                    .away_us = ft_rng_below(&rng, 10 * S),
                                    .at_us = p.asked_us + ft_rng_below(&rng, 1000u * S)};
        int64_t due = ft_promise_due(&p, &r), budget = ft_promise_budget(&p, &r);
        int64_t round_us = (int64_t)(r.gain_tok / p.tokens_per_s * S);
        assert_true(due > r.at_us && budget > r.at_us);
        assert_true(due <= budget + 6 * round_us + 7);
        assert_true(due == r.at_us + 1 || due >= budget);
        const ft_promise more = {p.tokens_per_s, p.asked_us, p.had_tok + 3};
        assert_true(ft_promise_due(&more, &r) >= due); /* who had more may wait longer */
    }
}

/* Rounds of 1 to 6 tokens with no luck in common; every verdict comes when it is due. */
static void test_keeps_promises(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 2);
    for (int text = 0; text < 200; text++) {
        ft_promise p = {.tokens_per_s = 6, .asked_us = S};
        ft_promise_round r = {.gain_tok = 3.5, .away_us = S / 10, .at_us = S + S / 10};
        int64_t verdict_us = 0;
        for (int round = 0; round < 100; round++) {
            verdict_us = ft_promise_due(&p, &r);
            p.had_tok += 1 + ft_rng_below(&rng, 6);
            r.at_us = verdict_us + r.away_us;
        }
        double s = (double)(verdict_us - p.asked_us) / S;
        assert_true(p.had_tok >= 6 * s);
        assert_true(p.had_tok < 6 * s + 80); /* and it does not run ahead for ever */
    }
}

static void test_classes(void **state)
{
    static const float speeds[] = {8, 2, 4};
    (void)state;
    assert_int_equal(ft_promise_class(speeds, 3, 0), FT_SLO_NONE); /* nothing was asked for */
    assert_int_equal(ft_promise_class(speeds, 3, 1), 1);
    assert_int_equal(ft_promise_class(speeds, 3, 2), 1);
    assert_int_equal(ft_promise_class(speeds, 3, 2.1f), 2);
    assert_int_equal(ft_promise_class(speeds, 3, 8), 0);
    assert_int_equal(ft_promise_class(speeds, 3, 8.1f), FT_SLO_NONE);
    assert_int_equal(ft_promise_class(speeds, 0, 1), FT_SLO_NONE);
}

static void test_kept(void **state)
{
    ft_promise_text t = {.tokens_per_s = 4, .asked_us = 90 * S, .had_tok = 40};
    (void)state;
    /* nothing but the request counts while the first tokens are not known */
    assert_true(ft_promise_judge(&t, 99 * S).from_request);
    assert_true(ft_promise_judge(&t, 100 * S).from_request);
    assert_true(ft_promise_judge(&t, 100 * S).from_first);
    assert_false(ft_promise_judge(&t, 100 * S + 1).from_request);
    assert_false(ft_promise_judge(&t, 100 * S + 1).from_first);
    /* 3 s of reading, then 4 tokens at once: 36 are 9 s */
    t.first = ft_known(93 * S);
    t.first_tok = 4;
    assert_false(ft_promise_judge(&t, 101 * S).from_request);
    assert_true(ft_promise_judge(&t, 102 * S).from_first);
    assert_false(ft_promise_judge(&t, 102 * S + 1).from_first);
    /* many first tokens: kept from the request, slow behind them */
    t.first = ft_known(90 * S + S / 2);
    t.first_tok = 36;
    assert_true(ft_promise_judge(&t, 92 * S).from_request);
    assert_false(ft_promise_judge(&t, 92 * S).from_first);
    /* all at once */
    t.first_tok = 40;
    assert_true(ft_promise_judge(&t, 90 * S + S / 2).from_first);
}

/* Who had more, or looks earlier, keeps what it kept. */
static void test_kept_is_monotone(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 3);
    for (int i = 0; i < 10000; i++) {
        ft_promise_text t = {.tokens_per_s = 0.5 + 8 * ft_rng_unit(&rng),
                             .asked_us = ft_rng_below(&rng, 1000u * S),
                             .first_tok = ft_rng_below(&rng, 5)};
        t.first = ft_known(t.asked_us + ft_rng_below(&rng, 5 * S));
        t.had_tok = t.first_tok + ft_rng_below(&rng, 100);
        const int64_t now_us = t.first.us + ft_rng_below(&rng, 60u * S);
        const ft_promise_kept now = ft_promise_judge(&t, now_us);
        const ft_promise_kept before = ft_promise_judge(&t, now_us - 1000);
        t.had_tok++;
        const ft_promise_kept more = ft_promise_judge(&t, now_us);
        assert_true(before.from_request >= now.from_request && before.from_first >= now.from_first);
        assert_true(more.from_request >= now.from_request && more.from_first >= now.from_first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),        cmocka_unit_test(test_first_round),
        cmocka_unit_test(test_runs_by_hand),   cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_keeps_promises), cmocka_unit_test(test_classes),
        cmocka_unit_test(test_kept),           cmocka_unit_test(test_kept_is_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
