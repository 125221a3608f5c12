// SPDX-License-Identifier: Apache-2.0
// spec/rule_exact.c: whatever the draft, what comes out of a verified tree fits the target's
// distribution and equals what plain decoding draws.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/rule.h"
#include "support/stats.h"

enum { VOCAB = 1024, DRAWS = 20000, BRANCH = 4, POSITION = 33 };

/* A made-up target: logits after the fixed prefix, and after each first token. */
typedef struct world {
    float target[VOCAB];
    float good[VOCAB], bad[VOCAB];
    float target_after[8][VOCAB]; /* by first token modulo 8 */
    ft_sampler *sampler;
} world;

static world w;

/* Real next-token distributions have a heavy tail: logits of a Zipf law with noise, tokens
 * shuffled. These have a perplexity of about 50. */
static void real_looking(ft_rng *rng, float *logits)
{
    int32_t order[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        order[i] = i;
    for (int i = VOCAB - 1; i > 0; i--) {
        uint32_t j = ft_rng_below(rng, (uint32_t)i + 1);
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < VOCAB; i++)
        logits[order[i]] = (float)(-1.3 * log(i + 1) + 0.3 * ft_rng_normal(rng));
}

static double perplexity(const float *logits)
{
    double entropy = 0;
    for (int t = 0; t < VOCAB; t++) {
        double logp = ft_logprob(logits, VOCAB, t);
        entropy -= exp(logp) * logp;
    }
    return exp(entropy);
}

static int setup(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 21);
    real_looking(&rng, w.target);
    for (int i = 0; i < 8; i++)
        real_looking(&rng, w.target_after[i]);
    for (int i = 0; i < VOCAB; i++) {
        w.good[i] = w.target[i] + 0.7f * (float)ft_rng_normal(&rng);
        w.bad[i] = (float)ft_rng_normal(&rng);
    }
    return ft_sampler_create(VOCAB, NULL, &w.sampler) != FT_OK;
}

static int teardown(void **state)
{
    ft_sampler_destroy(w.sampler);
    return 0;
}

static const float *row_of(void *ctx, int32_t node)
{
    const ft_tree *tree = ctx;
    return node < 0 ? w.target : w.target_after[tree->token[node] & 7];
}

static bool walk_on(const ft_tree *tree, ft_rows rows, const ft_sampling *s, ft_verified *v)
{
    ft_rule_work work = {.n_vocab = VOCAB, .sampler = w.sampler};
    const ft_drafted draft = {.tree = tree, .sampling = s, .position = POSITION};
    bool over = ft_rule_exact.walk(&ft_rule_exact, &work, &draft, rows, v);
    assert_null(v->refused);
    return over;
}

static void walk(const ft_tree *tree, const ft_sampling *s, ft_verified *v)
{
    *v = (ft_verified){0};
    const ft_rows rows = {row_of, (void *)tree};
    assert_true(walk_on(tree, rows, s, v));
}

typedef enum draft_kind { GOOD, BAD, ADVERSARIAL } draft_kind;

/* good: the target with errors; bad: an unrelated distribution (which still knows the noise);
 * adversarial: looks at the target's own draw and offers it where it is an even token, and
 * everything but it otherwise, to bend the distribution if that could be done. */
static void make_tree(draft_kind kind, const ft_sampling *s, ft_tree *tree)
{
    ft_candidate first[BRANCH], second[BRANCH];
    ft_tree_clear(tree);
    if (kind == ADVERSARIAL) {
        size_t n = ft_sampler_rank(w.sampler, s, w.target, POSITION, first, BRANCH);
        bool offer = first[0].token % 2 == 0;
        for (size_t i = offer ? 0 : 1; i < n; i++)
            ft_tree_add(tree, -1, first[i].token, -1);
    } else {
        size_t n =
            ft_sampler_rank(w.sampler, s, kind == GOOD ? w.good : w.bad, POSITION, first, BRANCH);
        for (size_t i = 0; i < n; i++)
            ft_tree_add(tree, -1, first[i].token, -1);
    }
    uint32_t roots = tree->n;
    for (uint32_t r = 0; r < roots; r++) {
        const float *after = w.target_after[tree->token[r] & 7];
        size_t n = ft_sampler_rank(w.sampler, s, kind == BAD ? w.bad : after, POSITION + 1, second,
                                   BRANCH);
        for (size_t i = kind == ADVERSARIAL; i < n; i++)
            ft_tree_add(tree, (int32_t)r, second[i].token, -1);
    }
}

static void expect(const ft_sampling *s, const float *logits, double draws, double *expected)
{
    const ft_candidate *all;
    size_t n = ft_sampler_candidates(w.sampler, s, logits, &all);
    memset(expected, 0, VOCAB * sizeof *expected);
    for (size_t i = 0; i < n; i++)
        expected[all[i].token] = draws * exp(all[i].logp);
}

/* 20,000 draws, seeds 0.., at one position through trees of two levels. */
static void check_kind(draft_kind kind, double least_accepted, double most_accepted)
{
    static double first[VOCAB], second[VOCAB], expected[VOCAB];
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    ft_sampling s = {.temperature = 1, .top_p = 1};
    double accepted = 0, seconds = 0;
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        ft_tree tree;
        ft_verified v;
        s.seed = seed;
        make_tree(kind, &s, &tree);
        assert_int_equal(ft_tree_check(&tree, VOCAB, NULL), FT_OK);
        walk(&tree, &s, &v);
        int32_t one = v.n_path > 0 ? tree.token[v.path[0]] : v.next;
        int32_t plain = ft_sampler_draw(w.sampler, &s, w.target, POSITION);
        assert_int_equal(one, plain);
        first[one]++;
        accepted += v.n_path > 0;
        /* The second token, drawn in this round or plainly in the next. */
        const float *after = w.target_after[one & 7];
        int32_t two = ft_sampler_draw(w.sampler, &s, after, POSITION + 1);
        if (v.n_path > 0)
            assert_int_equal(v.n_path > 1 ? tree.token[v.path[1]] : v.next, two);
        if ((one & 7) == 3) {
            second[two]++;
            seconds++;
        }
    }
    expect(&s, w.target, DRAWS, expected);
    double p_first = ft_chi_square_p(first, expected, VOCAB);
    expect(&s, w.target_after[3], seconds, expected);
    double p_second = ft_chi_square_p(second, expected, VOCAB);
    print_message("accepted %.3f, chi-square p %.3f and %.3f\n", accepted / DRAWS, p_first,
                  p_second);
    assert_true(p_first > 0.001 && p_second > 0.001);
    assert_true(accepted >= least_accepted * DRAWS && accepted <= most_accepted * DRAWS);
}

static void test_good_draft(void **state)
{
    double n = perplexity(w.target);
    print_message("perplexity of the target %.1f\n", n);
    assert_true(n > 35 && n < 75);
    check_kind(GOOD, 0.8, 0.999);
}

static void test_bad_draft(void **state)
{
    check_kind(BAD, 0, 0.4);
}

static void test_adversarial_draft(void **state)
{
    check_kind(ADVERSARIAL, 0.2, 0.8);
}

/* The chi-square would notice: the same draws kept only where the tree was accepted are biased. */
static void test_the_check_can_fail(void **state)
{
    static double first[VOCAB], expected[VOCAB];
    ft_sampling s = {.temperature = 1, .top_p = 1};
    double n = 0;
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        ft_tree tree;
        ft_verified v;
        s.seed = seed;
        make_tree(BAD, &s, &tree);
        walk(&tree, &s, &v);
        if (v.n_path > 0) {
            first[tree.token[v.path[0]]]++;
            n++;
        }
    }
    expect(&s, w.target, n, expected);
    assert_true(ft_chi_square_p(first, expected, VOCAB) < 1e-6);
}

static void test_walk(void **state)
{
    ft_tree tree;
    ft_verified v;
    ft_sampling s = ft_sampling_default();
    ft_tree_clear(&tree);
    walk(&tree, &s, &v);
    assert_int_equal(v.n_path, 0);
    int32_t one = v.next;
    uint32_t a = ft_tree_add(&tree, -1, one, 0);
    ft_tree_add(&tree, -1, (one + 1) % VOCAB, 0);
    walk(&tree, &s, &v);
    assert_int_equal(v.n_path, 1);
    int32_t two = v.next;
    ft_tree_add(&tree, 1, two, 0); /* the right token under the wrong parent */
    uint32_t b = ft_tree_add(&tree, (int32_t)a, two, 0);
    walk(&tree, &s, &v);
    assert_int_equal(v.n_path, 2);
    assert_int_equal(v.path[0], a);
    assert_int_equal(v.path[1], b);
}

/* Logits of some rows only. */
typedef struct some_rows {
    const ft_tree *tree;
    int32_t upto; /* nodes from here on have none */
} some_rows;

static const float *some_row_of(void *ctx, int32_t node)
{
    const some_rows *some = ctx;
    return node < some->upto ? row_of((void *)some->tree, node) : NULL;
}

/* In steps, as rows come in, a walk finds what it finds at once. */
static void test_walk_in_steps(void **state)
{
    ft_sampling s = {.temperature = 1, .top_p = 1};
    uint32_t waited = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        ft_tree tree;
        ft_verified whole, v = {0};
        s.seed = seed;
        make_tree(GOOD, &s, &tree);
        walk(&tree, &s, &whole);
        some_rows some = {&tree, -1};
        const ft_rows rows = {some_row_of, &some};
        for (; !walk_on(&tree, rows, &s, &v); some.upto++) {
            int32_t at = v.n_path ? (int32_t)v.path[v.n_path - 1] : -1;
            assert_true(at >= some.upto); /* else it had the row */
            waited++;
        }
        assert_int_equal(v.n_path, whole.n_path);
        assert_memory_equal(v.path, whole.path, v.n_path * sizeof *v.path);
        assert_int_equal(v.next, whole.next);
    }
    assert_true(waited > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_draft),
        cmocka_unit_test(test_bad_draft),
        cmocka_unit_test(test_adversarial_draft),
        cmocka_unit_test(test_the_check_can_fail),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_walk_in_steps),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
