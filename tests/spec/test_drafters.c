// SPDX-License-Identifier: Apache-2.0
// Many drafters in one forward: each tree is the one that its drafter drafts alone, a level takes
// one forward of the engine, and who finds no room in the KV pool stops without stopping others.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "spec/draft_engine.h"
#include "spec/drafter.h"
#include "support/count_allocs.h"
#include "support/drafts.h"

enum { N = 7, TEXT_MAX = 300 };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef struct crowd {
    ft_model *model;
    ft_engine *engine;
    ft_rule_work *work;
    ft_drafter *drafter[N];
    ft_draft_params params[N];
    ft_tree tree[N];
    ft_tree *trees[N];
    int32_t text[N][TEXT_MAX];
    uint32_t n[N];
} crowd;

static void crowd_init(crowd *c, uint32_t kv_tok, uint32_t max_batch, bool share)
{
    memset(c, 0, sizeof *c);
    c->model = test_draft_model(GGML_TYPE_Q4_0, 8, 2048);
    c->engine = test_draft_engine(c->model, kv_tok, max_batch);
    if (share)
        must(ft_rule_work_create(ft_rules_default, ft_model_hparams(c->model)->n_vocab, &err,
                                 &c->work));
    for (uint32_t i = 0; i < N; i++) {
        ft_sampling s = {.temperature = 0.3f * (float)(i % 4), .top_p = 1, .seed = i};
        ft_draft_source *source;
        must(ft_draft_engine_source(c->engine, &ft_rule_exact, c->work, &s, &err, &source));
        must(ft_drafter_create(source, &err, &c->drafter[i]));
        c->n[i] = test_draft_prompt(c->text[i], 5 + 12 * i, i);
        must(ft_drafter_reset(c->drafter[i], c->text[i], c->n[i], &err));
        c->params[i] = ft_draft_params_tree(8 + 4 * i, 3 + i % 3, 2 + i);
        c->trees[i] = &c->tree[i];
    }
    c->params[3] = ft_draft_params_chain(4);
}

static void crowd_deinit(crowd *c)
{
    for (uint32_t i = 0; i < N; i++)
        ft_drafter_destroy(c->drafter[i]);
    ft_rule_work_destroy(c->work);
    ft_engine_destroy(c->engine);
    ft_model_destroy(c->model);
}

/* A walk into the tree and a token of the target's own: differs from round to round. */
static void advance(crowd *c, uint32_t i, uint32_t round)
{
    uint32_t path[FT_TREE_MAX], n_path = 0;
    const int32_t next = (int32_t)(3 + (round * 11 + i) % 200);
    if (c->tree[i].n > 0)
        n_path = test_tree_path(&c->tree[i], round * 5 % c->tree[i].n, path);
    must(ft_drafter_advance(c->drafter[i], path, n_path, &next, round % 2, &err));
}

static void test_trees_are_those_drafted_alone(void **state)
{
    for (uint32_t max_batch = 8; max_batch <= 512; max_batch *= 4) {
        crowd c, alone;
        crowd_init(&c, 4096, max_batch, true);
        crowd_init(&alone, 4096, max_batch, false);
        for (uint32_t round = 0; round < 12; round++) {
            ft_engine_stats before, after;
            uint32_t who = round % 3 ? N : 1 + round % N;
            c.params[5].budget = alone.params[5].budget = round % 4 ? 12 : 0;
            ft_engine_get_stats(c.engine, &before);
            must(ft_drafters_draft(c.drafter, who, c.params, &err, c.trees));
            ft_engine_get_stats(c.engine, &after);
            if (max_batch == 512) /* room for all: a level is one forward */
                assert_in_range(after.forwards - before.forwards, 1, 5);
            for (uint32_t i = 0; i < who; i++) {
                ft_drafter_stats a, b;
                must(ft_drafter_draft(alone.drafter[i], &alone.params[i], &err, &alone.tree[i]));
                test_trees_equal(&c.tree[i], &alone.tree[i]);
                assert_true(i == 5 || c.tree[i].n > 0);
                ft_drafter_get_stats(c.drafter[i], &a);
                ft_drafter_get_stats(alone.drafter[i], &b);
                assert_memory_equal(&a, &b, sizeof a);
                advance(&c, i, round);
                advance(&alone, i, round);
            }
        }
        crowd_deinit(&c);
        crowd_deinit(&alone);
    }
}

static void test_full_pool_stops_one(void **state)
{
    crowd c, alone;
    /* Beside the hog there is room for six short texts, not for one of 600 tokens. */
    crowd_init(&c, 768, 1024, true);
    crowd_init(&alone, 4096, 1024, true);
    ft_draft_source *source;
    ft_sampling s = ft_sampling_default();
    ft_drafter *hog;
    int32_t text[600];
    must(ft_draft_engine_source(c.engine, &ft_rule_exact, c.work, &s, &err, &source));
    must(ft_drafter_create(source, &err, &hog));
    uint32_t left;
    must(ft_drafter_reset(hog, text, test_draft_prompt(text, 200, 9), &err));
    must(ft_drafter_prefill(hog, UINT32_MAX, &err, &left));
    must(ft_drafter_reset(c.drafter[2], text, test_draft_prompt(text, 600, 2), &err));
    err = (ft_error){0};
    must(ft_drafters_draft(c.drafter, N, c.params, &err, c.trees));
    assert_int_equal(err.code, FT_OK);
    assert_int_equal(c.tree[2].n, 0);
    for (uint32_t i = 0; i < N; i++) {
        if (i == 2)
            continue;
        must(ft_drafter_draft(alone.drafter[i], &alone.params[i], &err, &alone.tree[i]));
        test_trees_equal(&c.tree[i], &alone.tree[i]);
    }
    ft_drafter_destroy(hog);
    /* With the room that is free now the one drafts again. */
    must(ft_drafter_reset(c.drafter[2], c.text[2], c.n[2], &err));
    must(ft_drafters_draft(c.drafter, N, c.params, &err, c.trees));
    must(ft_drafter_draft(alone.drafter[2], &alone.params[2], &err, &alone.tree[2]));
    test_trees_equal(&c.tree[2], &alone.tree[2]);
    crowd_deinit(&c);
    crowd_deinit(&alone);
}

/* Once texts and block tables have grown nothing is allocated, ggml's own calls apart. */
static void test_no_allocation(void **state)
{
    if (!COUNTS_ALLOCS)
        skip();
    crowd c;
    uint32_t of_ggml = count_allocs_of_ggml(), runs = 0, calls = 0;
    crowd_init(&c, 4096, 512, true);
    for (uint32_t round = 0; round < 8; round++) {
        ft_engine_stats before, after;
        ft_engine_get_stats(c.engine, &before);
        (void)count_allocs_taken();
        count_allocs(round >= 6);
        for (uint32_t i = 0; i < N; i++)
            must(ft_drafter_reset(c.drafter[i], c.text[i], c.n[i], &err));
        must(ft_drafters_draft(c.drafter, N, c.params, &err, c.trees));
        for (uint32_t i = 0; i < N; i++) {
            bool more;
            must(ft_drafter_proactive(c.drafter[i], &c.params[i], &err, &more));
            advance(&c, i, round % 2);
        }
        count_allocs(false);
        ft_engine_get_stats(c.engine, &after);
        if (round >= 6) {
            runs += (uint32_t)(after.forwards + after.heads - before.forwards - before.heads);
            calls += count_allocs_taken();
        }
    }
    assert_true(runs > 0);
    if (calls != runs * of_ggml)
        print_message("the first of %zu bytes\n", count_allocs_first_bytes());
    assert_int_equal(calls, runs * of_ggml);
    crowd_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees_are_those_drafted_alone),
        cmocka_unit_test(test_full_pool_stops_one),
        cmocka_unit_test(test_no_allocation),
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
