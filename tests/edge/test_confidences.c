// SPDX-License-Identifier: Apache-2.0
// What a draft policy is told of a text: what points say of the tokens that became text, and
// nothing of tokens that were drafted and did not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "edge/confidences.h"
#include "support/count_allocs.h"

enum { VOCAB = 30, NODES = 4, L = 10 };

static const ft_sampling sampled = {.temperature = 1, .top_p = 1, .seed = 3};

/* A chain of drawn tokens with their points. */
typedef struct drawn {
    ft_msg_draft draft;
    ft_buf evidence;
    ft_rule_work *work;
} drawn;

/* Tokens and points of the first `same` nodes are those of variant 0. */
static void draw(drawn *d, uint32_t same, uint32_t variant)
{
    *d = (drawn){.draft.n = NODES};
    assert_int_equal(ft_rule_work_create(ft_rules_all, VOCAB, NULL, &d->work), FT_OK);
    for (uint32_t i = 0; i < NODES; i++) {
        static uint8_t bytes[4096];
        float logits[VOCAB];
        ft_draft_children child;
        const uint32_t v = i < same ? 0 : variant;
        for (uint32_t k = 0; k < VOCAB; k++)
            logits[k] = (float)((k * 7 + i * 5 + v * 11) % 13) / 3;
        const ft_draw how = {
            .sampling = &sampled, .logits = logits, .position = i, .round = v, .resolution = L};
        ft_rule_ratio.draw(&ft_rule_ratio, d->work, &how, &child, bytes);
        d->draft.token[i] = child.at[0].token;
        d->draft.parent[i] = (int16_t)(i - 1);
        assert_int_equal(ft_evidence_append(&d->evidence, bytes, child.n_evidence), FT_OK);
    }
    d->draft.evidence = (const uint8_t *)d->evidence.data;
    d->draft.n_evidence = (uint32_t)d->evidence.len;
}

static void free_drawn(drawn *d)
{
    ft_buf_deinit(&d->evidence);
    ft_rule_work_destroy(d->work);
}

static float said(const drawn *d, uint32_t node, int32_t token)
{
    const ft_drafted drafted = {.evidence = d->draft.evidence, .n_evidence = d->draft.n_evidence};
    uint32_t n;
    const uint8_t *evidence = ft_evidence_of(&drafted, node, &n);
    return ft_rule_ratio.said(&ft_rule_ratio, d->work, evidence, n, token);
}

static ft_confidences begin(const ft_rule *rule, const ft_sampling *s)
{
    const ft_policy any = {0};
    const ft_rule_terms terms = rule->terms(rule, VOCAB, s);
    ft_confidences c;
    assert_int_equal(ft_confidences_init(&c, &any, rule, &terms, VOCAB, NULL), FT_OK);
    return c;
}

static ft_msg_verdict verdict(uint32_t n_path, int32_t *next, uint32_t n_next)
{
    ft_msg_verdict v = {.n_path = n_path, .n_next = n_next};
    for (uint32_t i = 0; i < n_path; i++)
        v.path[i] = i;
    memcpy(v.next, next, n_next * sizeof *next);
    return v;
}

static void test_what_is_told(void **state)
{
    int32_t next[] = {4, 5, 6};
    ft_confidences c = begin(&ft_rule_ratio, &sampled);
    drawn d;
    draw(&d, 0, 0);
    ft_msg_verdict v = verdict(2, next, 1); /* node 2 is rejected, token 4 comes instead */
    ft_confidences_saw(&c, &d.draft, &v);
    assert_int_equal(c.past.n, 3);
    for (uint32_t i = 0; i < 2; i++)
        assert_float_equal(c.past.confidence[i], said(&d, i, d.draft.token[i]), 0);
    assert_true(c.past.confidence[0] > 0);
    assert_float_equal(c.past.confidence[2], said(&d, 2, 4), 0);
    v = verdict(NODES, next, 1); /* all are accepted: no point was made for what comes behind */
    ft_confidences_saw(&c, &d.draft, &v);
    assert_int_equal(c.past.n, 3 + NODES + 1);
    assert_true(c.past.confidence[3 + NODES - 1] > 0);
    assert_true(c.past.confidence[3 + NODES] < 0);
    const ft_msg_draft run = {.run = 3};
    v = verdict(0, next, 3);
    ft_confidences_saw(&c, &run, &v);
    assert_int_equal(c.past.n, 3 + NODES + 4);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(c.past.confidence[3 + NODES + 1 + i] < 0);
    ft_confidences_deinit(&c);
    free_drawn(&d);
}

/* Two drafts with the same accepted nodes and the same point where the target's own token came: the
 * policy is told the same, whatever was drawn behind, and whichever token was rejected. */
static void test_what_is_not_text_is_not_told(void **state)
{
    int32_t next[] = {4};
    for (uint32_t n_path = 0; n_path < NODES; n_path++) {
        ft_confidences c[2];
        drawn d[2];
        for (uint32_t i = 0; i < 2; i++) {
            c[i] = begin(&ft_rule_ratio, &sampled);
            draw(&d[i], n_path + 1, i);
            d[i].draft.token[n_path] = (int32_t)(10 + i); /* rejected */
            const ft_msg_verdict v = verdict(n_path, next, 1);
            ft_confidences_saw(&c[i], &d[i].draft, &v);
        }
        if (n_path + 1 < NODES)
            assert_true(d[0].evidence.len != d[1].evidence.len ||
                        memcmp(d[0].evidence.data, d[1].evidence.data, d[0].evidence.len) != 0);
        assert_memory_equal(&c[0].past, &c[1].past, sizeof c[0].past);
        assert_int_equal(c[0].past.n, n_path + 1);
        for (uint32_t i = 0; i < 2; i++) {
            ft_confidences_deinit(&c[i]);
            free_drawn(&d[i]);
        }
    }
}

/* Without points, at temperature 0 and under rule `exact`, nothing is kept. */
static void test_without_points(void **state)
{
    const ft_sampling greedy = ft_sampling_default();
    int32_t next[] = {4};
    const ft_msg_verdict v = verdict(0, next, 1);
    ft_confidences c = begin(&ft_rule_ratio, &greedy);
    const ft_msg_draft draft = {.n = 1};
    ft_confidences_saw(&c, &draft, &v);
    assert_int_equal(c.past.n, 0);
    ft_confidences_deinit(&c);
    c = begin(&ft_rule_exact, &sampled);
    ft_confidences_saw(&c, &draft, &v);
    assert_int_equal(c.past.n, 0);
    ft_confidences_deinit(&c);
    ft_confidences_deinit(&(ft_confidences){0});
}

/* Neither a verdict nor a choice allocates. */
static void test_no_allocation(void **state)
{
    const ft_policy like = {.n_lengths = 12, .n_l = 2, .l = {100, 300}};
    int32_t next[] = {4};
    const ft_msg_verdict v = verdict(2, next, 1);
    ft_confidences c = begin(&ft_rule_ratio, &sampled);
    ft_policy policy;
    drawn d;
    draw(&d, 0, 0);
    assert_int_equal(ft_policy_init(&like, NULL, &policy), FT_OK);
    (void)count_allocs_taken();
    count_allocs(true);
    for (uint32_t i = 0; i < 100; i++) {
        float x[FT_POLICY_INPUTS];
        ft_confidences_saw(&c, &d.draft, &v);
        ft_policy_state(&c.past, 1e6, x);
        (void)ft_policy_choose(&policy, x);
    }
    count_allocs(false);
    assert_int_equal(count_allocs_taken(), 0);
    assert_int_equal(c.past.n, FT_POLICY_WINDOW); /* the oldest are forgotten */
    ft_policy_deinit(&policy);
    ft_confidences_deinit(&c);
    free_drawn(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told),
        cmocka_unit_test(test_what_is_not_text_is_not_told),
        cmocka_unit_test(test_without_points),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
