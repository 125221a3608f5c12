// SPDX-License-Identifier: Apache-2.0
// constraint.h by XGrammar. Every call into it stands in a try block: a throw becomes a status, or
// marks the matcher as failed. Its log is ours (XGRAMMAR_LOG_CUSTOMIZE): what it throws carries the
// bare message, and a warning while it reads a constraint means that it ignores a part of it. That
// is an error here. Nothing here knows texts, sessions or caches.
#ifdef FT_HAVE_XGRAMMAR
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "constrain/constraint.h"
}

/* The first warning of the compilation that runs on this thread; NULL: none runs. */
static thread_local std::string *warned;

namespace xgrammar
{
[[noreturn]] void LogFatalImpl(const std::string &, int, const std::string &message)
{
    throw std::runtime_error(message);
}

void LogMessageImpl(const std::string &, int, int, const std::string &message)
{
    if (warned && warned->empty())
        *warned = message;
}
} // namespace xgrammar

struct ft_constrain_vocab {
    xgrammar::TokenizerInfo tokens, none;
    int32_t end;
};

struct ft_grammar {
    xgrammar::CompiledGrammar compiled;
    int32_t end;
    std::atomic<int> refs;
};

struct ft_matcher {
    xgrammar::GrammarMatcher at;
    ft_grammar *grammar;
    std::vector<int32_t> followed; /* the tokens that it stands behind */
    std::vector<int32_t> mask;
    bool failed;
};

bool ft_constrain_available(void)
{
    return true;
}

/* ---- compiling ---- */

ft_status ft_constrain_vocab_create(const ft_constrain_tokens *tokens, ft_error *err,
                                    ft_constrain_vocab **out)
{
    ft_buf piece = {};
    ft_status status = FT_OK;
    *out = nullptr;
    try {
        std::vector<std::string> pieces(tokens->n);
        std::vector<int32_t> ends;
        for (uint32_t t = 0; t < tokens->n && status == FT_OK; t++) {
            ft_buf_clear(&piece);
            status = tokens->piece(tokens->ctx, (int32_t)t, &piece);
            pieces[t].assign(ft_buf_str(&piece), piece.len);
            if (tokens->ends(tokens->ctx, (int32_t)t))
                ends.push_back((int32_t)t);
        }
        if (status != FT_OK)
            status = ft_error_set(err, status, "constraint: the vocabulary cannot be read");
        else if (ends.empty())
            status = ft_error_set(err, FT_INVALID, "constraint: no token ends a text");
        else
            *out = new ft_constrain_vocab{
                xgrammar::TokenizerInfo(pieces, xgrammar::VocabType::RAW, (int)tokens->n, ends),
                xgrammar::TokenizerInfo(std::vector<std::string>{}), ends.front()};
    } catch (const std::bad_alloc &) {
        status = ft_error_set(err, FT_NOMEM, "constraint: out of memory");
    } catch (const std::exception &e) {
        status = ft_error_set(err, FT_INTERNAL, "constraint: vocabulary: %s", e.what());
    }
    ft_buf_deinit(&piece);
    return status;
}

void ft_constrain_vocab_destroy(ft_constrain_vocab *vocab)
{
    delete vocab;
}

static xgrammar::Grammar read(const ft_constraint *c)
{
    const std::string text(c->data ? c->data : "", c->n);
    switch (c->kind) {
    case FT_CONSTRAINT_JSON_OBJECT: /* not strict: any keys */
        return xgrammar::Grammar::FromJSONSchema("{\"type\":\"object\"}", false, std::nullopt,
                                                 std::nullopt, false);
    case FT_CONSTRAINT_JSON_SCHEMA:
        return xgrammar::Grammar::FromJSONSchema(text, false);
    case FT_CONSTRAINT_REGEX:
        return xgrammar::Grammar::FromRegex(text);
    default:
        return xgrammar::Grammar::FromEBNF(text);
    }
}

/* One line, as ft_error wants it. */
static ft_status refuse(ft_error *err, std::string why)
{
    std::replace(why.begin(), why.end(), '\n', ' ');
    return ft_error_set(err, FT_INVALID, "constraint: %.300s", why.c_str());
}

/* The states are counted before the expensive part: for each of them that part looks at every
 * token. */
static ft_status compile(const ft_constrain_vocab *vocab, const ft_constraint *c,
                         const std::string &warning, ft_error *err, ft_grammar **out)
{
    const xgrammar::Grammar grammar = read(c);
    if (!warning.empty())
        return refuse(err, warning);
    xgrammar::GrammarCompiler shape(vocab->none, 1, false);
    const size_t bytes = shape.CompileGrammar(grammar).MemorySizeBytes();
    if (bytes > FT_CONSTRAINT_MAX_GRAMMAR_BYTES)
        return ft_error_set(err, FT_INVALID,
                            "constraint: its states take %zu KB, at most %u: make it smaller",
                            bytes / 1024, FT_CONSTRAINT_MAX_GRAMMAR_BYTES / 1024);
    xgrammar::GrammarCompiler compiler(vocab->tokens, 1, false);
    *out = new ft_grammar{compiler.CompileGrammar(grammar), vocab->end, {1}};
    return FT_OK;
}

ft_status ft_grammar_compile(const ft_constrain_vocab *vocab, const ft_constraint *c, ft_error *err,
                             ft_grammar **out)
{
    *out = nullptr;
    ft_status status = ft_constraint_check(c, err);
    if (status != FT_OK)
        return status;
    std::string warning;
    warned = &warning;
    try {
        status = compile(vocab, c, warning, err, out);
    } catch (const std::bad_alloc &) {
        status = ft_error_set(err, FT_NOMEM, "constraint: out of memory");
    } catch (const std::exception &e) {
        try {
            status = refuse(err, e.what());
        } catch (...) {
            status = ft_error_set(err, FT_NOMEM, "constraint: out of memory");
        }
    } catch (...) {
        status = ft_error_set(err, FT_INTERNAL, "constraint: it cannot be compiled");
    }
    warned = nullptr;
    return status;
}

ft_grammar *ft_grammar_ref(ft_grammar *grammar)
{
    grammar->refs.fetch_add(1, std::memory_order_relaxed);
    return grammar;
}

void ft_grammar_unref(ft_grammar *grammar)
{
    if (grammar && grammar->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
        delete grammar;
}

size_t ft_grammar_bytes(const ft_grammar *grammar)
{
    return grammar->compiled.MemorySizeBytes();
}

/* ---- matching ---- */

ft_status ft_matcher_create(ft_grammar *grammar, ft_error *err, ft_matcher **out)
{
    *out = nullptr;
    try {
        const size_t n_vocab = (size_t)grammar->compiled.GetTokenizerInfo().GetVocabSize();
        *out = new ft_matcher{xgrammar::GrammarMatcher(grammar->compiled),
                              grammar,
                              {},
                              std::vector<int32_t>((n_vocab + 31) / 32),
                              false};
    } catch (...) {
        return ft_error_set(err, FT_NOMEM, "constraint: out of memory");
    }
    ft_grammar_ref(grammar);
    return FT_OK;
}

void ft_matcher_destroy(ft_matcher *matcher)
{
    if (!matcher)
        return;
    ft_grammar_unref(matcher->grammar);
    delete matcher;
}

/* How many of the tokens it stands behind already. */
static size_t common(const ft_matcher *m, const int32_t *tokens, size_t n, size_t from)
{
    size_t i = 0;
    while (i < n && from + i < m->followed.size() && m->followed[from + i] == tokens[i])
        i++;
    return i;
}

static bool accept(ft_matcher *m, const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m->followed.reserve(m->followed.size() + 1);
        if (m->at.IsTerminated() || !m->at.AcceptToken(tokens[i]))
            return false;
        m->followed.push_back(tokens[i]);
    }
    return true;
}

bool ft_matcher_follow(ft_matcher *matcher, const int32_t *a, uint32_t n_a, const int32_t *b,
                       uint32_t n_b)
{
    ft_matcher *m = matcher;
    size_t in_a = common(m, a, n_a, 0), in_b = in_a == n_a ? common(m, b, n_b, in_a) : 0;
    if (m->failed)
        return false;
    try {
        m->at.Rollback((int)(m->followed.size() - in_a - in_b));
        m->followed.resize(in_a + in_b);
        return accept(m, a + in_a, n_a - in_a) && accept(m, b + in_b, n_b - in_b);
    } catch (...) {
        m->failed = true;
        return false;
    }
}

bool ft_matcher_allows(ft_matcher *matcher, int32_t token)
{
    try {
        if (matcher->failed || matcher->at.IsTerminated() || !matcher->at.AcceptToken(token))
            return false;
        matcher->at.Rollback(1);
        return true;
    } catch (...) {
        matcher->failed = true;
        return false;
    }
}

const uint32_t *ft_matcher_mask(ft_matcher *matcher)
{
    ft_matcher *m = matcher;
    int64_t shape = (int64_t)m->mask.size();
    DLTensor tensor = {};
    tensor.data = m->mask.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLInt, 32, 1};
    tensor.shape = &shape;
    try {
        if (m->failed || m->at.IsTerminated())
            return nullptr;
        m->at.FillNextTokenBitmask(&tensor);
    } catch (...) {
        m->failed = true;
        return nullptr;
    }
    const bool some = std::any_of(m->mask.begin(), m->mask.end(), [](int32_t w) { return w != 0; });
    return some ? (const uint32_t *)m->mask.data() : nullptr;
}

int32_t ft_matcher_end(const ft_matcher *matcher)
{
    return matcher->grammar->end;
}

bool ft_matcher_failed(const ft_matcher *matcher)
{
    return matcher->failed;
}
#endif
