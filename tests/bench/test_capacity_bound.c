// SPDX-License-Identifier: Apache-2.0
// bench/capacity_bound: by hand where it is easy; servers that are played through pass by pass, of
// which none holds more devices, and one holds as many.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/num.h"
#include "bench/capacity_bound.h"

static double drafted = 1; /* what a drafted token's row costs, of a text's */
static double read_s;      /* what reading takes in a pass; servers here overlap it wholly */

static ft_capacity_bound bound_of(double pass, double row, double away, double chance, float v)
{
    const ft_capacity_times t = {.pass_s = pass,
                                 .row_s = row,
                                 .drafted = drafted,
                                 .read_s = read_s,
                                 .away_s = away,
                                 .chance = chance,
                                 .most = 16};
    return ft_capacity_bound_of(&t, &v, 1);
}

static void test_by_hand(void **state)
{
    (void)state;
    /* Rows are all that costs: drafts bring fewer tokens a row. */
    ft_capacity_bound b = bound_of(0, 0.01, 0.02, 0.6, 4);
    assert_float_equal(b.decoding, 25, 1e-9);
    assert_true(b.ratio == 1 && b.k == 0);
    /* A pass takes three quarters of a token's time. With k = 1 a draft brings 1.5 tokens, and the
     * device is away for 20 ms: (0.375 - 0.1875 - 0.02) / 2 over 0.25 - 0.1875. */
    b = bound_of(0.1875, 0.001, 0.02, 0.5, 4);
    assert_float_equal(b.decoding, 62.5, 1e-9);
    assert_true(b.k == 1);
    assert_float_equal(b.ratio, (0.375 - 0.1875 - 0.02) / 2 / 0.0625, 1e-9);
    assert_float_equal(b.drafts, b.ratio * b.decoding, 1e-9);
    /* All is accepted: towards 1 / (1 - a v) = 4. */
    b = bound_of(0.1875, 0.001, 0.02, 1, 4);
    assert_true(b.k == 16 && b.ratio < 4 && b.ratio > 3.7);
    /* Rows are free, and decoding is too slow. */
    b = bound_of(0.1875, 0, 0.02, 0.5, 4);
    assert_true(isinf(b.decoding) && b.ratio > 1.3);
    b = bound_of(0.3, 0.001, 0.02, 0.7, 4);
    assert_true(b.decoding == 0 && isinf(b.ratio) && b.drafts > 0);
    /* A device is away for longer than its speed allows. */
    b = bound_of(0.1, 0.001, 10, 0.9, 4);
    assert_true(b.ratio == 1 && b.k == 0);
}

/* Classes together: decoding gives all the fastest speed, the other side each its own. */
static void test_classes(void **state)
{
    const float v[] = {2, 4, 6, 8};
    (void)state;
    ft_capacity_times t = {
        .pass_s = 0, .row_s = 0.01, .drafted = 1, .away_s = 0.02, .chance = 0.6, .most = 8};
    ft_capacity_bound b = ft_capacity_bound_of(&t, v, 4);
    assert_float_equal(b.ratio, 1.6, 1e-9);
    t.pass_s = 0.05; /* without drafts passes are paid alike by both */
    t.most = 0;
    b = ft_capacity_bound_of(&t, v, 4);
    assert_float_equal(b.ratio, 1.6, 1e-9);
    t.most = 8;
    assert_true(ft_capacity_bound_of(&t, v, 4).ratio >= 1.6);
    t.pass_s = 0.1;
    t.chance = 0.9;
    assert_true(ft_capacity_bound_of(&t, v, 4).ratio > 2);
}

/* ---- servers that are played through ---- */

typedef struct play {
    double pass, row, away;
    uint32_t k, n;
    double share; /* a pass begins when so many of the devices wait, or all that are not away */
} play;

/* Rounds a second of the slowest of n devices, once it is steady. */
static double rounds_per_s(const play *p)
{
    enum { ROUNDS = 60 };
    double *ready = calloc(p->n, sizeof *ready), now = 0, began = 0;
    uint32_t *rounds = calloc(p->n, sizeof *rounds), least = 0;
    const uint32_t wanted = (uint32_t)fmax(p->share * p->n, 1);
    assert_non_null(ready);
    assert_non_null(rounds);
    while (least < 2 * ROUNDS) {
        uint32_t waiting = 0;
        double next = INFINITY;
        for (uint32_t i = 0; i < p->n; i++) {
            waiting += ready[i] <= now;
            next = ready[i] > now ? fmin(next, ready[i]) : next;
        }
        if (waiting < wanted && next < INFINITY) {
            now = next;
            continue;
        }
        const double end = now + fmax(p->pass + p->row * waiting * (1 + drafted * p->k), read_s);
        least = UINT32_MAX;
        for (uint32_t i = 0; i < p->n; i++) {
            if (ready[i] <= now) {
                ready[i] = end + p->away;
                rounds[i]++;
            }
            least = rounds[i] < least ? rounds[i] : least;
        }
        now = end;
        if (least == ROUNDS && began == 0)
            began = now;
    }
    free(ready);
    free(rounds);
    return ROUNDS / (now - began);
}

static double tokens_of(double chance, uint32_t k)
{
    double tokens = 1;
    for (uint32_t i = 1; i <= k; i++)
        tokens += pow(chance, i);
    return tokens;
}

/* One device more than the bound says is held by none of these servers. */
static void nobody_holds_more(void)
{
    static const double passes[] = {0.001, 0.02, 0.08, 0.15}, aways[] = {0.005, 0.05, 0.1, 0.3},
                        chances[] = {0.3, 0.6, 0.9}, shares[] = {0, 0.25, 0.5, 0.9, 1};
    for (size_t i = 0; i < FT_COUNT(passes) * FT_COUNT(aways) * FT_COUNT(chances); i++) {
        const double chance = chances[i % FT_COUNT(chances)], v = 4;
        play p = {.pass = passes[i / FT_COUNT(chances) % FT_COUNT(passes)],
                  .row = 0.004,
                  .away = aways[i / FT_COUNT(chances) / FT_COUNT(passes)]};
        const ft_capacity_bound b = bound_of(p.pass, p.row, p.away, chance, (float)v);
        p.n = (uint32_t)fmax(b.drafts, b.decoding) + 1;
        for (p.k = 1; p.k <= 8; p.k *= 2)
            for (size_t s = 0; s < FT_COUNT(shares); s++) {
                p.share = shares[s];
                const double speed = tokens_of(chance, p.k) * rounds_per_s(&p);
                if (speed >= v * (1 + 1e-6))
                    fail_msg("%u devices of %g tokens/s, bound %g: pass %g away %g chance %g k %u",
                             p.n, speed, b.drafts, p.pass, p.away, chance, p.k);
            }
    }
}

static void test_nobody_holds_more(void **state)
{
    static const double costs[] = {1, 0.3, 0};
    (void)state;
    for (size_t i = 0; i < FT_COUNT(costs); i++) {
        drafted = costs[i];
        nobody_holds_more();
    }
    drafted = 1;
    read_s = 0.1;
    nobody_holds_more();
    read_s = 0;
}

/* Rows are computed while weights are read. */
static void test_reading(void **state)
{
    (void)state;
    read_s = 0.1;
    /* A pass of 0.25 s computes for (0.25^3 - 0.1^3)^(1/3). */
    assert_float_equal(bound_of(0, 0.01, 0.02, 0.6, 4).decoding, 100 * cbrt(0.014625), 1e-9);
    assert_true(bound_of(0, 0.01, 0.02, 0.6, 9.9F).decoding > 0);
    assert_true(bound_of(0, 0.01, 0.02, 0.6, 10.1F).decoding == 0);
    /* A round takes a pass and the time that the device is away. */
    assert_true(bound_of(0, 0.0001, 0.02, 0.6, 20.7F).drafts > 0); /* 1 / (1 - 0.6) / 0.12 */
    assert_true(bound_of(0, 0.0001, 0.02, 0.6, 20.9F).drafts == 0);
    read_s = 0;
}

/* Two rows of prompts for each token of text. */
static void test_prompts(void **state)
{
    const float v = 4;
    ft_capacity_times t = {
        .row_s = 0.01, .drafted = 0.5, .prompts = 2, .away_s = 0.02, .chance = 1, .most = 1};
    (void)state;
    const ft_capacity_bound b = ft_capacity_bound_of(&t, &v, 1);
    assert_float_equal(b.decoding, 25 / 2., 1e-9);
    assert_float_equal(b.drafts, 50 / (1 + 0.5 * (1 + 2 * 2)), 1e-9);
}

/* Where a device is away for less than a pass, a server that waits for all holds as many. */
static void test_one_holds_as_many(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const double chance = 0.5 + 0.2 * i, v = 4;
        play p = {.pass = 0.19, .row = 0.0005, .away = 0.01, .share = 1};
        const ft_capacity_bound b = bound_of(p.pass, p.row, p.away, chance, (float)v);
        assert_true(b.k > 0);
        p.k = b.k;
        p.n = (uint32_t)b.drafts;
        assert_true(p.n > b.decoding);
        assert_true(tokens_of(chance, p.k) * rounds_per_s(&p) >= v * (1 - 1e-6));
    }
}

static void test_chance(void **state)
{
    (void)state;
    for (uint32_t k = 1; k < 9; k++)
        assert_float_equal(ft_capacity_chance(k, tokens_of(0.7, k) - 1), 0.7, 1e-9);
    assert_true(ft_capacity_chance(4, 0) == 0 && ft_capacity_chance(4, 4) == 1);
    assert_true(ft_capacity_chance(3.5, 1.2) > ft_capacity_chance(4, 1.2));
}

static void saw(ft_capacity_seen *s, double texts, double drafts, double pass_s)
{
    ft_capacity_saw_passes(
        s, &(ft_capacity_passes){.weight = 7, .texts = texts, .drafts = drafts, .pass_s = pass_s});
}

static void test_fit(void **state)
{
    static const double sizes[][2] = {{3, 0}, {9, 0}, {4, 8}, {6, 24}, {2, 1}};
    ft_capacity_seen s = {0};
    ft_capacity_times t = {0};
    (void)state;
    saw(&s, 0, 0, 0.1); /* nothing was computed */
    saw(&s, 3, 0, 0.16);
    assert_false(ft_capacity_fit(&s, &t));
    saw(&s, 3, 0, 0.16);
    assert_false(ft_capacity_fit(&s, &t));
    saw(&s, 20, 0, 0.5); /* without drafts their rows are taken for rows of texts */
    assert_true(ft_capacity_fit(&s, &t));
    assert_float_equal(t.pass_s, 0.1, 1e-9);
    assert_float_equal(t.row_s, 0.02, 1e-9);
    assert_true(t.drafted == 1);
    for (int c = 0; c <= 4; c++) {
        s = (ft_capacity_seen){0};
        for (size_t i = 0; i < FT_COUNT(sizes); i++)
            saw(&s, sizes[i][0], sizes[i][1], 0.1 + 0.02 * (sizes[i][0] + c / 4.0 * sizes[i][1]));
        assert_true(ft_capacity_fit(&s, &t));
        assert_float_equal(t.drafted, c / 4.0, 1e-9);
        assert_float_equal(t.pass_s, 0.1, 1e-6);
        assert_float_equal(t.row_s, 0.02, 1e-6);
    }
    s = (ft_capacity_seen){0};
    for (size_t i = 0; i < FT_COUNT(sizes); i++) { /* computing while weights are read */
        const double y = 0.01 + 0.02 * (sizes[i][0] + sizes[i][1]), all = cbrt(y * y * y + 0.008);
        ft_capacity_saw_passes(&s, &(ft_capacity_passes){.weight = 7,
                                                         .texts = sizes[i][0],
                                                         .drafts = sizes[i][1],
                                                         .pass_s = all,
                                                         .waited_s = all - y});
    }
    assert_true(ft_capacity_fit(&s, &t));
    assert_float_equal(t.pass_s, 0.01, 1e-6);
    assert_float_equal(t.read_s, 0.2, 1e-6);
    s = (ft_capacity_seen){0};
    saw(&s, 1, 0, 0.3);
    saw(&s, 9, 0, 0.1); /* rows cannot save time */
    assert_true(ft_capacity_fit(&s, &t) && t.row_s == 0);
    assert_float_equal(t.pass_s, 0.2, 1e-9);
    s = (ft_capacity_seen){0};
    saw(&s, 10, 0, 0.01);
    saw(&s, 20, 0, 0.5); /* nor can a pass */
    assert_true(ft_capacity_fit(&s, &t) && t.pass_s == 0 && t.row_s > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_nobody_holds_more),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_one_holds_as_many),
        cmocka_unit_test(test_chance),
        cmocka_unit_test(test_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
