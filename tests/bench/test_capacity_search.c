// SPDX-License-Identifier: Apache-2.0
// The search for the largest number of devices, on made-up servers: those that are slow from some
// number on, as sharp or as gently as may be, and those whose probes are a matter of luck near it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/rng.h"
#include "bench/capacity_search.h"

#define EPSILON 0.05
#define MOST    300

/* Share of slow texts with n devices where `held` are held: a hard edge, or one that rises over
 * some. */
static double share(uint32_t n, uint32_t held, double width)
{
    if (width == 0)
        return n <= held ? 0 : 1;
    return 1 / (1 + exp(-((double)n - held) / width - log(EPSILON / (1 - EPSILON))));
}

typedef struct server {
    uint32_t held;
    double width;
    double over;  /* what it says it would be enough for, over what it is; 0: it does not say */
    ft_rng *luck; /* NULL: shares are exact */
    uint32_t least, largest, probes; /* out */
} server;

static uint32_t search(server *v, uint32_t guess, double precision)
{
    ft_capacity_search s;
    ft_capacity_search_init(&s, guess, MOST, EPSILON, precision);
    v->probes = v->largest = 0;
    v->least = MOST;
    for (uint32_t n; (n = ft_capacity_search_next(&s)) > 0; v->probes++) {
        assert_true(n >= 1 && n <= MOST);
        assert_true(v->probes < 40);
        uint64_t texts = 1000, slow = 0;
        double p = share(n, v->held, v->width);
        if (v->luck) {
            texts = 3 * n;
            for (uint64_t i = 0; i < texts; i++)
                slow += ft_rng_unit(v->luck) < p;
        } else {
            slow = (uint64_t)(p * 1000);
        }
        v->least = n < v->least ? n : v->least;
        v->largest = n > v->largest ? n : v->largest;
        ft_capacity_search_saw(&s, texts, slow, (uint32_t)(v->over * v->held));
    }
    return s.low;
}

/* To the very device, wherever it begins and whatever the probes say they would be enough for. */
static void test_exact(void **state)
{
    static const double over[] = {0, 0.3, 0.95, 1, 1.1, 3};
    for (uint32_t held = 0; held <= MOST + 20; held += held < 20 ? 1 : 23)
        for (uint32_t guess = 1; guess <= MOST; guess = guess * 2 + 1)
            for (size_t i = 0; i < sizeof over / sizeof *over; i++) {
                server v = {.held = held, .over = over[i]};
                assert_int_equal(search(&v, guess, 0), held < MOST ? held : MOST);
            }
}

/* What it ends with is held, and the first that is not is no farther than was asked for. */
static void test_precision(void **state)
{
    for (uint32_t held = 1; held < MOST; held += 7) {
        server v = {.held = held, .over = 1};
        uint32_t found = search(&v, 16, 0.1);
        assert_true(found <= held && held < found + fmax(1, 0.1 * found) + 1e-9);
    }
}

/* Probes are dear: from a good guess a few are enough, and from a poor one it goes there by
 * doubling. */
static void test_few_probes(void **state)
{
    server v = {.held = 80, .over = 0.95};
    (void)search(&v, 70, 0.1);
    assert_true(v.probes <= 6);
    (void)search(&v, 4, 0.1);
    assert_true(v.probes <= 9 && v.largest <= 160);
    v.over = 0;
    (void)search(&v, 300, 0.1);
    assert_true(v.probes <= 7 && v.least >= 38);
}

/* A share near epsilon is tried again, and both probes count. */
static void test_tried_again(void **state)
{
    ft_capacity_search s;
    ft_capacity_search_init(&s, 10, 100, EPSILON, 0.1);
    ft_capacity_search_saw(&s, 20, 0, 0);
    assert_true(s.low == 10 && ft_capacity_search_next(&s) == 20);
    ft_capacity_search_saw(&s, 30, 2, 0); /* 7 % */
    assert_true(s.low == 10 && ft_capacity_search_next(&s) == 20);
    ft_capacity_search_saw(&s, 30, 1, 0); /* 5 % of 60 */
    assert_true(s.low == 20 && ft_capacity_search_next(&s) == 40);
    ft_capacity_search_saw(&s, 100, 4, 0);
    ft_capacity_search_saw(&s, 100, 8, 0); /* 6 % */
    assert_true(s.high == 40 && ft_capacity_search_next(&s) == 30);
    ft_capacity_search_saw(&s, 0, 0, 0); /* nobody was served */
    assert_true(s.high == 30 && s.low == 20);
}

/* With luck in it: within a third, for a gentle edge too. */
static void test_luck(void **state)
{
    ft_rng luck;
    ft_rng_init(&luck, 5);
    for (int i = 0; i < 200; i++) {
        server v = {.held = 20 + (uint32_t)i, .width = 1 + i % 4, .over = 1.02, .luck = &luck};
        uint32_t found = search(&v, 25, 0.1);
        if (found < 0.67 * v.held || found > 1.33 * v.held)
            fail_msg("%u devices are held, %u were found", v.held, found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),      cmocka_unit_test(test_precision),
        cmocka_unit_test(test_few_probes), cmocka_unit_test(test_tried_again),
        cmocka_unit_test(test_luck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
