// SPDX-License-Identifier: Apache-2.0
// When a draft is deep enough, and which nodes are worth their rows, in simulated worlds: held
// against who knows beforehand what each forward of each round will bring (by brute force over all
// depths), and against the best of all fixed depths and sizes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/depth.h"
#include "spec/tuning.h"

enum { DEPTH = 12, ROUNDS = 4000, LEARNING = 100 };

/* ---- a world ---- */

typedef struct world {
    double forward_us, rest_us;
    double even;  /* how alike rounds are: 1: all the same */
    double noise; /* of what a forward brings, beside what its leaves promise */
} world;

/* A round: what its tree is worth after k forwards, and what the leaves of the next promise. */
typedef struct hunt {
    double tokens[DEPTH + 1], chance[DEPTH];
} hunt;

/* What a leaf's forward brings of its chance, by level. */
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

static double time_us(const world *w, uint32_t k)
{
    return w->rest_us + k * w->forward_us;
}

/* ---- what can be had ---- */

static double best_fixed(const world *w, uint64_t seed)
{
    double best = 0;
    for (uint32_t k = 1; k <= DEPTH; k++) {
        double tokens = 0;
        ft_rng rng;
        ft_rng_init(&rng, seed);
        for (int i = 0; i < ROUNDS; i++) {
            hunt h = hunt_draw(w, &rng);
            tokens += h.tokens[k];
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
            uint32_t best = 1;
            for (uint32_t k = 2; k <= DEPTH; k++)
                if (h.tokens[k] - rate * time_us(w, k) > h.tokens[best] - rate * time_us(w, best))
                    best = k;
            tokens += h.tokens[best];
            us += time_us(w, best);
        }
        rate = tokens / us;
    }
    return rate;
}

/* ---- living in it ---- */

/* The drafter makes the first forward, which reads the text's last token, without asking. one:
 * every draft has as many forwards as the rule wants for all. */
static uint32_t draft(ft_depth *depth, const hunt *h, bool one)
{
    uint32_t k = 1;
    depth->steady = one ? ft_depth_steady(depth) : 0;
    for (; k < DEPTH; k++) {
        ft_depth_saw_worth(depth, k, h->chance[k]);
        if (ft_depth_enough(depth, k, h->chance[k]))
            break;
    }
    return k;
}

/* Tokens of a path come whole, with the right mean. */
static uint32_t whole(double tokens, ft_rng *rng)
{
    return (uint32_t)floor(tokens + ft_rng_unit(rng));
}

static double live(const world *w, ft_depth *depth, uint64_t seed, bool one)
{
    ft_rng rng, draws;
    double tokens = 0, us = 0;
    ft_rng_init(&rng, seed);
    ft_rng_init(&draws, seed + 1);
    for (int i = 0; i < ROUNDS; i++) {
        hunt h = hunt_draw(w, &rng);
        uint32_t k = draft(depth, &h, one), n = whole(h.tokens[k], &draws);
        ft_depth_saw_round(depth, &(ft_depth_round){.forwards = k,
                                                    .levels = k,
                                                    .draft_us = (int64_t)(k * w->forward_us),
                                                    .wait_us = (int64_t)w->rest_us,
                                                    .tokens = n});
        if (i >= LEARNING) {
            tokens += n;
            us += time_us(w, k);
        }
    }
    return tokens / us;
}

static void test_near_the_best(void **state)
{
    const world worlds[] = {{11000, 110000, 0.5, 0.3}, {11000, 110000, 0, 0.3},
                            {1000, 110000, 0.3, 0.3},  {30000, 60000, 0.3, 0.3},
                            {11000, 145000, 0.5, 0.8}, {60000, 40000, 0.2, 0.2},
                            {11000, 95000, 1, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        ft_depth depth = {0};
        double rate = live(&worlds[i], &depth, i, false), fixed = best_fixed(&worlds[i], i);
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
    const world w = {11000, 60000, 0, 0.1};
    ft_depth depth = {0};
    (void)state;
    assert_true(live(&w, &depth, 5, false) > 1.01 * best_fixed(&w, 5));
}

static void test_times_unknown(void **state)
{
    const ft_depth depth = {0};
    (void)state;
    assert_false(ft_depth_enough(&depth, 3, 0));
}

/* A dearer forward or a better rate never makes it go on, a likelier leaf never makes it stop. */
static void test_monotonous(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 9);
    for (int i = 0; i < 20000; i++) {
        const ft_depth depth = {.forward_us = 1 + 1e4 * ft_rng_unit(&rng),
                                .tokens = 100,
                                .us = 1e6 * ft_rng_unit(&rng) + 1};
        const uint32_t forwards = ft_rng_below(&rng, 6);
        const double chance = ft_rng_unit(&rng);
        ft_depth dearer = depth, faster = depth;
        dearer.forward_us *= 1.5;
        faster.tokens *= 1.5;
        if (ft_depth_enough(&depth, forwards, chance)) {
            assert_true(ft_depth_enough(&dearer, forwards, chance));
            assert_true(ft_depth_enough(&faster, forwards, chance));
        } else {
            assert_false(ft_depth_enough(&depth, forwards, 1.5 * chance));
        }
    }
}

/* While the server is busy with others, drafting is free; then it is not. */
static void test_free_while_busy(void **state)
{
    ft_depth depth = {.forward_us = 10000, .tokens = 4, .us = 150000};
    (void)state;
    assert_true(ft_depth_enough(&depth, 5, 0.01));
    depth.free_us = 65000;
    assert_false(ft_depth_enough(&depth, 5, 0.01));
    assert_true(ft_depth_enough(&depth, 6, 0.01));
    assert_false(ft_depth_enough(&depth, 6, 0.25)); /* only half of the forward's time counts */
    assert_true(ft_depth_enough(&depth, 5, -0.01)); /* its rows cost more than it brings */
    assert_false(ft_depth_enough(&depth, 5, 0));
    depth.free_us = 60000;
    assert_true(ft_depth_enough(&depth, 6, 0.25));
}

/* Chains whose tokens are accepted with one chance. Early drafts are sent in each round, and one
 * fits if the whole chain was accepted, and the target's own token is the one that was drafted
 * next. Then the next round is shorter by early_us. */
typedef struct early_world {
    double forward_us, rest_us, early_us, accept;
} early_world;

/* Tokens per time with chains of `fixed` tokens; 0: as deep as the rule wants. It may know what
 * early drafts save. */
static double live_early(const early_world *w, uint32_t fixed, bool knows)
{
    ft_depth depth = {0};
    ft_rng rng;
    double tokens = 0, us = 0;
    bool early = false;
    ft_rng_init(&rng, 5);
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t most = fixed ? fixed : DEPTH;
        uint32_t k = 1, n = 0;
        depth.left = knows ? ft_depth_left(&depth, w->early_us) : 0;
        while (k < most && (fixed || !ft_depth_enough(&depth, k, pow(w->accept, k))))
            k++;
        while (n < k && ft_rng_unit(&rng) < w->accept)
            n++;
        const double took_us = k * w->forward_us + w->rest_us - (early ? w->early_us : 0);
        const int64_t draft_us = (int64_t)(k * w->forward_us);
        ft_depth_saw_round(&depth, &(ft_depth_round){.forwards = k,
                                                     .levels = k,
                                                     .draft_us = draft_us,
                                                     .wait_us = (int64_t)took_us - draft_us,
                                                     .tokens = n + 1});
        early = n == k && ft_rng_unit(&rng) < w->accept;
        if (i >= LEARNING) {
            tokens += n + 1;
            us += took_us;
        }
    }
    return tokens / us;
}

/* Where early drafts save much, chains should be shorter, and the rule knows how much. */
static void test_early_drafts_are_worth_something(void **state)
{
    const early_world worlds[] = {{4000, 80000, 0, 0.6},
                                  {4000, 80000, 50000, 0.6},
                                  {4000, 80000, 60000, 0.75},
                                  {10000, 100000, 60000, 0.6}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const double rate = live_early(&worlds[i], 0, true);
        const double blind = live_early(&worlds[i], 0, false);
        double best = 0;
        for (uint32_t k = 1; k <= DEPTH; k++)
            best = fmax(best, live_early(&worlds[i], k, false));
        print_message("world %zu: %.3f of the best fixed length, %.3f if it does not know\n", i,
                      rate / best, blind / best);
        assert_true(rate > 0.98 * best);
        assert_true(worlds[i].early_us > 0 ? rate > 1.005 * blind : rate == blind);
    }
}

/* One number of forwards for all drafts: close to the best one. */
static void test_one_depth_for_all(void **state)
{
    const world worlds[] = {{11000, 110000, 0.5, 0.3},
                            {1000, 110000, 0.3, 0.3},
                            {30000, 60000, 0, 0.3},
                            {60000, 40000, 0.2, 0.2}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        ft_depth depth = {0};
        const double rate = live(&worlds[i], &depth, i, true), best = best_fixed(&worlds[i], i);
        print_message("world %zu: %.3f of the best fixed depth\n", i, rate / best);
        assert_true(rate > 0.985 * best);
    }
}

/* One forward more than any draft had so far, if all of these were worth it. */
static void test_one_depth_goes_on_step_by_step(void **state)
{
    ft_depth depth = {.forward_us = 1000, .tokens = 10, .us = 100000};
    (void)state;
    for (uint32_t k = 1; k < FT_DEPTH_LEVELS; k++) {
        assert_int_equal(ft_depth_steady(&depth), k);
        depth.steady = k;
        assert_false(ft_depth_enough(&depth, k - 1, 0));
        assert_true(ft_depth_enough(&depth, k, 1));
        ft_depth_saw_worth(&depth, k, 1);
    }
    assert_int_equal(ft_depth_steady(&depth), FT_DEPTH_LEVELS);
    ft_depth_saw_worth(&depth, FT_DEPTH_LEVELS, 1); /* changes nothing */
    assert_int_equal(ft_depth_steady(&depth), FT_DEPTH_LEVELS);
    for (int i = 0; i < 500; i++)
        ft_depth_saw_worth(&depth, 3, 0);
    assert_int_equal(ft_depth_steady(&depth), 3);
}

/* ---- which nodes are worth their rows ---- */

enum { NODES = 40 };

typedef struct row_world {
    double rest_us, row_us;
    double spread; /* how much rounds differ: 0: not at all */
} row_world;

/* The chances of a round's nodes, best first. */
static void draw_nodes(const row_world *w, ft_rng *rng, double chance[NODES])
{
    const double ease = 0.7 + w->spread * (ft_rng_unit(rng) - 0.5);
    double p = 0.7;
    for (int i = 0; i < NODES; i++, p *= ease)
        chance[i] = p;
}

/* Tokens per time if each round sends its best `budget` nodes (0: those that the rule wants). */
static double live_with_rows(const row_world *w, uint32_t budget)
{
    ft_depth depth = {0};
    ft_rng rng, draws;
    double tokens = 0, us = 0, chance[NODES];
    ft_rng_init(&rng, 3);
    ft_rng_init(&draws, 4);
    for (int i = 0; i < ROUNDS; i++) {
        const double least = ft_depth_least_chance(&depth, w->row_us, 0);
        double mean = 1;
        uint32_t n = 0;
        draw_nodes(w, &rng, chance);
        for (; n < NODES && (budget ? n < budget : chance[n] >= least); n++)
            mean += chance[n];
        const double took_us = w->rest_us + n * w->row_us;
        const uint32_t got = whole(mean, &draws);
        ft_depth_saw_round(&depth, &(ft_depth_round){.forwards = 1,
                                                     .levels = 1,
                                                     .draft_us = 1000,
                                                     .wait_us = (int64_t)took_us - 1000,
                                                     .tokens = got});
        if (i >= LEARNING) {
            tokens += got;
            us += took_us;
        }
    }
    return tokens / us;
}

/* Cheap rows and dear ones, alike rounds and unlike ones: about as good as the best of all fixed
 * sizes, which differs from world to world, or better. */
static void test_rows_are_weighed(void **state)
{
    const row_world worlds[] = {
        {100000, 10, 0}, {60000, 500, 0.2}, {20000, 2000, 0.2}, {10000, 3000, 0.3}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const double rate = live_with_rows(&worlds[i], 0);
        double fixed = 0, all = live_with_rows(&worlds[i], NODES);
        for (uint32_t k = 1; k <= NODES; k++)
            fixed = fmax(fixed, live_with_rows(&worlds[i], k));
        print_message("world %zu: %.3f of the best size, %.3f of all nodes\n", i, rate / fixed,
                      rate / all);
        assert_true(rate > 0.97 * fixed);
        assert_true(rate > 0.99 * all);
    }
}

/* Without measurements every node is worth it. What costs others more, must be likelier. */
static void test_least_chance(void **state)
{
    const ft_depth unknown = {0}, known = {.tokens = 3, .us = 100000};
    (void)state;
    assert_true(ft_depth_least_chance(&unknown, 1000, 0) == 0);
    assert_true(ft_depth_least_chance(&known, 0, 0) == 0);
    assert_float_equal(ft_depth_least_chance(&known, 1000, 0), 0.03, 1e-6);
    assert_float_equal(ft_depth_least_chance(&known, 0, 0.2), 0.2, 1e-6);
    assert_true(ft_depth_least_chance(&known, 1000, 0.2) > 0.2);
    assert_true(ft_depth_least_chance(&known, 1e9, 0.99) < 1);
}

/* A text at its promise wants some tokens to spare, one behind it more, and one far ahead as many
 * as promised, and always its target's own. */
static void test_promised(void **state)
{
    const double spare = ft_spec_tune->depth.spare;
    (void)state;
    assert_true(ft_depth_promised_tok(&(ft_depth_promise){10, 5, 0}) == 0);
    assert_float_equal(ft_depth_promised_tok(&(ft_depth_promise){10, 0, 200000}), 2 * spare, 1e-9);
    assert_float_equal(ft_depth_promised_tok(&(ft_depth_promise){10, 4, 200000}),
                       2 * spare + 4 / ft_spec_tune->depth.catch_up, 1e-9);
    assert_float_equal(ft_depth_promised_tok(&(ft_depth_promise){10, -100, 200000}), 2, 1e-9);
    assert_float_equal(ft_depth_promised_tok(&(ft_depth_promise){1, -100, 200000}), 1, 1e-9);
    assert_true(ft_depth_surplus_chance(0.01) > 0.01 && ft_depth_surplus_chance(0.9) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_the_best),
        cmocka_unit_test(test_better_than_fixed),
        cmocka_unit_test(test_times_unknown),
        cmocka_unit_test(test_monotonous),
        cmocka_unit_test(test_free_while_busy),
        cmocka_unit_test(test_early_drafts_are_worth_something),
        cmocka_unit_test(test_one_depth_for_all),
        cmocka_unit_test(test_one_depth_goes_on_step_by_step),
        cmocka_unit_test(test_rows_are_weighed),
        cmocka_unit_test(test_least_chance),
        cmocka_unit_test(test_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
