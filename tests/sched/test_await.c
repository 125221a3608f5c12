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
                           .most_us = away_us,
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

/* Texts in a closed loop: a verdict, the edge's time, a draft. */
typedef struct loop {
    uint32_t n;
    int64_t at_us[MOST], took_us[MOST]; /* the draft that comes; its edge's time */
    int64_t verdict_us[MOST];           /* the verdict before it */
    ft_away away[MOST];
} loop;

/* What a server knows at now_us. Returns how many texts that are. */
static size_t see(const loop *l, int64_t now_us, ft_await_text texts[MOST])
{
    size_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const bool here = l->at_us[i] <= now_us;
        const ft_known_us until = ft_away_until(&l->away[i], l->verdict_us[i]);
        if (!here && (!until.known || until.us <= now_us))
            continue;
        texts[n] = text(here ? now_us : until.us, l->away[i].us.value);
        texts[n++].most_us = ft_away_most_us(&l->away[i]);
    }
    return n;
}

/* When the pass begins that could begin at now_us. A draft that comes may end the wait. */
static int64_t begin_us(const loop *l, const ft_cost *cost, int64_t now_us)
{
    for (;;) {
        ft_await_text texts[MOST];
        const int64_t left_us = ft_await_us(texts, see(l, now_us, texts), cost, now_us);
        int64_t next_us = now_us + left_us;
        if (left_us == 0)
            return now_us;
        for (uint32_t i = 0; i < l->n; i++)
            if (l->at_us[i] > now_us && l->at_us[i] < next_us)
                next_us = l->at_us[i];
        now_us = next_us;
    }
}

/* Verdicts in a microsecond of n texts, whose edges take away_us, or up to `scatter` of that less
 * or more. */
static double rounds(uint32_t n, const ft_cost *cost, int64_t away_us, double scatter, bool awaits)
{
    loop l = {.n = n};
    int64_t now_us = 0;
    uint32_t done = 0;
    ft_rng rng;
    ft_rng_init(&rng, 7);
    for (uint32_t i = 0; i < n; i++)
        l.at_us[i] = i * away_us / n;
    for (int pass = 0; pass < 200; pass++) {
        ft_pass all = {0};
        int64_t first_us = INT64_MAX;
        for (uint32_t i = 0; i < n; i++)
            first_us = l.at_us[i] < first_us ? l.at_us[i] : first_us;
        now_us = first_us > now_us ? first_us : now_us;
        if (awaits)
            now_us = begin_us(&l, cost, now_us);
        for (uint32_t i = 0; i < n; i++)
            if (l.at_us[i] <= now_us)
                all = ft_pass_sum(all, text(0, 0).part);
        const int64_t end_us = now_us + ft_cost_predict(cost, &all);
        for (uint32_t i = 0; i < n; i++)
            if (l.at_us[i] <= now_us) {
                const double by = 1 + scatter * (2 * ft_rng_unit(&rng) - 1);
                if (l.took_us[i] > 0)
                    ft_away_saw(&l.away[i], l.took_us[i]);
                l.took_us[i] = (int64_t)((double)away_us * by) + i * 100;
                l.verdict_us[i] = end_us;
                l.at_us[i] = end_us + l.took_us[i];
                done++;
            }
        now_us = end_us;
    }
    return done / (double)now_us;
}

/* Waiting never costs much, also where edges take very different times from round to round: then
 * the last draft of a group comes long after the mean. */
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
        const double scatter = i % 2 ? 0.7 : 0, plain = rounds(n, &cost, away_us, scatter, false);
        const double waits = rounds(n, &cost, away_us, scatter, true);
        assert_true(waits > (i % 2 ? 0.98 : 0.95) * plain);
    }
    const ft_cost disk = costs(200 * MS, 300);
    assert_true(rounds(8, &disk, 40 * MS, 0, true) > 1.5 * rounds(8, &disk, 40 * MS, 0, false));
    assert_true(rounds(8, &disk, 40 * MS, 0.7, true) > 1.4 * rounds(8, &disk, 40 * MS, 0.7, false));
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
