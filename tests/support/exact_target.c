// SPDX-License-Identifier: Apache-2.0
// One engine with one sequence. Owned by the test.
#include "support/exact_target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/drafts.h"

enum { PROMPT_MOST = 64 };

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err->message);
}

void test_exact_target_init(test_exact_target *t, const ft_model *model, const int32_t *text,
                            uint32_t n)
{
    uint32_t path[PROMPT_MOST];
    ft_error err = {0};
    assert_true(n > 1 && n - 1 <= PROMPT_MOST);
    *t = (test_exact_target){.engine = test_draft_engine(model, 1024, 128)};
    must(ft_seq_create(t->engine, &err, &t->seq), &err);
    must(ft_rule_work_create(ft_rules_default, ft_model_hparams(model)->n_vocab, &err, &t->work),
         &err);
    for (uint32_t i = 0; i < n - 1; i++)
        path[i] = i;
    ft_segment seg = {.seq = t->seq, .n = n - 1, .tokens = text};
    must(ft_engine_forward(t->engine, &seg, 1, &err), &err);
    must(ft_seq_commit(t->seq, path, n - 1, NULL, 0, &err), &err);
}

void test_exact_target_deinit(test_exact_target *t)
{
    ft_rule_work_destroy(t->work);
    ft_seq_destroy(t->seq);
    ft_engine_destroy(t->engine);
}

/* Row 0 is the text's last token, then come the tree's nodes. */
static const float *row_of(void *ctx, int32_t node)
{
    const test_exact_target *t = ctx;
    return ft_engine_logits(t->engine, t->first_row + (uint32_t)(node + 1));
}

void test_exact_target_round(test_exact_target *t, const ft_sampling *s, const int32_t *text,
                             uint32_t n, const ft_tree *tree, ft_verified *v)
{
    int32_t tokens[FT_TREE_MAX + 1] = {text[n - 1]}, parents[FT_TREE_MAX + 1] = {-1};
    ft_error err = {0};
    uint64_t want[(FT_TREE_MAX + 64) / 64 + 1];
    uint32_t path[FT_TREE_MAX + 1] = {0};
    memset(want, 0, sizeof want);
    for (uint32_t i = 0; i <= tree->n; i++)
        want[i / 64] |= UINT64_C(1) << (i % 64);
    for (uint32_t i = 0; i < tree->n; i++) {
        tokens[i + 1] = tree->token[i];
        parents[i + 1] = tree->parent[i] + 1;
    }
    ft_segment seg = {
        .seq = t->seq, .n = tree->n + 1, .tokens = tokens, .parent = parents, .want = want};
    must(ft_engine_forward(t->engine, &seg, 1, &err), &err);
    t->first_row = seg.first_row;
    *v = (ft_verified){0};
    const ft_drafted draft = {.tree = tree, .sampling = s, .position = n};
    assert_true(ft_rule_exact.walk(&ft_rule_exact, t->work, &draft, (ft_rows){row_of, t}, v));
    for (uint32_t i = 0; i < v->n_path; i++)
        path[i + 1] = v->path[i] + 1;
    must(ft_seq_commit(t->seq, path, v->n_path + 1, NULL, 0, &err), &err);
}
