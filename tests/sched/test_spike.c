// SPDX-License-Identifier: Apache-2.0
// Spikes among passes: when a pass is one, and what made it one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/spike.h"

static const double us[FT_COST_FACTORS] = {
    [FT_COST_PASS] = 1000, [FT_COST_ROW] = 100, [FT_COST_CACHED_TOK] = 1};

/* A pass like those before it: 4 sessions, 500 tokens of context each, 4 rows. */
static ft_pass usual(void)
{
    ft_pass pass = {0};
    for (int i = 0; i < 4; i++)
        pass = ft_pass_plus(pass, 500, 4, 4);
    return pass;
}

static ft_spike_cause after_usual(const ft_pass *pass, const ft_pass *prompts, int64_t took_us)
{
    ft_spikes spikes = {0};
    ft_cost cost;
    const ft_pass before = usual(), none = {0};
    ft_cost_init(&cost);
    ft_cost_prime(&cost, us, 0);
    for (int i = 0; i < 2 * FT_SPIKE_WINDOW; i++)
        assert_int_equal(
            ft_spike_observe(&spikes, &cost, &before, &none, ft_cost_predict(&cost, &before)),
            FT_SPIKE_NONE);
    ft_spike_cause cause = ft_spike_observe(&spikes, &cost, pass, prompts,
                                            took_us ? took_us : ft_cost_predict(&cost, pass));
    assert_int_equal(spikes.count[FT_SPIKE_NONE], 2 * FT_SPIKE_WINDOW + (cause == FT_SPIKE_NONE));
    assert_int_equal(spikes.count[cause] > 0, 1);
    return cause;
}

static void test_causes(void **state)
{
    const ft_pass none = {0}, prompt = ft_pass_plus(none, 0, 200, 0);
    ft_pass pass = ft_pass_sum(usual(), prompt);
    (void)state;
    assert_int_equal(after_usual(&pass, &prompt, 0), FT_SPIKE_COLD_START);
    pass = ft_pass_plus(usual(), 9000, 4, 4);
    assert_int_equal(after_usual(&pass, &none, 0), FT_SPIKE_LONG_CONTEXT);
    pass = ft_pass_plus(usual(), 0, 100, 100);
    assert_int_equal(after_usual(&pass, &none, 0), FT_SPIKE_LARGE_BATCH);
}

/* Usual: 1000 + 16 * 100 + 2000 = 4600 us. */
static void test_threshold(void **state)
{
    const ft_pass none = {0}, pass = usual();
    (void)state;
    assert_int_equal(after_usual(&pass, &none, 6900), FT_SPIKE_NONE);
    assert_int_equal(after_usual(&pass, &none, 6901), FT_SPIKE_OTHER); /* nothing in it grew */
}

static void test_first_and_none(void **state)
{
    ft_spikes spikes = {0};
    ft_cost cost;
    const ft_pass none = {0}, pass = usual();
    (void)state;
    ft_cost_init(&cost); /* costs are not known yet */
    assert_int_equal(ft_spike_observe(&spikes, &cost, &pass, &none, 0), FT_SPIKE_NONE);
    assert_int_equal(spikes.n_seen, 0);
    assert_int_equal(ft_spike_observe(&spikes, &cost, &pass, &none, 900000), FT_SPIKE_NONE);
    assert_int_equal(ft_spike_observe(&spikes, &cost, &pass, &none, 2000000), FT_SPIKE_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_causes),
                                       cmocka_unit_test(test_threshold),
                                       cmocka_unit_test(test_first_and_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
