// SPDX-License-Identifier: Apache-2.0
// When an early draft is sent: as late as it still arrives in time, and only if it saves time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spec/early_policy.h"
#include "spec/tuning.h"

enum { ANSWER_US = 100000, FORWARD_US = 10000, RTT_US = 30000, DRAFT_US = 20000, BUDGET = 16 };

static ft_early_policy taught(void)
{
    ft_early_policy p = {0};
    ft_early_saw_draft(&p, DRAFT_US, 1.5);
    return p;
}

static ft_early_view view_at(double sent_ago_us)
{
    return (ft_early_view){.sent_ago_us = sent_ago_us,
                           .answer_us = ANSWER_US,
                           .rtt_us = RTT_US,
                           .forward_us = FORWARD_US,
                           .more = true,
                           .tokens_per_us = 2e-5,
                           .budget = BUDGET};
}

static ft_early_decision decide(const ft_early_policy *p, const ft_early_view *v)
{
    ft_early_bounds bounds;
    return ft_early_decide(p, v, &bounds);
}

/* The first moment, in steps of half a forward, at which it does not wait. */
static double acts_at(const ft_early_policy *p, ft_early_decision *what)
{
    for (double us = 0;; us += FORWARD_US / 2.0) {
        const ft_early_view v = view_at(us);
        assert_true(us < 2 * ANSWER_US);
        if ((*what = decide(p, &v)) != FT_EARLY_WAIT)
            return us;
    }
}

static void test_waits_for_an_ordinary_draft(void **state)
{
    const ft_early_policy nothing = {0};
    const ft_early_view v = view_at(ANSWER_US - 1);
    assert_int_equal(decide(&nothing, &v), FT_EARLY_WAIT);
}

static void test_as_late_as_possible(void **state)
{
    const ft_early_policy p = taught();
    ft_early_decision what;
    const double us = acts_at(&p, &what);
    assert_int_equal(what, FT_EARLY_SEND);
    assert_true(us < ANSWER_US && us > ANSWER_US - 2.5 * FORWARD_US);
}

static void test_at_once_where_nothing_is_left(void **state)
{
    const ft_early_policy p = taught();
    ft_early_view v = view_at(0);
    v.more = false;
    assert_int_equal(decide(&p, &v), FT_EARLY_SEND);
}

static void test_never_too_late(void **state)
{
    const ft_early_policy p = taught();
    const ft_early_view v = view_at(ANSWER_US + 1);
    assert_int_equal(decide(&p, &v), FT_EARLY_NEVER);
}

static void test_never_where_it_saves_nothing(void **state)
{
    const ft_early_policy p = taught();
    ft_early_view v = view_at(ANSWER_US - FORWARD_US);
    v.others_us = RTT_US + DRAFT_US - 1;
    assert_int_equal(decide(&p, &v), FT_EARLY_SEND);
    v.others_us = RTT_US + DRAFT_US;
    assert_int_equal(decide(&p, &v), FT_EARLY_NEVER);
}

static void test_bounds(void **state)
{
    const ft_early_policy p = taught();
    const ft_early_view v = view_at(ANSWER_US - FORWARD_US);
    ft_early_bounds bounds;
    assert_int_equal(ft_early_decide(&p, &v, &bounds), FT_EARLY_SEND);
    assert_in_range(bounds.budget, 1, BUDGET - 1); /* fewer nodes than a tree */
    /* tokens that the saved time is worth, less those of an ordinary draft */
    assert_float_equal(bounds.spare_tok, 2e-5 * (RTT_US + DRAFT_US) - 1.5, 1e-9);
    assert_true(ft_early_worth(0.5));
    assert_false(ft_early_worth(0));
}

/* An early draft without nodes would be an ordinary message. No constant may allow it. */
static void test_none_without_gain(void **state)
{
    const ft_spec_tuning *before = ft_spec_tune;
    ft_spec_tuning other = *before;
    (void)state;
    other.early.gain_min = 0;
    ft_spec_tune = &other;
    const bool worth = ft_early_worth(0);
    ft_spec_tune = before;
    assert_false(worth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_an_ordinary_draft),
        cmocka_unit_test(test_as_late_as_possible),
        cmocka_unit_test(test_at_once_where_nothing_is_left),
        cmocka_unit_test(test_never_too_late),
        cmocka_unit_test(test_never_where_it_saves_nothing),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_none_without_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
