// SPDX-License-Identifier: Apache-2.0
// Lookups as a draft source: the text with their drafts is the target's own, greedy and drawn; what
// they propose is what a source of the same text proposes that has no past; the chances that they
// state hold, in texts that repeat themselves much, little and never; predictions.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "constrain/constraint.h"
#include "engine/engine.h"
#include "spec/drafter.h"
#include "spec/lookup.h"
#include "spec/rule.h"
#include "support/drafts.h"
#include "support/exact_target.h"

enum { TEXT_MAX = 20000, N_VOCAB = 5000, PROMPT = 30, ANSWER = 120 };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

static ft_draft_source *make_source(uint32_t n_prompt, const int32_t *prediction, uint32_t n)
{
    const ft_lookup_opts opts = {.n_ctx = TEXT_MAX,
                                 .n_vocab = N_VOCAB,
                                 .n_prompt = n_prompt,
                                 .prediction = prediction,
                                 .n_prediction = n};
    ft_draft_source *source = NULL;
    must(ft_lookup_source(&opts, &err, &err, &source));
    return source;
}

/* Reads tokens [n] of the text. */
static void read_text(ft_draft_source *source, const int32_t *tokens, uint32_t n,
                      ft_draft_children *children)
{
    while (n > 0) {
        const uint32_t k = n < source->max_text ? n : source->max_text;
        ft_draft_request r = {.source = source, .n = k, .tokens = tokens, .status = FT_INTERNAL};
        r.children = k == n ? children : NULL;
        must(source->ops->forward(&r, 1, &err));
        assert_int_equal(r.status, FT_OK);
        tokens += k;
        n -= k;
    }
}

static void make_text(int32_t *text, uint32_t n, uint32_t copied, uint64_t seed)
{
    ft_rng rng;
    ft_rng_init(&rng, seed);
    for (uint32_t i = 0; i < n;) {
        uint32_t k = 5 + ft_rng_below(&rng, 60);
        const bool copy = i > 100 && ft_rng_below(&rng, 100) < copied;
        uint32_t from = copy ? ft_rng_below(&rng, i - 70) : 0;
        for (; k > 0 && i < n; k--) /* a copy has an error now and then */
            text[i++] = copy && ft_rng_below(&rng, 12) > 0 ? text[from++]
                                                           : (int32_t)ft_rng_below(&rng, N_VOCAB);
    }
}

/* ---- chances ---- */

typedef struct bet {
    double stated, held, n;
} bet;

/* What is stated of the best child at each place of a text, and how often it came. */
static bet bets_of(const int32_t *text, uint32_t n, uint32_t from, float least,
                   ft_draft_source *source)
{
    bet b = {0};
    ft_draft_children children;
    for (uint32_t i = 0; i < n; i++) {
        if (i >= from && children.n > 0 && children.at[0].logp >= logf(least)) {
            b.stated += (double)expf(children.at[0].logp);
            b.held += children.at[0].token == text[i];
            b.n++;
        }
        double sum = 0;
        read_text(source, text + i, 1, &children);
        for (uint32_t c = 0; c < children.n; c++) {
            sum += (double)expf(children.at[c].logp);
            assert_true(c == 0 || children.at[c].logp <= children.at[c - 1].logp);
        }
        assert_true(sum < 1 + 1e-5);
    }
    return b;
}

static void test_stated_chances_hold(void **state)
{
    static int32_t text[TEXT_MAX];
    const uint32_t copied[] = {20, 50, 90};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        make_text(text, TEXT_MAX, copied[i], i);
        ft_draft_source *source = make_source(0, NULL, 0);
        const bet b = bets_of(text, TEXT_MAX, 1000, 0.3f, source);
        assert_true(b.n > 500);
        assert_true(fabs(b.stated - b.held) < 0.05 * b.n);
        ft_draft_source_destroy(source);
    }
}

/* Matches that never hold are soon worth nothing. */
static void test_learns_that_nothing_holds(void **state)
{
    static int32_t text[TEXT_MAX], prediction[400];
    for (uint32_t i = 0; i < 400; i++)
        prediction[i] = (int32_t)(i % 3);
    for (uint32_t i = 0; i < 300; i++) /* behind pairs of the prediction always something else */
        text[i] = i % 3 == 2 ? (int32_t)(100 + i) : (int32_t)(i % 3);
    ft_draft_source *source = make_source(0, prediction, 400);
    const bet first = bets_of(text, 60, 0, 0.001f, source);
    const bet later = bets_of(text + 60, 240, 0, 0.2f, source);
    assert_true(first.n > 0);
    assert_true(first.held + later.held < 0.05 * (first.n + later.n) || later.n == 0);
    assert_true(later.n < 5);
    ft_draft_source_destroy(source);
}

/* The prompt's matches count for little in the answer. */
static void test_answer_is_another_matter(void **state)
{
    const ft_ngrams_match match = {.token = 7, .length = 6, .seen = 1};
    ft_lookup_rates rates = {0};
    const float before = ft_lookup_chance(&rates, &match, 0);
    for (int i = 0; i < 1000; i++)
        ft_lookup_saw(&rates, &match, 1, 7);
    const float sure = ft_lookup_chance(&rates, &match, 0);
    ft_lookup_doubt(&rates);
    assert_true(before < sure && sure < 1);
    assert_true(ft_lookup_chance(&rates, &match, 0) > before);
    for (int i = 0; i < 6; i++)
        ft_lookup_saw(&rates, &match, 1, 8);
    assert_true(ft_lookup_chance(&rates, &match, 0) < 0.6f);
    const ft_ngrams_match longer = {.token = 7, .length = 20, .seen = 1};
    assert_true(ft_lookup_chance(&(ft_lookup_rates){0}, &longer, 0) > before);
    assert_true(ft_lookup_chance(&(ft_lookup_rates){0}, &longer, 1) < 1 - before);
}

/* ---- predictions ---- */

/* A prediction that is the answer is drafted from its first token to its last. */
static void test_prediction_from_the_start(void **state)
{
    enum { N = 50 };
    int32_t prediction[N], prompt[PROMPT];
    ft_drafter *drafter = NULL;
    ft_tree tree;
    uint32_t done = 0;
    for (int32_t i = 0; i < N; i++)
        prediction[i] = 1000 + i;
    for (int32_t i = 0; i < PROMPT; i++)
        prompt[i] = 10 + i;
    must(ft_drafter_create(make_source(PROMPT, prediction, N), &err, &drafter));
    must(ft_drafter_reset(drafter, prompt, PROMPT, &err));
    const ft_draft_params params = ft_draft_params_tree(16, 8, 8);
    for (uint32_t rounds = 0; done < N; rounds++) {
        uint32_t path[FT_TREE_MAX], n = 0;
        must(ft_drafter_draft(drafter, &params, &err, &tree));
        assert_int_equal(tree.n, N - done < 8 ? N - done : 8);
        for (; n < tree.n; n++) {
            assert_int_equal(tree.token[n], prediction[done + n]);
            path[n] = n;
        }
        const bool end = done + n == N;
        must(ft_drafter_advance(drafter, path, n, prediction + done + n, end ? 0 : 1, &err));
        done += n + !end;
        assert_in_range(rounds, 0, 6);
    }
    must(ft_drafter_draft(drafter, &params, &err, &tree));
    assert_int_equal(tree.n, 0); /* there is no more of it, which is no failure */
    ft_drafter_destroy(drafter);
}

/* ---- trees and verdicts ---- */

static bool same_tokens(const ft_draft_children *a, const ft_draft_children *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        bool found = false;
        for (uint32_t k = 0; k < b->n; k++)
            found |= a->at[i].token == b->at[k].token;
        same = found;
    }
    return same;
}

/* A drafter that goes from verdict to verdict, with kept nodes, proposes what one does that is told
 * the text anew, and neither proposes tokens that never came. */
static void test_goes_on_from_verdicts(void **state)
{
    static int32_t text[TEXT_MAX];
    ft_draft_source *source = make_source(0, NULL, 0);
    ft_draft_children children[4], fresh_children;
    ft_rng rng;
    uint32_t n = 500;
    ft_rng_init(&rng, 11);
    make_text(text, TEXT_MAX, 80, 12);
    read_text(source, text, n, &children[0]);
    for (int round = 0; round < 300; round++) {
        /* Two chains of two nodes: the text's own tokens, and others. */
        const int32_t tokens[] = {text[n], text[n + 1], 17, 18}, parents[] = {-1, 0, -1, 2};
        const uint16_t depths[] = {0, 1, 0, 1};
        ft_draft_request r = {.source = source,
                              .n = 4,
                              .tokens = tokens,
                              .parents = parents,
                              .depths = depths,
                              .children = children};
        must(source->ops->forward(&r, 1, &err));
        const uint32_t path[] = {0, 1}, keep[] = {1}, n_path = 1 + ft_rng_below(&rng, 2);
        must(source->ops->commit(source, path, n_path, keep, n_path == 1, &err));
        assert_int_equal(source->n_past, n + n_path);
        assert_int_equal(source->n_pending, n_path == 1);
        ft_draft_source *fresh = make_source(0, NULL, 0);
        read_text(fresh, text, n + 2, &fresh_children);
        assert_true(same_tokens(&children[1], &fresh_children));
        ft_draft_source_destroy(fresh);
        const int32_t child = 19, parent = 0; /* of the node that was kept */
        const uint16_t depth = 1;
        ft_draft_request more = {.source = source,
                                 .n = 1,
                                 .tokens = &child,
                                 .parents = n_path == 1 ? &parent : &(int32_t){-1},
                                 .depths = n_path == 1 ? &depth : &(uint16_t){0},
                                 .children = children};
        must(source->ops->forward(&more, 1, &err));
        fresh = make_source(0, NULL, 0);
        read_text(fresh, text, n + 2, NULL);
        read_text(fresh, &child, 1, &fresh_children);
        assert_true(same_tokens(&children[0], &fresh_children));
        ft_draft_source_destroy(fresh);
        source->ops->truncate(source, n + n_path);
        n += n_path;
    }
    ft_draft_source_destroy(source);
}

/* ---- the text is the target's ---- */

/* Generates a text; drafter NULL: without drafts. Returns the rounds that it took. */
static uint32_t generate(const ft_model *model, const ft_sampling *s, ft_drafter *drafter,
                         int32_t *text)
{
    test_exact_target t;
    const ft_draft_params params = ft_draft_params_tree(24, 8, 8);
    uint32_t n = test_draft_prompt(text, PROMPT, 0), rounds = 0;
    ft_tree tree;
    ft_verified v;
    ft_tree_clear(&tree);
    test_exact_target_init(&t, model, text, n);
    if (drafter)
        must(ft_drafter_reset(drafter, text, PROMPT, &err));
    for (; n < PROMPT + ANSWER; rounds++) {
        if (drafter)
            must(ft_drafter_draft(drafter, &params, &err, &tree));
        test_exact_target_round(&t, s, text, n, &tree, &v);
        for (uint32_t i = 0; i < v.n_path; i++)
            text[n++] = tree.token[v.path[i]];
        text[n++] = v.next;
        if (drafter)
            must(ft_drafter_advance(drafter, v.path, v.n_path, &v.next, 1, &err));
    }
    test_exact_target_deinit(&t);
    return rounds;
}

static void test_text_is_the_targets(void **state)
{
    int32_t plain[PROMPT + ANSWER + FT_TREE_MAX], text[PROMPT + ANSWER + FT_TREE_MAX];
    ft_model *model = test_draft_model(GGML_TYPE_Q4_0, 1, 512);
    const ft_sampling samplings[] = {{.top_p = 1},
                                     {.temperature = 0.3f, .top_p = 1, .seed = 5},
                                     {.temperature = 1, .top_p = 0.9f, .seed = 6}};
    for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++) {
        const uint32_t steps = generate(model, &samplings[i], NULL, plain);
        assert_int_equal(steps, ANSWER);
        /* Without a prediction, with the answer itself, with one that is wrong from its middle. */
        for (int how = 0; how < 3; how++) {
            int32_t prediction[ANSWER];
            ft_drafter *drafter = NULL;
            memcpy(prediction, plain + PROMPT, sizeof prediction);
            for (int k = ANSWER / 2; k < ANSWER && how == 2; k++)
                prediction[k] = k;
            must(ft_drafter_create(make_source(PROMPT, prediction, how ? ANSWER : 0), &err,
                                   &drafter));
            const uint32_t rounds = generate(model, &samplings[i], drafter, text);
            assert_memory_equal(text, plain, (PROMPT + ANSWER) * sizeof *text);
            assert_true(how != 1 || rounds <= ANSWER / 5);
            assert_true(how != 2 || rounds <= ANSWER * 3 / 4);
            ft_drafter_destroy(drafter);
        }
    }
    ft_model_destroy(model);
}

/* ---- under a constraint ---- */

enum { END = 26, LETTERS }; /* letters, and an end */

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const char letter = (char)('a' + token);
    return token < END ? ft_buf_append(out, &letter, 1) : FT_OK;
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

static void follow_letters(ft_draft_source *source, const char *letters,
                           ft_draft_children *children)
{
    int32_t tokens[64];
    uint32_t n = 0;
    for (; letters[n]; n++)
        tokens[n] = letters[n] - 'a';
    read_text(source, tokens, n, children);
}

/* What was found and may not follow is not proposed, in the text and behind drafts; in the prompt
 * everything may follow. */
static void test_finds_what_may_follow(void **state)
{
    static const char prompt[] = "abcxabcyabcz";
    const ft_constrain_tokens tokens = {.n = LETTERS, .piece = piece, .ends = ends};
    const ft_constraint c = {FT_CONSTRAINT_REGEX, "abc[yz]a*", 9};
    ft_sampling s = {.top_p = 1, .answer_at = sizeof prompt - 1};
    ft_draft_source *source = NULL;
    ft_constrain_vocab *vocab;
    ft_grammar *grammar;
    ft_draft_children found, behind[2];
    if (!ft_constrain_available())
        skip();
    must(ft_constrain_vocab_create(&tokens, &err, &vocab));
    must(ft_grammar_compile(vocab, &c, NULL, &err, &grammar));
    must(ft_matcher_create(grammar, &err, &s.matcher));
    const ft_lookup_opts opts = {
        .n_ctx = 200, .n_vocab = LETTERS, .n_prompt = sizeof prompt - 1, .sampling = &s};
    must(ft_lookup_source(&opts, &err, &err, &source));
    follow_letters(source, "abcxabcyabc", &found);
    assert_int_equal(found.n, 2); /* x and y: of the prompt */
    follow_letters(source, "z", &found);
    assert_int_equal(found.n, 0);
    follow_letters(source, "ab", &found);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.at[0].token, 'c' - 'a');
    const int32_t leaves[] = {'c' - 'a', 'y' - 'a'}, parents[] = {-1, 0};
    const uint16_t depths[] = {0, 1};
    ft_draft_request r = {.source = source,
                          .n = 2,
                          .tokens = leaves,
                          .parents = parents,
                          .depths = depths,
                          .children = behind};
    must(source->ops->forward(&r, 1, &err));
    assert_int_equal(behind[0].n, 2); /* y and z, not x */
    for (uint32_t i = 0; i < 2; i++)
        assert_true(behind[0].at[i].token == 'y' - 'a' || behind[0].at[i].token == 'z' - 'a');
    assert_int_equal(behind[1].n, 1);
    assert_int_equal(behind[1].at[0].token, 0);
    source->ops->truncate(source, source->n_past);
    follow_letters(source, "cz", &found); /* a new end, behind which only an a fits */
    assert_true(found.n == 0 || (found.n == 1 && found.at[0].token == 0));
    ft_draft_source_destroy(source);
    ft_matcher_destroy(s.matcher);
    ft_grammar_unref(grammar);
    ft_constrain_vocab_destroy(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stated_chances_hold),
        cmocka_unit_test(test_learns_that_nothing_holds),
        cmocka_unit_test(test_answer_is_another_matter),
        cmocka_unit_test(test_prediction_from_the_start),
        cmocka_unit_test(test_goes_on_from_verdicts),
        cmocka_unit_test(test_text_is_the_targets),
        cmocka_unit_test(test_finds_what_may_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
