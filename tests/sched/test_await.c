// SPDX-License-Identifier: Apache-2.0
// When a pass waits for drafts that are expected: decisions by hand, and a closed loop of texts
// whose speed must not suffer, whatever passes and drafts take.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "sched/await.h"

#define MS 1000

/* Passes take fixed_us and row_us a row. */
static ft_cost costs(double fixed_us, double row_us)
{
    ft_cost cost;
    ft_cost_init(&cost);
    ft_cost_prime(
        &cost, (double[FT_COST_FACTORS]){[FT_COST_PASS] = fixed_us, [FT_COST_ROW] = row_us}, 0.01);
    return cost;
}

static ft_await_text text(int64_t at_us, double away_us)
{
    return (ft_await_text){.at_us = at_us,
                           .away_us = away_us,
                           .part = ft_pass_plus((ft_pass){0}, 100, 5, 5),
                           .gain_tok = 3};
}

/* One text waits, three come within 30 ms; their edges take 40 ms. */
static int64_t wait_us(const ft_cost *cost)
{
    ft_await_text texts[] = {text(30 * MS, 40 * MS), text(0, 40 * MS), text(20 * MS, 40 * MS),
                             text(25 * MS, 40 * MS)};
    return ft_await_us(texts, 4, cost, 0);
}

static void test_waits(void **state)
{
    const ft_cost disk = costs(200 * MS, 300), memory = costs(5 * MS, 3 * MS);
    (void)state;
    assert_int_equal(wait_us(&disk), 30 * MS);
    assert_int_equal(wait_us(&memory), 0);
}

/* Where weights are read meanwhile, one pass with all rows is as long as two with half of them, if
 * computing them takes longer than reading. If it takes far less, one pass saves the reading. */
static void test_waits_while_reading(void **state)
{
    ft_cost dear = costs(2 * MS, 100 * MS), cheap = costs(2 * MS, 1 * MS);
    (void)state;
    dear.read_us = cheap.read_us = 200 * MS;
    assert_int_equal(wait_us(&dear), 0);
    assert_int_equal(wait_us(&cheap), 30 * MS);
}

/* A text that is away for long is not awaited, but the others are. Nor is one, if all are here. */
static void test_stragglers(void **state)
{
    const ft_cost disk = costs(100 * MS, 300);
    ft_await_text late[] = {text(900 * MS, 1000 * MS), text(0, 40 * MS), text(20 * MS, 40 * MS)};
    ft_await_text here[] = {text(0, 40 * MS), text(-5, 40 * MS)};
    (void)state;
    assert_int_equal(ft_await_us(late, 3, &disk, 0), 20 * MS);
    assert_int_equal(ft_await_us(here, 2, &disk, 0), 0);
    assert_int_equal(ft_await_us(here, 1, &disk, 0), 0);
}

static void test_away(void **state)
{
    ft_away away = {0};
    (void)state;
    assert_false(ft_away_until(&away, 5).known);
    ft_away_saw(&away, 40 * MS);
    assert_int_equal(ft_away_until(&away, 5).us, 40 * MS + 5);
    for (int i = 0; i < 200; i++)
        ft_away_saw(&away, i % 2 ? 30 * MS : 50 * MS);
    assert_float_equal(away.us.value, 40 * MS, 2 * MS);
    assert_float_equal(away.off_us, 10 * MS, 2 * MS);
    ft_away_saw(&away, 0); /* a draft that was there already */
    assert_true(away.us.known && away.us.value > 0);
}

static void test_one_group(void **state)
{
    const ft_cost disk = costs(200 * MS, 300), memory = costs(5 * MS, 3 * MS);
    ft_await_text texts[6];
    (void)state;
    for (size_t i = 0; i < FT_COUNT(texts); i++)
        texts[i] = text(0, 60 * MS);
    assert_true(ft_await_one_group(texts, 6, &disk));
    assert_false(ft_await_one_group(texts, 6, &memory));
    assert_false(ft_await_one_group(texts, 0, &disk));
}

#define MOST 12

/* Rounds of n texts in so many passes' time, whose edges take away_us, some of them a little
 * longer. */
static double rounds(uint32_t n, const ft_cost *cost, int64_t away_us, bool awaits)
{
    int64_t at_us[MOST], now_us = 0;
    uint32_t done = 0;
    for (uint32_t i = 0; i < n; i++)
        at_us[i] = i * away_us / n;
    for (int pass = 0; pass < 200; pass++) {
        ft_await_text texts[MOST];
        ft_pass all = {0};
        int64_t first_us = INT64_MAX;
        for (uint32_t i = 0; i < n; i++)
            first_us = at_us[i] < first_us ? at_us[i] : first_us;
        now_us = first_us > now_us ? first_us : now_us;
        for (uint32_t i = 0; i < n; i++)
            texts[i] = text(at_us[i], (double)away_us);
        if (awaits)
            now_us += ft_await_us(texts, n, cost, now_us);
        for (uint32_t i = 0; i < n; i++)
            if (at_us[i] <= now_us)
                all = ft_pass_sum(all, texts[0].part);
        const int64_t end_us = now_us + ft_cost_predict(cost, &all);
        for (uint32_t i = 0; i < n; i++)
            if (at_us[i] <= now_us) {
                at_us[i] = end_us + away_us + i * 100;
                done++;
            }
        now_us = end_us;
    }
    return done / (double)now_us;
}

static void test_loop(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 3);
    for (int i = 0; i < 500; i++) {
        const ft_cost cost =
            costs(1 * MS + 200 * MS * ft_rng_unit(&rng), 2 * MS * ft_rng_unit(&rng));
        const uint32_t n = 2 + (uint32_t)ft_rng_below(&rng, MOST - 1);
        const int64_t away_us = 5 * MS + (int64_t)(150 * MS * ft_rng_unit(&rng));
        assert_true(rounds(n, &cost, away_us, true) > 0.95 * rounds(n, &cost, away_us, false));
    }
    const ft_cost disk = costs(200 * MS, 300);
    assert_true(rounds(8, &disk, 40 * MS, true) > 1.5 * rounds(8, &disk, 40 * MS, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),      cmocka_unit_test(test_waits_while_reading),
        cmocka_unit_test(test_stragglers), cmocka_unit_test(test_away),
        cmocka_unit_test(test_one_group),  cmocka_unit_test(test_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
