// SPDX-License-Identifier: Apache-2.0
// The cause of a late verdict: each by hand, and which of two counts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/late.h"
#include "sched/promise.h"

/* A draft that came at 1 s, of a text of 10 tokens/s. The round should bring two tokens. */
static ft_late of(int64_t away_us, int64_t queue_us, int64_t verify_us, bool spike)
{
    const ft_promise promise = {.tokens_per_s = 10};
    const ft_promise_round round = {.gain_tok = 2, .away_us = away_us, .at_us = 1000000};
    const ft_late_round late = {.arrival_us = round.at_us,
                                .pass_us = round.at_us + queue_us,
                                .verdict_us = round.at_us + queue_us + verify_us,
                                .budget_us = ft_promise_budget(&promise, &round),
                                .spike = spike};
    return ft_late_cause(&late);
}

static void test_by_hand(void **state)
{
    (void)state;
    /* 200 ms in all; 150 are left when the draft comes */
    assert_int_equal(of(50000, 50000, 100000, false), FT_LATE_NONE);
    assert_int_equal(of(50000, 50000, 100000, true), FT_LATE_NONE);
    assert_int_equal(of(50000, 50000, 100001, false), FT_LATE_WAITING);
    assert_int_equal(of(50000, 50000, 100001, true), FT_LATE_SPIKE);
    assert_int_equal(of(50000, 1, 150000, false), FT_LATE_WAITING);
    assert_int_equal(of(50000, 0, 150001, false), FT_LATE_LONG_PASS);
    assert_int_equal(of(50000, 900000, 150001, false), FT_LATE_LONG_PASS);
    assert_int_equal(of(50000, 0, 150001, true), FT_LATE_SPIKE);
    /* nothing is left: whatever the server does, the round is late */
    assert_int_equal(of(199998, 0, 3, false), FT_LATE_LONG_PASS);
    assert_int_equal(of(200000, 0, 2, false), FT_LATE_NETWORK);
    assert_int_equal(of(500000, 90000, 90000, true), FT_LATE_NETWORK);
}

/* What the names say: a round that is late for the network is late without the server's time; one
 * that waited is in time without its wait; one with a long pass is late without its wait. */
static void test_without_its_cause(void **state)
{
    ft_rng rng;
    uint64_t seen[FT_LATE_CAUSES] = {0};
    (void)state;
    ft_rng_init(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        const int64_t away_us = (int64_t)(250000 * ft_rng_unit(&rng)),
                      queue_us = (int64_t)(150000 * ft_rng_unit(&rng)),
                      verify_us = 1000 + (int64_t)(150000 * ft_rng_unit(&rng));
        const ft_late cause = of(away_us, queue_us, verify_us, false);
        seen[cause]++;
        assert_int_equal(cause == FT_LATE_NETWORK, of(away_us, 0, 2, false) != FT_LATE_NONE);
        if (cause == FT_LATE_WAITING)
            assert_int_equal(of(away_us, 0, verify_us, false), FT_LATE_NONE);
        if (cause == FT_LATE_LONG_PASS)
            assert_int_equal(of(away_us, 0, verify_us, false), FT_LATE_LONG_PASS);
        assert_int_equal(cause == FT_LATE_NONE,
                         of(away_us, queue_us, verify_us, true) == FT_LATE_NONE);
    }
    for (int cause = 0; cause < FT_LATE_CAUSES; cause++)
        assert_true(cause == FT_LATE_SPIKE || seen[cause] > 100);
    assert_string_equal(ft_late_name[FT_LATE_LONG_PASS], "long_pass");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand),
                                       cmocka_unit_test(test_without_its_cause)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
