// SPDX-License-Identifier: Apache-2.0
// What servers keep of ended texts, worked out by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/prefixes.h"

static void test_by_hand(void **state)
{
    ft_sim_prefix of[4] = {0};
    ft_sim_prefixes a = {.of = of}, b = {.of = of};
    (void)state;
    ft_sim_prefixes_put(&a, 0, 47); /* 2 full blocks */
    ft_sim_prefixes_put(&a, 1, 48); /* 3 */
    ft_sim_prefixes_put(&b, 2, 64); /* 4, elsewhere */
    ft_sim_prefixes_put(&a, 3, 15); /* none */
    assert_int_equal(a.blocks, 5);
    assert_int_equal(ft_sim_prefixes_take(&a, 3), 0);
    ft_sim_prefixes_trim(&a, 4); /* the last block of the oldest text */
    assert_int_equal(ft_sim_prefixes_take(&a, 0), 16);
    assert_int_equal(ft_sim_prefixes_take(&a, 0), 0);
    ft_sim_prefixes_put(&a, 0, 32);
    ft_sim_prefixes_trim(&a, 3); /* now 1 is the oldest: 3 + 2 blocks */
    assert_int_equal(of[1].blocks, 1);
    assert_int_equal(of[0].blocks, 2);
    ft_sim_prefixes_trim(&a, 2); /* 1 is gone */
    assert_int_equal(ft_sim_prefixes_take(&a, 1), 0);
    ft_sim_prefixes_trim(&a, 0);
    assert_int_equal(a.blocks, 0);
    assert_int_equal(a.oldest, 0);
    assert_int_equal(a.newest, 0);
    assert_int_equal(ft_sim_prefixes_take(&b, 2), 64);
}

/* From the middle, from either end. */
static void test_take_anywhere(void **state)
{
    static const uint32_t order[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        ft_sim_prefix of[3] = {0};
        ft_sim_prefixes p = {.of = of};
        for (uint32_t place = 0; place < 3; place++)
            ft_sim_prefixes_put(&p, place, 16 * (place + 1));
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(ft_sim_prefixes_take(&p, order[i][k]), 16 * (order[i][k] + 1));
        assert_true(p.blocks == 0 && p.oldest == 0 && p.newest == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand),
                                       cmocka_unit_test(test_take_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
