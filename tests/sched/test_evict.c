// SPDX-License-Identifier: Apache-2.0
// Who gives way: the order by hand, and that it is one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/evict.h"

static bool before(ft_holder_kind a, int64_t a_us, ft_holder_kind b, int64_t b_us)
{
    return ft_evict_before(&(ft_holder){a, a_us, 0}, &(ft_holder){b, b_us, 0});
}

static void test_order(void **state)
{
    static const ft_holder in_order[] = {
        {FT_HOLDER_DETACHED, 50, 0}, {FT_HOLDER_DETACHED, 90, 0}, /* gone for longer */
        {FT_HOLDER_IDLE, 10, 0},     {FT_HOLDER_IDLE, 95, 0},     /* used less recently */
        {FT_HOLDER_WAITING, 80, 0},  {FT_HOLDER_WAITING, 5, 0},   /* waits for less long */
    };
    (void)state;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            assert_int_equal(ft_evict_before(&in_order[i], &in_order[j]), i < j);
    assert_false(before(FT_HOLDER_IDLE, 7, FT_HOLDER_IDLE, 7));
    assert_false(before(FT_HOLDER_WAITING, 7, FT_HOLDER_WAITING, 7));
}

static void test_may(void **state)
{
    (void)state;
    for (int kind = FT_HOLDER_DETACHED; kind <= FT_HOLDER_WAITING; kind++) {
        const ft_holder holder = {.kind = (ft_holder_kind)kind};
        assert_true(ft_evict_may(&holder, true, 100));
        assert_int_equal(ft_evict_may(&holder, false, 100), kind != FT_HOLDER_WAITING);
    }
}

/* In its turn a holder keeps what it has, even from the oldest work; not if its client is gone, and
 * not for long if it has nothing to do. */
static void test_turns(void **state)
{
    const int64_t end_us = ft_evict_turn_us(1000, 5000), long_us = ft_evict_turn_us(1 << 30, 5000);
    ft_holder h = {.kind = FT_HOLDER_WAITING, .since_us = 5000, .turn_us = end_us};
    (void)state;
    assert_in_range(end_us, 5000 + 1000, 5000 + 4 * 1000); /* in proportion to what it cost */
    assert_false(ft_evict_may(&h, true, end_us - 1));
    assert_int_equal(ft_evict_turn_left_us(&h, end_us - 1), 1);
    assert_true(ft_evict_may(&h, true, end_us));
    assert_int_equal(ft_evict_turn_left_us(&h, end_us), 0);
    h.kind = FT_HOLDER_IDLE;
    assert_false(ft_evict_may(&h, false, end_us - 1));
    assert_true(ft_evict_may(&h, false, end_us));
    h.turn_us = long_us;
    const int64_t left_us = ft_evict_turn_left_us(&h, 5000);
    assert_in_range(left_us, 1, 10000000);
    assert_true(ft_evict_may(&h, false, 5000 + left_us));
    h.kind = FT_HOLDER_DETACHED;
    assert_true(ft_evict_may(&h, false, 5000));
}

/* Tenants take turns, and a tenant's work waits in line. */
static void test_next(void **state)
{
    static const ft_claim in_order[] = {
        {true, 90, 10},  /* its tenant's last turn was the longest ago */
        {true, 95, 10},  /* the same, and it waits for less long */
        {false, 20, 99}, /* misses nothing: its own time counts */
        {true, 5, 30},   /* waits the longest, but its tenant has had a turn */
        {true, 80, 30},
    };
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            assert_int_equal(ft_evict_next(&in_order[i], &in_order[j]), i < j);
}

static ft_claim any_claim(ft_rng *rng)
{
    return (ft_claim){.missing = ft_rng_below(rng, 2),
                      .since_us = ft_rng_below(rng, 4),
                      .tenant_us = ft_rng_below(rng, 4)};
}

static ft_holder any(ft_rng *rng)
{
    return (ft_holder){.kind = (ft_holder_kind)ft_rng_below(rng, 3),
                       .since_us = ft_rng_below(rng, 4)};
}

/* Whatever the order in which holders are looked at, one of the same kind and time is found. */
static void test_is_an_order(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 1);
    for (int i = 0; i < 10000; i++) {
        const ft_holder a = any(&rng), b = any(&rng), c = any(&rng);
        assert_false(ft_evict_before(&a, &b) && ft_evict_before(&b, &a));
        if (ft_evict_before(&a, &b) && ft_evict_before(&b, &c))
            assert_true(ft_evict_before(&a, &c));
        const ft_claim x = any_claim(&rng), y = any_claim(&rng), z = any_claim(&rng);
        assert_false(ft_evict_next(&x, &y) && ft_evict_next(&y, &x));
        if (ft_evict_next(&x, &y) && ft_evict_next(&y, &z))
            assert_true(ft_evict_next(&x, &z));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),       cmocka_unit_test(test_may),
        cmocka_unit_test(test_turns),       cmocka_unit_test(test_next),
        cmocka_unit_test(test_is_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
