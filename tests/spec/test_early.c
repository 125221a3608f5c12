// SPDX-License-Identifier: Apache-2.0
// The early nodes of a pool: they extend the tree that is out, are what a tree drafted behind the
// verdict without a further forward would be, and a drafter goes on from them as from any other
// tree.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "spec/drafter.h"
#include "support/drafts.h"

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef test_drafting fixture;

static void fixture_init(fixture *f, uint64_t seed)
{
    test_drafting_init(f,
                       &(ft_sampling){.temperature = seed % 2 ? 0.8f : 0, .top_p = 1, .seed = seed},
                       2048, 2048);
}

static void draft_fresh(fixture *f, const ft_draft_params *params, ft_tree *tree)
{
    must(ft_drafter_reset(f->fresh, f->text, f->n, &err));
    must(ft_drafter_draft(f->fresh, params, &err, tree));
}

static void ahead(fixture *f, const ft_draft_params *params, uint32_t forwards)
{
    bool more = true;
    while (more && forwards-- > 0)
        must(ft_drafter_proactive(f->drafter, params, &err, &more));
}

typedef struct early {
    ft_tree tree;
    uint8_t under[FT_TREE_MAX];
    double gain;
} early;

static void emit_early(fixture *f, uint32_t budget, double spare_tok, early *out)
{
    const ft_growth_early how = {.budget = budget, .spare_tok = spare_tok};
    out->gain = ft_drafter_early(f->drafter, &how, &out->tree, out->under);
}

static bool hangs_below(const ft_tree *tree, uint32_t i, uint32_t top)
{
    int32_t at = tree->parent[i];
    while (at >= 0 && at != (int32_t)top)
        at = tree->parent[at];
    return at == (int32_t)top;
}

/* It extends `tree` as it says; no top is a child that the tree has, and each has something below
 * it. */
static void check_early(const early *e, const ft_tree *tree, uint32_t budget)
{
    uint32_t n_top = 0;
    assert_true(e->tree.n <= budget);
    assert_true(e->tree.n == 0 ? e->gain == 0 : e->gain > 0);
    for (uint32_t i = 0; i < e->tree.n; i++) {
        uint32_t below = 0;
        if (e->tree.parent[i] >= 0)
            continue;
        assert_in_range(e->under[n_top], 0, tree->n - 1);
        assert_int_equal(ft_tree_find_child(tree, e->under[n_top], e->tree.token[i]), -1);
        n_top++;
        for (uint32_t k = i + 1; k < e->tree.n; k++)
            below += hangs_below(&e->tree, k, i);
        assert_true(below > 0);
    }
}

/* What is below a top, as both sides cut it out. */
static void cut(const ft_tree *tree, uint32_t top, ft_tree *out)
{
    int32_t moved[FT_TREE_MAX];
    ft_tree_clear(out);
    moved[top] = -1;
    for (uint32_t i = top + 1; i < tree->n; i++)
        if (hangs_below(tree, i, top))
            moved[i] =
                (int32_t)ft_tree_add(out, moved[tree->parent[i]], tree->token[i], tree->logp[i]);
}

/* The number of the top among the tops. */
static uint32_t place(const ft_tree *tree, uint32_t top)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < top; i++)
        n += tree->parent[i] < 0;
    return n;
}

/* The verdict goes to `node` of the tree that is out and says `next`. */
static void advance(fixture *f, const ft_tree *tree, uint32_t node, int32_t next)
{
    uint32_t path[FT_TREE_MAX], n = test_tree_path(tree, node, path);
    must(ft_drafter_advance(f->drafter, path, n, &next, 1, &err));
    for (uint32_t i = 0; i < n; i++)
        f->text[f->n++] = tree->token[path[i]];
    f->text[f->n++] = next;
}

static bool same_nodes(const ft_tree *a, const ft_tree *b)
{
    return a->n == b->n && memcmp(a->token, b->token, a->n * sizeof *a->token) == 0 &&
           memcmp(a->parent, b->parent, a->n * sizeof *a->parent) == 0;
}

/* For each top: what is taken is what was sent below it, and what a tree of as many nodes is that
 * is drafted behind the verdict from the same pool. */
static void test_is_the_next_tree(void **state)
{
    uint32_t tops = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        for (uint32_t which = 0; which < 3; which++) {
            fixture f;
            ft_tree tree, below, taken, again;
            early e;
            ft_draft_params params = ft_draft_params_tree(16, 3, 4);
            fixture_init(&f, seed);
            must(ft_drafter_draft(f.drafter, &params, &err, &tree));
            ahead(&f, &params, 6);
            emit_early(&f, 24, 10, &e);
            check_early(&e, &tree, 24);
            assert_true(e.tree.n > 0);
            ahead(&f, &params, which); /* drafting ahead goes on */
            uint32_t top = 0;
            for (uint32_t i = 0, n = 0; i < e.tree.n && n <= which; i++)
                if (e.tree.parent[i] < 0 && n++ <= which)
                    top = i;
            cut(&e.tree, top, &below);
            advance(&f, &tree, e.under[place(&e.tree, top)], e.tree.token[top]);
            ft_drafter_early_take(f.drafter, &taken);
            assert_true(same_nodes(&taken, &below));
            tops++;
            if (which == 0) {
                const ft_draft_params none = ft_draft_params_tree(taken.n, 0, 4);
                must(ft_drafter_draft(f.drafter, &none, &err, &again));
                test_trees_equal(&taken, &again);
            }
            test_drafting_deinit(&f);
        }
    assert_int_equal(tops, 18);
}

/* What is not worth it is not sent, and what the verdict does not go to is forgotten. */
static void test_worth(void **state)
{
    fixture f;
    ft_tree tree, taken;
    early all, some, none;
    ft_draft_params params = ft_draft_params_tree(16, 3, 4);
    (void)state;
    fixture_init(&f, 3);
    must(ft_drafter_draft(f.drafter, &params, &err, &tree));
    emit_early(&f, 24, 10, &none); /* nothing is computed ahead */
    assert_int_equal(none.tree.n, 0);
    ahead(&f, &params, 8);
    emit_early(&f, 24, -10, &none);
    assert_int_equal(none.tree.n, 0);
    emit_early(&f, 24, 10, &all);
    check_early(&all, &tree, 24);
    emit_early(&f, 24, 0, &some);
    check_early(&some, &tree, 24);
    assert_true(some.gain < all.gain);
    emit_early(&f, 1, 10, &none); /* a top alone */
    assert_int_equal(none.tree.n, 0);
    emit_early(&f, 24, 10, &all);
    advance(&f, &tree, 0, 7);
    ft_drafter_early_take(f.drafter, &taken);
    assert_int_equal(taken.n, 0);
    test_drafting_deinit(&f);
}

/* Rounds of both kinds in any order; every draft that grows to its end is what a drafter without a
 * past says. */
static void test_random_rounds(void **state)
{
    ft_rng rng;
    uint32_t n_taken = 0;
    (void)state;
    ft_rng_init(&rng, 5);
    for (uint64_t seed = 0; seed < 4; seed++) {
        fixture f;
        ft_tree tree, fresh, below;
        early e;
        bool begun = false;
        fixture_init(&f, seed);
        for (uint32_t round = 0; round < 25; round++) {
            ft_draft_params params =
                ft_draft_params_tree(1 + ft_rng_below(&rng, 24), 200, 1 + ft_rng_below(&rng, 6));
            if (!begun) {
                must(ft_drafter_draft(f.drafter, &params, &err, &tree));
                draft_fresh(&f, &params, &fresh);
                test_trees_same(&tree, &fresh);
            }
            params.depth = 3;
            ahead(&f, &params, ft_rng_below(&rng, 8));
            emit_early(&f, 1 + ft_rng_below(&rng, 30), 10, &e);
            check_early(&e, &tree, 30);
            begun = e.tree.n > 0 && ft_rng_below(&rng, 3) > 0;
            if (begun) {
                uint32_t top = ft_rng_below(&rng, e.tree.n);
                while (e.tree.parent[top] >= 0)
                    top = (uint32_t)e.tree.parent[top];
                cut(&e.tree, top, &below);
                advance(&f, &tree, e.under[place(&e.tree, top)], e.tree.token[top]);
                ft_drafter_early_take(f.drafter, &tree);
                assert_true(same_nodes(&tree, &below));
                n_taken++;
            } else {
                advance(&f, &tree, ft_rng_below(&rng, tree.n), 9);
            }
        }
        test_drafting_deinit(&f);
    }
    assert_true(n_taken > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_the_next_tree),
        cmocka_unit_test(test_worth),
        cmocka_unit_test(test_random_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
