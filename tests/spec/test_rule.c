// SPDX-License-Identifier: Apache-2.0
// spec/rule.c and rule_lists.c: lists of rules, the form of evidence and the check of a draft:
// whatever bytes come, nothing is read past their end, and only what evidence_append makes is
// taken.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/growth.h"
#include "spec/rule.h"

enum { NODES = 12, MOST = 20000 };

/* Well formed: the first byte is not 0xee. */
static const char *check(const ft_rule *rule, const ft_drafted *draft, const uint8_t *evidence,
                         uint32_t n)
{
    return n > 0 && evidence[0] == 0xee ? "it begins with ee" : NULL;
}

static ft_rule_terms terms(const ft_rule *rule, uint32_t n_vocab, const ft_sampling *s)
{
    return (ft_rule_terms){.evidence_bytes = s && s->temperature == 0 ? 0 : MOST};
}

static size_t scratch_bytes(const ft_rule *rule, uint32_t n_vocab)
{
    return 3 * (size_t)n_vocab;
}

static const ft_rule made = {
    .id = 7, .name = "made", .terms = terms, .scratch_bytes = scratch_bytes, .check = check};
static const ft_rule *const both[] = {&ft_rule_exact, &made, NULL};

static void lists(void **state)
{
    assert_ptr_equal(ft_rule_find(both, 0), &ft_rule_exact);
    assert_ptr_equal(ft_rule_find(both, 7), &made);
    assert_null(ft_rule_find(both, 1));
    assert_null(ft_rule_find(ft_rules_default, 7));
    assert_null(ft_rule_find(ft_rules_default, ft_rule_ratio.id)); /* servers offer it if told to */
    assert_ptr_equal(ft_rule_find(ft_rules_all, ft_rule_ratio.id), &ft_rule_ratio);
    assert_int_equal(ft_evidence_most(ft_rules_default, 100, 64), 0);
    assert_int_equal(ft_evidence_most(both, 100, 64), 64 * (MOST + 3));
    const ft_rule_terms some = made.terms(&made, 100, NULL);
    const ft_rule_terms none = ft_rule_exact.terms(&ft_rule_exact, 100, NULL);
    assert_int_equal(ft_evidence_nodes(&some, 3 * (MOST + 3) - 1), 2);
    assert_int_equal(ft_evidence_nodes(&none, 0), UINT32_MAX);
    assert_true(ft_rule_takes_early(&none));
    assert_false(ft_rule_takes_early(&some));
}

static void workspace(void **state)
{
    ft_error err = {0};
    ft_rule_work *work = NULL;
    assert_int_equal(ft_rule_work_create(both, 50, &err, &work), FT_OK);
    assert_non_null(work->sampler);
    memset(work->scratch, 1, 150);
    ft_rule_work_destroy(work);
    assert_int_equal(ft_rule_work_create(ft_rules_default, 50, &err, &work), FT_OK);
    assert_null(work->scratch);
    ft_rule_work_destroy(work);
    ft_rule_work_destroy(NULL);
}

static void chain(ft_tree *tree, uint32_t n)
{
    ft_tree_clear(tree);
    for (uint32_t i = 0; i < n; i++)
        ft_tree_add(tree, (int32_t)i - 1, (int32_t)i, 0);
}

static void refuse(const ft_drafted *draft, const char *why)
{
    const ft_rule_terms allowed = made.terms(&made, 100, NULL);
    ft_error err = {0};
    assert_int_equal(ft_rule_check(&made, &allowed, draft, &err), FT_INVALID);
    if (!strstr(err.message, why))
        fail_msg("'%s' lacks '%s'", err.message, why);
}

/* What is appended is found again, whatever its length. */
static void evidence_comes_back(void **state)
{
    const uint32_t length[NODES] = {0, 1, 127, 128, 129, 300, 16383, 16384, MOST, 5, 0, 2};
    const ft_rule_terms allowed = made.terms(&made, 100, NULL);
    uint8_t bytes[MOST];
    ft_buf all = {0};
    ft_tree tree;
    chain(&tree, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        memset(bytes, (int)i, sizeof bytes);
        assert_int_equal(ft_evidence_append(&all, bytes, length[i]), FT_OK);
    }
    ft_drafted draft = {
        .tree = &tree, .evidence = (const uint8_t *)all.data, .n_evidence = (uint32_t)all.len};
    assert_int_equal(ft_rule_check(&made, &allowed, &draft, NULL), FT_OK);
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t n;
        const uint8_t *got = ft_evidence_of(&draft, i, &n);
        memset(bytes, (int)i, sizeof bytes);
        assert_int_equal(n, length[i]);
        assert_memory_equal(got, bytes, n);
    }
    for (draft.n_evidence = 0; draft.n_evidence < all.len; draft.n_evidence += 1 + all.len / 5000)
        refuse(&draft, "ends in that of node");
    tree.n--; /* one node's evidence too much */
    draft.n_evidence = (uint32_t)all.len;
    refuse(&draft, "3 bytes of evidence behind");
    ft_buf_deinit(&all);
}

static void bad_drafts(void **state)
{
    const ft_rule_terms exact = ft_rule_exact.terms(&ft_rule_exact, 100, NULL);
    const uint8_t two[] = {1, 9, 1, 9}, marked[] = {1, 9, 1, 0xee},
                  endless[] = {0x80, 0x80, 0x80, 0};
    uint8_t long_one[MOST + 8] = {0xa1, 0x9c, 0x01}; /* 20,001 */
    ft_tree tree;
    ft_error err = {0};
    chain(&tree, 2);
    ft_drafted draft = {.tree = &tree, .evidence = two, .n_evidence = sizeof two};
    assert_int_equal(ft_rule_check(&ft_rule_exact, &exact, &draft, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "4 bytes of evidence: rule exact takes none"));
    draft.evidence = marked;
    refuse(&draft, "the evidence of node 1: it begins with ee");
    draft.evidence = endless;
    refuse(&draft, "ends in that of node 0 of 2");
    draft.evidence = long_one;
    draft.n_evidence = sizeof long_one;
    refuse(&draft, "node 0 has 20001 bytes, at most 20000");
    ft_tree_clear(&tree);
    ft_tree_add(&tree, -1, 1, 0);
    ft_tree_add(&tree, -1, 2, 0);
    draft = (ft_drafted){.tree = &tree, .evidence = two, .n_evidence = sizeof two};
    refuse(&draft, "rule made verifies chains: node 1");
    draft.n_evidence = 0;
    assert_int_equal(ft_rule_check(&ft_rule_exact, &exact, &draft, &err), FT_OK);
}

static void random_bytes(void **state)
{
    const ft_rule_terms allowed = made.terms(&made, 100, NULL);
    ft_rng rng;
    ft_tree tree;
    uint32_t taken = 0;
    ft_rng_init(&rng, 5);
    for (uint32_t i = 0; i < 20000; i++) {
        const uint32_t n_bytes = ft_rng_below(&rng, 12);
        uint8_t *bytes = malloc(n_bytes ? n_bytes : 1); /* its own block: sanitizers see its end */
        for (uint32_t k = 0; k < n_bytes; k++)
            bytes[k] = (uint8_t)ft_rng_below(&rng, ft_rng_below(&rng, 4) ? 5 : 256);
        chain(&tree, ft_rng_below(&rng, 5));
        const ft_drafted draft = {.tree = &tree, .evidence = bytes, .n_evidence = n_bytes};
        if (ft_rule_check(&made, &allowed, &draft, NULL) == FT_OK) {
            uint32_t n;
            taken++;
            for (uint32_t k = 0; k < tree.n; k++)
                assert_non_null(ft_evidence_of(&draft, k, &n));
        }
        free(bytes);
    }
    assert_true(taken > 100);
}

static void params_obey(void **state)
{
    ft_depth stop = {0};
    ft_draft_params params = ft_draft_params_tree(32, 5, 8), before = params;
    params.min_logp = before.min_logp = -3;
    params.deep_enough = before.deep_enough = &stop;
    ft_fallback fallback = ft_fallback_begin(0);
    params.fallback = before.fallback = &fallback;
    params.grow = before.grow = FT_GROW_PACER;
    const ft_rule_terms free_terms = {.trees = true, .adaptive = true};
    ft_draft_params_obey(&params, &free_terms);
    assert_memory_equal(&params, &before, sizeof params);
    const ft_rule_terms chains = {.adaptive = true};
    ft_draft_params_obey(&params, &chains);
    assert_int_equal(params.width * params.branch, 1);
    assert_ptr_equal(params.deep_enough, &stop);
    const ft_rule_terms blind = {.trees = true};
    params = before;
    ft_draft_params_obey(&params, &blind);
    assert_int_equal(params.budget, 5);
    assert_int_equal(params.depth, 5);
    assert_int_equal(params.width * params.branch, 1);
    assert_true(params.min_logp < -1e30f);
    assert_null(params.deep_enough);
    assert_null(params.fallback);
    assert_int_equal(params.grow, FT_GROW_BEST);
    assert_null(params.predictor);
    assert_int_equal(params.proactive, FT_PROACTIVE_LEAF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),        cmocka_unit_test(workspace),
        cmocka_unit_test(bad_drafts),   cmocka_unit_test(evidence_comes_back),
        cmocka_unit_test(random_bytes), cmocka_unit_test(params_obey),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
