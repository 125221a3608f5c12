// SPDX-License-Identifier: Apache-2.0
// constraint.h in a build without XGrammar: nothing can be made.
#ifndef FT_HAVE_XGRAMMAR
#include "constrain/constraint.h"

#include <stddef.h>

bool ft_constrain_available(void)
{
    return false;
}

ft_status ft_constrain_vocab_create(const ft_constrain_tokens *tokens, ft_error *err,
                                    ft_constrain_vocab **out)
{
    *out = NULL;
    return ft_error_set(err, FT_UNSUPPORTED, "constraint: this build has no XGrammar");
}

void ft_constrain_vocab_destroy(ft_constrain_vocab *vocab) {}

ft_status ft_grammar_compile(const ft_constrain_vocab *vocab, const ft_constraint *c,
                             const ft_compile_stop *stop, ft_error *err, ft_grammar **out)
{
    *out = NULL;
    return ft_error_set(err, FT_UNSUPPORTED, "constraint: this build has no XGrammar");
}

ft_grammar *ft_grammar_ref(ft_grammar *grammar)
{
    return grammar;
}

void ft_grammar_unref(ft_grammar *grammar) {}

bool ft_grammar_is_shared(const ft_grammar *grammar)
{
    return false;
}

size_t ft_grammar_bytes(const ft_grammar *grammar)
{
    return 0;
}

ft_status ft_matcher_create(ft_grammar *grammar, ft_error *err, ft_matcher **out)
{
    *out = NULL;
    return ft_error_set(err, FT_UNSUPPORTED, "constraint: this build has no XGrammar");
}

ft_status ft_matcher_begin(ft_matcher *matcher, ft_grammar *grammar, ft_error *err)
{
    return ft_error_set(err, FT_UNSUPPORTED, "constraint: this build has no XGrammar");
}

void ft_matcher_destroy(ft_matcher *matcher) {}

bool ft_matcher_follow(ft_matcher *matcher, const int32_t *a, uint32_t n_a, const int32_t *b,
                       uint32_t n_b)
{
    return false;
}

bool ft_matcher_allows(ft_matcher *matcher, int32_t token)
{
    return false;
}

const uint32_t *ft_matcher_mask(ft_matcher *matcher)
{
    return NULL;
}

bool ft_matcher_guess(ft_matcher *matcher, const uint32_t **mask)
{
    *mask = NULL;
    return false;
}

int32_t ft_matcher_only(ft_matcher *matcher)
{
    return -1;
}

ft_status ft_matcher_forced(ft_matcher *matcher, ft_buf *out)
{
    return FT_OK;
}

ft_grammar *ft_matcher_grammar(const ft_matcher *matcher)
{
    return NULL;
}

int32_t ft_matcher_end(const ft_matcher *matcher)
{
    return 0;
}

ft_status ft_matcher_status(const ft_matcher *matcher, ft_error *err)
{
    return ft_error_set(err, FT_UNSUPPORTED, "constraint: this build has no XGrammar");
}
#endif
