// SPDX-License-Identifier: Apache-2.0
// The drafter on tiny models: text by drafting and verifying equals plain decoding whatever the
// draft; the tree survives verdicts; nothing of it fails when context or KV pool are full.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "spec/drafter.h"
#include "spec/rule.h"
#include "spec/tuning.h"
#include "support/drafts.h"
#include "support/exact_target.h"

enum { TEXT_MAX = 400, PROMPT = 30, ANSWER = 40 };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

/* ---- plain text, and text by speculation ---- */

static uint32_t plain_text(const ft_model *model, const ft_sampling *s, int32_t *text)
{
    test_exact_target t;
    ft_tree none;
    ft_verified v;
    uint32_t n = test_draft_prompt(text, PROMPT, 0);
    ft_tree_clear(&none);
    test_exact_target_init(&t, model, text, n);
    while (n < PROMPT + ANSWER) {
        test_exact_target_round(&t, s, text, n, &none, &v);
        text[n++] = v.next;
    }
    test_exact_target_deinit(&t);
    return n;
}

/* The same text by speculation; returns its length, *rounds how many verdicts it took. */
static uint32_t spec_text(const ft_model *model, const ft_model *draft, const ft_sampling *s,
                          const ft_draft_params *params, int32_t *text, uint32_t *rounds)
{
    test_exact_target t;
    ft_engine *engine = test_draft_engine(draft, 1024, 16);
    ft_drafter *drafter = NULL;
    uint32_t n = test_draft_prompt(text, PROMPT, 0);
    test_exact_target_init(&t, model, text, n);
    must(test_drafter_create(engine, s, &err, &drafter));
    must(ft_drafter_reset(drafter, text, n, &err));
    for (*rounds = 0; n < PROMPT + ANSWER; (*rounds)++) {
        ft_tree tree;
        ft_verified v;
        must(ft_drafter_draft(drafter, params, &err, &tree));
        must(ft_tree_check(&tree, ft_model_hparams(model)->n_vocab, &err));
        assert_true(tree.n <= params->budget);
        test_exact_target_round(&t, s, text, n, &tree, &v);
        for (uint32_t i = 0; i < v.n_path; i++)
            text[n++] = tree.token[v.path[i]];
        text[n++] = v.next;
        must(ft_drafter_advance(drafter, v.path, v.n_path, &v.next, 1, &err));
    }
    ft_drafter_destroy(drafter);
    ft_engine_destroy(engine);
    test_exact_target_deinit(&t);
    return n;
}

static void check_type(enum ggml_type type)
{
    ft_draft_params ways[] = {ft_draft_params_chain(4),        ft_draft_params_tree(16, 4, 4),
                              ft_draft_params_tree(60, 6, 8),  ft_draft_params_chain(0),
                              ft_draft_params_tree(24, 12, 2), ft_draft_params_tree(24, 12, 4)};
    ways[4].grow = FT_GROW_PACER;
    ways[5].grow = FT_GROW_FIXED;
    memcpy(ways[5].children, (uint8_t[]){3, 2, 1, 1}, 4);
    ft_model *model = test_draft_model(type, 1, 2048);
    ft_model *drafts[3] = {test_draft_model(type, 1, 2048),
                           test_draft_model(GGML_TYPE_F32, 1, 2048),
                           test_draft_model(GGML_TYPE_F32, 2, 2048)};
    for (int hot = 0; hot < 2; hot++) {
        ft_sampling s = {.temperature = hot ? 0.8f : 0, .top_p = 1, .seed = 5};
        int32_t plain[TEXT_MAX], text[TEXT_MAX];
        uint32_t n_plain = plain_text(model, &s, plain);
        for (int d = 0; d < 3; d++)
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                uint32_t rounds, n = spec_text(model, drafts[d], &s, &ways[w], text, &rounds);
                assert_true(n >= n_plain);
                assert_memory_equal(text, plain, n_plain * sizeof *plain);
                if (d == 0 && w == 0) /* the same model: every chain is kept whole */
                    assert_int_equal(rounds, ANSWER / 5);
                if (w == 3)
                    assert_int_equal(rounds, ANSWER);
            }
    }
    for (int d = 0; d < 3; d++)
        ft_model_destroy(drafts[d]);
    ft_model_destroy(model);
}

static void test_exact_iq4_nl(void **state)
{
    check_type(GGML_TYPE_IQ4_NL);
}

static void test_exact_q4_0(void **state)
{
    check_type(GGML_TYPE_Q4_0);
}

/* ---- the drafter alone ---- */

typedef struct fixture {
    ft_model *model;
    ft_engine *engine;
    ft_drafter *drafter;
    ft_sampling sampling;
    int32_t text[TEXT_MAX];
} fixture;

static void fixture_init(fixture *f, float temperature, uint32_t n_ctx, uint32_t kv_tok)
{
    memset(f, 0, sizeof *f);
    f->sampling = (ft_sampling){.temperature = temperature, .top_p = 1, .seed = 77};
    f->model = test_draft_model(GGML_TYPE_Q4_0, 3, n_ctx);
    f->engine = test_draft_engine(f->model, kv_tok, 16);
    must(test_drafter_create(f->engine, &f->sampling, &err, &f->drafter));
    test_draft_prompt(f->text, PROMPT, 0);
    must(ft_drafter_reset(f->drafter, f->text, PROMPT, &err));
}

static void fixture_deinit(fixture *f)
{
    ft_drafter_destroy(f->drafter);
    ft_engine_destroy(f->engine);
    ft_model_destroy(f->model);
}

static void test_tree_keeps_its_limits(void **state)
{
    fixture f;
    for (int hot = 0; hot < 2; hot++) {
        fixture_init(&f, hot ? 1 : 0, 2048, 1024);
        ft_draft_params p = ft_draft_params_tree(40, 5, 6);
        ft_tree all, some;
        ft_drafter_stats before, after;
        must(ft_drafter_draft(f.drafter, &p, &err, &all));
        assert_int_equal(all.n, 40);
        uint32_t deepest = 0;
        for (uint32_t i = 0; i < all.n; i++) {
            assert_true(all.logp[i] <= 0);
            assert_true(all.parent[i] < 0 || all.cum_logp[all.parent[i]] >= all.cum_logp[i]);
            deepest = all.depth[i] > deepest ? all.depth[i] : deepest;
        }
        assert_in_range(deepest, 1, 4);
        /* The pool is there: a smaller tree needs no forward, and is made of the best nodes. */
        ft_drafter_get_stats(f.drafter, &before);
        p.budget = 7;
        p.depth = 0;
        must(ft_drafter_draft(f.drafter, &p, &err, &some));
        ft_drafter_get_stats(f.drafter, &after);
        assert_int_equal(before.forwards, after.forwards);
        assert_int_equal(some.n, 7);
        float worst = 0;
        for (uint32_t i = 0; i < some.n; i++)
            worst = fminf(worst, some.cum_logp[i]);
        uint32_t better = 0;
        for (uint32_t i = 0; i < all.n; i++)
            better += all.cum_logp[i] > worst;
        assert_true(better < 7);
        p.budget = 40;
        p.min_logp = worst;
        must(ft_drafter_draft(f.drafter, &p, &err, &some));
        for (uint32_t i = 0; i < some.n; i++)
            assert_true(some.cum_logp[i] >= worst);
        assert_in_range(some.n, 7, 40);
        p.min_logp = 0; /* no node is so sure: the best first token alone */
        must(ft_drafter_draft(f.drafter, &p, &err, &some));
        assert_int_equal(some.n, 1);
        assert_int_equal(some.token[0], all.token[0]);
        fixture_deinit(&f);
    }
}

/* Branch and width bound what one forward and one node add. */
static void test_branch_and_width(void **state)
{
    fixture f;
    ft_tree tree;
    ft_drafter_stats stats;
    fixture_init(&f, 0.8f, 2048, 1024);
    ft_draft_params p = ft_draft_params_tree(FT_TREE_MAX, 4, 3);
    p.branch = 2;
    must(ft_drafter_draft(f.drafter, &p, &err, &tree));
    uint32_t children[FT_TREE_MAX + 1] = {0};
    for (uint32_t i = 0; i < tree.n; i++)
        assert_true(++children[tree.parent[i] + 1] <= 2);
    ft_drafter_get_stats(f.drafter, &stats);
    /* The prompt in two chunks of 16 at most, then two roots, then twice three leaves. */
    assert_int_equal(stats.rows, PROMPT + 2 + 3 + 3);
    assert_int_equal(tree.n, 2 + 2 * (2 + 3 + 3));
    p.branch = p.width = UINT32_MAX;
    must(ft_drafter_draft(f.drafter, &p, &err, &tree));
    assert_int_equal(tree.n, FT_TREE_MAX);
    fixture_deinit(&f);
}

/* A verdict inside the computed part keeps the branch, and what follows is what a new drafter
 * says. */
static void test_branch_survives(void **state)
{
    for (uint32_t kept = 1; kept <= 4; kept++) {
        fixture f;
        ft_tree tree, again, fresh;
        ft_drafter_stats before, after;
        const ft_draft_params chain = ft_draft_params_chain(5);
        uint32_t path[8] = {0, 1, 2, 3};
        fixture_init(&f, 0.8f, 2048, 1024);
        must(ft_drafter_draft(f.drafter, &chain, &err, &tree));
        assert_int_equal(tree.n, 5);
        /* One of the kept tokens comes as the target's own. */
        must(ft_drafter_advance(f.drafter, path, kept - 1, &tree.token[kept - 1], 1, &err));
        ft_drafter_get_stats(f.drafter, &before);
        assert_int_equal(before.reused_nodes, 4 - kept);
        must(ft_drafter_draft(f.drafter, &chain, &err, &again));
        ft_drafter_get_stats(f.drafter, &after);
        assert_int_equal(after.forwards - before.forwards, kept);
        memcpy(f.text + PROMPT, tree.token, kept * sizeof *f.text);
        ft_drafter *other = NULL;
        must(test_drafter_create(f.engine, &f.sampling, &err, &other));
        must(ft_drafter_reset(other, f.text, PROMPT + kept, &err));
        must(ft_drafter_draft(other, &chain, &err, &fresh));
        test_trees_equal(&again, &fresh);
        ft_drafter_destroy(other);
        fixture_deinit(&f);
    }
}

/* Long random walks of verdicts over wide trees, each compared with a new drafter's chain. */
static void test_walk_of_verdicts(void **state)
{
    fixture f;
    ft_drafter *other = NULL;
    uint32_t n = PROMPT;
    const ft_draft_params wide = ft_draft_params_tree(24, 4, 4), chain = ft_draft_params_chain(1);
    fixture_init(&f, 1, 2048, 2048);
    must(test_drafter_create(f.engine, &f.sampling, &err, &other));
    for (uint32_t round = 0; round < 40; round++) {
        ft_tree tree, a, b;
        uint32_t path[FT_TREE_MAX], n_path = 0;
        must(ft_drafter_draft(f.drafter, &wide, &err, &tree));
        /* Go down to some node; stop early in some rounds; end with a foreign token in others. */
        int32_t at = (int32_t)(round * 7 % tree.n);
        for (int32_t i = at; i >= 0; i = tree.parent[i])
            n_path++;
        for (uint32_t i = n_path; i-- > 0; at = tree.parent[at])
            path[i] = (uint32_t)at;
        for (uint32_t i = 0; i < n_path; i++)
            f.text[n++] = tree.token[path[i]];
        int32_t next = (int32_t)(3 + round);
        uint32_t n_next = round % 3 == 0;
        if (n_next)
            f.text[n++] = next;
        must(ft_drafter_advance(f.drafter, path, n_path, &next, n_next, &err));
        must(ft_drafter_reset(other, f.text, n, &err));
        must(ft_drafter_draft(other, &chain, &err, &b));
        must(ft_drafter_draft(f.drafter, &chain, &err, &a));
        assert_int_equal(a.n, 1);
        /* The best child at the root by score is the same; a deeper pool may not outrank it. */
        test_trees_equal(&a, &b);
    }
    ft_drafter_stats stats;
    ft_drafter_get_stats(f.drafter, &stats);
    assert_true(stats.reused_nodes > 0);
    ft_drafter_destroy(other);
    fixture_deinit(&f);
}

static void test_reset_keeps_common_prefix(void **state)
{
    fixture f;
    ft_tree a, b;
    ft_drafter_stats before, after;
    const ft_draft_params p = ft_draft_params_tree(12, 3, 3);
    fixture_init(&f, 0, 2048, 1024);
    must(ft_drafter_draft(f.drafter, &p, &err, &a));
    ft_drafter_get_stats(f.drafter, &before);
    must(ft_drafter_reset(f.drafter, f.text, PROMPT, &err));
    must(ft_drafter_draft(f.drafter, &p, &err, &b));
    ft_drafter_get_stats(f.drafter, &after);
    test_trees_equal(&a, &b);
    assert_true(after.rows - before.rows <= 1 + 2 * 3); /* the last token, then leaves */
    f.text[20] = 200;
    must(ft_drafter_reset(f.drafter, f.text, PROMPT, &err));
    before = after;
    must(ft_drafter_draft(f.drafter, &p, &err, &b));
    ft_drafter_get_stats(f.drafter, &after);
    assert_in_range(after.rows - before.rows, 10, 10 + 2 * 3);
    assert_int_equal(ft_drafter_reset(f.drafter, f.text, 0, &err), FT_INVALID);
    fixture_deinit(&f);
}

static void test_prefill_in_steps(void **state)
{
    fixture f;
    ft_tree a, b;
    uint32_t left;
    const ft_draft_params p = ft_draft_params_chain(3);
    fixture_init(&f, 0.8f, 2048, 1024);
    must(ft_drafter_draft(f.drafter, &p, &err, &a));
    f.text[0]++;
    must(ft_drafter_reset(f.drafter, f.text, PROMPT, &err));
    f.text[0]--;
    must(ft_drafter_reset(f.drafter, f.text, PROMPT, &err));
    must(ft_drafter_prefill(f.drafter, 0, &err, &left));
    assert_int_equal(left, PROMPT - 1);
    must(ft_drafter_prefill(f.drafter, 10, &err, &left));
    assert_int_equal(left, PROMPT - 11);
    must(ft_drafter_prefill(f.drafter, 17, &err, &left));
    assert_int_equal(left, 2);
    must(ft_drafter_prefill(f.drafter, 100, &err, &left));
    assert_int_equal(left, 0);
    must(ft_drafter_draft(f.drafter, &p, &err, &b));
    test_trees_equal(&a, &b);
    must(ft_drafter_prefill(f.drafter, 100, &err, &left));
    assert_int_equal(left, 0);
    fixture_deinit(&f);
}

/* Near the end of the context trees get shorter, behind it there are none; no call fails. */
static void test_context_ends(void **state)
{
    fixture f;
    ft_tree tree;
    uint32_t n = PROMPT, left;
    const ft_draft_params p = ft_draft_params_chain(4);
    fixture_init(&f, 0, PROMPT + 10, 1024);
    for (; n < PROMPT + 20; n++) {
        const int32_t next = 9;
        must(ft_drafter_prefill(f.drafter, 100, &err, &left));
        assert_int_equal(left, 0);
        must(ft_drafter_draft(f.drafter, &p, &err, &tree));
        /* Behind n tokens there is room to compute n_ctx - n nodes, and the last has children. */
        uint32_t room = n <= PROMPT + 10 ? PROMPT + 10 - n + 1 : 0;
        assert_int_equal(tree.n, room < 4 ? room : 4);
        must(ft_drafter_advance(f.drafter, NULL, 0, &next, 1, &err));
    }
    fixture_deinit(&f);
}

/* A full pool means less or no draft, not an error, and room later is used again. */
static void test_pool_is_full(void **state)
{
    fixture f;
    ft_tree tree;
    uint32_t left;
    const ft_draft_params p = ft_draft_params_tree(64, 8, 16);
    fixture_init(&f, 0.8f, 2048, 48);
    must(ft_drafter_draft(f.drafter, &p, &err, &tree)); /* 30 tokens and 18 nodes fit */
    assert_in_range(tree.n, 1, 64);
    test_draft_prompt(f.text, 100, 0);
    must(ft_drafter_reset(f.drafter, f.text, 100, &err));
    must(ft_drafter_prefill(f.drafter, 1000, &err, &left));
    assert_int_equal(left, 0);
    must(ft_drafter_draft(f.drafter, &p, &err, &tree));
    assert_int_equal(tree.n, 0);
    const int32_t next = 5;
    must(ft_drafter_advance(f.drafter, NULL, 0, &next, 1, &err));
    must(ft_drafter_reset(f.drafter, f.text, 20, &err));
    must(ft_drafter_draft(f.drafter, &p, &err, &tree));
    assert_in_range(tree.n, 1, 64);
    fixture_deinit(&f);
}

static void test_foreign_verdicts(void **state)
{
    fixture f;
    ft_tree tree;
    const ft_draft_params p = ft_draft_params_tree(12, 3, 3);
    const uint32_t too_far[] = {12}, not_a_walk[] = {0, 0};
    const int32_t next = 5;
    fixture_init(&f, 0, 2048, 1024);
    must(ft_drafter_draft(f.drafter, &p, &err, &tree));
    assert_int_equal(ft_drafter_advance(f.drafter, too_far, 1, &next, 1, &err), FT_INVALID);
    assert_int_equal(ft_drafter_advance(f.drafter, not_a_walk, 2, &next, 1, &err), FT_INVALID);
    must(ft_drafter_advance(f.drafter, not_a_walk, 1, &next, 1, &err));
    /* The tree is used up. */
    assert_int_equal(ft_drafter_advance(f.drafter, not_a_walk, 1, &next, 1, &err), FT_INVALID);
    must(ft_drafter_advance(f.drafter, NULL, 0, NULL, 0, &err));
    ft_drafter *none = NULL;
    ft_sampling bad = ft_sampling_default();
    bad.temperature = -1;
    assert_int_equal(test_drafter_create(f.engine, &bad, &err, &none), FT_INVALID);
    assert_null(none);
    ft_drafter_destroy(NULL);
    fixture_deinit(&f);
}

static uint64_t forwards_of(const ft_drafter *d)
{
    ft_drafter_stats stats;
    ft_drafter_get_stats(d, &stats);
    return stats.forwards;
}

/* If no times are known, the draft goes to its depth. If forwards cost a lot, it asks for what the
 * text needs and no more. */
static void test_stops(void **state)
{
    fixture f;
    ft_tree full, same, least;
    ft_draft_params params = ft_draft_params_tree(12, 5, 3);
    ft_depth depth = {0};
    int32_t text[TEXT_MAX];
    uint32_t n = test_draft_prompt(text, PROMPT, 0);
    (void)state;
    fixture_init(&f, 0.7f, 256, 256);
    must(ft_drafter_reset(f.drafter, text, n, &err));
    must(ft_drafter_draft(f.drafter, &params, &err, &full));
    uint64_t before = forwards_of(f.drafter);
    params.deep_enough = &depth;
    must(ft_drafter_reset(f.drafter, text, n, &err));
    must(ft_drafter_draft(f.drafter, &params, &err, &same));
    assert_int_equal(forwards_of(f.drafter) - before, params.depth);
    assert_int_equal(same.n, full.n);
    assert_memory_equal(same.token, full.token, full.n * sizeof *full.token);
    depth = (ft_depth){.forward_us = 1e6, .tokens = 1, .us = 1};
    before = forwards_of(f.drafter);
    must(ft_drafter_reset(f.drafter, text, n, &err));
    must(ft_drafter_draft(f.drafter, &params, &err, &least));
    assert_int_equal(forwards_of(f.drafter) - before, 1);
    assert_true(least.n > 0 && least.n <= params.branch);
    fixture_deinit(&f);
}

/* A leaf that is only just worth its row gets no forward: none of its children can be worth theirs.
 * Where rows cost nothing, it gets one. */
static void test_stops_at_dear_rows(void **state)
{
    fixture f;
    ft_tree cheap, dear;
    ft_draft_params params = ft_draft_params_chain(5);
    ft_depth depth = {.forward_us = 1, .tokens = 1, .us = 1e5};
    int32_t text[TEXT_MAX];
    uint32_t n = test_draft_prompt(text, PROMPT, 0);
    (void)state;
    fixture_init(&f, 0, 256, 256);
    params.deep_enough = &depth;
    must(ft_drafter_reset(f.drafter, text, n, &err));
    must(ft_drafter_draft(f.drafter, &params, &err, &cheap));
    assert_true(cheap.n > 1);
    assert_true(depth.drafts[1] == 1 && depth.worth[1] > 0);
    const double worth = depth.worth[1];
    uint64_t before = forwards_of(f.drafter);
    params.min_logp = cheap.cum_logp[0];
    must(ft_drafter_reset(f.drafter, text, n, &err));
    must(ft_drafter_draft(f.drafter, &params, &err, &dear));
    assert_int_equal(forwards_of(f.drafter) - before, 1);
    assert_int_equal(dear.n, 1);
    assert_int_equal(dear.token[0], cheap.token[0]);
    assert_true(depth.drafts[1] == 1 + ft_spec_tune->depth.fade);
    assert_true(depth.worth[1] ==
                worth * ft_spec_tune->depth.fade); /* this one was worth nothing */
    fixture_deinit(&f);
}

/* A forward whose leaves are worth it where there is room is not where the tree is full: there its
 * nodes would displace others. */
static void test_stops_where_nodes_displace_others(void **state)
{
    fixture f;
    ft_tree one, tree;
    ft_draft_params params = ft_draft_params_tree(FT_TREE_MAX, 1, FT_DRAFT_LEAVES);
    ft_depth depth = {0};
    const double yield = ft_depth_yield(&depth);
    double room = 0, full = 0, worst = 1;
    int32_t text[TEXT_MAX];
    uint32_t n = test_draft_prompt(text, PROMPT, 0);
    (void)state;
    fixture_init(&f, 0.7f, 256, 256);
    must(ft_drafter_reset(f.drafter, text, n, &err));
    must(ft_drafter_draft(f.drafter, &params, &err, &one));
    for (uint32_t i = 0; i < one.n; i++)
        worst = fmin(worst, (double)expf(one.cum_logp[i]));
    for (uint32_t i = 0; i < one.n; i++) {
        room += (double)expf(one.cum_logp[i]);
        full += fmax((double)expf(one.cum_logp[i]) - worst / yield, 0);
    }
    depth = (ft_depth){.forward_us = 1, .tokens = yield * (full + room) / 2, .us = 1};
    params.deep_enough = &depth;
    params.depth = 5;
    for (int is_full = 0; is_full < 2; is_full++) {
        const uint64_t before = forwards_of(f.drafter);
        params.budget = is_full ? one.n : FT_TREE_MAX;
        must(ft_drafter_reset(f.drafter, text, n, &err));
        must(ft_drafter_draft(f.drafter, &params, &err, &tree));
        assert_int_equal(forwards_of(f.drafter) - before > 1, !is_full);
    }
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_iq4_nl),
        cmocka_unit_test(test_exact_q4_0),
        cmocka_unit_test(test_tree_keeps_its_limits),
        cmocka_unit_test(test_branch_and_width),
        cmocka_unit_test(test_branch_survives),
        cmocka_unit_test(test_walk_of_verdicts),
        cmocka_unit_test(test_reset_keeps_common_prefix),
        cmocka_unit_test(test_prefill_in_steps),
        cmocka_unit_test(test_context_ends),
        cmocka_unit_test(test_pool_is_full),
        cmocka_unit_test(test_foreign_verdicts),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_stops_at_dear_rows),
        cmocka_unit_test(test_stops_where_nodes_displace_others),
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
