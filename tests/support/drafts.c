// SPDX-License-Identifier: Apache-2.0
// Models of a few kilobytes with random weights. Each test's own; nothing is shared.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "spec/draft_engine.h"
#include "support/drafts.h"

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err->message);
}

ft_model *test_draft_model(enum ggml_type type, uint64_t seed, uint32_t n_ctx)
{
    tiny_gguf_opts opts = {.type = type, .seed = seed, .n_ctx_train = n_ctx};
    char *path = tiny_gguf_temp(&opts);
    ft_model_opts mo = {.path = path};
    ft_model *model = NULL;
    ft_error err = {0};
    must(ft_model_load(&mo, &err, &model), &err);
    unlink(path);
    free(path);
    return model;
}

ft_engine *test_draft_engine(const ft_model *model, uint32_t kv_tok, uint32_t max_batch_tok)
{
    ft_engine_opts eo = {
        .model = model, .kv_tok = kv_tok, .max_batch_tok = max_batch_tok, .n_threads = 1};
    ft_engine *engine = NULL;
    ft_error err = {0};
    must(ft_engine_create(&eo, &err, &engine), &err);
    return engine;
}

ft_status test_drafter_create(ft_engine *engine, const ft_sampling *s, ft_error *err,
                              ft_drafter **out)
{
    ft_draft_source *source;
    ft_status status = ft_draft_engine_source(engine, &ft_rule_exact, NULL, s, err, &source);
    *out = NULL;
    return status == FT_OK ? ft_drafter_create(source, err, out) : status;
}

uint32_t test_draft_prompt(int32_t *text, uint32_t n, uint32_t which)
{
    for (uint32_t i = 0; i < n; i++)
        text[i] = (int32_t)(3 + (which * 101 + i * (37 + 2 * which)) % 250);
    return n;
}

void test_trees_equal(const ft_tree *a, const ft_tree *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->token, b->token, a->n * sizeof *a->token);
    assert_memory_equal(a->parent, b->parent, a->n * sizeof *a->parent);
    assert_memory_equal(a->logp, b->logp, a->n * sizeof *a->logp);
}

void test_trees_same(const ft_tree *a, const ft_tree *b)
{
    int32_t of[FT_TREE_MAX]; /* b's node for each of a's */
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        int32_t parent = a->parent[i] < 0 ? -1 : of[a->parent[i]];
        of[i] = ft_tree_find_child(b, parent, a->token[i]);
        assert_true(of[i] >= 0);
        assert_memory_equal(&a->cum_logp[i], &b->cum_logp[of[i]], sizeof(float));
    }
}

uint32_t test_tree_path(const ft_tree *tree, uint32_t node, uint32_t *path)
{
    uint32_t n = tree->depth[node] + 1u;
    int32_t at = (int32_t)node;
    for (uint32_t i = n; i-- > 0; at = tree->parent[at])
        path[i] = (uint32_t)at;
    return n;
}

void test_drafting_init(test_drafting *d, const ft_sampling *sampling, uint32_t n_ctx,
                        uint32_t kv_tok)
{
    ft_error err = {0};
    memset(d, 0, sizeof *d);
    d->sampling = *sampling;
    d->model = test_draft_model(GGML_TYPE_Q4_0, sampling->seed, n_ctx);
    d->engine = test_draft_engine(d->model, kv_tok, 64);
    must(test_drafter_create(d->engine, &d->sampling, &err, &d->drafter), &err);
    must(test_drafter_create(d->engine, &d->sampling, &err, &d->fresh), &err);
    d->n = test_draft_prompt(d->text, TEST_DRAFTING_PROMPT, 0);
    must(ft_drafter_reset(d->drafter, d->text, d->n, &err), &err);
}

void test_drafting_deinit(test_drafting *d)
{
    ft_drafter_destroy(d->drafter);
    ft_drafter_destroy(d->fresh);
    ft_engine_destroy(d->engine);
    ft_model_destroy(d->model);
}
