// SPDX-License-Identifier: Apache-2.0
// When a draft is deep enough, in simulated worlds: held against who knows beforehand what each
// forward of each round will bring (by brute force over all depths), and against the best of all
// fixed depths.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/depth.h"

enum { DEPTH = 12, ROUNDS = 4000, LEARNING = 100 };

/* ---- a world ---- */

typedef struct world {
    double forward_us, rest_us;
    double even;  /* how alike rounds are: 1: all the same */
    double noise; /* of what a forward brings, beside what its leaves promise */
    double sure;  /* the share of what the chances say that comes true */
} world;

/* A round: what its tree is worth after k forwards, and what the leaves of the next promise. */
typedef struct hunt {
    double tokens[DEPTH + 1], chance[DEPTH];
} hunt;

/* What a leaf's forward brings of its chance, by level: what a drafter has to find out. */
static double yield_of(uint32_t level)
{
    return level == 0 ? 0.9 : 0.7 - 0.03 * level;
}

static hunt hunt_draw(const world *w, ft_rng *rng)
{
    double ease = w->even * 0.7 + (1 - w->even) * (0.2 + 0.75 * ft_rng_unit(rng));
    hunt h = {.tokens = {1}};
    double chance = 1;
    for (uint32_t k = 0; k < DEPTH; k++) {
        double off = 1 + w->noise * (2 * ft_rng_unit(rng) - 1);
        h.chance[k] = chance;
        h.tokens[k + 1] = h.tokens[k] + chance * yield_of(k) * off;
        chance *= ease;
    }
    return h;
}

static double came(const world *w, const hunt *h, uint32_t k)
{
    return 1 + w->sure * (h->tokens[k] - 1);
}

static double time_us(const world *w, uint32_t k)
{
    return w->rest_us + k * w->forward_us;
}

/* ---- what can be had ---- */

static double best_fixed(const world *w, uint64_t seed)
{
    double best = 0;
    for (uint32_t k = 0; k <= DEPTH; k++) {
        double tokens = 0;
        ft_rng rng;
        ft_rng_init(&rng, seed);
        for (int i = 0; i < ROUNDS; i++) {
            hunt h = hunt_draw(w, &rng);
            tokens += came(w, &h, k);
        }
        best = fmax(best, tokens / ROUNDS / time_us(w, k));
    }
    return best;
}

/* The rate of who sees each round before it begins: the fixed point of the best depths by a
 * rate. */
static double best_seeing(const world *w, uint64_t seed)
{
    double rate = 0;
    for (int pass = 0; pass < 20; pass++) {
        double tokens = 0, us = 0;
        ft_rng rng;
        ft_rng_init(&rng, seed);
        for (int i = 0; i < ROUNDS; i++) {
            hunt h = hunt_draw(w, &rng);
            uint32_t best = 0;
            for (uint32_t k = 1; k <= DEPTH; k++)
                if (came(w, &h, k) - rate * time_us(w, k) >
                    came(w, &h, best) - rate * time_us(w, best))
                    best = k;
            tokens += came(w, &h, best);
            us += time_us(w, best);
        }
        rate = tokens / us;
    }
    return rate;
}

/* ---- living in it ---- */

static uint32_t draft(ft_depth *stop, const hunt *h)
{
    uint32_t k = 0;
    for (; k < DEPTH; k++) {
        ft_depth_view view = {.forwards = k, .tokens = h->tokens[k], .chance = h->chance[k]};
        if (ft_depth_enough(stop, &view))
            break;
        ft_depth_saw_forward(stop, &view, h->tokens[k + 1]);
    }
    return k;
}

/* Tokens of a path come whole, with the right mean. */
static uint32_t whole(double tokens, ft_rng *rng)
{
    return (uint32_t)floor(tokens + ft_rng_unit(rng));
}

static void verdict(ft_depth *stop, const world *w, const hunt *h, uint32_t k, uint32_t tokens)
{
    ft_depth_round r = {.forwards = k,
                        .draft_us = (int64_t)(k * w->forward_us),
                        .wait_us = (int64_t)w->rest_us,
                        .expected = h->tokens[k],
                        .tokens = tokens};
    ft_depth_saw_round(stop, &r);
}

static double live(const world *w, ft_depth *stop, uint64_t seed)
{
    ft_rng rng, draws;
    double tokens = 0, us = 0;
    ft_rng_init(&rng, seed);
    ft_rng_init(&draws, seed + 1);
    for (int i = 0; i < ROUNDS; i++) {
        hunt h = hunt_draw(w, &rng);
        uint32_t k = draft(stop, &h), n = whole(came(w, &h, k), &draws);
        verdict(stop, w, &h, k, n);
        if (i >= LEARNING) {
            tokens += n;
            us += time_us(w, k);
        }
    }
    return tokens / us;
}

static void test_near_the_best(void **state)
{
    const world worlds[] = {{11000, 110000, 0.5, 0.3, 1},   {11000, 110000, 0, 0.3, 1},
                            {1000, 110000, 0.3, 0.3, 1},    {30000, 60000, 0.3, 0.3, 1},
                            {11000, 145000, 0.5, 0.8, 0.7}, {60000, 40000, 0.2, 0.2, 0.9},
                            {11000, 95000, 1, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        ft_depth stop = {0};
        double rate = live(&worlds[i], &stop, i), fixed = best_fixed(&worlds[i], i);
        double seeing = best_seeing(&worlds[i], i);
        print_message("world %zu: %.3f of who sees, %.3f of the best fixed depth\n", i,
                      rate / seeing, rate / fixed);
        assert_true(rate > 0.95 * seeing);
        assert_true(rate > 0.985 * fixed);
    }
}

/* Where rounds differ, no fixed depth does as well. */
static void test_better_than_fixed(void **state)
{
    const world w = {11000, 60000, 0, 0.1, 1};
    ft_depth stop = {0};
    (void)state;
    assert_true(live(&w, &stop, 5) > 1.01 * best_fixed(&w, 5));
}

static void test_times_unknown(void **state)
{
    const ft_depth_view view = {.forwards = 3, .tokens = 2, .chance = 0};
    const ft_depth stop = {0};
    (void)state;
    assert_false(ft_depth_enough(&stop, &view));
}

/* A dearer forward or a cheaper round never makes it go on, a likelier leaf never makes it stop. */
static void test_monotonous(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 9);
    for (int i = 0; i < 20000; i++) {
        ft_depth s = {.forward_us = 1 + 1e4 * ft_rng_unit(&rng),
                      .rest_us = 1 + 1e5 * ft_rng_unit(&rng)};
        ft_depth_view v = {.forwards = (uint32_t)(6 * ft_rng_unit(&rng)),
                           .tokens = 1 + 3 * ft_rng_unit(&rng),
                           .chance = ft_rng_unit(&rng)};
        if (i % 2) {
            s.tokens = 100;
            s.us = 1e6 * ft_rng_unit(&rng) + 1;
        }
        bool enough = ft_depth_enough(&s, &v);
        ft_depth dearer = s;
        dearer.forward_us *= 1.5;
        ft_depth_view likelier = v;
        likelier.chance *= 1.5;
        if (enough && i % 2)
            assert_true(ft_depth_enough(&dearer, &v));
        if (!enough)
            assert_false(ft_depth_enough(&s, &likelier));
    }
}

/* While the server would take no tree, drafting is free; then it is not. */
static void test_free_while_busy(void **state)
{
    ft_depth_view poor = {.forwards = 5, .tokens = 4, .chance = 0.01};
    ft_depth stop = {.forward_us = 10000, .rest_us = 100000};
    (void)state;
    assert_true(ft_depth_enough(&stop, &poor));
    stop.free_us = 65000;
    assert_false(ft_depth_enough(&stop, &poor));
    poor.forwards = 6;
    assert_true(ft_depth_enough(&stop, &poor));
    poor.chance = 0.25; /* of the forward's time only half counts */
    assert_false(ft_depth_enough(&stop, &poor));
    stop.free_us = 60000;
    assert_true(ft_depth_enough(&stop, &poor));
}

/* Where drafting goes on while a verdict is awaited, it stops earlier, and never later. */
static void test_ahead_stops_earlier(void **state)
{
    uint32_t depth[2] = {0};
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        ft_depth s = {.forward_us = 11000, .rest_us = 110000, .proactive = ahead};
        for (double tokens = 1, chance = 0.8; depth[ahead] < 20; depth[ahead]++, chance *= 0.8) {
            const ft_depth_view v = {.forwards = depth[ahead], .tokens = tokens, .chance = chance};
            if (ft_depth_enough(&s, &v))
                break;
            tokens += 0.6 * chance;
        }
    }
    assert_true(depth[1] > 0 && depth[1] < depth[0]);
    assert_true(depth[0] < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_the_best),   cmocka_unit_test(test_better_than_fixed),
        cmocka_unit_test(test_times_unknown),   cmocka_unit_test(test_monotonous),
        cmocka_unit_test(test_free_while_busy), cmocka_unit_test(test_ahead_stops_earlier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
