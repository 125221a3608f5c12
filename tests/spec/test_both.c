// SPDX-License-Identifier: Apache-2.0
// Two sources as one: what either names is proposed; what lookups leave is the model's, so chances
// stay chances; both have one text through verdicts; the text is the target's; a full KV pool is as
// without lookups.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "spec/both.h"
#include "spec/draft_engine.h"
#include "spec/lookup.h"
#include "spec/rule.h"
#include "support/drafts.h"

enum { PROMPT = 40, PREDICTION = 60, MOST = 64 };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef struct fixture {
    ft_model *model;
    ft_engine *engine;
    int32_t prompt[PROMPT], prediction[PREDICTION];
} fixture;

static void init(fixture *f, uint32_t kv_tok)
{
    f->model = test_draft_model(GGML_TYPE_Q4_0, 3, 512);
    f->engine = test_draft_engine(f->model, kv_tok, 64);
    test_draft_prompt(f->prompt, PROMPT, 0);
    test_draft_prompt(f->prediction, PREDICTION, 1);
}

static void deinit(fixture *f)
{
    ft_engine_destroy(f->engine);
    ft_model_destroy(f->model);
}

static ft_draft_source *make_model(const fixture *f)
{
    static const ft_sampling greedy = {.top_p = 1};
    ft_draft_source *source = NULL;
    must(ft_draft_engine_source(f->engine, &ft_rule_exact, NULL, &greedy, &err, &source));
    return source;
}

static ft_draft_source *make_lookup(const fixture *f)
{
    const ft_lookup_opts opts = {.n_ctx = 400,
                                 .n_vocab = ft_model_hparams(f->model)->n_vocab,
                                 .n_prompt = PROMPT,
                                 .prediction = f->prediction,
                                 .n_prediction = PREDICTION};
    ft_draft_source *source = NULL;
    must(ft_lookup_source(&opts, f, &err, &source));
    return source;
}

static ft_draft_source *make_both(const fixture *f)
{
    ft_draft_source *both = NULL;
    must(ft_both_source(make_model(f), make_lookup(f), &err, &both));
    return both;
}

static float logp_of(const ft_draft_children *children, int32_t token)
{
    for (uint32_t i = 0; i < children->n; i++)
        if (children->at[i].token == token)
            return children->at[i].logp;
    return -INFINITY;
}

/* Of the text, then of nodes behind it. */
static void check_union(ft_draft_children *both, const ft_draft_children *model,
                        const ft_draft_children *lookup)
{
    float left = 1, sum = 0;
    for (uint32_t i = 0; i < lookup->n; i++)
        left -= expf(lookup->at[i].logp);
    assert_true(lookup->n > 0 ? left < 1 : left == 1);
    for (uint32_t i = 0; i < both->n; i++) {
        const int32_t token = both->at[i].token;
        const float found = expf(logp_of(lookup, token)), said = expf(logp_of(model, token));
        assert_true(i == 0 || both->at[i].logp <= both->at[i - 1].logp);
        assert_true(found > 0 || said > 0);
        assert_true(fabsf(expf(both->at[i].logp) - (found + left * said)) < 1e-5f);
        sum += expf(both->at[i].logp);
    }
    assert_true(sum < 1 + 1e-4f);
    assert_true(both->n == FT_DRAFT_RANKED || both->n >= model->n);
    for (uint32_t i = 0; i < lookup->n && both->n < FT_DRAFT_RANKED; i++)
        assert_true(logp_of(both, lookup->at[i].token) > -INFINITY);
    assert_true(lookup->n == 0 || logp_of(both, lookup->at[0].token) > -INFINITY);
}

static ft_draft_children read_text(ft_draft_source *source, const int32_t *tokens, uint32_t n)
{
    ft_draft_children children = {0};
    ft_draft_request r = {.source = source, .n = n, .tokens = tokens, .children = &children};
    must(source->ops->forward(&r, 1, &err));
    assert_int_equal(r.status, FT_OK);
    return children;
}

static void test_names_what_either_names(void **state)
{
    fixture f;
    init(&f, 1024);
    ft_draft_source *model = make_model(&f), *lookup = make_lookup(&f), *both = make_both(&f);
    ft_draft_children of[3][2];
    of[0][0] = read_text(both, f.prompt, PROMPT);
    of[1][0] = read_text(model, f.prompt, PROMPT);
    of[2][0] = read_text(lookup, f.prompt, PROMPT);
    assert_int_equal(of[2][0].n, 1); /* the prediction's beginning */
    check_union(&of[0][0], &of[1][0], &of[2][0]);
    for (uint32_t i = 0; i < 40; i++) {
        const int32_t tokens[] = {f.prediction[i], 7}, parents[] = {-1, -1};
        const uint16_t depths[] = {0, 0};
        ft_draft_source *sources[] = {both, model, lookup};
        for (int k = 0; k < 3; k++) {
            const uint32_t path = 0, keep[] = {1};
            ft_draft_request r = {.source = sources[k],
                                  .n = 2,
                                  .tokens = tokens,
                                  .parents = parents,
                                  .depths = depths,
                                  .children = of[k]};
            must(sources[k]->ops->forward(&r, 1, &err));
            assert_int_equal(sources[k]->n_pending, 2);
            must(sources[k]->ops->commit(sources[k], &path, 1, keep, 0, &err));
            assert_int_equal(sources[k]->n_past, PROMPT + i + 1);
            assert_int_equal(sources[k]->n_pending, 0);
        }
        check_union(&of[0][0], &of[1][0], &of[2][0]);
        check_union(&of[0][1], &of[1][1], &of[2][1]);
        assert_true(of[2][0].n > 0);
    }
    ft_draft_source_destroy(both);
    ft_draft_source_destroy(model);
    ft_draft_source_destroy(lookup);
    deinit(&f);
}

/* Drafts go on from verdicts as those of a drafter that is told the text anew. */
static void test_goes_on_from_verdicts(void **state)
{
    fixture f;
    int32_t text[PROMPT + 200];
    ft_drafter *drafter = NULL;
    ft_tree tree;
    uint32_t n = PROMPT, looked_up = 0;
    init(&f, 1024);
    must(ft_drafter_create(make_both(&f), &err, &drafter));
    memcpy(text, f.prompt, sizeof f.prompt);
    must(ft_drafter_reset(drafter, text, n, &err));
    const ft_draft_params params = ft_draft_params_tree(24, 6, 6);
    for (uint32_t i = 0; i + 4 < PREDICTION;) {
        uint32_t path[FT_TREE_MAX], k = 0;
        bool more;
        must(ft_drafter_draft(drafter, &params, &err, &tree));
        assert_true(tree.n > 0);
        must(ft_tree_check(&tree, ft_model_hparams(f.model)->n_vocab, &err));
        must(ft_drafter_proactive(drafter, &params, &err, &more));
        for (int32_t at = -1; k < 3; k++, at = (int32_t)path[k - 1]) { /* the answer is predicted */
            const int32_t child = ft_tree_find_child(&tree, at, f.prediction[i + k]);
            if (child < 0)
                break;
            path[k] = (uint32_t)child;
        }
        looked_up += k;
        must(ft_drafter_advance(drafter, path, k, &f.prediction[i + k], 1, &err));
        i += k + 1;
        n += k + 1;
    }
    assert_true(looked_up > PREDICTION / 2);
    ft_drafter_destroy(drafter);
    deinit(&f);
}

/* Where the model has no room, nothing happens to either. */
static void test_a_full_pool(void **state)
{
    fixture f;
    init(&f, 48);
    ft_draft_source *both = make_both(&f);
    int32_t tokens[MOST], parents[MOST];
    uint16_t depths[MOST];
    ft_draft_children children[MOST];
    (void)read_text(both, f.prompt, PROMPT);
    for (uint32_t i = 0; i < MOST; i++) {
        tokens[i] = (int32_t)(3 + i);
        parents[i] = -1;
        depths[i] = 0;
    }
    ft_draft_request r = {.source = both,
                          .n = 60,
                          .tokens = tokens,
                          .parents = parents,
                          .depths = depths,
                          .children = children};
    must(both->ops->forward(&r, 1, &err));
    assert_int_equal(r.status, FT_EXHAUSTED);
    assert_int_equal(both->n_past, PROMPT);
    assert_int_equal(both->n_pending, 0);
    r.n = 4;
    must(both->ops->forward(&r, 1, &err));
    assert_int_equal(r.status, FT_OK);
    assert_int_equal(both->n_pending, 4);
    both->ops->truncate(both, 10);
    assert_int_equal(both->n_past, 10);
    assert_int_equal(both->n_pending, 0);
    ft_draft_source_destroy(both);
    deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_what_either_names),
        cmocka_unit_test(test_goes_on_from_verdicts),
        cmocka_unit_test(test_a_full_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
