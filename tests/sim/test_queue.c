// SPDX-License-Identifier: Apache-2.0
// The event queue: soonest first, and events of one moment in the order in which they were put in.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sim/queue.h"

enum { N = 2000, MOMENTS = 50 };

static void test_order(void **state)
{
    ft_sim_queue q;
    ft_sim_event e, last = {.at_us = -1};
    ft_rng rng;
    size_t taken = 0;
    (void)state;
    ft_rng_init(&rng, 1);
    assert_int_equal(ft_sim_queue_init(&q, N, NULL), FT_OK);
    for (uint32_t i = 0; i < N; i++) {
        ft_sim_queue_put(&q, ft_rng_below(&rng, MOMENTS), 7, i);
        if (i % 3 == 2) { /* takes in between must not disturb */
            assert_true(ft_sim_queue_take(&q, &e));
            taken++;
        }
    }
    while (ft_sim_queue_take(&q, &e)) {
        assert_true(e.at_us > last.at_us || (e.at_us == last.at_us && e.who > last.who));
        assert_int_equal(e.kind, 7);
        last = e;
        taken++;
    }
    assert_int_equal(taken, N);
    assert_false(ft_sim_queue_take(&q, &e));
    ft_sim_queue_deinit(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
