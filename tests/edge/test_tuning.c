// SPDX-License-Identifier: Apache-2.0
// A tuning constant of the room that is replaced (tests/bench/test_tuning.c tests the tables).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/timing.h"
#include "edge/tuning.h"

/* Two round trips of 10 ms, then one of 20 ms, of which the new one counts for a share. */
static uint32_t rtt_us(void)
{
    static const int64_t took_us[] = {10000, 10000, 20000};
    const ft_msg_verdict verdict = {.verify_us = 5000};
    ft_timing t = {0};
    for (size_t i = 0; i < 3; i++) {
        const int64_t at_us = 1000000 * (int64_t)(i + 1);
        ft_timing_sent(&t, at_us);
        ft_timing_verdict(&t, at_us + 5000 + took_us[i], &verdict, 1);
    }
    return ft_timing_rtt_us(&t);
}

static void test_replaced(void **state)
{
    const ft_edge_tuning *before = ft_edge_tune;
    ft_edge_tuning other = *before;
    (void)state;
    assert_in_range(rtt_us(), 11999, 12001);
    other.timing.weight = 0.5;
    ft_edge_tune = &other;
    assert_in_range(rtt_us(), 14999, 15001);
    ft_edge_tune = before;
    assert_in_range(rtt_us(), 11999, 12001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
