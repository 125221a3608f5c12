// SPDX-License-Identifier: Apache-2.0
// Ways to grow without any model. The pacer (EdgeLLM III-B): an example by hand, and random pools
// in which each choice is compared with all others by the paper's equation (2). Fixed widths: the
// tree has exactly these.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/secret.h"
#include "spec/grow_order.h"
#include "support/drafts.h"

static ft_growth g;

static const ft_growth_limits no_limits = {.leaves = FT_DRAFT_LEAVES, .depth = UINT32_MAX};

static ft_draft_params paced(uint32_t budget, uint32_t width, uint32_t branch)
{
    ft_draft_params p = ft_draft_params_tree(budget, 0, width);
    p.grow = FT_GROW_PACER;
    p.branch = branch;
    return p;
}

/* ---- by hand ---- */

static void add(int32_t parent, int32_t token, double a, double b)
{
    const ft_draft_children c = {.n = 2,
                                 .at = {{.token = token, .logp = (float)log(a)},
                                        {.token = token + 1, .logp = (float)log(b)}}};
    ft_growth_add(&g, parent, &c, 2);
}

static uint16_t compute_next(const ft_draft_params *p)
{
    uint16_t chosen[FT_DRAFT_LEAVES];
    assert_int_equal(ft_growth_choose(&g, p, &no_limits, chosen), 1);
    ft_growth_computed(&g, chosen, 1, false);
    return chosen[0];
}

/* The likelier branch gets the first token. Then M = 2, and the terms M * C - T of eq. (2) are
 *
 *   token 10, 20: 2 * 0.63 - 2 = -0.74    10, 21: 2 * 0.07 - 2 = -1.86    11: 2 * 0.2 - 1 = -0.6
 *
 * so 11 gets the second token, although 10, 20 is three times as likely. With M = 3, 10, 20 has
 * 3 * 0.63 - 2 = -0.11, and the branches behind 11 have 3 * 0.18 - 2 = -1.46 and 3 * 0.02 - 2. */
static void test_by_hand(void **state)
{
    ft_draft_params p = paced(8, 1, 2), best = p;
    uint16_t chosen[FT_DRAFT_LEAVES];
    best.grow = FT_GROW_BEST;
    ft_growth_clear(&g);
    add(-1, 10, 0.7, 0.2);
    assert_int_equal(g.node[compute_next(&p)].token, 10);
    add(0, 20, 0.9, 0.1);
    assert_int_equal(ft_growth_choose(&g, &best, &no_limits, chosen), 1);
    assert_int_equal(g.node[chosen[0]].token, 20);
    assert_int_equal(g.node[compute_next(&p)].token, 11);
    add(1, 30, 0.9, 0.1);
    assert_int_equal(g.node[compute_next(&p)].token, 20);
    ft_growth_check(&g);
}

/* A tree that is full takes no passes that could not change it. The tree of three tokens is 10, 11
 * and 20 once 10 is computed. With M = 3, a child of 11 has 3 * 0.2 - 2 at most, which is less than
 * what 20 has. */
static void test_a_full_tree_by_hand(void **state)
{
    ft_draft_params p = paced(3, 1, 2);
    uint16_t chosen[FT_DRAFT_LEAVES];
    ft_tree tree;
    ft_growth_clear(&g);
    add(-1, 10, 0.7, 0.2);
    compute_next(&p);
    add(0, 20, 0.9, 0.1);
    assert_int_equal(ft_growth_choose(&g, &p, &no_limits, chosen), 0);
    ft_growth_emit(&g, &p, &tree);
    assert_int_equal(tree.n, 3);
    assert_int_equal(tree.token[0], 10);
    assert_int_equal(tree.token[1], 11);
    assert_int_equal(tree.token[2], 20);
}

/* ---- random pools ---- */

/* A made-up model: children of a node are a function of its path alone. */
static void children_of(uint64_t path, ft_draft_children *out)
{
    ft_rng rng;
    float left = 1;
    ft_rng_init(&rng, path);
    *out = (ft_draft_children){.n = 8};
    for (uint32_t i = 0; i < out->n; i++) {
        const float p = left * (0.5f + 0.4f * (float)ft_rng_unit(&rng)); /* falling */
        out->at[i] = (ft_draft_child){.token = (int32_t)i, .logp = logf(p)};
        left -= p;
    }
}

static uint64_t path_of(uint64_t text, int32_t at)
{
    if (at < 0)
        return text;
    return ft_fnv64(path_of(text, g.node[at].parent), &g.node[at].token, sizeof(int32_t));
}

static void add_children(uint64_t text, int32_t at, uint32_t branch)
{
    ft_draft_children c;
    children_of(path_of(text, at), &c);
    ft_growth_add(&g, at, &c, branch);
}

/* Eq. (2) of the tree that has m tokens when the branch that ends with `given` has got one more.
 * All leaves of the pool end a branch. */
static double distance(uint32_t m, uint32_t given)
{
    double d = -INFINITY;
    for (uint32_t i = 0; i < g.n; i++)
        if (g.node[i].pending < 0)
            d = fmax(d, m * exp((double)g.node[i].cum) - (g.node[i].depth + 1u + (i == given)));
    return d;
}

static void check_nearest(uint32_t chosen)
{
    const double d = distance(g.n_pending + 1, chosen);
    for (uint32_t i = 0; i < g.n; i++)
        if (g.node[i].pending < 0)
            assert_true(d <= distance(g.n_pending + 1, i) + 1e-5);
}

/* Grows as far as it goes; returns the passes. */
static uint32_t grow(uint64_t text, const ft_draft_params *p, const ft_growth_limits *limits)
{
    uint16_t chosen[FT_DRAFT_LEAVES];
    uint32_t n, passes = 0;
    ft_growth_clear(&g);
    add_children(text, -1, p->branch);
    for (; (n = ft_growth_choose(&g, p, limits, chosen)) > 0; passes++) {
        ft_growth_computed(&g, chosen, n, false);
        for (uint32_t i = 0; i < n; i++)
            add_children(text, chosen[i], p->branch);
        ft_growth_check(&g);
        assert_true(passes < 300);
    }
    return passes;
}

static void test_each_token_brings_the_tree_nearest(void **state)
{
    for (uint64_t text = 0; text < 40; text++) {
        const ft_draft_params p = paced(FT_TREE_MAX, 1, 1 + (uint32_t)text % 6);
        ft_growth_clear(&g);
        add_children(text, -1, p.branch);
        for (uint32_t pass = 0; pass < 30; pass++) {
            uint16_t chosen[FT_DRAFT_LEAVES];
            assert_int_equal(ft_growth_choose(&g, &p, &no_limits, chosen), 1);
            check_nearest(chosen[0]);
            ft_growth_computed(&g, chosen, 1, false);
            add_children(text, chosen[0], p.branch);
        }
    }
}

/* However many leaves a pass computes, growth ends with the same tree. */
static void test_any_width_ends_with_the_same_tree(void **state)
{
    uint32_t other = 0;
    for (uint64_t text = 0; text < 40; text++) {
        ft_tree first, tree;
        ft_draft_params p = paced(1 + (uint32_t)text, 1, 1 + (uint32_t)text % 6);
        grow(text, &p, &no_limits);
        ft_growth_emit(&g, &p, &first);
        assert_int_equal(first.n, p.budget);
        for (p.width = 4; p.width <= 64; p.width *= 4) {
            grow(text, &p, &no_limits);
            ft_growth_emit(&g, &p, &tree);
            test_trees_same(&first, &tree);
        }
        p.grow = FT_GROW_BEST;
        grow(text, &p, &no_limits);
        ft_growth_emit(&g, &p, &tree);
        other += ft_tree_levels(&tree) != ft_tree_levels(&first);
    }
    assert_true(other > 5); /* than best-first trees are */
}

static void test_one_branch_is_a_chain(void **state)
{
    ft_tree tree;
    for (uint32_t n = 1; n < 20; n++) {
        const ft_draft_params p = paced(n, 8, 1);
        const uint32_t passes = grow(n, &p, &no_limits);
        assert_int_equal(passes, n - 1);
        ft_growth_emit(&g, &p, &tree);
        assert_int_equal(tree.n, n);
        assert_int_equal(ft_tree_levels(&tree), n);
    }
}

/* The context's end, a least chance. */
static void test_limits(void **state)
{
    for (uint64_t text = 0; text < 20; text++) {
        const ft_growth_limits limits = {.leaves = 3, .depth = 2};
        ft_draft_params p = paced(24, 8, 3);
        ft_tree tree;
        grow(text, &p, &limits);
        ft_growth_emit(&g, &p, &tree);
        assert_int_equal(tree.n, 24);
        assert_int_equal(ft_tree_levels(&tree), 3);
        p.min_logp = -2;
        grow(text, &p, &no_limits);
        ft_growth_emit(&g, &p, &tree);
        assert_in_range(tree.n, 1, 24);
        for (uint32_t i = 1; i < tree.n; i++)
            assert_true(tree.cum_logp[i] >= -2);
    }
}

/* Each node has the given number of children, whatever their chances, or none where the tree
 * ends. */
static void test_fixed_widths(void **state)
{
    static const struct {
        uint8_t children[4];
        uint32_t nodes;
    } trees[] = {{{3}, 3}, {{1, 1, 3, 1}, 8}, {{2, 3}, 8}, {{4, 2, 1}, 20}};
    for (uint64_t text = 0; text < 40; text++) {
        ft_draft_params p = ft_draft_params_tree(60, 0, 1 + (uint32_t)text % 9);
        ft_tree tree;
        p.grow = FT_GROW_FIXED;
        memcpy(p.children, trees[text % 4].children, sizeof trees[0].children);
        grow(text, &p, &no_limits);
        ft_growth_emit(&g, &p, &tree);
        assert_int_equal(tree.n, trees[text % 4].nodes);
        for (uint32_t i = 0; i < tree.n; i++) {
            const uint32_t depth = tree.depth[i] + 1u;
            const uint32_t want = depth < 4 ? p.children[depth] : 0;
            for (uint32_t k = 0; k < want; k++) /* the source's first ones: their ids are ranks */
                assert_true(ft_tree_find_child(&tree, (int32_t)i, (int32_t)k) >= 0);
        }
    }
}

/* A budget cuts the last level, whose likeliest nodes stay; no pass is made for what is cut. */
static void test_fixed_widths_in_a_budget(void **state)
{
    for (uint64_t text = 0; text < 40; text++) {
        ft_draft_params p = ft_draft_params_tree(7, 0, 8);
        ft_tree tree, whole;
        p.grow = FT_GROW_FIXED;
        memcpy(p.children, (uint8_t[]){2, 2, 2, 2}, 4);
        const uint32_t passes = grow(text, &p, &no_limits);
        assert_int_equal(passes, 2);
        ft_growth_emit(&g, &p, &tree);
        assert_int_equal(tree.n, 7);
        p.budget = 30;
        grow(text, &p, &no_limits);
        ft_growth_emit(&g, &p, &whole);
        assert_int_equal(whole.n, 30);
        uint32_t better = 0;
        float third = 0;
        for (uint32_t i = 0; i < tree.n; i++)
            if (tree.depth[i] == 2)
                third = tree.cum_logp[i];
        assert_true(third < 0);
        for (uint32_t i = 0; i < whole.n; i++)
            better += whole.depth[i] == 2 && whole.cum_logp[i] > third;
        assert_int_equal(better, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_a_full_tree_by_hand),
        cmocka_unit_test(test_each_token_brings_the_tree_nearest),
        cmocka_unit_test(test_any_width_ends_with_the_same_tree),
        cmocka_unit_test(test_one_branch_is_a_chain),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_fixed_widths),
        cmocka_unit_test(test_fixed_widths_in_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
