// SPDX-License-Identifier: Apache-2.0
// spec/rule_choice: the formula against numbers worked by hand and against rounds drawn at random,
// what is counted of drafts, what one rule's drafts say of the other rule, and what is chosen while
// something is not known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/rule_choice.h"

#define EXACT FT_RULE_KIND_EXACT
#define RATIO FT_RULE_KIND_RATIO

static const ft_uplink_rate mbit = {.known = true, .bits_per_s = 1e6, .empty_us = 20000};

/* Drafts of one rule, with these chances. */
static ft_rule_seen seen(double chance, double agreed)
{
    return (ft_rule_seen){.levels = 5000,
                          .nodes = 5000,
                          .reached = 1000,
                          .passed = 1000 * chance,
                          .parents = 1000,
                          .agreed = 1000 * agreed};
}

/* Trees of 8 levels with 4 nodes each; chains whose nodes carry a point of 150 bytes. Both sides
 * are at this distance, and shared noise agrees as seldom as it can. */
static ft_rule_view view(double d, double bits_per_s)
{
    const double agreed = (1 - d) / (1 + d);
    return (ft_rule_view){.rate = {.known = true, .bits_per_s = bits_per_s, .empty_us = 20000},
                          .seen = {[EXACT] = seen(agreed, agreed), [RATIO] = seen(1 - d, 1 - d)},
                          .rounds = {[EXACT] = {0, 8, 30, 16, 30000, 400, 5000},
                                     [RATIO] = {0, 8, 30, 150, 30000, 100, 5000}}};
}

static void test_by_hand(void **state)
{
    (void)state;
    /* no level: a token in 20 ms + 1 ms for 125 bytes + 9 ms */
    const ft_rule_rounds none = {0, 0, 125, 0, 9000, 0, 0};
    assert_true(fabs(ft_rule_tokens_per_s(&none, 0.9, &mbit) - 1e6 / 30000) < 1e-9);
    /* two levels, free: 1 + 0.5 + 0.25 tokens */
    const ft_rule_rounds two = {0, 2, 125, 0, 9000, 0, 0};
    assert_true(fabs(ft_rule_tokens_per_s(&two, 0.5, &mbit) - 1.75e6 / 30000) < 1e-9);
    /* a level costs 125 bytes, 2 ms to draft, 1 ms to verify: one pays, and a second does not */
    ft_rule_rounds dear = {0, 2, 125, 125, 9000, 1000, 2000};
    assert_true(fabs(ft_rule_tokens_per_s(&dear, 0.3, &mbit) - 1.3e6 / 34000) < 1e-9);
    dear.least_levels = 2; /* but it is drafted */
    assert_true(fabs(ft_rule_tokens_per_s(&dear, 0.3, &mbit) - 1.39e6 / 38000) < 1e-9);
}

/* Tokens of rounds whose levels are drawn. */
static void test_drawn(void **state)
{
    (void)state;
    enum { N = 200000, LEVELS = 6 };
    const ft_rule_rounds rounds = {0, LEVELS, 0, 0, 10000, 0, 0};
    ft_rng rng;
    double tokens = 0;
    ft_rng_init(&rng, 4);
    for (int i = 0; i < N; i++) {
        int n = 0;
        while (n < LEVELS && ft_rng_unit(&rng) < 0.7)
            n++;
        tokens += 1 + n;
    }
    const double drawn = 1e6 * tokens / N / 30000;
    assert_true(fabs(ft_rule_tokens_per_s(&rounds, 0.7, &mbit) / drawn - 1) < 0.01);
}

/* ---- what is counted ---- */

/*   0 ---- 1 ---- 2
 *     \--- 3          node 3 is likelier than node 1
 *   4                 a root, less likely than 0 */
static ft_tree small_tree(void)
{
    ft_tree tree;
    ft_tree_clear(&tree);
    ft_tree_add(&tree, -1, 10, -0.1f);
    ft_tree_add(&tree, 0, 11, -0.9f);
    ft_tree_add(&tree, 1, 12, -0.1f);
    ft_tree_add(&tree, 0, 13, -0.5f);
    ft_tree_add(&tree, -1, 14, -2.f);
    return tree;
}

static void test_counts(void **state)
{
    static const struct {
        uint32_t n, path[3], n_path;
        double levels, reached, passed, parents, agreed;
    } cases[] = {
        {5, {0, 1, 2}, 3, 3, 3, 3, 3, 2}, /* node 1 is not the likeliest */
        {5, {0, 3}, 2, 3, 3, 2, 2, 2},    /* behind node 3 there is nothing to agree with */
        {5, {0}, 1, 3, 2, 1, 2, 1},       /* another token than both children */
        {5, {4}, 1, 3, 2, 1, 1, 0},       {5, {0}, 0, 3, 1, 0, 1, 0},
        {1, {0}, 1, 1, 1, 1, 1, 1}, /* the other nodes were not sent */
        {0, {0}, 0, 0, 0, 0, 0, 0},
    };
    const ft_tree tree = small_tree();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_rule_seen s = {0};
        ft_rule_saw(&s, &tree, cases[i].n, cases[i].path, cases[i].n_path, i % 2 ? 70 : 0);
        assert_true(s.levels == cases[i].levels && s.nodes == cases[i].n);
        assert_true(s.reached == cases[i].reached && s.passed == cases[i].passed);
        assert_true(s.parents == cases[i].parents && s.agreed == cases[i].agreed);
        assert_true(s.sized == (i % 2 ? s.levels : 0) && s.sized_bytes == (i % 2 ? 70 : 0));
        assert_false(ft_rule_is_seen(&s));
    }
}

static void test_old_drafts_fade(void **state)
{
    const ft_tree tree = small_tree();
    const uint32_t path[] = {0, 1, 2};
    ft_rule_view v = {0};
    ft_rule_seen *s = &v.seen[EXACT];
    (void)state;
    for (int i = 0; i < 500; i++)
        ft_rule_saw(s, &tree, 5, path, 0, 0);
    assert_true(ft_rule_is_seen(s) && ft_rule_chance(&v, EXACT) < 1e-9);
    for (int i = 0; i < 2000; i++)
        ft_rule_saw(s, &tree, 5, path, 3, 0);
    assert_true(ft_rule_chance(&v, EXACT) > 0.95);
}

/* ---- one rule by the other ---- */

static void test_distance(void **state)
{
    (void)state;
    for (double d = 0; d <= 1; d += 0.125) {
        const ft_rule_view both = view(d, 1e6);
        ft_rule_view exact = both, ratio = both;
        exact.seen[RATIO] = ratio.seen[EXACT] = (ft_rule_seen){0};
        for (int i = EXACT; i <= RATIO; i++) {
            const double chance = ft_rule_chance(&both, (ft_rule_kind)i);
            assert_true(fabs(ft_rule_chance(&exact, (ft_rule_kind)i) - chance) < 1e-12);
            assert_true(fabs(ft_rule_chance(&ratio, (ft_rule_kind)i) - chance) < 1e-12);
        }
    }
    /* What was measured counts, and not what the other rule says. */
    ft_rule_view v = view(0.5, 1e6);
    v.seen[EXACT] = seen(0.9, 0.6);
    assert_true(fabs(ft_rule_chance(&v, EXACT) - 0.9) < 1e-12);
    assert_true(fabs(ft_rule_chance(&v, RATIO) - 0.5) < 1e-12);
    v.seen[RATIO] = (ft_rule_seen){0}; /* a tree's further children tell nothing of ratio */
    assert_true(fabs(ft_rule_chance(&v, RATIO) - 0.75) < 1e-12);
    v.seen[RATIO] = (ft_rule_seen){.reached = 128, .passed = 32}; /* half of what is sure */
    assert_true(fabs(ft_rule_chance(&v, RATIO) - (0.75 + 0.25) / 2) < 1e-12);
}

/* ---- what is chosen ---- */

/* On a thin uplink points cost too much; on a fast one the higher acceptance wins. There is one
 * rate between. */
static void test_by_rate(void **state)
{
    (void)state;
    bool before = false;
    for (double rate = 1e4; rate < 1e9; rate *= 2) {
        const ft_rule_view v = view(0.4, rate);
        const ft_rule_choice choice = ft_rule_choose(&v);
        const double share = choice.tokens_per_s[RATIO] / choice.tokens_per_s[EXACT];
        assert_int_equal(choice.reason, FT_RULE_REASON_FASTER);
        assert_int_equal(choice.rule == RATIO, share > 1);
        assert_true(share > 1 || !before);
        before = share > 1;
    }
    const ft_rule_view thin = view(0.4, 2e4), fast = view(0.4, 1e8);
    assert_int_equal(ft_rule_choose(&thin).rule, EXACT);
    assert_int_equal(ft_rule_choose(&fast).rule, RATIO);
}

/* With the same costs: the same speed if nothing or everything agrees, and then `exact`. */
static void test_by_distance(void **state)
{
    (void)state;
    for (double d = 0; d <= 1; d += 0.25) {
        ft_rule_view v = view(d, 1e6);
        v.rounds[RATIO] = v.rounds[EXACT];
        const ft_rule_choice choice = ft_rule_choose(&v);
        const bool equal = d == 0 || d == 1;
        assert_int_equal(choice.rule, equal ? EXACT : RATIO);
        assert_int_equal(choice.tokens_per_s[EXACT] == choice.tokens_per_s[RATIO], equal);
    }
}

/* Where runs are faster than any draft, both rules are the same. */
static void test_runs(void **state)
{
    (void)state;
    ft_rule_view v = view(0.4, 1e8);
    v.run_us = 1000;
    const ft_rule_choice choice = ft_rule_choose(&v);
    assert_int_equal(choice.rule, EXACT);
    assert_true(choice.tokens_per_s[EXACT] == 1000 && choice.tokens_per_s[RATIO] == 1000);
}

/* Chooses for so many texts after each other, of which each FT_RULE_TRY_AFTER + 1st is tried. */
static void check_tries(ft_rule_view v, ft_rule_reason else_reason)
{
    for (uint32_t i = 0; i < 3 * (FT_RULE_TRY_AFTER + 1); i++) {
        const ft_rule_choice choice = ft_rule_choose(&v);
        const bool tried = choice.rule == RATIO;
        assert_int_equal(tried, i % (FT_RULE_TRY_AFTER + 1) == FT_RULE_TRY_AFTER);
        assert_int_equal(choice.reason, tried ? FT_RULE_REASON_TRY : else_reason);
        v.texts_unknown = choice.texts_unknown;
    }
}

static void test_unknown(void **state)
{
    (void)state;
    ft_rule_view v = view(0.4, 1e8);
    v.rate = (ft_uplink_rate){0};
    check_tries(v, FT_RULE_REASON_UNKNOWN);
    v = view(0.4, 1e8);
    v.texts_unknown = FT_RULE_TRY_AFTER;
    v.seen[EXACT] = v.seen[RATIO] = (ft_rule_seen){0};
    ft_rule_choice choice = ft_rule_choose(&v); /* a try would tell nothing new of the rate */
    assert_int_equal(choice.rule, EXACT);
    assert_int_equal(choice.reason, FT_RULE_REASON_UNKNOWN);
    assert_int_equal(choice.texts_unknown, 0);
    v = view(0.4, 1e8);
    v.rate.empty_us = 0;
    assert_int_equal(ft_rule_choose(&v).reason, FT_RULE_REASON_UNKNOWN);
}

/* Points that nobody has seen count as the largest there are; if smaller ones would pay, they are
 * tried. */
static void test_unknown_points(void **state)
{
    (void)state;
    ft_rule_view v = view(0.4, 1e6);
    v.rounds[RATIO].level_bytes = 900;
    v.texts_unknown = FT_RULE_TRY_AFTER; /* points that were seen are not tried */
    ft_rule_choice choice = ft_rule_choose(&v);
    assert_int_equal(choice.rule, EXACT);
    assert_int_equal(choice.texts_unknown, 0);
    v.texts_unknown = 0;
    v.seen[RATIO] = (ft_rule_seen){0};
    check_tries(v, FT_RULE_REASON_FASTER);
    v.rounds[RATIO].forward_us = 1e6; /* drafting alone takes too long */
    v.texts_unknown = FT_RULE_TRY_AFTER;
    choice = ft_rule_choose(&v);
    assert_int_equal(choice.rule, EXACT);
    assert_int_equal(choice.texts_unknown, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_counts),      cmocka_unit_test(test_old_drafts_fade),
        cmocka_unit_test(test_distance),    cmocka_unit_test(test_by_rate),
        cmocka_unit_test(test_by_distance), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_unknown),     cmocka_unit_test(test_unknown_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
