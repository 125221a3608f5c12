// SPDX-License-Identifier: Apache-2.0
// constrain/constraint.h with a vocabulary of bytes: which texts fit, moving back and forth, masks,
// what is refused and in which words.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constraint.h"

/* A token for each byte; END ends a text; SPECIAL and the marks have no bytes. */
enum { END = 256, SPECIAL, PAIR, MARK, LONG_MARK, VOCAB };

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const char byte = (char)token;
    if (token == PAIR)
        return ft_buf_puts(out, "{\"");
    return token < END ? ft_buf_append(out, &byte, 1) : FT_OK;
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

/* Two tokens without bytes, one of whose texts begins the other's; and one that ends a text. */
static const char *mark(const void *ctx, size_t i, int32_t *token)
{
    static const char *const text[] = {"<|a|>", "<|a|>b", "<|end|>"};
    *token = (int32_t[]){MARK, LONG_MARK, END}[i];
    return text[i];
}

static ft_constrain_vocab *vocab;

static int setup(void **state)
{
    const ft_constrain_tokens tokens = {
        .n = VOCAB, .piece = piece, .ends = ends, .mark = mark, .n_marks = 3};
    ft_error err = {0};
    if (!ft_constrain_available())
        return 0;
    return ft_constrain_vocab_create(&tokens, &err, &vocab) != FT_OK;
}

static int teardown(void **state)
{
    ft_constrain_vocab_destroy(vocab);
    return 0;
}

static ft_constraint of(ft_constraint_kind kind, const char *text)
{
    return (ft_constraint){.kind = kind, .data = text, .n = strlen(text)};
}

static ft_matcher *matcher_of(ft_constraint_kind kind, const char *text)
{
    const ft_constraint c = of(kind, text);
    ft_error err = {0};
    ft_grammar *grammar;
    ft_matcher *m = NULL;
    if (ft_grammar_compile(vocab, &c, NULL, &err, &grammar) != FT_OK)
        fail_msg("%s: %s", text, err.message);
    assert_int_equal(ft_matcher_create(grammar, &err, &m), FT_OK);
    ft_grammar_unref(grammar); /* the matcher has its own */
    return m;
}

static uint32_t tokens_of(const char *text, int32_t *out)
{
    uint32_t n = 0;
    for (; text[n]; n++)
        out[n] = (unsigned char)text[n];
    return n;
}

/* Whether the text fits as a whole. */
static bool takes(ft_matcher *m, const char *text)
{
    int32_t tokens[256];
    const uint32_t n = tokens_of(text, tokens);
    return ft_matcher_follow(m, tokens, n, NULL, 0) && ft_matcher_allows(m, END);
}

static void check(ft_constraint_kind kind, const char *text, const char *good, const char *bad)
{
    ft_matcher *m = matcher_of(kind, text);
    if (!takes(m, good) || takes(m, bad))
        fail_msg("%s: takes %s: %d, takes %s: %d", text, good, takes(m, good), bad, takes(m, bad));
    assert_int_equal(ft_matcher_status(m, NULL), FT_OK);
    ft_matcher_destroy(m);
}

static void needs_xgrammar(void)
{
    if (!ft_constrain_available())
        skip();
}

static void test_kinds(void **state)
{
    needs_xgrammar();
    check(FT_CONSTRAINT_JSON_OBJECT, "", "{\"a\": [1, {}]}", "[1]");
    check(FT_CONSTRAINT_REGEX, "[0-9]{2}|x", "42", "4");
    check(FT_CONSTRAINT_GRAMMAR, "root ::= \"a\" root | \"b\"", "aab", "aa");
    check(FT_CONSTRAINT_JSON_SCHEMA,
          "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"],"
          "\"additionalProperties\":false}",
          "{\"n\": 7}", "{\"n\": true}");
    check(FT_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"enum\":[\"x\",\"y\"]}", "\"y\"",
          "\"z\"");
    static const char calls[] =
        "{\"calls\":["
        "{\"begin\":\"<f>\\n\\\"\",\"schema\":{\"type\":\"integer\"},\"end\":\"\\\\</f>\"},"
        "{\"begin\":\"g\",\"schema\":{\"type\":\"boolean\"},\"end\":\"\"}]}";
    check(FT_CONSTRAINT_CALL, calls, "<f>\n\"7\\</f>", "<f>\n\"true\\</f>");
    check(FT_CONSTRAINT_CALL, calls, "gtrue", "g7");
    check(FT_CONSTRAINT_JSON_SCHEMA,
          "{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/t\"}],\"default\":null,"
          "\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}}}}",
          "[[], [[]]]", "[null]");
}

static void test_forced(void **state)
{
    needs_xgrammar();
    ft_matcher *m = matcher_of(FT_CONSTRAINT_JSON_SCHEMA,
                               "{\"type\":\"object\",\"properties\":{\"n\":{\"enum\":[1,2]}},"
                               "\"required\":[\"n\"],\"additionalProperties\":false}");
    static const char whole[] = "{\"n\": 1}";
    static const char *const left[] = {"{\"n\": ", "\"n\": ", "n\": ", "\": ", ": ", " ", "", "}"};
    int32_t tokens[16];
    ft_buf bytes = {0};
    const uint32_t n = tokens_of(whole, tokens);
    for (uint32_t i = 0; i <= n; i++) {
        assert_true(ft_matcher_follow(m, tokens, i, NULL, 0));
        ft_buf_clear(&bytes);
        assert_int_equal(ft_matcher_forced(m, &bytes), FT_OK);
        assert_string_equal(ft_buf_str(&bytes), i < n ? left[i] : "");
        /* a brace alone, or with the quote behind it; 1 or 2 */
        const int32_t only = i == 0 || i == 6 ? -1 : i == n ? END : tokens[i];
        assert_int_equal(ft_matcher_only(m), only);
        const uint32_t *mask = ft_matcher_mask(m);
        for (int32_t t = 0; t < VOCAB && only >= 0; t++)
            assert_int_equal(mask[t / 32] >> (t % 32) & 1, t == only);
    }
    tokens[n] = END; /* behind the end nothing is forced */
    assert_true(ft_matcher_follow(m, tokens, n + 1, NULL, 0));
    ft_buf_clear(&bytes);
    assert_int_equal(ft_matcher_forced(m, &bytes), FT_OK);
    assert_int_equal(bytes.len, 0);
    assert_int_equal(ft_matcher_only(m), -1);
    assert_int_equal(ft_matcher_status(m, NULL), FT_OK);
    ft_buf_deinit(&bytes);
    ft_matcher_destroy(m);
}

/* What XGrammar alone would read wrongly. */
static void test_schemas(void **state)
{
    static const char *const cases[][3] = {
        {"{\"type\":\"object\",\"required\":[\"b\"]}", "{\"b\": [1]}", "{}"},
        {"{\"type\":\"object\",\"required\":[\"b\"],\"additionalProperties\":{\"type\":\"intege"
         "r\"}}",
         "{\"b\": 1, \"c\": 2}", "{\"b\": \"x\"}"},
        {"{\"type\":\"object\",\"required\":[\"b\",\"a\"],\"properties\":{\"a\":{\"type\":\"nul"
         "l\"}},\"unevaluatedProperties\":{\"type\":\"integer\"}}",
         "{\"a\": null, \"b\": 1}", "{\"a\": null}"},
        {"{\"type\":[\"object\",\"null\"],\"additionalProperties\":{\"$ref\":\"#\"},\"required"
         "\":[\"a\"]}",
         "{\"a\": {\"a\": null, \"b\": null}}", "{\"a\": {}}"},
        {"{\"type\":\"string\",\"minLength\":1}", "\"a\"", "\"\011\""},
        {"{\"type\":\"string\",\"maxLength\":2}", "\"ab\"", "\"\001\""},
        {"{\"type\":\"string\",\"pattern\":\"^(\303\251|.)$\"}", "\"\303\251\"", "\"\"\""},
        {"{\"type\":\"string\",\"pattern\":\"^[\\\\\303\251]+$\"}", "\"\303\251\303\251\"",
         "\"e\""},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProper"
         "ties\":{\"type\":\"string\"}}",
         "{\"a\": 1, \"b\": \"x\"}", "{\"a\": 1, \"\\u0061\": \"x\"}"},
        {"{\"type\":\"string\",\"format\":\"email\"}", "\"a.b@c-d.org\"", "\"\\\"\\q\\\"@a.de\""},
        {"{\"type\":\"string\",\"format\":\"json-pointer\"}", "\"/a~1b/0\"", "\"/\"a\""},
        {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\",\"pattern\":\"^[a-c]$\"}}",
         "{\"a\": 1, \"c\": 2}", "{\"d\": 1}"},
        {"{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"null\"},\"^b\":{\"type"
         "\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
         "{\"a\": null, \"b\": null}", "{\"a\": 1}"},
        {"{\"type\":\"object\",\"minProperties\":2,\"required\":[\"a\"],\"additionalProperties"
         "\":true}",
         "{\"a\": 1, \"b\": 1}", "{\"a\": 1}"},
    };
    needs_xgrammar();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(FT_CONSTRAINT_JSON_SCHEMA, cases[i][0], cases[i][1], cases[i][2]);
}

/* A call may spell tokens that have no bytes: then they stand there, and their letters do not. */
static void test_marks(void **state)
{
    static const int32_t token[] = {'x', MARK, 'c', LONG_MARK, '7', MARK};
    needs_xgrammar();
    ft_matcher *m =
        matcher_of(FT_CONSTRAINT_CALL,
                   "{\"calls\":[{\"begin\":\"x<|a|>c<|a|>b\",\"schema\":{\"type\":\"integer\"},"
                   "\"end\":\"<|a|><|end|>\"}]}");
    assert_true(ft_matcher_follow(m, token, 6, NULL, 0));
    assert_true(ft_matcher_allows(m, '<'));
    assert_false(ft_matcher_allows(m, END));
    assert_true(ft_matcher_follow(m, token, 1, NULL, 0));
    assert_false(ft_matcher_allows(m, '<'));
    assert_false(ft_matcher_allows(m, LONG_MARK));
    assert_true(ft_matcher_follow(m, token, 3, NULL, 0));
    assert_false(ft_matcher_allows(m, MARK));
    assert_true(ft_matcher_allows(m, LONG_MARK));
    const uint32_t *allowed = ft_matcher_mask(m);
    assert_non_null(allowed);
    for (int32_t t = 0; t < VOCAB; t++)
        assert_int_equal(allowed[t / 32] >> (t % 32) & 1, t == LONG_MARK);
    ft_matcher_destroy(m);
}

/* Any text, and calls behind marks: a string, or a token. */
#define CALLS(more, schema) \
    "{\"calls\":[{\"begin\":\"(\",\"schema\":" schema ",\"end\":\")\"}]" more "}"

static void test_behind_marks(void **state)
{
    static const char many[] = CALLS(",\"many\":true,\"mark\":\"<f>\"", "{\"type\":\"integer\"}");
    static const char once[] = CALLS(",\"mark\":\"<f>\"", "{\"type\":\"integer\"}");
    static const char token[] =
        CALLS(",\"many\":true,\"mark\":\"<|a|>\"", "{\"type\":\"integer\"}");
    static const int32_t marked[] = {'7', SPECIAL - 1, MARK, '(', '1', ')', 'x', MARK};
    needs_xgrammar();
    check(FT_CONSTRAINT_CALL, many, "say {\"a\": 1} <f", "say <f>{");
    check(FT_CONSTRAINT_CALL, many, "\xe2\x82\xac<f>(1), <f>(-2) and <g>", "<f>(1) <f>(x)");
    check(FT_CONSTRAINT_CALL, many, "", "<f>(1");
    check(FT_CONSTRAINT_CALL, once, "so: <f>(1)", "so: <f>(1)x");
    ft_matcher *m = matcher_of(FT_CONSTRAINT_CALL, token);
    assert_true(ft_matcher_follow(m, marked, 1, NULL, 0));
    assert_true(ft_matcher_allows(m, END));
    assert_true(ft_matcher_follow(m, marked, 1, marked + 2, 6));
    assert_true(ft_matcher_allows(m, '('));
    assert_false(ft_matcher_allows(m, 'x'));
    assert_false(ft_matcher_allows(m, END));
    ft_matcher_destroy(m);
}

static void check_loose(const char *text, ft_loosen which, const char *want)
{
    const ft_constraint c = of(FT_CONSTRAINT_CALL, text);
    ft_buf out = {0};
    assert_int_equal(ft_constraint_loosen(&c, which, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), want);
    ft_buf_deinit(&out);
}

#define OBJECT "{\"type\":\"object\"}"
#define NUMBER "{\"type\":\"integer\"}"
#define NOTED                                                                              \
    "{\"type\":\"object\",\"title\":\"t\",\"properties\":{\"title\":{\"type\":\"string\"," \
    "\"description\":\"d\"},\"default\":{\"const\":{\"title\":1},\"examples\":[1]}}}"
#define BARE                                                                             \
    "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\"},\"default\":{" \
    "\"const\":{\"title\":1}}}}"

static void test_loosen(void **state)
{
    static char large[2 * FT_CONSTRAINT_MAX_BYTES];
    const char *bad = CALLS(",\"many\":true,\"mark\":\"<f>\"", "{\"not\":{}}");
    const char *object = CALLS(",\"many\":true,\"mark\":\"<f>\"", OBJECT);
    ft_buf out = {0};
    check_loose(bad, FT_LOOSEN_NONE, bad);
    check_loose(bad, FT_LOOSEN_REFUSED, object);
    check_loose(bad, FT_LOOSEN_ALL, object);
    check_loose(CALLS("", NUMBER), FT_LOOSEN_REFUSED, CALLS("", NUMBER));
    check_loose(CALLS("", NUMBER), FT_LOOSEN_ALL, CALLS("", OBJECT));
    check_loose(CALLS("", NOTED), FT_LOOSEN_NONE, CALLS("", BARE));
    check_loose(CALLS("", NOTED), FT_LOOSEN_REFUSED, CALLS("", BARE));
    for (int i = 0; i < 2; i++) { /* a note is too large, or what must come is */
        static const char *const keys[] = {"title", "const"};
        const char *tail = "\"},\"end\":\")\"}]}";
        char head[80];
        snprintf(head, sizeof head, "{\"calls\":[{\"begin\":\"(\",\"schema\":{\"%s\":\"", keys[i]);
        memset(large, 'a', sizeof large);
        memcpy(large, head, strlen(head));
        memcpy(large + sizeof large - strlen(tail) - 1, tail, strlen(tail) + 1);
        check_loose(large, FT_LOOSEN_REFUSED, i == 0 ? CALLS("", "{}") : CALLS("", OBJECT));
    }
    const ft_constraint c = of(FT_CONSTRAINT_CALL, "[]");
    assert_int_equal(ft_constraint_loosen(&c, FT_LOOSEN_ALL, &out), FT_INVALID);
}

/* An agent's tools: each schema takes some 30 KB, all together much more than one schema may. */
static void test_many_calls(void **state)
{
    enum { N = 40 };
    ft_buf calls = {0}, good = {0}, bad = {0};
    needs_xgrammar();
    ft_buf_puts(&calls, "{\"calls\":[");
    for (int i = 0; i < N; i++)
        ft_buf_printf(
            &calls,
            "%s{\"begin\":\"<t%d>\",\"end\":\"</t>\",\"schema\":{\"type\":\"object\","
            "\"properties\":{\"path\":{\"type\":\"string\"},\"n%d\":{\"type\":\"integer\"},"
            "\"mode\":{\"enum\":[\"read\",\"write\",\"m%d\"]},\"lines\":{\"type\":\"array\","
            "\"items\":{\"type\":\"string\"}},\"all\":{\"type\":\"boolean\"}},"
            "\"required\":[\"path\"],\"additionalProperties\":false}}",
            i ? "," : "", i, i, i);
    ft_buf_puts(&calls, "]}");
    ft_buf_printf(&good, "<t39>{\"path\": \"x\", \"n39\": 7, \"mode\": \"m39\"}</t>");
    ft_buf_printf(&bad, "<t39>{\"path\": \"x\", \"n38\": 7, \"mode\": \"m39\"}</t>");
    check(FT_CONSTRAINT_CALL, ft_buf_str(&calls), ft_buf_str(&good), ft_buf_str(&bad));
    ft_buf_deinit(&calls);
    ft_buf_deinit(&good);
    ft_buf_deinit(&bad);
}

/* From wherever it stands, to any text. */
static void test_follow(void **state)
{
    needs_xgrammar();
    ft_matcher *m = matcher_of(FT_CONSTRAINT_REGEX, "ab*c");
    static const int32_t ab[] = {'a', 'b'}, bc[] = {'b', 'c'}, abx[] = {'a', 'b', 'x', 'c'};
    assert_true(ft_matcher_follow(m, ab, 2, bc, 2));
    assert_true(ft_matcher_allows(m, END));
    assert_false(ft_matcher_allows(m, 'c'));
    assert_true(ft_matcher_follow(m, ab, 1, NULL, 0));
    assert_true(ft_matcher_allows(m, 'c'));
    assert_false(ft_matcher_follow(m, abx, 4, NULL, 0));
    assert_true(ft_matcher_allows(m, 'c')); /* behind ab */
    assert_true(ft_matcher_follow(m, ab, 2, bc, 2));
    static const int32_t end[] = {'b', 'c', END};
    assert_true(ft_matcher_follow(m, ab, 2, end, 3));
    assert_false(ft_matcher_allows(m, END)); /* nothing follows the end */
    assert_null(ft_matcher_mask(m));
    assert_true(ft_matcher_follow(m, NULL, 0, NULL, 0));
    assert_true(ft_matcher_allows(m, 'a'));
    assert_int_equal(ft_matcher_status(m, NULL), FT_OK);
    ft_matcher_destroy(m);
}

/* A matcher that gets its grammar later says nothing before, and then as much as any. */
static void test_grammar_later(void **state)
{
    static const int32_t ab[] = {'a', 'b'};
    const ft_constraint c = of(FT_CONSTRAINT_REGEX, "abc");
    ft_error err = {0};
    ft_grammar *grammar;
    ft_matcher *m;
    ft_buf forced = {0};
    needs_xgrammar();
    assert_int_equal(ft_grammar_compile(vocab, &c, NULL, &err, &grammar), FT_OK);
    assert_int_equal(ft_matcher_create(NULL, &err, &m), FT_OK);
    assert_null(ft_matcher_grammar(m));
    assert_false(ft_matcher_follow(m, NULL, 0, NULL, 0));
    assert_false(ft_matcher_follow(m, ab, 2, NULL, 0));
    assert_false(ft_matcher_allows(m, 'a'));
    assert_null(ft_matcher_mask(m));
    assert_int_equal(ft_matcher_only(m), -1);
    assert_int_equal(ft_matcher_forced(m, &forced), FT_OK);
    assert_int_equal(forced.len, 0);
    assert_int_equal(ft_matcher_begin(m, grammar, &err), FT_OK);
    ft_grammar_unref(grammar); /* the matcher has its own */
    assert_true(ft_matcher_follow(m, ab, 2, NULL, 0));
    assert_int_equal(ft_matcher_only(m), 'c');
    assert_int_equal(ft_matcher_forced(m, &forced), FT_OK);
    assert_string_equal(ft_buf_str(&forced), "c");
    assert_int_equal(ft_matcher_status(m, NULL), FT_OK);
    ft_buf_deinit(&forced);
    ft_matcher_destroy(m);
}

/* A mask has what is allowed, token for token. */
static void test_mask(void **state)
{
    needs_xgrammar();
    ft_matcher *m = matcher_of(FT_CONSTRAINT_JSON_OBJECT, "");
    const char *text = "{\"k\": [1, \"";
    int32_t tokens[64];
    const uint32_t n = tokens_of(text, tokens);
    for (uint32_t at = 0; at <= n; at++) {
        uint32_t mask[(VOCAB + 31) / 32];
        assert_true(ft_matcher_follow(m, tokens, at, NULL, 0));
        memcpy(mask, ft_matcher_mask(m), sizeof mask);
        for (int32_t t = 0; t < VOCAB; t++)
            assert_int_equal(mask[t / 32] >> (t % 32) & 1, ft_matcher_allows(m, t));
        assert_false(ft_matcher_allows(m, SPECIAL));
    }
    assert_true(ft_matcher_follow(m, NULL, 0, NULL, 0));
    assert_true(ft_matcher_allows(m, PAIR));
    ft_matcher_destroy(m);
}

/* A rule that never ends leaves nothing. */
static void test_nothing_fits(void **state)
{
    needs_xgrammar();
    ft_matcher *m = matcher_of(FT_CONSTRAINT_GRAMMAR, "root ::= root");
    assert_null(ft_matcher_mask(m));
    assert_int_equal(ft_matcher_status(m, NULL), FT_OK);
    assert_int_equal(ft_matcher_end(m), END);
    ft_matcher_destroy(m);
}

static void refused(ft_constraint_kind kind, const char *text, size_t n, const char *words)
{
    const ft_constraint c = {.kind = kind, .data = text, .n = n};
    ft_error err = {0};
    ft_grammar *grammar;
    if (ft_grammar_compile(vocab, &c, NULL, &err, &grammar) != FT_INVALID ||
        !strstr(err.message, words))
        fail_msg("%.60s: '%s' instead of '%s'", text, err.message, words);
    assert_null(grammar);
}

static void test_refused(void **state)
{
    static const struct {
        ft_constraint_kind kind;
        const char *text, *words;
    } bad[] = {
        {FT_CONSTRAINT_NONE, "x", "kind"},
        {FT_CONSTRAINT_KINDS, "x", "kind"},
        {FT_CONSTRAINT_REGEX, "", "empty"},
        {FT_CONSTRAINT_REGEX, "(", "constraint:"},
        {FT_CONSTRAINT_REGEX, "a{2", "constraint:"},
        {FT_CONSTRAINT_CALL, "[", "no JSON"},
        {FT_CONSTRAINT_CALL, "[]", "no list"},
        {FT_CONSTRAINT_CALL, "{\"calls\":[]}", "no list"},
        {FT_CONSTRAINT_CALL, CALLS(",\"mark\":\"\"", "{}"), "the mark"},
        {FT_CONSTRAINT_CALL, CALLS(",\"mark\":\"<|a|>-\"", "{}"), "control token"},
        {FT_CONSTRAINT_CALL, "{\"calls\":[{\"begin\":\"\",\"schema\":{},\"end\":1}]}", "call 0"},
        {FT_CONSTRAINT_CALL, CALLS("", "{\"not\":{}}"), "'not'"},
        {FT_CONSTRAINT_CALL, CALLS("", "{\"type\":1}"), "constraint:"},
        {FT_CONSTRAINT_GRAMMAR, "root ::= other", "other"},
        {FT_CONSTRAINT_GRAMMAR, "a ::= \"x\"", "root"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{", "no JSON"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"type\":1}", "constraint:"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"object\",\"not\":{},\"if\":{}}", "'not', 'if'"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"uniqueItems\":true}}",
         "'uniqueItems'"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"anyOf\":[{}],\"properties\":{}}", "'properties'"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"minimum\":3}", "'minimum'"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"enum\":[1]}", "'type'"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"number\",\"multipleOf\":2}", "multipleOf"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"$ref\":\"http://example.com/x\"}", "URI"},
        {FT_CONSTRAINT_JSON_SCHEMA, "{\"$ref\":\"#/$defs/none\"}", "constraint:"},
    };
    needs_xgrammar();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i].kind, bad[i].text, strlen(bad[i].text), bad[i].words);
}

/* Keywords that XGrammar does not hold beside each other. */
static void test_pairs(void **state)
{
    static const char *const bad[][2] = {
        {"{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^a$\"}", "'pattern'"},
        {"{\"type\":\"string\",\"pattern\":\"^a$\",\"minLength\":2}", "'minLength'"},
        {"{\"type\":\"string\",\"format\":\"date\",\"maxLength\":2}", "'maxLength'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\",\"pattern\":\"^a\"},\"add"
         "itionalProperties\":false}",
         "'propertyNames'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},\"properties\":{\"a\":tr"
         "ue}}",
         "'propertyNames'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},\"patternProperties\":{"
         "\"a\":true}}",
         "'propertyNames'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",1]}}", "'propertyNames'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"anyOf\":[{\"type\":\"string\"}]}}",
         "'propertyNames'"},
        {"{\"type\":\"object\",\"patternProperties\":{\"a\":{\"type\":\"null\"}},\"properties\""
         ":{\"a\":true}}",
         "'patternProperties'"},
        {"{\"type\":\"object\",\"patternProperties\":{\"a\":{\"type\":\"null\"},\"b\":{}}}",
         "'patternProperties'"},
        {"{\"type\":\"object\",\"required\":[\"b\"],\"additionalProperties\":false}", "'required'"},
        {"{\"type\":\"object\",\"required\":[\"b\"],\"patternProperties\":{\"b\":true}}",
         "'required'"},
        {"{\"type\":\"object\",\"minProperties\":2,\"additionalProperties\":true}",
         "'minProperties'"},
        {"{\"type\":\"object\",\"minProperties\":4294967296,\"properties\":{\"a\":true}}",
         "'minProperties'"},
        {"{\"type\":\"object\",\"properties\":{\"\\u00e9\":true},\"additionalProperties\":true}",
         "'additionalProperties'"},
        {"{\"$ref\":\"#/components/a\",\"components\":{\"a\":{\"type\":\"array\",\"uniqueItems"
         "\":true}}}",
         "'uniqueItems'"},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#/x/a~1b\"},\"x\":{\"a~1b\":{},\"a/b\":{}}}",
         "'$ref'"},
        {"{\"type\":\"array\",\"items\":{\"$id\":\"http://a/\",\"type\":\"null\"}}", "'$id'"},
        {"{\"type\":\"string\",\"pattern\":\"^\\\"$\"}", "the pattern"},
    };
    needs_xgrammar();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(FT_CONSTRAINT_JSON_SCHEMA, bad[i][0], strlen(bad[i][0]), bad[i][1]);
}

static void test_limits(void **state)
{
    static char text[FT_CONSTRAINT_MAX_BYTES + 2];
    needs_xgrammar();
    memset(text, 'a', sizeof text);
    refused(FT_CONSTRAINT_REGEX, text, FT_CONSTRAINT_MAX_BYTES + 1, "at most 65536");
    refused(FT_CONSTRAINT_REGEX, "a\0b", 3, "zero byte");
    memset(text, '(', 65);
    memset(text + 65, ')', 65);
    refused(FT_CONSTRAINT_REGEX, text, 130, "nested 65 deep");
    memset(text, '[', 65);
    refused(FT_CONSTRAINT_JSON_SCHEMA, text, 65, "nested 65 deep");
    /* brackets that are text are no depth */
    char quoted[96] = "root ::= \"";
    memset(quoted + 10, '(', 70);
    strcpy(quoted + 80, "\"");
    ft_matcher_destroy(matcher_of(FT_CONSTRAINT_GRAMMAR, quoted));
    /* many repetitions with a bound each */
    size_t n = 0;
    while (n < 3000)
        n += (size_t)snprintf(text + n, sizeof text - n, "([a-z]{1,%zu}|[0-9]{1,%zu}x)", 1000 + n,
                              2000 + n);
    refused(FT_CONSTRAINT_REGEX, text, n, "states");
}

/* Small texts that take XGrammar minutes are refused after 2 s of work. */
static void test_hostile(void **state)
{
    static char text[FT_CONSTRAINT_MAX_BYTES];
    ft_buf many = {0};
    needs_xgrammar();
    ft_buf_puts(&many, "{\"type\":\"object\",\"properties\":{\"x\":{}");
    for (int i = 0; i < 1000; i++)
        ft_buf_printf(&many, ",\"%d\":{}", i);
    const size_t n = many.len;
    ft_buf_puts(&many, "},\"minProperties\":500,\"maxProperties\":501}");
    refused(FT_CONSTRAINT_JSON_SCHEMA, many.data, many.len, "'maxProperties'");
    many.len = n;
    ft_buf_puts(&many, "},\"minProperties\":1}");
    refused(FT_CONSTRAINT_JSON_SCHEMA, many.data, many.len, "'minProperties'");
    ft_buf_deinit(&many);
    ft_matcher_destroy(matcher_of(FT_CONSTRAINT_REGEX, "(a|b)*a(a|b){40}c"));
    size_t at = 0; /* a list of schemas 60 deep, with a long one in the innermost */
    for (int i = 0; i < 20; i++)
        at += (size_t)sprintf(text + at, "{\"type\":\"array\",\"items\":{\"anyOf\":[");
    while (at < sizeof text - 1000)
        at += (size_t)sprintf(text + at, "{\"enum\":[%zu]},", at);
    at += (size_t)sprintf(text + at, "{\"type\":\"null\"}");
    for (int i = 0; i < 20; i++)
        at += (size_t)sprintf(text + at, "]}}");
    const ft_constraint c = {FT_CONSTRAINT_JSON_SCHEMA, text, at};
    ft_grammar *g; /* whether it is refused does not matter, but that it ends */
    ft_error err = {0};
    const ft_status status = ft_grammar_compile(vocab, &c, NULL, &err, &g);
    assert_true(status == FT_OK || status == FT_INVALID);
    ft_grammar_unref(g);
}

/* A parser that follows all ways to read a text gives up. */
static void test_work(void **state)
{
    needs_xgrammar();
    ft_matcher *m = matcher_of(FT_CONSTRAINT_GRAMMAR,
                               "root ::= a\na ::= \"a\" | \"b\" a | a a | a a a | a \"c\" a");
    int32_t text[1024];
    ft_error err = {0};
    for (uint32_t i = 0; i < 1024; i++)
        text[i] = 'a';
    assert_false(ft_matcher_follow(m, text, 1024, NULL, 0));
    assert_int_equal(ft_matcher_status(m, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "too much work"));
    assert_false(ft_matcher_allows(m, 'a'));
    assert_null(ft_matcher_mask(m));
    assert_false(ft_matcher_follow(m, NULL, 0, NULL, 0));
    ft_matcher_destroy(m);
}

/* Many tokens at once have the same limit as one after the other. */
static void test_work_at_once(void **state)
{
    static const char grammar[] = "root ::= a\na ::= \"a\" | \"b\" a | a a | a a a | a \"c\" a";
    int32_t text[1024];
    uint32_t n = 0;
    needs_xgrammar();
    for (uint32_t i = 0; i < 1024; i++)
        text[i] = 'a';
    ft_matcher *m = matcher_of(FT_CONSTRAINT_GRAMMAR, grammar);
    while (ft_matcher_follow(m, text, n, text, 1))
        n++;
    assert_int_equal(ft_matcher_status(m, NULL), FT_INVALID);
    ft_matcher_destroy(m);
    assert_in_range(n, 2, 1023);
    m = matcher_of(FT_CONSTRAINT_GRAMMAR, grammar);
    assert_true(ft_matcher_follow(m, text, n, NULL, 0));
    ft_matcher_destroy(m);
    m = matcher_of(FT_CONSTRAINT_GRAMMAR, grammar);
    assert_false(ft_matcher_follow(m, text, n + 1, NULL, 0));
    assert_int_equal(ft_matcher_status(m, NULL), FT_INVALID);
    ft_matcher_destroy(m);
}

/* As long a text of one way is no work. */
static void test_long(void **state)
{
    needs_xgrammar();
    ft_matcher *m = matcher_of(FT_CONSTRAINT_JSON_OBJECT, "");
    static int32_t text[8192] = {'{', '"'};
    for (uint32_t i = 2; i < 8192; i++)
        text[i] = 'a';
    assert_true(ft_matcher_follow(m, text, 8192, NULL, 0));
    for (uint32_t i = 0; i < 8192; i += 64) { /* a round: back, masks, and on */
        assert_true(ft_matcher_follow(m, text, 8192 - 64 + i % 64, NULL, 0));
        assert_non_null(ft_matcher_mask(m));
    }
    assert_int_equal(ft_matcher_status(m, NULL), FT_OK);
    ft_matcher_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),         cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_marks),         cmocka_unit_test(test_behind_marks),
        cmocka_unit_test(test_loosen),        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_mask),          cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_work),          cmocka_unit_test(test_work_at_once),
        cmocka_unit_test(test_long),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_hostile),       cmocka_unit_test(test_forced),
        cmocka_unit_test(test_grammar_later), cmocka_unit_test(test_many_calls),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
