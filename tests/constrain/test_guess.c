// SPDX-License-Identifier: Apache-2.0
// What may follow within a string of a bounded length is much work to know: each long token is
// read. A guess gives up, and its matcher is used on.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constraint.h"

/* The bytes, all words of three small letters, and an end. */
enum { BYTES = 256, LETTERS = 26, END = BYTES + LETTERS * LETTERS * LETTERS, VOCAB };

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const int32_t word = token - BYTES;
    const char text[3] = {(char)('a' + word / (LETTERS * LETTERS) % LETTERS),
                          (char)('a' + word / LETTERS % LETTERS), (char)('a' + word % LETTERS)};
    const char byte = (char)token;
    if (token == END)
        return FT_OK;
    return token < BYTES ? ft_buf_append(out, &byte, 1) : ft_buf_append(out, text, 3);
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

static ft_matcher *matcher_of(const char *schema)
{
    const ft_constrain_tokens tokens = {.n = VOCAB, .piece = piece, .ends = ends};
    const ft_constraint c = {
        .kind = FT_CONSTRAINT_JSON_SCHEMA, .data = schema, .n = strlen(schema)};
    ft_error err = {0};
    ft_constrain_vocab *vocab;
    ft_grammar *grammar;
    ft_matcher *m = NULL;
    assert_int_equal(ft_constrain_vocab_create(&tokens, &err, &vocab), FT_OK);
    if (ft_grammar_compile(vocab, &c, NULL, &err, &grammar) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(ft_matcher_create(grammar, &err, &m), FT_OK);
    ft_grammar_unref(grammar);
    ft_constrain_vocab_destroy(vocab);
    return m;
}

static bool in(const uint32_t *mask, int32_t token)
{
    return mask && mask[token / 32] >> token % 32 & 1;
}

static void test_bounded_string(void **state)
{
    enum { MOST = 16 };
    const uint32_t *mask;
    int32_t text[MOST + 1] = {'"'};
    uint32_t given_up = 0;
    if (!ft_constrain_available())
        skip();
    ft_matcher *m = matcher_of("{\"type\":\"string\",\"maxLength\":16}");
    for (uint32_t n = 0; n <= MOST; n++) {
        text[n] = n == 0 ? '"' : 'x';
        assert_true(ft_matcher_follow(m, text, n + 1, NULL, 0));
        const bool known = ft_matcher_guess(m, &mask);
        given_up += !known;
        assert_int_equal(ft_matcher_status(m, NULL), FT_OK);
        if (known)
            assert_true(in(mask, '"') && in(mask, 'a') == (n < MOST));
        else
            assert_null(mask);
        /* it stands where it stood */
        assert_true(ft_matcher_allows(m, '"'));
        assert_int_equal(ft_matcher_allows(m, BYTES + 77), n + 3 <= MOST);
        assert_false(ft_matcher_allows(m, '\n'));
    }
    assert_true(given_up > 0);
    text[1] = '"';
    assert_true(ft_matcher_follow(m, text, 2, NULL, 0));
    assert_true(ft_matcher_allows(m, END));
    ft_matcher_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounded_string)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
