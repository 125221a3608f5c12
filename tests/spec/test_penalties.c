// SPDX-License-Identifier: Apache-2.0
// spec/penalties.h by hand; what is out of range; texts before a draw, with drafted tokens.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/rule.h"

enum { VOCAB = 10 };

static const float logits[VOCAB] = {1, -1, 2, -2, 3, -3, 4, -INFINITY, NAN, 0.5f};

static void expect(ft_penalizer *z, const ft_penalties *p, const ft_past *past, uint32_t answer_at,
                   const float *expected)
{
    const ft_sampling s = {.penalties = p, .answer_at = answer_at};
    for (int twice = 0; twice < 2; twice++) { /* nothing is left of the first time */
        const float *got = ft_penalize(z, &s, past, logits);
        for (int i = 0; i < VOCAB; i++)
            if (got[i] != expected[i] && !(isnan(got[i]) && isnan(expected[i])))
                fail_msg("token %d: %g instead of %g", i, (double)got[i], (double)expected[i]);
        for (int i = 0; i < VOCAB; i++)
            assert_int_equal(z->count[i], 0);
    }
}

static void test_by_hand(void **state)
{
    /* prompt 0 1 4, answer 4 5, drafted 4 7 */
    static const int32_t text[] = {0, 1, 4, 4, 5}, path[] = {4, 7};
    const ft_past past = {text, 5, path, 2};
    ft_penalizer z;
    ft_error err = {0};
    assert_int_equal(ft_penalizer_init(&z, VOCAB, &err), FT_OK);
    /* of the answer: 4 twice, 5 and 7 once */
    expect(&z, &(ft_penalties){.presence = 0.5f}, &past, 3,
           (float[]){1, -1, 2, -2, 2.5f, -3.5f, 4, -INFINITY, NAN, 0.5f});
    expect(&z, &(ft_penalties){.frequency = 0.5f}, &past, 3,
           (float[]){1, -1, 2, -2, 2, -3.5f, 4, -INFINITY, NAN, 0.5f});
    expect(&z, &(ft_penalties){.frequency = -0.25f, .presence = 1}, &past, 3,
           (float[]){1, -1, 2, -2, 2.5f, -3.75f, 4, -INFINITY, NAN, 0.5f});
    /* of prompt and answer, once each */
    expect(&z, &(ft_penalties){.repetition = 2}, &past, 3,
           (float[]){0.5f, -2, 2, -2, 1.5f, -6, 4, -INFINITY, NAN, 0.5f});
    expect(&z, &(ft_penalties){.repetition = 2, .presence = 1}, &past, 3,
           (float[]){0.5f, -2, 2, -2, 0.5f, -7, 4, -INFINITY, NAN, 0.5f});
    expect(&z,
           &(ft_penalties){.presence = 1, .n_bias = 3, .bias_token = {4, 7, 9}, .bias = {2, 1, -1}},
           &past, 3, (float[]){1, -1, 2, -2, 4, -4, 4, -INFINITY, NAN, -0.5f});
    /* an answer that has not begun */
    expect(&z, &(ft_penalties){.presence = 1}, &past, 7, logits);
    ft_penalizer_deinit(&z);
}

/* What changes nothing costs nothing. */
static void test_none(void **state)
{
    const ft_penalties none = {.repetition = 1};
    const ft_sampling s[] = {{.penalties = NULL}, {.penalties = &none}};
    ft_penalizer z;
    ft_error err = {0};
    assert_int_equal(ft_penalizer_init(&z, VOCAB, &err), FT_OK);
    for (int i = 0; i < 2; i++)
        assert_ptr_equal(ft_penalize(&z, &s[i], &(ft_past){0}, logits), logits);
    ft_penalizer_deinit(&z);
}

static void test_ranges(void **state)
{
    const ft_penalties good[] = {{0},
                                 {.presence = -2, .frequency = 2, .repetition = 10},
                                 {.repetition = 0.01f},
                                 {.n_bias = 2, .bias_token = {0, 9}, .bias = {-100, 100}}};
    const ft_penalties bad[] = {{.presence = 2.1f},
                                {.presence = NAN},
                                {.frequency = -INFINITY},
                                {.repetition = 0.001f},
                                {.repetition = -1},
                                {.repetition = NAN},
                                {.n_bias = 1, .bias_token = {10}},
                                {.n_bias = 1, .bias_token = {-1}},
                                {.n_bias = 1, .bias_token = {1}, .bias = {101}},
                                {.n_bias = 1, .bias_token = {1}, .bias = {NAN}},
                                {.n_bias = 2, .bias_token = {1, 1}},
                                {.n_bias = FT_BIAS_MAX + 1}};
    ft_error err = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(ft_penalties_check(&good[i], VOCAB, &err), FT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ft_penalties_check(&bad[i], VOCAB, &err), FT_INVALID);
}

static const float *same_row(void *ctx, int32_t node)
{
    (void)ctx;
    (void)node;
    return logits;
}

/* A walk counts the tokens of its path: each token is drawn once, then it is too unlikely. */
static void test_walk(void **state)
{
    const ft_penalties p = {.presence = 2, .frequency = 2};
    const ft_sampling s = {.top_p = 1, .penalties = &p, .answer_at = 1};
    const int32_t text[] = {6, 4};
    ft_rule_work *work;
    ft_error err = {0};
    ft_tree tree;
    ft_tree_clear(&tree);
    /* below the text: 6, of which 4 and 2 hang, and below 2: 6 again, 0 */
    ft_tree_add(&tree, -1, 6, 0);
    ft_tree_add(&tree, 0, 4, 0);
    ft_tree_add(&tree, 0, 2, 0);
    ft_tree_add(&tree, 2, 6, 0);
    ft_tree_add(&tree, 2, 0, 0);
    assert_int_equal(ft_rule_work_create(ft_rules_default, VOCAB, &err, &work), FT_OK);
    const ft_drafted draft = {.tree = &tree, .sampling = &s, .position = 2, .text = text};
    ft_verified found = {0};
    assert_true(
        ft_rule_exact.walk(&ft_rule_exact, work, &draft, (ft_rows){same_row, NULL}, &found));
    /* 4 was said, so 3 - 4; 6 has 4, then 0; 2 has 2; then 0 has 1; then 9 has 0.5 */
    assert_int_equal(found.n_path, 3);
    assert_int_equal(found.path[1], 2);
    assert_int_equal(found.path[2], 4);
    assert_int_equal(found.next, 9);
    ft_rule_work_destroy(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
