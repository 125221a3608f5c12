// SPDX-License-Identifier: Apache-2.0
// Wasted drafting time (WISP 3.2): the definition at the paper's own quantities, for random drafts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/waste.h"

static void test_of_one_draft(void **state)
{
    const ft_waste w = ft_waste_of(8, 3, 4000); /* tau_d is 500 us */
    assert_int_equal(w.tokens, 5);
    assert_int_equal(w.wasted_us, 5 * 500);
    assert_int_equal(w.useful_us, 3 * 500);
    assert_true(ft_waste_share(&w) == 5 / 8.0);
}

static void test_extremes(void **state)
{
    const ft_waste all = ft_waste_of(8, 0, 4000), none = ft_waste_of(8, 8, 4000);
    const ft_waste ready = ft_waste_of(8, 3, 0), empty = ft_waste_of(0, 0, 70);
    assert_true(all.useful_us == 0 && all.wasted_us == 4000 && ft_waste_share(&all) == 1);
    assert_true(none.tokens == 0 && none.wasted_us == 0 && ft_waste_share(&none) == 0);
    /* drafted ahead: tokens are wasted, and no time */
    assert_true(ready.tokens == 5 && ready.wasted_us == 0 && ft_waste_share(&ready) == 0);
    assert_true(empty.tokens == 0 && empty.wasted_us == 0 && empty.useful_us == 70);
}

/* Eq. (9): the parts are the whole, to the microsecond; eq. (8): a token's share is within one. */
static void test_parts_are_the_whole(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (int i = 0; i < 10000; i++) {
        const uint32_t drafted = 1 + ft_rng_below(&rng, 64);
        const uint32_t accepted = ft_rng_below(&rng, drafted + 1), us = ft_rng_u32(&rng);
        const ft_waste w = ft_waste_of(drafted, accepted, us);
        assert_int_equal(w.tokens + accepted, drafted);
        assert_int_equal(w.useful_us + w.wasted_us, us);
        const double wasted = (double)us / drafted * (drafted - accepted);
        assert_true((double)w.wasted_us > wasted - 1.001 && (double)w.wasted_us < wasted + 0.001);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_one_draft),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_parts_are_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
