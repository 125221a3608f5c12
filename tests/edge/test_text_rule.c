// SPDX-License-Identifier: Apache-2.0
// edge/text_rule.c: which rule a text gets by what the server offers, what a refused Open does to
// it, and how large a draft may be. What goes over the wire is tested with a rule that is in tests
// alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "edge/text_rule.h"

/* Greedy texts need no evidence and are always the same. */
static ft_rule_terms terms(const ft_rule *rule, uint32_t n_vocab, const ft_sampling *s)
{
    const bool greedy = s && s->temperature == 0;
    return (ft_rule_terms){
        .trees = greedy, .same_tokens = greedy, .evidence_bytes = greedy ? 0 : 97};
}

static const ft_rule other = {.id = 5, .name = "other", .terms = terms};

static const ft_sampling warm = {.temperature = 1, .top_p = 1}, greedy = {.top_p = 1};

static void what_is_offered(void **state)
{
    const ft_rule *fallback = ft_text_rule_fallback();
    const ft_msg_limits old = {.max_tree = 64}; /* of a server that knows of no rules */
    const ft_msg_limits both = {.n_rules = 2, .rules = {fallback->id, 5}};
    const ft_msg_limits one = {.n_rules = 1, .rules = {5}};
    assert_true(ft_text_rule_is_offered(&other, &both));
    assert_true(ft_text_rule_is_offered(&other, &one));
    assert_false(ft_text_rule_is_offered(&other, &old));
    assert_true(ft_text_rule_is_offered(fallback, &old));
    assert_true(ft_text_rule_is_offered(fallback, &both));
}

static void a_refusal(void **state)
{
    ft_text_rule t;
    ft_text_rule_init(&t, &other, FT_WHY_ASKED, 100, &warm);
    assert_false(t.same_tokens);
    assert_false(ft_text_rule_refused(&t, FT_UNAVAILABLE, 100, &warm, 0));
    assert_false(ft_text_rule_refused(&t, FT_EXHAUSTED, 100, &warm, 0));
    assert_ptr_equal(t.rule, &other);
    assert_int_equal(t.why, FT_WHY_ASKED);
    assert_true(ft_text_rule_refused(&t, FT_PRECONDITION, 100, &warm, 0));
    assert_ptr_equal(t.rule, ft_text_rule_fallback());
    assert_int_equal(t.why, FT_WHY_REFUSED);
    assert_true(t.same_tokens && t.terms.trees); /* nothing of it is the other rule's */
    assert_false(ft_text_rule_refused(&t, FT_PRECONDITION, 100, &warm, 0));
    ft_text_rule_deinit(&t);
    /* After some tokens, and by a server that looks at the first draft before Open is refused. */
    ft_text_rule_init(&t, &other, FT_WHY_ASKED, 100, &warm);
    assert_true(ft_text_rule_refused(&t, FT_INVALID, 100, &warm, 7));
    assert_false(t.same_tokens);
    ft_text_rule_deinit(&t);
    ft_text_rule_init(&t, &other, FT_WHY_ASKED, 100, &greedy);
    assert_true(ft_text_rule_refused(&t, FT_PRECONDITION, 100, &greedy, 7));
    assert_true(t.same_tokens);
    ft_text_rule_deinit(&t);
}

static void how_large_a_draft_may_be(void **state)
{
    const ft_msg_limits limits = {.max_tree = 64, .max_evidence_bytes = 1000}, unknown = {0};
    ft_text_rule t;
    ft_text_rule_init(&t, &other, FT_WHY_ASKED, 100, &warm);
    assert_int_equal(ft_text_rule_nodes(&t, &limits), 10); /* of 97 bytes and a length of 3 */
    assert_int_equal(ft_text_rule_nodes(&t, &unknown), 1);
    ft_text_rule_init(&t, &other, FT_WHY_ASKED, 100, &greedy);
    assert_int_equal(ft_text_rule_nodes(&t, &limits), 64);
    assert_int_equal(ft_text_rule_nodes(&t, &unknown), FT_TREE_MAX);
    ft_text_rule_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_offered),
        cmocka_unit_test(a_refusal),
        cmocka_unit_test(how_large_a_draft_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
