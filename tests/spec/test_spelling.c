// SPDX-License-Identifier: Apache-2.0
// What is forced, as tokens: one token that is left, the tokenizer's way, what came before.
// Whatever is said may follow; other tenants do not see it; chances are what was counted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constraint.h"
#include "spec/constrained.h"
#include "spec/spelling.h"
#include "support/tiny_model.h"

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef struct fixture {
    ft_vocab *vocab;
    ft_sampling sampling;
    ft_speller speller;
    ft_tokens text;
} fixture;

static void init(fixture *f, const char *regex, ft_spellings *seen)
{
    const ft_constraint c = {FT_CONSTRAINT_REGEX, regex, strlen(regex)};
    ft_constrain_vocab *tokens;
    ft_grammar *grammar;
    if (!ft_constrain_available())
        skip();
    tiny_quiet();
    *f = (fixture){.vocab = tiny_vocab(), .sampling = ft_sampling_default()};
    const ft_constrain_tokens of = ft_constrained_tokens(f->vocab);
    must(ft_constrain_vocab_create(&of, &err, &tokens));
    must(ft_grammar_compile(tokens, &c, NULL, &err, &grammar));
    must(ft_matcher_create(grammar, &err, &f->sampling.matcher));
    ft_grammar_unref(grammar);
    ft_constrain_vocab_destroy(tokens);
    f->speller = (ft_speller){.vocab = f->vocab, .sampling = &f->sampling, .seen = seen};
}

static void deinit(fixture *f)
{
    ft_speller_deinit(&f->speller);
    ft_matcher_destroy(f->sampling.matcher);
    ft_tokens_deinit(&f->text);
    ft_vocab_destroy(f->vocab);
}

/* Behind this text, which is tokenized as one. */
static ft_spelling behind(fixture *f, const char *text)
{
    f->text.n = 0;
    must(ft_vocab_tokenize_text(f->vocab, text, strlen(text), NULL, &err, &f->text));
    const ft_past past = {.text = f->text.id, .n_text = (uint32_t)f->text.n};
    return ft_speller_next(&f->speller, &past);
}

/* The token's bytes. */
static const char *spelled(fixture *f, int32_t token)
{
    static ft_buf piece;
    ft_buf_clear(&piece);
    must(ft_vocab_piece(f->vocab, token, true, &piece));
    return ft_buf_str(&piece);
}

static void test_kinds(void **state)
{
    fixture f;
    init(&f, "(ab|cd)abcde[0-9]!", NULL);
    assert_int_equal(behind(&f, "").kind, FT_SPELLING_NONE);
    const ft_spelling inner = behind(&f, "ab"), last = behind(&f, "ababcd");
    assert_true(inner.kind == FT_SPELLING_INNER || inner.kind == FT_SPELLING_ONLY);
    assert_true(strncmp("abcde", spelled(&f, inner.token), strlen(spelled(&f, inner.token))) == 0);
    assert_true(last.kind == FT_SPELLING_LAST || last.kind == FT_SPELLING_ONLY);
    assert_string_equal(spelled(&f, last.token), "e");
    assert_int_equal(behind(&f, "ababcde").kind, FT_SPELLING_NONE);
    const ft_spelling only = behind(&f, "ababcde7");
    assert_int_equal(only.kind, FT_SPELLING_ONLY);
    assert_string_equal(spelled(&f, only.token), "!");
    assert_true(ft_speller_chance(&f.speller, only) == 1);
    /* what does not fit, and what comes before the answer, forces nothing */
    assert_int_equal(behind(&f, "xy").kind, FT_SPELLING_NONE);
    f.sampling.answer_at = 100;
    assert_int_equal(behind(&f, "ab").kind, FT_SPELLING_NONE);
    deinit(&f);
}

/* A token that may follow `text` and is not `other`; -1: there is none. */
static int32_t another(fixture *f, const char *text, int32_t other)
{
    (void)behind(f, text); /* moves the matcher */
    for (int32_t t = 0; t < ft_vocab_size(f->vocab); t++)
        if (t != other && ft_matcher_allows(f->sampling.matcher, t))
            return t;
    return -1;
}

static void test_memory(void **state)
{
    static ft_spellings seen;
    fixture f;
    init(&f, "[xy]bababa[0-9]", &seen);
    const ft_spelling first = behind(&f, "x");
    assert_int_equal(first.kind, FT_SPELLING_INNER);
    assert_string_equal(spelled(&f, first.token), "ba");
    const int32_t other = another(&f, "x", first.token);
    assert_string_equal(spelled(&f, other), "b");
    ft_speller_came(&f.speller, first, other);
    ft_spelling again = behind(&f, "y"); /* the same bytes */
    assert_int_equal(again.kind, FT_SPELLING_SEEN);
    assert_int_equal(again.token, other);
    ft_speller_came(&f.speller, again, other);
    again = behind(&f, "y");
    assert_int_equal(again.kind, FT_SPELLING_AGAIN);
    assert_int_equal(again.token, other);
    assert_int_equal(behind(&f, "yba").kind, FT_SPELLING_INNER); /* other bytes */
    /* another tenant's bytes are not these */
    f.speller.tenant = 7;
    assert_int_equal(behind(&f, "y").kind, FT_SPELLING_INNER);
    f.speller.tenant = 0;
    ft_speller_came(&f.speller, again, first.token);
    assert_int_equal(behind(&f, "y").kind, FT_SPELLING_SEEN);
    assert_int_equal(behind(&f, "y").token, first.token);
    /* what may not follow is not said, whatever was seen */
    ft_speller_came(&f.speller, again, 'z' + 3);
    assert_int_equal(behind(&f, "y").kind, FT_SPELLING_INNER);
    deinit(&f);
}

static void test_chances_are_counted(void **state)
{
    fixture f;
    init(&f, "[xy]bababa[0-9]", NULL);
    const ft_spelling s = behind(&f, "x");
    const float guess = ft_speller_chance(&f.speller, s);
    assert_true(guess > 0.5f && guess < 1);
    for (int i = 0; i < 200; i++)
        ft_speller_came(&f.speller, s, i % 4 == 0 ? s.token : -1);
    assert_true(ft_speller_chance(&f.speller, s) > 0.15f);
    assert_true(ft_speller_chance(&f.speller, s) < 0.35f);
    for (int i = 0; i < 200; i++)
        ft_speller_came(&f.speller, s, s.token);
    assert_true(ft_speller_chance(&f.speller, s) > 0.95f);
    assert_true(ft_speller_chance(&f.speller, s) < 1);
    deinit(&f);
}

/* Along texts that fit: what is said may follow, and is the only one where it says so. */
static void test_all_of_it_may_follow(void **state)
{
    static ft_spellings seen;
    fixture f;
    uint32_t n_said = 0, n_only = 0;
    init(&f, "(cabba=[a-f]{1,3};|dada=[0-9]{1,2},and baba\\.){1,6}end", &seen);
    srand(5);
    for (int round = 0; round < 30; round++) {
        int32_t text[200];
        for (uint32_t n = 0; n < 200; n++) {
            const ft_past past = {.text = text, .n_text = n};
            const ft_spelling s = ft_speller_next(&f.speller, &past);
            int32_t allowed[320], k = 0;
            for (int32_t t = 0; t < ft_vocab_size(f.vocab); t++)
                if (ft_matcher_allows(f.sampling.matcher, t))
                    allowed[k++] = t;
            if (k == 0)
                break;
            n_said += s.kind != FT_SPELLING_NONE;
            n_only += s.kind == FT_SPELLING_ONLY;
            assert_true(s.kind == FT_SPELLING_NONE ||
                        ft_matcher_allows(f.sampling.matcher, s.token));
            assert_int_equal(s.kind == FT_SPELLING_ONLY, k == 1);
            text[n] = allowed[rand() % k];
            ft_speller_came(&f.speller, s, text[n]);
        }
    }
    assert_true(n_only > 100 && n_said > n_only + 100);
    deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_chances_are_counted),
        cmocka_unit_test(test_all_of_it_may_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
