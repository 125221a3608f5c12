// SPDX-License-Identifier: Apache-2.0
// The fallback rule (EdgeLLM III-C): confidence and threshold by hand, the threshold's bounds, and
// where drafts end by it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/fallback.h"
#include "support/drafts.h"

static uint32_t add(ft_tree *tree, int32_t parent, int32_t token, double p)
{
    return ft_tree_add(tree, parent, token, (float)log(p));
}

/* Branches 0-1-2 (0.8 * 0.5 * 0.625 = 0.25) and 4-5 (0.1 * 0.9 = 0.09); 3 (0.16) is a token that a
 * forward named beside node 1. */
static ft_tree by_hand(void)
{
    ft_tree t;
    ft_tree_clear(&t);
    add(&t, -1, 10, 0.8);
    add(&t, 0, 11, 0.5);
    add(&t, 1, 12, 0.625);
    add(&t, 0, 13, 0.2);
    add(&t, -1, 20, 0.1);
    add(&t, 4, 21, 0.9);
    return t;
}

static void test_confidence_is_of_the_likeliest_branch(void **state)
{
    ft_tree tree = by_hand();
    const ft_fallback a = ft_fallback_begin(0.3f), b = ft_fallback_begin(0.2f);
    const float t_c = ft_fallback_confidence(&tree);
    assert_float_equal(t_c, 0.25, 1e-6);
    assert_true(ft_fallback_now(&a, t_c));
    assert_false(ft_fallback_now(&b, t_c));
    add(&tree, 2, 14, 0.5); /* 0.125; 0-3 is likelier, but the draft has not gone there */
    assert_float_equal(ft_fallback_confidence(&tree), 0.125, 1e-6);
    add(&tree, 3, 15, 0.9); /* now it has */
    assert_float_equal(ft_fallback_confidence(&tree), 0.144, 1e-6);
    ft_tree_clear(&tree);
    assert_float_equal(ft_fallback_confidence(&tree), 1, 0);
}

static void saw(ft_fallback *f, const ft_tree *tree, uint32_t n_path, const uint32_t *path,
                double alpha)
{
    ft_fallback_saw(f, tree, path, n_path);
    if (fabs((double)f->alpha - alpha) > 1e-4 * alpha)
        fail_msg("alpha %g, wanted %g", (double)f->alpha, alpha);
}

/* Eq. (3), step by step; T_c is 0.25. */
static void test_alpha_by_hand(void **state)
{
    const ft_tree tree = by_hand();
    const uint32_t whole[] = {0, 1, 2}, side[] = {0, 3}, low[] = {4, 5};
    ft_fallback f = ft_fallback_begin(0);
    assert_float_equal(f.alpha, 0.01, 1e-9);
    saw(&f, &tree, 3, whole, 0.005);
    saw(&f, &tree, 2, side, 0.0025); /* a branch to its end, though not the likeliest */
    saw(&f, &tree, 2, low, 0.00125);
    const double third = pow(0.25, 1.0 / 3), two_thirds = pow(0.25, 2.0 / 3);
    saw(&f, &tree, 2, whole, 0.00125 / third); /* 0-1 of 0-1-2 */
    saw(&f, &tree, 1, whole, 0.00125 / third / two_thirds);
    saw(&f, &tree, 1, low, 0.00125 / third / two_thirds / 0.5); /* 4 of 4-5 */
    const double now = (double)f.alpha;
    saw(&f, &tree, 0, NULL, now * 4); /* nothing is right: by all of T_c */
    saw(&f, &tree, 0, NULL, now * 16);
    for (int i = 0; i < 10; i++)
        ft_fallback_saw(&f, &tree, NULL, 0);
    assert_float_equal(f.alpha, 0.99, 1e-6);
    saw(&f, &tree, 3, whole, 0.495);
}

static void test_fixed_alpha_stays(void **state)
{
    const ft_tree tree = by_hand();
    const uint32_t whole[] = {0, 1, 2};
    ft_fallback f = ft_fallback_begin(0.2f);
    ft_fallback_saw(&f, &tree, whole, 3);
    ft_fallback_saw(&f, &tree, NULL, 0);
    assert_true(f.alpha == 0.2f);
}

/* Any trees, also impossible ones, and any verdicts. */
static void test_alpha_stays_in_bounds(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 11);
    ft_fallback f = ft_fallback_begin(0);
    uint32_t low = 0, high = 0;
    for (uint32_t round = 0; round < 5000; round++) {
        ft_tree tree;
        uint32_t path[FT_TREE_MAX], n = ft_rng_below(&rng, 20), n_path = 0;
        const bool kind = round / 100 % 2; /* to halve often, and to divide often */
        ft_tree_clear(&tree);
        for (uint32_t i = 0; i < n; i++)
            add(&tree, (int32_t)ft_rng_below(&rng, i + 1) - 1, (int32_t)i,
                ft_rng_below(&rng, 30) ? ft_rng_unit(&rng) : 0);
        if (n > 0 && ft_rng_below(&rng, 4) > 0)
            n_path = test_tree_path(&tree, kind ? n - 1 : ft_rng_below(&rng, n), path);
        const float before = f.alpha;
        ft_fallback_saw(&f, &tree, path, n_path);
        assert_true(f.alpha > 0 && f.alpha < 1);
        assert_true(f.alpha >= FT_FALLBACK_LEAST && f.alpha <= FT_FALLBACK_MOST);
        assert_true(n > 0 || f.alpha == before);
        low += f.alpha < 0.001f;
        high += f.alpha == FT_FALLBACK_MOST;
    }
    assert_true(low > 50 && high > 50);
}

static void draft(test_drafting *d, uint32_t n_text, const ft_draft_params *p, ft_tree *tree)
{
    ft_error err = {0};
    assert_int_equal(ft_drafter_reset(d->fresh, d->text, n_text, &err), FT_OK);
    assert_int_equal(ft_drafter_draft(d->fresh, p, &err, tree), FT_OK);
}

/* A chain ends with the first token behind which it is less likely than alpha. */
static void test_chains_end(void **state)
{
    static const ft_sampling sampling = {.temperature = 0.8f, .top_p = 1, .seed = 77};
    test_drafting d;
    uint32_t ended = 0, went_on = 0;
    test_drafting_init(&d, &sampling, 2048, 1024);
    for (uint32_t i = 0; i < 40; i++) {
        const ft_fallback f = ft_fallback_begin(1e-6f * (float)pow(10, i % 6));
        ft_draft_params p = ft_draft_params_chain(8);
        ft_tree all, some;
        draft(&d, 4 + i % 16, &p, &all);
        p.fallback = &f;
        draft(&d, 4 + i % 16, &p, &some);
        uint32_t n = 1;
        while (n < all.n && expf(all.cum_logp[n - 1]) >= f.alpha)
            n++;
        assert_int_equal(some.n, n);
        assert_memory_equal(some.token, all.token, n * sizeof *all.token);
        ended += n < all.n;
        went_on += n > 1;
    }
    assert_true(ended > 5 && went_on > 5);
    test_drafting_deinit(&d);
}

/* However trees grow: one ends with the first pass behind which its confidence is below alpha. */
static void test_trees_end(void **state)
{
    static const ft_sampling sampling = {.temperature = 0.8f, .top_p = 1, .seed = 78};
    enum { DEPTH = 5 };
    test_drafting d;
    uint32_t ended[DEPTH + 1] = {0};
    test_drafting_init(&d, &sampling, 2048, 1024);
    for (uint32_t i = 0; i < 60; i++) {
        const ft_fallback f = ft_fallback_begin(1e-3f * (float)pow(3, i % 7));
        ft_draft_params p = ft_draft_params_tree(24, DEPTH, 3);
        ft_tree some, passes;
        p.grow = (ft_grow)(i % 3);
        memcpy(p.children, (uint8_t[]){2, 2, 1, 1, 1}, DEPTH);
        p.fallback = &f;
        draft(&d, 4 + i % 16, &p, &some);
        p.fallback = NULL;
        for (p.depth = 1; p.depth <= DEPTH; p.depth++) {
            draft(&d, 4 + i % 16, &p, &passes);
            if (p.depth == DEPTH || ft_fallback_confidence(&passes) < f.alpha)
                break;
        }
        test_trees_equal(&some, &passes);
        ended[p.depth]++;
    }
    assert_true(ended[1] > 0 && ended[DEPTH] > 0 && ended[1] + ended[DEPTH] < 60);
    test_drafting_deinit(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_confidence_is_of_the_likeliest_branch),
        cmocka_unit_test(test_alpha_by_hand),
        cmocka_unit_test(test_fixed_alpha_stays),
        cmocka_unit_test(test_alpha_stays_in_bounds),
        cmocka_unit_test(test_chains_end),
        cmocka_unit_test(test_trees_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
