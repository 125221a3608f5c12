// SPDX-License-Identifier: Apache-2.0
// constrain/constraint.h when memory runs out: whichever C++ allocation of a call fails, the call
// says FT_NOMEM or goes on without it, nothing is thrown out of it, and nothing leaks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constraint.h"
#include "support/failing_new.h"

enum { END = 128, MARK, VOCAB };

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const char byte = (char)token;
    return token < END ? ft_buf_append(out, &byte, 1) : FT_OK;
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

static const char *mark(const void *ctx, size_t i, int32_t *token)
{
    *token = MARK;
    return "<|mark|>";
}

static const ft_constrain_tokens tokens = {
    .n = VOCAB, .piece = piece, .ends = ends, .mark = mark, .n_marks = 1};

static ft_constrain_vocab *vocab;
static ft_grammar *grammar;
static ft_matcher *matcher;

#define SCHEMA                                                                             \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3},"     \
    "\"b\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\",\"y\"]},\"maxItems\":2},\"m\":{" \
    "\"type\":\"string\",\"pattern\":\"^[a-z]{1,3}$\"}},\"required\":[\"a\",\"z\"]}"

#define CALLS                                                                                \
    "{\"mark\":\"<|mark|>\",\"many\":true,\"calls\":[{\"begin\":\"f\",\"schema\":{\"type\":" \
    "\"integer\"},\"end\":\"<|mark|>\"}]}"
#define OF(kind, text)              \
    {                               \
        kind, text, sizeof text - 1 \
    }

static const ft_constraint kinds[] = {
    OF(FT_CONSTRAINT_JSON_SCHEMA, SCHEMA), {FT_CONSTRAINT_JSON_OBJECT, NULL, 0},
    OF(FT_CONSTRAINT_REGEX, "(a|bc)+d?"),  OF(FT_CONSTRAINT_GRAMMAR, "root ::= \"a\" root | [b-d]"),
    OF(FT_CONSTRAINT_CALL, CALLS),
};
static const ft_constraint *kind; /* that `compile` compiles */

/* Each does one call, and owes nothing after it. */

static ft_status make_vocab(ft_error *err)
{
    ft_constrain_vocab *v;
    const ft_status status = ft_constrain_vocab_create(&tokens, err, &v);
    assert_true((status == FT_OK) == (v != NULL));
    ft_constrain_vocab_destroy(v);
    return status;
}

/* The first compilation makes more than later ones do. */
static ft_status compile_first(ft_error *err)
{
    ft_constrain_vocab *v;
    ft_grammar *g = NULL;
    ft_status status = ft_constrain_vocab_create(&tokens, err, &v);
    if (status == FT_OK)
        status = ft_grammar_compile(v, &kinds[1], NULL, err, &g);
    assert_true((status == FT_OK) == (g != NULL));
    ft_grammar_unref(g);
    ft_constrain_vocab_destroy(v);
    return status;
}

static ft_status compile(ft_error *err)
{
    ft_grammar *g;
    const ft_status status = ft_grammar_compile(vocab, kind, NULL, err, &g);
    assert_true((status == FT_OK) == (g != NULL));
    ft_grammar_unref(g);
    return status;
}

static ft_status make_matcher(ft_error *err)
{
    ft_matcher *m;
    const ft_status status = ft_matcher_create(grammar, err, &m);
    assert_true((status == FT_OK) == (m != NULL));
    ft_matcher_destroy(m);
    return status;
}

static ft_status follow(ft_error *err)
{
    static const int32_t text[] = {'{', '"', 'a', '"', ':', ' ', '1', '2', ',', ' ', '"', 'b'};
    const bool follows = ft_matcher_follow(matcher, text, 12, NULL, 0);
    const ft_status status = ft_matcher_status(matcher, err);
    assert_true(follows || status != FT_OK);
    return status;
}

static ft_status allow(ft_error *err)
{
    const bool allowed = ft_matcher_allows(matcher, '{');
    const ft_status status = ft_matcher_status(matcher, err);
    assert_true(allowed || status != FT_OK);
    return status;
}

static ft_status mask(ft_error *err)
{
    const uint32_t *bits = ft_matcher_mask(matcher);
    const ft_status status = ft_matcher_status(matcher, err);
    assert_true(status != FT_OK || (bits && bits['{' / 32] >> ('{' % 32) & 1));
    return status;
}

/* With a matcher that nothing has moved yet, if `fresh`. Later allocations are tried in larger
 * steps, as there are thousands of them. */
static void fail_each(ft_status (*one)(ft_error *err), bool fresh)
{
    ft_error err = {0};
    uint32_t failed = 0;
    bool thrown = true;
    failing_new_at(0);
    for (uint64_t nth = 0; thrown; nth += 1 + nth / 32) {
        const int64_t before = failing_new_live();
        if (fresh)
            assert_int_equal(ft_matcher_create(grammar, &err, &matcher), FT_OK);
        err = (ft_error){0};
        failing_new_at(nth);
        const ft_status status = one(&err);
        const bool did = failing_new_thrown();
        thrown = did || nth == 0; /* the first time none does */
        failing_new_at(0);
        assert_true(status == FT_OK || (did && err.message[0]));
        assert_true(status == FT_OK || status == FT_NOMEM || nth > 0);
        failed += status == FT_NOMEM;
        if (fresh)
            ft_matcher_destroy(matcher);
        if (nth > 0) /* what XGrammar makes once stays */
            assert_int_equal(failing_new_live(), before);
    }
    assert_true(failed > 0);
}

static void test_vocab(void **state)
{
    fail_each(make_vocab, false);
    fail_each(compile_first, false);
}

static void test_compile(void **state)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kind = &kinds[i];
        fail_each(compile, false);
    }
}

static void test_matcher(void **state)
{
    fail_each(make_matcher, false);
    fail_each(follow, true);
    fail_each(allow, true);
    fail_each(mask, true);
}

/* A compilation that is stopped at its n-th look leaves nothing, either. */
static bool stop_at(void *ctx)
{
    uint32_t *left = ctx;
    return (*left)-- == 0;
}

static void test_stop(void **state)
{
    ft_buf large = {0};
    ft_buf_puts(&large, "{\"type\":\"object\",\"properties\":{\"x\":{}");
    for (int i = 0; i < 300; i++)
        ft_buf_printf(&large, ",\"%d\":{\"type\":\"integer\"}", i);
    ft_buf_puts(&large, "}}");
    const ft_constraint c = {FT_CONSTRAINT_JSON_SCHEMA, large.data, large.len};
    ft_error err = {0};
    ft_status status = FT_ABORTED;
    uint32_t n = 0;
    for (; status == FT_ABORTED; n++) {
        uint32_t left = n;
        const ft_compile_stop stop = {stop_at, &left};
        const int64_t before = failing_new_live();
        ft_grammar *g;
        status = ft_grammar_compile(vocab, &c, &stop, &err, &g);
        assert_true((status == FT_OK) == (g != NULL));
        ft_grammar_unref(g);
        if (n > 0)
            assert_int_equal(failing_new_live(), before);
    }
    assert_int_equal(status, FT_INVALID); /* it has too many states, which is known at its end */
    assert_true(n > 2);                   /* it was stopped */
    ft_buf_deinit(&large);
}

static int setup(void **state)
{
    ft_error err = {0};
    return ft_constrain_vocab_create(&tokens, &err, &vocab) != FT_OK ||
           ft_grammar_compile(vocab, &kinds[0], NULL, &err, &grammar) != FT_OK;
}

static int teardown(void **state)
{
    ft_grammar_unref(grammar);
    ft_constrain_vocab_destroy(vocab);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vocab), cmocka_unit_test(test_compile),
                                       cmocka_unit_test(test_matcher), cmocka_unit_test(test_stop)};
    return ft_constrain_available() ? cmocka_run_group_tests(tests, setup, teardown) : 0;
}
