// SPDX-License-Identifier: Apache-2.0
// spec/constrained.h against its words: all tokens ranked by log p + noise, and the first that is
// allowed, among the filtered ones and then among all.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/constrained.h"
#include "spec/rule.h"

/* Letters, and an end. */
enum { END = 26, VOCAB };

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const char letter = (char)('a' + token);
    return token < END ? ft_buf_append(out, &letter, 1) : FT_OK;
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

static ft_matcher *matcher_of(const char *regex)
{
    const ft_constrain_tokens tokens = {.n = VOCAB, .piece = piece, .ends = ends};
    const ft_constraint c = {FT_CONSTRAINT_REGEX, regex, strlen(regex)};
    ft_constrain_vocab *vocab;
    ft_grammar *grammar;
    ft_matcher *matcher;
    ft_error err = {0};
    if (!ft_constrain_available())
        skip();
    assert_int_equal(ft_constrain_vocab_create(&tokens, &err, &vocab), FT_OK);
    assert_int_equal(ft_grammar_compile(vocab, &c, NULL, &err, &grammar), FT_OK);
    assert_int_equal(ft_matcher_create(grammar, &err, &matcher), FT_OK);
    ft_grammar_unref(grammar);
    ft_constrain_vocab_destroy(vocab);
    return matcher;
}

/* Another way to the same token. */
static int32_t oracle(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                      uint32_t position)
{
    const ft_candidate *c;
    const size_t n = ft_sampler_candidates(sampler, s, logits, &c);
    int32_t best = -1;
    double most = -INFINITY;
    for (size_t i = 0; i < n && s->temperature > 0; i++) {
        const double score = (double)c[i].logp + (double)ft_gumbel(s->seed, position, c[i].token);
        if (ft_matcher_allows(s->matcher, c[i].token) && score > most) {
            most = score;
            best = c[i].token;
        }
    }
    for (int32_t t = 0; best < 0 && t < VOCAB; t++) {
        double score = (double)logits[t];
        if (s->temperature > 0)
            score = score / (double)s->temperature + (double)ft_gumbel(s->seed, position, t);
        if (ft_matcher_allows(s->matcher, t) && score > most)
            most = score;
    }
    for (int32_t t = 0; best < 0 && t < VOCAB; t++) {
        double score = (double)logits[t];
        if (s->temperature > 0)
            score = score / (double)s->temperature + (double)ft_gumbel(s->seed, position, t);
        if (ft_matcher_allows(s->matcher, t) && score == most)
            best = t;
    }
    return best;
}

static void test_best_allowed(void **state)
{
    static const ft_sampling ways[] = {{.temperature = 0, .top_p = 1},
                                       {.temperature = 1, .top_p = 1},
                                       {.temperature = 0.7f, .top_p = 1, .top_k = 3},
                                       {.temperature = 1.3f, .top_p = 0.5f},
                                       {.temperature = 1, .top_p = 0.9f, .min_p = 0.2f}};
    ft_matcher *m = matcher_of("[a-c]*(x|y)[m-z]{3}");
    ft_sampler *sampler, *other;
    float logits[VOCAB], room[VOCAB];
    uint32_t filtered = 0, all = 0;
    srand(7);
    assert_int_equal(ft_sampler_create(VOCAB, NULL, &sampler), FT_OK);
    assert_int_equal(ft_sampler_create(VOCAB, NULL, &other), FT_OK);
    for (uint32_t round = 0; round < 400; round++) {
        ft_sampling s = ways[round % 5];
        s.seed = round;
        s.matcher = m;
        int32_t text[64];
        uint32_t n = 0;
        while (n < 64 && (n == 0 || text[n - 1] != END)) {
            for (int i = 0; i < VOCAB; i++)
                logits[i] = (float)(rand() % 8000) / 1000;
            const ft_past past = {.text = text, .n_text = n};
            assert_true(ft_constrained_follow(&s, &past));
            const int32_t expected = oracle(other, &s, logits, n);
            const int32_t plain = ft_sampler_draw(other, &s, logits, n);
            text[n] = ft_constrained_draw(sampler, VOCAB, room, &s, logits, n);
            assert_int_equal(text[n], expected);
            assert_true(ft_matcher_allows(m, text[n]));
            filtered += plain == text[n];
            all += plain != text[n];
            n++;
        }
    }
    assert_true(filtered > 100 && all > 100);
    ft_sampler_destroy(sampler);
    ft_sampler_destroy(other);
    ft_matcher_destroy(m);
}

/* Logits of minus infinity, and nothing that may follow. */
static void test_no_way(void **state)
{
    ft_matcher *m = matcher_of("k|l");
    ft_sampling s = {.temperature = 1, .top_p = 1, .matcher = m};
    ft_sampler *sampler;
    float logits[VOCAB] = {0}, room[VOCAB];
    assert_int_equal(ft_sampler_create(VOCAB, NULL, &sampler), FT_OK);
    logits['k' - 'a'] = logits['l' - 'a'] = -INFINITY;
    assert_int_equal(ft_constrained_draw(sampler, VOCAB, room, &s, logits, 0), 'k' - 'a');
    const int32_t text[] = {'k' - 'a', END};
    const ft_past past = {.text = text, .n_text = 2};
    assert_true(ft_constrained_follow(&s, &past));
    assert_int_equal(ft_constrained_draw(sampler, VOCAB, room, &s, logits, 2), END);
    ft_sampler_destroy(sampler);
    ft_matcher_destroy(m);
}

/* Every tree gives the tokens that plain decoding gives. */
typedef struct table {
    float logits[40][VOCAB];
    uint32_t depth[FT_TREE_MAX + 1]; /* of node i, at i + 1 */
} table;

static const float *row(void *ctx, int32_t node)
{
    const table *t = ctx;
    return t->logits[t->depth[node + 1]];
}

static void test_walks(void **state)
{
    static table t;
    ft_matcher *m = matcher_of("[a-f]*z");
    ft_rule_work *work;
    srand(3);
    assert_int_equal(ft_rule_work_create(ft_rules_default, VOCAB, NULL, &work), FT_OK);
    for (uint32_t round = 0; round < 60; round++) {
        const ft_sampling s = {.temperature = round % 3 ? 1 : 0,
                               .top_p = 1,
                               .top_k = 5,
                               .seed = round,
                               .matcher = m,
                               .answer_at = 1};
        int32_t text[48] = {9}, plain[48] = {9}; /* the prompt does not fit */
        uint32_t n = 1;
        for (uint32_t i = 0; i < 40; i++)
            for (int k = 0; k < VOCAB; k++)
                t.logits[i][k] = (float)(rand() % 6000) / 1000;
        for (int drafts = 0; drafts < 2; drafts++) {
            int32_t *out = drafts ? text : plain;
            for (n = 1; n < 30 && out[n - 1] != END;) {
                ft_tree tree;
                ft_tree_clear(&tree);
                ft_verified found = {0};
                t.depth[0] = n;
                for (int32_t i = 0; drafts && i < 6; i++) { /* legal, illegal, right and wrong */
                    const int32_t token = i == 2 ? 'q' - 'a' : plain[n + (uint32_t)i / 2];
                    ft_tree_add(&tree, i < 2 ? -1 : i - 2, i == 1 ? (token + 1) % VOCAB : token, 0);
                    t.depth[i + 1] = n + 1 + (uint32_t)i / 2;
                }
                const ft_drafted d = {.tree = &tree, .sampling = &s, .position = n, .text = out};
                assert_true(
                    ft_rule_exact.walk(&ft_rule_exact, work, &d, (ft_rows){row, &t}, &found));
                for (uint32_t i = 0; i < found.n_path && out[n - 1] != END; i++)
                    out[n++] = tree.token[found.path[i]];
                if (out[n - 1] != END)
                    out[n++] = found.next;
            }
        }
        assert_memory_equal(text, plain, (n < 30 ? n : 30) * sizeof *text);
    }
    ft_rule_work_destroy(work);
    ft_matcher_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_allowed),
        cmocka_unit_test(test_no_way),
        cmocka_unit_test(test_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
