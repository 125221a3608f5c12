// SPDX-License-Identifier: Apache-2.0
// Proactive drafting (SpecEdge 4.2): it does not change the outstanding tree, grows below the
// expansion leaf only, is kept if the verdict goes there, and leaves room for the next draft.
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
#include "spec/draft_engine.h"
#include "spec/drafter.h"
#include "support/drafts.h"

enum { PROMPT = TEST_DRAFTING_PROMPT };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef test_drafting fixture;

/* What all texts of a test ask for; NULL: no penalties. */
static const ft_penalties *asked;

static void fixture_init(fixture *f, uint64_t seed, float temperature, uint32_t n_ctx,
                         uint32_t kv_tok)
{
    const ft_sampling sampling = {.temperature = temperature,
                                  .top_p = 1,
                                  .seed = seed,
                                  .penalties = asked,
                                  .answer_at = PROMPT};
    test_drafting_init(f, &sampling, n_ctx, kv_tok);
}

static ft_drafter_stats stats_of(const ft_drafter *d)
{
    ft_drafter_stats stats;
    ft_drafter_get_stats(d, &stats);
    return stats;
}

/* Until nothing is left; returns the calls that computed something. */
static uint32_t proactive_all(ft_drafter *d, const ft_draft_params *params)
{
    ft_draft_params below = *params;
    below.proactive = FT_PROACTIVE_LEAF;
    uint64_t before = stats_of(d).proactive_forwards;
    bool more = true;
    for (uint32_t calls = 0; more; calls++) {
        uint64_t then = stats_of(d).forwards;
        must(ft_drafter_proactive(d, &below, &err, &more));
        assert_true(stats_of(d).forwards - then <= 1); /* one forward a call */
        assert_true(calls < 1000);
    }
    return (uint32_t)(stats_of(d).proactive_forwards - before);
}

static uint32_t expansion_leaf_of(const ft_tree *tree)
{
    bool inner[FT_TREE_MAX] = {false};
    int head = -1;
    for (uint32_t i = 0; i < tree->n; i++)
        if (tree->parent[i] >= 0)
            inner[tree->parent[i]] = true;
    for (uint32_t i = 0; i < tree->n; i++)
        if (!inner[i] && (head < 0 || tree->cum_logp[i] > tree->cum_logp[head]))
            head = (int)i;
    return (uint32_t)head;
}

/* What a drafter without a past says behind the text. */
static void draft_fresh(fixture *f, const ft_draft_params *params, ft_tree *tree)
{
    must(ft_drafter_reset(f->fresh, f->text, f->n, &err));
    must(ft_drafter_draft(f->fresh, params, &err, tree));
}

static void advance(fixture *f, const ft_tree *tree, const uint32_t *path, uint32_t n_path,
                    const int32_t *next, uint32_t n_next)
{
    must(ft_drafter_advance(f->drafter, path, n_path, next, n_next, &err));
    for (uint32_t i = 0; i < n_path; i++)
        f->text[f->n++] = tree->token[path[i]];
    for (uint32_t i = 0; i < n_next; i++)
        f->text[f->n++] = next[i];
}

/* Deep enough that growth ends by itself: then the tree is the best of all there are, however it
 * came about, and two drafters must agree. */
static ft_draft_params to_the_end(uint32_t budget, uint32_t width)
{
    return ft_draft_params_tree(budget, 200, width);
}

/* The expansion leaf's most likely child, as another drafter says. */
static int32_t child_of_head(fixture *f, const ft_tree *tree, const uint32_t *path, uint32_t n_path,
                             uint32_t which)
{
    ft_draft_params wide = ft_draft_params_tree(8, 1, 8);
    ft_tree children;
    uint32_t n = f->n;
    for (uint32_t i = 0; i < n_path; i++)
        f->text[f->n++] = tree->token[path[i]];
    draft_fresh(f, &wide, &children);
    f->n = n;
    assert_true(which < children.n);
    return children.token[which];
}

static void test_match_saves_forwards(void **state)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fixture f;
        ft_tree tree, again, fresh;
        uint32_t path[FT_TREE_MAX];
        ft_draft_params draft = to_the_end(24, 4), ahead = ft_draft_params_tree(24, 3, 4);
        fixture_init(&f, seed, seed % 2 ? 0.8f : 0, 2048, 2048);
        must(ft_drafter_draft(f.drafter, &draft, &err, &tree));
        uint32_t n_path = test_tree_path(&tree, expansion_leaf_of(&tree), path);
        int32_t next = child_of_head(&f, &tree, path, n_path, 0);
        uint32_t calls = proactive_all(f.drafter, &ahead);
        ft_drafter_stats s = stats_of(f.drafter);
        assert_in_range(calls, 2, 24);
        assert_true(s.proactive_nodes >= calls && s.proactive_nodes <= calls * 4);
        advance(&f, &tree, path, n_path, &next, 1);
        s = stats_of(f.drafter);
        assert_int_equal(s.leaves, 1);
        assert_int_equal(s.aligned, 1);
        assert_int_equal(s.matched, 1);
        /* At most the expansion leaf, its best child and what hangs on that. */
        assert_true(s.proactive_kept >= 1 && s.proactive_kept <= s.reused_nodes + 2);
        uint64_t before = s.forwards, before_fresh = stats_of(f.fresh).forwards;
        must(ft_drafter_draft(f.drafter, &draft, &err, &again));
        draft_fresh(&f, &draft, &fresh);
        test_trees_same(&again, &fresh);
        assert_true(stats_of(f.drafter).forwards - before <
                    stats_of(f.fresh).forwards - before_fresh);
        test_drafting_deinit(&f);
    }
}

/* Several children of the expansion leaf are in the pool, and a run goes through it. */
static void test_other_children_and_runs(void **state)
{
    for (uint32_t which = 0; which < 5; which++) {
        fixture f;
        ft_tree tree, again, fresh;
        uint32_t path[FT_TREE_MAX];
        ft_draft_params draft = to_the_end(16, 4), ahead = ft_draft_params_tree(32, 3, 4);
        fixture_init(&f, 9, 0.8f, 2048, 2048);
        must(ft_drafter_draft(f.drafter, &draft, &err, &tree));
        uint32_t n_path = test_tree_path(&tree, expansion_leaf_of(&tree), path);
        int32_t next[3] = {which < 4 ? child_of_head(&f, &tree, path, n_path, which) : 2, 7, 8};
        proactive_all(f.drafter, &ahead);
        if (which == 3) { /* of the run only the first is in the pool */
            advance(&f, &tree, path, n_path, next, 3);
        } else if (
            which ==
            2) { /* the expansion leaf's token comes as the target's own: nothing was aligned */
            next[1] = next[0];
            next[0] = tree.token[path[n_path - 1]];
            advance(&f, &tree, path, n_path - 1, next, 2);
        } else {
            advance(&f, &tree, path, n_path, next, 1);
        }
        ft_drafter_stats s = stats_of(f.drafter);
        assert_int_equal(s.leaves, 1);
        assert_int_equal(s.aligned, which != 2);
        assert_int_equal(s.matched, which != 2 && which != 4);
        assert_true(which == 4 || s.proactive_kept >= 1);
        must(ft_drafter_draft(f.drafter, &draft, &err, &again));
        draft_fresh(&f, &draft, &fresh);
        test_trees_same(&again, &fresh);
        test_drafting_deinit(&f);
    }
}

/* Two drafters, one drafts proactively. After verdicts that miss the expansion leaf they are
 * equal. */
static void test_tree_that_is_out_is_untouched(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (uint32_t round = 0; round < 12; round++) {
        fixture f, g;
        ft_tree tree, other;
        uint32_t path[FT_TREE_MAX];
        ft_draft_params params = ft_draft_params_tree(20, 4, 4);
        fixture_init(&f, round, round % 3 ? 1 : 0, 2048, 2048);
        fixture_init(&g, round, round % 3 ? 1 : 0, 2048, 2048);
        must(ft_drafter_draft(f.drafter, &params, &err, &tree));
        must(ft_drafter_draft(g.drafter, &params, &err, &other));
        test_trees_equal(&tree, &other);
        proactive_all(f.drafter, &params);
        uint32_t at, head = expansion_leaf_of(&tree);
        uint32_t n_head = test_tree_path(&tree, head, path), on_way = 1;
        while (on_way) { /* a node that is not on the way to the expansion leaf */
            at = ft_rng_below(&rng, tree.n);
            on_way = 0;
            for (uint32_t i = 0; i < n_head; i++)
                on_way |= path[i] == at;
        }
        uint32_t n_path = test_tree_path(&tree, at, path);
        int32_t next = 5 + (int32_t)round;
        advance(&f, &tree, path, n_path, &next, round % 2);
        advance(&g, &other, path, n_path, &next, round % 2);
        ft_drafter_stats a = stats_of(f.drafter), b = stats_of(g.drafter);
        assert_int_equal(a.reused_nodes, b.reused_nodes);
        assert_int_equal(a.leaves, 1);
        assert_int_equal(b.leaves, 0);
        assert_int_equal(a.aligned + a.matched + a.proactive_kept, 0);
        must(ft_drafter_draft(f.drafter, &params, &err, &tree));
        must(ft_drafter_draft(g.drafter, &params, &err, &other));
        test_trees_equal(&tree, &other);
        assert_int_equal(stats_of(f.drafter).forwards - a.forwards,
                         stats_of(g.drafter).forwards - b.forwards);
        test_drafting_deinit(&f);
        test_drafting_deinit(&g);
    }
}

/* Any order of drafts, calls ahead and verdicts; every draft that grows to its end is what a
 * drafter without a past says. */
static void random_sequences(void)
{
    ft_rng rng;
    ft_rng_init(&rng, 11);
    for (uint64_t seed = 0; seed < 4; seed++) {
        fixture f;
        fixture_init(&f, seed, seed % 2 ? 0.7f : 0, 2048, 2048);
        for (uint32_t round = 0; round < 25; round++) {
            uint32_t width = 1 + ft_rng_below(&rng, 8), budget = 1 + ft_rng_below(&rng, 40);
            ft_draft_params draft = to_the_end(budget, width), ahead = draft;
            ft_tree tree, fresh;
            bool more = true;
            uint32_t path[FT_TREE_MAX], n_path = 0;
            ahead.budget = ft_rng_below(&rng, 50);
            ahead.depth = ft_rng_below(&rng, 6);
            must(ft_drafter_draft(f.drafter, &draft, &err, &tree));
            draft_fresh(&f, &draft, &fresh);
            assert_int_equal(tree.n, budget);
            test_trees_same(&tree, &fresh);
            for (uint32_t calls = ft_rng_below(&rng, 12); more && calls > 0; calls--)
                must(ft_drafter_proactive(f.drafter, &ahead, &err, &more));
            uint32_t at =
                ft_rng_below(&rng, 3) ? expansion_leaf_of(&tree) : ft_rng_below(&rng, tree.n);
            if (ft_rng_below(&rng, 8))
                n_path = test_tree_path(&tree, at, path);
            int32_t next[2] = {3, 9};
            if (ft_rng_below(&rng, 3))
                next[0] = child_of_head(&f, &tree, path, n_path, ft_rng_below(&rng, 2));
            advance(&f, &tree, path, n_path, next, ft_rng_below(&rng, 3));
        }
        ft_drafter_stats s = stats_of(f.drafter);
        assert_true(s.leaves > 0 && s.aligned > 0 && s.matched > 0);
        assert_true(s.proactive_kept > 0 && s.proactive_kept <= s.proactive_nodes);
        assert_true(s.matched <= s.aligned && s.aligned <= s.leaves);
        test_drafting_deinit(&f);
    }
}

static void test_random_sequences(void **state)
{
    random_sequences();
}

/* Each draw knows all tokens before it, whatever was kept of earlier drafts. */
static void test_random_sequences_with_penalties(void **state)
{
    asked = &(const ft_penalties){.presence = 1, .frequency = 0.5f, .repetition = 1.5f};
    random_sequences();
    asked = NULL;
}

/* However much is drafted proactively, the next draft has the room that it would have had. */
static void test_next_draft_has_room(void **state)
{
    fixture f;
    ft_tree tree, again, fresh;
    uint32_t path[FT_TREE_MAX];
    ft_draft_params draft = ft_draft_params_tree(FT_TREE_MAX, 4, 16), ahead = draft;
    fixture_init(&f, 21, 0.8f, 2048, 4096);
    must(ft_drafter_draft(f.drafter, &draft, &err, &tree));
    uint32_t n_path = test_tree_path(&tree, expansion_leaf_of(&tree), path);
    int32_t next = child_of_head(&f, &tree, path, n_path, 0);
    ahead.width = ahead.branch = UINT32_MAX;
    ahead.depth = 4;
    proactive_all(f.drafter, &ahead);
    ahead = draft;
    proactive_all(f.drafter, &ahead);
    advance(&f, &tree, path, n_path, &next, 1);
    must(ft_drafter_draft(f.drafter, &draft, &err, &again));
    draft_fresh(&f, &draft, &fresh);
    assert_int_equal(again.n, fresh.n);
    float sum = 0, sum_fresh = 0;
    for (uint32_t i = 0; i < again.n; i++) {
        sum += expf(again.cum_logp[i]);
        sum_fresh += expf(fresh.cum_logp[i]);
    }
    assert_true(sum >= sum_fresh);
    test_drafting_deinit(&f);
}

/* A KV pool that is short ends drafting ahead while there is still room for the next draft. */
static void test_kv_is_short(void **state)
{
    ft_draft_params params = ft_draft_params_tree(32, 3, 8);
    uint64_t computed[3];
    for (uint32_t i = 0; i < 3; i++) {
        fixture f;
        ft_tree tree, fresh;
        ft_engine_stats engine;
        fixture_init(&f, 4, 0.8f, 2048, 64 + 64 * i);
        must(ft_drafter_draft(f.drafter, &params, &err, &tree));
        proactive_all(f.drafter, &params);
        computed[i] = stats_of(f.drafter).proactive_nodes;
        ft_engine_get_stats(f.engine, &engine);
        if (computed[i] > 0)
            assert_true(engine.blocks_free * FT_KV_BLOCK_TOK >= ft_draft_params_leaves(&params));
        int32_t next = 3;
        advance(&f, &tree, NULL, 0, &next, 1);
        must(ft_drafter_draft(f.drafter, &params, &err, &tree));
        if (i > 0) {
            draft_fresh(&f, &params, &fresh);
            test_trees_equal(&tree, &fresh);
        }
        test_drafting_deinit(&f);
    }
    assert_int_equal(computed[0], 0);
    assert_true(computed[1] > 0 && computed[2] >= computed[1]);
}

/* Behind a chain of three whose last has room for so many more tokens up to the context's end. */
static void test_context_ends(void **state)
{
    for (uint32_t room = 0; room < 5; room++) {
        fixture f;
        ft_tree tree;
        bool more = true;
        ft_draft_params chain = ft_draft_params_chain(3), none = chain;
        fixture_init(&f, 5, 0, PROMPT + 2 + room, 1024);
        must(ft_drafter_proactive(f.drafter, &chain, &err, &more)); /* no tree is out */
        assert_false(more);
        must(ft_drafter_draft(f.drafter, &chain, &err, &tree));
        none.budget = 0;
        must(ft_drafter_proactive(f.drafter, &none, &err, &more));
        assert_false(more);
        /* The expansion leaf and two of the three wanted nodes: the last needs no children. */
        assert_int_equal(proactive_all(f.drafter, &chain), room < 3 ? room : 3);
        must(ft_drafter_reset(f.drafter, f.text, f.n, &err));
        must(ft_drafter_proactive(f.drafter, &chain, &err, &more));
        assert_false(more);
        test_drafting_deinit(&f);
    }
}

/* ---- where draws depend on the round ---- */

static ft_drafter *ratio_drafter(const fixture *f)
{
    ft_draft_source *source;
    ft_drafter *d;
    must(ft_draft_engine_source(f->engine, &ft_rule_ratio, NULL, &f->sampling, &err, &source));
    must(ft_drafter_create(source, &err, &d));
    return d;
}

static void assert_same_evidence(const ft_drafter *a, const ft_drafter *b, uint32_t n_nodes)
{
    for (uint32_t i = 0; i < n_nodes; i++) {
        uint32_t n_a, n_b;
        const uint8_t *at_a = ft_drafter_evidence(a, i, &n_a);
        const uint8_t *at_b = ft_drafter_evidence(b, i, &n_b);
        assert_true(n_a > 0 && n_a == n_b);
        assert_memory_equal(at_a, at_b, n_a);
    }
}

/* Under rule `ratio` a draft is the one that a drafter without a past makes, whatever there was
 * time to draw ahead, also where length and l change from round to round. */
static void test_chains_do_not_depend_on_time(void **state)
{
    fixture f;
    ft_rng rng;
    uint64_t saved = 0;
    fixture_init(&f, 4, 1, 2048, 2048);
    ft_drafter_destroy(f.drafter);
    ft_drafter_destroy(f.fresh);
    f.drafter = ratio_drafter(&f);
    f.fresh = ratio_drafter(&f);
    must(ft_drafter_reset(f.drafter, f.text, f.n, &err));
    ft_rng_init(&rng, 2);
    for (uint32_t round = 1; round < 100; round++) {
        ft_draft_params params = ft_draft_params_chain(1 + ft_rng_below(&rng, 4));
        ft_tree tree, fresh;
        uint32_t path[FT_TREE_MAX];
        params.proactive = FT_PROACTIVE_LEAF;
        params.round = round;
        params.resolution = round % 5 ? 240 : 100;
        const uint64_t before = stats_of(f.drafter).forwards, then = stats_of(f.fresh).forwards;
        must(ft_drafter_draft(f.drafter, &params, &err, &tree));
        draft_fresh(&f, &params, &fresh);
        test_trees_equal(&tree, &fresh);
        assert_int_equal(tree.n, params.budget);
        assert_same_evidence(f.drafter, f.fresh, tree.n);
        saved += stats_of(f.drafter).forwards - before < stats_of(f.fresh).forwards - then;
        bool more = true;
        for (uint32_t i = ft_rng_below(&rng, 8); i > 0 && more; i--)
            must(ft_drafter_proactive(f.drafter, &params, &err, &more));
        /* All are accepted, or none; then the token comes that is drawn there in the next round. */
        const uint32_t n_path = round % 4 ? test_tree_path(&tree, tree.n - 1, path) : 0;
        ft_draft_params one = ft_draft_params_chain(1);
        one.round = round + 1;
        one.resolution = params.resolution;
        for (uint32_t i = 0; i < n_path; i++)
            f.text[f.n + i] = tree.token[path[i]];
        must(ft_drafter_reset(f.fresh, f.text, f.n + n_path, &err));
        must(ft_drafter_draft(f.fresh, &one, &err, &fresh));
        f.text[f.n + n_path] = fresh.token[0];
        must(ft_drafter_advance(f.drafter, path, n_path, &f.text[f.n + n_path], 1, &err));
        f.n += n_path + 1;
    }
    assert_true(saved > 20); /* of forwards: what is drawn ahead is of use */
    test_drafting_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match_saves_forwards),
        cmocka_unit_test(test_other_children_and_runs),
        cmocka_unit_test(test_tree_that_is_out_is_untouched),
        cmocka_unit_test(test_random_sequences),
        cmocka_unit_test(test_random_sequences_with_penalties),
        cmocka_unit_test(test_next_draft_has_room),
        cmocka_unit_test(test_kv_is_short),
        cmocka_unit_test(test_context_ends),
        cmocka_unit_test(test_chains_do_not_depend_on_time),
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
