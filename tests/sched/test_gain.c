// SPDX-License-Identifier: Apache-2.0
// What rounds are expected to bring: means by hand, and how fast they follow.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/gain.h"

static ft_gain_round tree(uint32_t tok)
{
    return (ft_gain_round){.kind = FT_GAIN_TREE, .rows = 9, .tok = tok};
}

static void test_begins(void **state)
{
    ft_gain gain, usual = {0};
    (void)state;
    ft_gain_init(&gain, NULL);
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_TREE), 2, 1e-9);
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_RUN), 1, 1e-9);
    assert_false(gain.tok.known);
    ft_gain_init(&gain, &usual); /* nothing is usual yet */
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_TREE), 2, 1e-9);
    const ft_gain_round run = {.kind = FT_GAIN_RUN, .rows = 1, .tok = 6};
    ft_gain_saw_usual(&usual, &run);
    ft_gain_init(&gain, &usual); /* of trees nothing is */
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_TREE), 2, 1e-9);
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_RUN), 1, 1e-9);
    assert_true(gain.tok.known);
    assert_float_equal(gain.rows.value, 1, 1e-9);
    assert_float_equal(gain.tok.value, 6, 1e-9);
    const ft_gain_round five = tree(5);
    ft_gain_saw_usual(&usual, &five);
    ft_gain_init(&gain, &usual);
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_TREE), 5, 1e-9);
    assert_float_equal(usual.tok.value, 6 - 0.02, 1e-9);
    assert_float_equal(usual.rows.value, 1 + 0.02 * 8, 1e-9);
}

/* A session's mean starts from what was believed; its rows and tokens from its first round. */
static void test_follows(void **state)
{
    ft_gain gain;
    const ft_gain_round good = tree(7), none = tree(0);
    (void)state;
    ft_gain_init(&gain, NULL);
    ft_gain_saw(&gain, &good);
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_TREE), 2 + 0.2 * 5, 1e-9);
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_RUN), 1, 1e-9); /* of the other kind */
    assert_float_equal(gain.tok.value, 7, 1e-9);
    assert_float_equal(gain.rows.value, 9, 1e-9);
    ft_gain_saw(&gain, &none); /* no round brings less than a token */
    assert_float_equal(gain.tok.value, 7 - 0.2 * 6, 1e-9);
    for (int i = 0; i < 100; i++)
        ft_gain_saw(&gain, &good);
    assert_float_equal(ft_gain_expected(&gain, FT_GAIN_TREE), 7, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins),
        cmocka_unit_test(test_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
