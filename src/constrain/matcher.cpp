// SPDX-License-Identifier: Apache-2.0
// constraint.h by XGrammar: behind which tokens a text stands, and what may follow. Every call into
// it stands in a try block: a throw marks the matcher as failed, or, where only a guess was asked
// for, has it read its text anew. A matcher belongs to one thread at a time.
#ifdef FT_HAVE_XGRAMMAR
#include "constrain/xgrammar_impl.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "constrain/constraint.h"
}

/* States that may be looked at for one token. A tool's schema takes 150. A state takes 30 bytes in a
 * matcher: with twice as much, long texts could take 500 MB. */
#define CALL_WORK 1000
/* What one token may take beyond it, 5 to 80 ms in which no other text goes on, and all of a
 * matcher. With twice as much, a hostile grammar delays others for twice as long. */
#define CALL_EXCESS_WORK 200000
#define EXCESS_WORK      4000000
/* And what a mask for a guess may take, which nobody must have. */
#define GUESS_EXCESS_WORK 20000

struct ft_matcher {
    std::optional<xgrammar::GrammarMatcher> at;
    ft_grammar *grammar = nullptr; /* NULL: there is none yet, and no `at` */
    std::vector<int32_t> followed; /* the tokens that it stands behind */
    std::vector<int32_t> mask;
    /* What was forced behind the first so many of them, while it stands behind these. */
    std::string forced;
    size_t forced_at = 0;
    uint64_t excess_left = EXCESS_WORK;
    ft_status status = FT_INVALID; /* not FT_OK: it is not used yet, or not any more */
};

/* A matcher may work for one token. */
class working
{
  public:
    explicit working(ft_matcher *matcher, uint64_t most = CALL_EXCESS_WORK)
        : m(matcher), excess(std::min(m->excess_left, most))
    {
        ft_xgrammar_work = CALL_WORK + excess;
    }
    ~working()
    {
        m->excess_left -= excess - std::min(excess, ft_xgrammar_work);
        ft_xgrammar_work = 0;
    }

  private:
    ft_matcher *m;
    const uint64_t excess; /* the last part of what is left to the call */
};

/* For a catch of all: what was thrown. */
static ft_status thrown()
{
    try {
        throw;
    } catch (const std::length_error &) {
        return FT_INVALID;
    } catch (...) {
        return FT_NOMEM;
    }
}

static ft_status say(ft_status status, ft_error *err)
{
    return ft_error_set(err, status, "constraint: %s",
                        status == FT_NOMEM ? "out of memory" : TOO_MUCH_WORK);
}

ft_status ft_matcher_create(ft_grammar *grammar, ft_error *err, ft_matcher **out)
{
    *out = nullptr;
    try {
        auto matcher = std::make_unique<ft_matcher>();
        const ft_status status = grammar ? ft_matcher_begin(matcher.get(), grammar, err) : FT_OK;
        if (status == FT_OK)
            *out = matcher.release();
        return status;
    } catch (...) {
        return say(FT_NOMEM, err);
    }
}

ft_status ft_matcher_begin(ft_matcher *matcher, ft_grammar *grammar, ft_error *err)
{
    try {
        ft_xgrammar_work = CALL_EXCESS_WORK;
        const int n_vocab = grammar->compiled.GetTokenizerInfo().GetVocabSize();
        matcher->mask.resize((size_t)(n_vocab + 31) / 32);
        matcher->at.emplace(grammar->compiled);
    } catch (...) {
        return say(thrown(), err);
    }
    matcher->grammar = ft_grammar_ref(grammar);
    return matcher->status = FT_OK;
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
        m->followed.push_back(tokens[i]); /* first: it may throw */
        working w(m);
        if (m->at->IsTerminated() || !m->at->AcceptToken(tokens[i])) {
            m->followed.pop_back();
            return false;
        }
    }
    return true;
}

bool ft_matcher_follow(ft_matcher *matcher, const int32_t *a, uint32_t n_a, const int32_t *b,
                       uint32_t n_b)
{
    ft_matcher *m = matcher;
    size_t in_a = common(m, a, n_a, 0), in_b = in_a == n_a ? common(m, b, n_b, in_a) : 0;
    if (m->status != FT_OK)
        return false;
    try {
        m->at->Rollback((int)(m->followed.size() - in_a - in_b));
        m->followed.resize(in_a + in_b);
        if (m->followed.size() < m->forced_at)
            m->forced.clear();
        return accept(m, a + in_a, n_a - in_a) && accept(m, b + in_b, n_b - in_b);
    } catch (...) {
        m->status = thrown();
        return false;
    }
}

bool ft_matcher_allows(ft_matcher *matcher, int32_t token)
{
    try {
        working w(matcher);
        if (matcher->status != FT_OK || matcher->at->IsTerminated() ||
            !matcher->at->AcceptToken(token))
            return false;
        matcher->at->Rollback(1);
        return true;
    } catch (...) {
        matcher->status = thrown();
        return false;
    }
}

/* Where it stands. NULL: no token may follow. */
static const uint32_t *fill_mask(ft_matcher *m, uint64_t most)
{
    int64_t shape = (int64_t)m->mask.size();
    DLTensor tensor = {m->mask.data(), {kDLCPU, 0}, 1, {kDLInt, 32, 1}, &shape, nullptr, 0};
    working w(m, most);
    if (m->status != FT_OK || m->at->IsTerminated())
        return nullptr;
    m->at->FillNextTokenBitmask(&tensor);
    const bool some =
        std::any_of(m->mask.begin(), m->mask.end(), [](int32_t bits) { return bits != 0; });
    return some ? (const uint32_t *)m->mask.data() : nullptr;
}

const uint32_t *ft_matcher_mask(ft_matcher *matcher)
{
    try {
        return fill_mask(matcher, CALL_EXCESS_WORK);
    } catch (...) {
        matcher->status = thrown();
        return nullptr;
    }
}

/* What was thrown has left the parser in the middle of a token: it reads the text anew. */
static void read_anew(ft_matcher *m)
{
    const std::vector<int32_t> followed = std::move(m->followed);
    m->followed.clear();
    m->forced.clear();
    ft_xgrammar_work = CALL_EXCESS_WORK;
    m->at.emplace(m->grammar->compiled);
    if (!accept(m, followed.data(), followed.size()))
        m->status = FT_INVALID;
}

bool ft_matcher_guess(ft_matcher *matcher, const uint32_t **mask)
{
    *mask = nullptr;
    try {
        *mask = fill_mask(matcher, GUESS_EXCESS_WORK);
        return matcher->status == FT_OK;
    } catch (const std::length_error &) {
        try {
            read_anew(matcher);
        } catch (...) {
            matcher->status = thrown();
        }
    } catch (...) {
        matcher->status = thrown();
    }
    return false;
}

int32_t ft_matcher_only(ft_matcher *matcher)
{
    const uint32_t *mask;
    int32_t only = -1;
    if (!ft_matcher_guess(matcher, &mask))
        return only;
    for (size_t i = 0; mask && i < matcher->mask.size(); i++) {
        if (mask[i] == 0)
            continue;
        if (only >= 0 || (mask[i] & (mask[i] - 1)) != 0)
            return -1;
        only = (int32_t)(32 * i) + __builtin_ctz(mask[i]);
    }
    return only;
}

/* How many of the forced bytes it has gone. */
static size_t forced_gone(const ft_matcher *m)
{
    const auto &pieces = m->grammar->compiled.GetTokenizerInfo().GetDecodedVocab();
    size_t gone = 0;
    for (size_t i = m->forced_at; i < m->followed.size(); i++)
        gone += pieces[(size_t)m->followed[i]].size();
    return gone;
}

/* A long forced text is looked for once, and not behind each of its tokens. */
ft_status ft_matcher_forced(ft_matcher *matcher, ft_buf *out)
{
    ft_matcher *m = matcher;
    try {
        working w(m);
        if (m->status != FT_OK || m->at->IsTerminated())
            return FT_OK;
        size_t gone = m->forced.empty() ? 0 : forced_gone(m);
        if (gone >= m->forced.size()) {
            m->forced = m->at->FindJumpForwardString();
            m->forced_at = m->followed.size();
            gone = 0;
        }
        return ft_buf_append(out, m->forced.data() + gone, m->forced.size() - gone);
    } catch (...) {
        m->status = thrown();
        return FT_OK;
    }
}

ft_grammar *ft_matcher_grammar(const ft_matcher *matcher)
{
    return matcher->grammar;
}

int32_t ft_matcher_end(const ft_matcher *matcher)
{
    return matcher->grammar->end;
}

ft_status ft_matcher_status(const ft_matcher *matcher, ft_error *err)
{
    return matcher->status == FT_OK ? FT_OK : say(matcher->status, err);
}
#endif
