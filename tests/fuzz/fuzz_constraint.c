// SPDX-License-Identifier: Apache-2.0
// Constraints, as clients send them: the first byte says the kind. What compiles is walked: each
// allowed token is accepted, unless that takes too much work, and nothing throws.
#include <stdlib.h>
#include <string.h>

#include "constrain/constraint.h"

enum { END = 256, MARK, VOCAB, STEPS = 24 };

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const char byte = (char)token;
    return token < END ? ft_buf_append(out, &byte, 1) : FT_OK;
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

/* A token without bytes, which calls may spell. */
static const char *mark(const void *ctx, size_t i, int32_t *token)
{
    *token = MARK;
    return "<|m|>";
}

static void require(int condition)
{
    if (!condition)
        abort();
}

/* What is forced: a token that may follow, and of its bytes the first. */
static void check_forced(ft_matcher *m, int32_t token)
{
    ft_buf forced = {0}, bytes = {0};
    const int32_t only = ft_matcher_only(m);
    require(ft_matcher_forced(m, &forced) == FT_OK && piece(NULL, token, &bytes) == FT_OK);
    if (ft_matcher_status(m, NULL) == FT_OK) {
        require(only < 0 || only == token);
        const size_t n = forced.len < bytes.len ? forced.len : bytes.len;
        require(n == 0 || memcmp(ft_buf_str(&forced), ft_buf_str(&bytes), n) == 0);
    }
    ft_buf_deinit(&forced);
    ft_buf_deinit(&bytes);
}

/* Always the first allowed token at or behind one that the input chooses. */
static void walk(ft_matcher *m, const uint8_t *data, size_t n)
{
    int32_t text[STEPS];
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t *mask = ft_matcher_mask(m);
        int32_t token = n ? data[i % n] : 0;
        if (!mask)
            break;
        while (!(mask[token / 32] >> (token % 32) & 1))
            token = (token + 1) % VOCAB;
        require(ft_matcher_allows(m, token) || ft_matcher_status(m, NULL) == FT_INVALID);
        text[i] = token;
        check_forced(m, token);
        require(ft_matcher_follow(m, text, i, &token, 1) ||
                ft_matcher_status(m, NULL) == FT_INVALID);
    }
    if (ft_matcher_status(m, NULL) == FT_INVALID)
        return; /* too much work */
    require(ft_matcher_follow(m, NULL, 0, NULL, 0));
    require(ft_matcher_status(m, NULL) == FT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static ft_constrain_vocab *vocab;
    const ft_constrain_tokens tokens = {
        .n = VOCAB, .piece = piece, .ends = ends, .mark = mark, .n_marks = 1};
    if (n == 0 || n > 4096 || !ft_constrain_available())
        return 0;
    if (!vocab)
        require(ft_constrain_vocab_create(&tokens, NULL, &vocab) == FT_OK);
    const ft_constraint c = {.kind = (ft_constraint_kind)(data[0] % (FT_CONSTRAINT_KINDS + 1)),
                             .data = (const char *)data + 1,
                             .n = n - 1};
    ft_grammar *grammar;
    ft_matcher *matcher;
    ft_error err = {0};
    const ft_status status = ft_grammar_compile(vocab, &c, NULL, &err, &grammar);
    require(status == FT_OK || (status == FT_INVALID && err.message[0] && !grammar));
    if (status != FT_OK)
        return 0;
    const ft_status made = ft_matcher_create(grammar, NULL, &matcher);
    ft_grammar_unref(grammar);
    require(made == FT_OK || made == FT_INVALID);
    if (made != FT_OK)
        return 0;
    walk(matcher, data, n);
    ft_matcher_destroy(matcher);
    return 0;
}
