// SPDX-License-Identifier: Apache-2.0
// constraint.h by XGrammar, up to a compiled grammar; matcher.cpp goes on. Every call into it stands
// in a try block: a throw becomes a status. Its log is ours (XGRAMMAR_LOG_CUSTOMIZE): what it throws
// carries the bare message, and a warning while it reads a constraint means that it ignores a part
// of it. That is an error here. Nothing here knows texts, sessions or caches.
#ifdef FT_HAVE_XGRAMMAR
#include "constrain/xgrammar_impl.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "constrain/calls.h"
#include "constrain/constraint.h"
#include "constrain/schema.h"
}

/* What a compilation may take: 2 s. A tool's schema takes up to a fifth. */
#define COMPILE_WORK 100000000
/* States of automata that a compilation makes, and what one costs as work. */
#define COMPILE_STATES 100000
#define STATE_WORK     50
/* How much work is done between two looks at whether a compilation is to stop: 1 ms. */
#define STOP_WORK 50000

#define TOO_MANY_STATES "it has more than 100,000 states: make it smaller"

thread_local uint64_t ft_xgrammar_work;

/* The compilation that runs on this thread. */
struct compilation {
    const ft_compile_stop *stop;    /* NULL: it cannot be stopped */
    uint64_t states_left, looks_at; /* looks: of ft_xgrammar_work, when it is asked next */
    std::string warning;            /* the first one */
    size_t grammars;                /* FT_CONSTRAINT_MAX_GRAMMAR_BYTES for each of them */
};
static thread_local compilation *compiling; /* NULL: none */

struct stopped : std::exception {
};

static void look_whether_to_stop()
{
    if (!compiling || ft_xgrammar_work > compiling->looks_at)
        return;
    compiling->looks_at = ft_xgrammar_work - std::min<uint64_t>(ft_xgrammar_work, STOP_WORK);
    if (compiling->stop && compiling->stop->now(compiling->stop->ctx))
        throw stopped();
}

namespace xgrammar
{
void CountWork(uint32_t n)
{
    if (ft_xgrammar_work < n)
        throw std::length_error(TOO_MUCH_WORK);
    ft_xgrammar_work -= n;
    look_whether_to_stop();
}

void CountState()
{
    if (!compiling)
        return;
    if (compiling->states_left == 0)
        throw std::length_error(TOO_MANY_STATES);
    compiling->states_left--;
    CountWork(STATE_WORK);
}

[[noreturn]] void LogFatalImpl(const std::string &, int, const std::string &message)
{
    throw std::runtime_error(message);
}

void LogMessageImpl(const std::string &, int, int, const std::string &message)
{
    if (compiling && compiling->warning.empty())
        compiling->warning = message;
}
} // namespace xgrammar

/* A token without bytes, and how calls spell it. */
struct mark {
    std::string text;
    int32_t token;
};

/* XGrammar does not take the tokens. */
struct bad_vocabulary : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* XGrammar's view of the tokens, and of as many without a text. The first compilation makes it.
 * That takes some 30 ms, and most processes never see a constraint. */
class views
{
  public:
    views(std::vector<std::string> pieces, std::vector<int32_t> ends)
        : pieces_(std::move(pieces)), ends_(std::move(ends))
    {
    }

    const xgrammar::TokenizerInfo &tokens() const
    {
        make();
        return *tokens_;
    }

    const xgrammar::TokenizerInfo &none() const
    {
        make();
        return *none_;
    }

  private:
    /* If this throws, the next caller tries again. */
    void make() const
    {
        const std::lock_guard<std::mutex> one(mutex_);
        if (tokens_)
            return;
        try {
            const size_t n = pieces_.size();
            none_.emplace(std::vector<std::string>(n));
            tokens_.emplace(pieces_, xgrammar::VocabType::RAW, (int)n, ends_);
            std::vector<std::string>().swap(pieces_);
        } catch (const std::bad_alloc &) {
            throw;
        } catch (const std::exception &e) {
            throw bad_vocabulary(e.what());
        }
    }

    mutable std::mutex mutex_;
    mutable std::vector<std::string> pieces_; /* until the views are made */
    std::vector<int32_t> ends_;
    mutable std::optional<xgrammar::TokenizerInfo> tokens_, none_;
};

struct ft_constrain_vocab {
    ft_constrain_vocab(std::vector<std::string> pieces, const std::vector<int32_t> &ends,
                       std::vector<mark> of_calls)
        : by_xgrammar(std::move(pieces), ends), end(ends.front()), marks(std::move(of_calls))
    {
    }

    views by_xgrammar;
    int32_t end;
    std::vector<mark> marks;
};

bool ft_constrain_available(void)
{
    return true;
}

/* ---- compiling ---- */

/* The marks, and a text for each of them: XGrammar never takes a token without one. No constraint
 * can ask for this byte, as UTF-8 does not have it. */
static std::vector<mark> marks_of(const ft_constrain_tokens *tokens,
                                  std::vector<std::string> *pieces)
{
    std::vector<mark> marks;
    for (size_t i = 0; i < tokens->n_marks; i++) {
        int32_t token;
        const std::string text = tokens->mark(tokens->ctx, i, &token);
        if (text.empty() || tokens->ends(tokens->ctx, token))
            continue;
        marks.push_back({text, token});
        pieces->at((size_t)token) = "\xff";
    }
    return marks;
}

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
        const std::vector<mark> marks = marks_of(tokens, &pieces);
        if (status != FT_OK)
            status = ft_error_set(err, status, "constraint: the vocabulary cannot be read");
        else if (ends.empty())
            status = ft_error_set(err, FT_INVALID, "constraint: no token ends a text");
        else
            *out = new ft_constrain_vocab(std::move(pieces), ends, marks);
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

/* The longest mark that the text begins with; NULL: none. */
static const mark *mark_at(const ft_constrain_vocab *vocab, const char *text)
{
    const mark *longest = nullptr;
    for (const mark &m : vocab->marks)
        if (strncmp(text, m.text.c_str(), m.text.size()) == 0 &&
            (!longest || m.text.size() > longest->text.size()))
            longest = &m;
    return longest;
}

/* The text as a part of a rule: strings and tokens. */
static std::string spelled(const ft_constrain_vocab *vocab, const char *text)
{
    std::string rule = "\"";
    while (*text) {
        const unsigned char at = (unsigned char)*text;
        const mark *m = mark_at(vocab, text);
        char escape[40] = {(char)at};
        if (m)
            snprintf(escape, sizeof escape, "\" Token(%d) \"", (int)m->token);
        else if (at == '"' || at == '\\')
            snprintf(escape, sizeof escape, "\\%c", at);
        else if (at < 0x20)
            snprintf(escape, sizeof escape, "\\x%02x", at);
        rule += escape;
        text += m ? m->text.size() : 1;
    }
    return rule + "\"";
}

static xgrammar::Grammar literal(const ft_constrain_vocab *vocab, const char *text)
{
    return xgrammar::Grammar::FromEBNF("root ::= " + spelled(vocab, text));
}

/* Any text, and a call behind each mark. */
static xgrammar::Grammar behind_marks(const ft_constrain_vocab *vocab, const ft_call_forms &forms,
                                      const xgrammar::Grammar &calls)
{
    const mark *m = mark_at(vocab, forms.mark);
    const bool token = m && m->text == forms.mark;
    const std::string name = token ? std::to_string(m->token) : spelled(vocab, forms.mark);
    if (!token && m)
        throw std::runtime_error("the mark has a control token and more");
    return xgrammar::Grammar::FromEBNF(
        calls.ToString() + "\nmarked ::= " + (token ? "Token" : "") + "TagDispatch((" + name +
            ", root), loop_after_dispatch=" + (forms.many ? "true" : "false") + ")\n",
        "marked");
}

/* Frees what C allocated, whatever is thrown. */
struct call_forms : ft_call_forms {
    call_forms() : ft_call_forms{} {}
    ~call_forms() { ft_call_forms_deinit(this); }
};

/* text: the schema's, if it stays as it is; empty: it is written. */
static xgrammar::Grammar of_schema(json_t *schema, const std::string &text)
{
    bool changed = false;
    if (!schema || ft_schema_rewrite(schema, &changed) != FT_OK)
        throw std::bad_alloc();
    if (!changed && !text.empty())
        return xgrammar::Grammar::FromJSONSchema(text, false);
    const std::unique_ptr<char, decltype(&free)> own(json_dumps(schema, JSON_ENCODE_ANY), free);
    if (!own)
        throw std::bad_alloc();
    return xgrammar::Grammar::FromJSONSchema(own.get(), false);
}

static xgrammar::Grammar read_calls(const ft_constrain_vocab *vocab, const ft_constraint *c)
{
    call_forms forms;
    std::vector<xgrammar::Grammar> calls;
    if (ft_call_forms_read(c, nullptr, &forms) != FT_OK)
        throw std::bad_alloc(); /* it has been checked */
    compiling->grammars = std::min<size_t>(forms.n, FT_CONSTRAINT_MAX_CALL_GRAMMARS);
    for (size_t i = 0; i < forms.n; i++) {
        const ft_call_form &form = forms.form[i];
        std::vector<xgrammar::Grammar> parts;
        if (*form.begin)
            parts.push_back(literal(vocab, form.begin));
        parts.push_back(of_schema(form.schema, {}));
        if (*form.end)
            parts.push_back(literal(vocab, form.end));
        calls.push_back(xgrammar::Grammar::Concat(parts));
    }
    const xgrammar::Grammar all = xgrammar::Grammar::Union(calls);
    return forms.mark ? behind_marks(vocab, forms, all) : all;
}

static xgrammar::Grammar read(const ft_constrain_vocab *vocab, const ft_constraint *c)
{
    const std::string text(c->data ? c->data : "", c->n);
    switch (c->kind) {
    case FT_CONSTRAINT_JSON_OBJECT: /* not strict: any keys */
        return xgrammar::Grammar::FromJSONSchema("{\"type\":\"object\"}", false, std::nullopt,
                                                 std::nullopt, false);
    case FT_CONSTRAINT_JSON_SCHEMA: {
        const std::unique_ptr<json_t, decltype(&json_decref)> schema(
            json_loadb(c->data, c->n, JSON_DECODE_ANY, nullptr), json_decref);
        return of_schema(schema.get(), text);
    }
    case FT_CONSTRAINT_REGEX:
        return xgrammar::Grammar::FromRegex(text);
    case FT_CONSTRAINT_CALL:
        return read_calls(vocab, c);
    default:
        return xgrammar::Grammar::FromEBNF(text);
    }
}

static ft_status refuse(ft_error *err, const char *why)
{
    return ft_error_set(err, FT_INVALID, "constraint: %.300s", why);
}

/* The states are counted before the expensive part: for each of them that part looks at every
 * token. */
static ft_status compile(const ft_constrain_vocab *vocab, const ft_constraint *c, ft_error *err,
                         ft_grammar **out)
{
    const xgrammar::Grammar grammar = read(vocab, c);
    if (!compiling->warning.empty())
        return refuse(err, compiling->warning.c_str());
    xgrammar::GrammarCompiler shape(vocab->by_xgrammar.none(), 1, false);
    const size_t kb = shape.CompileGrammar(grammar).MemorySizeBytes() / 1024;
    const size_t most = compiling->grammars * FT_CONSTRAINT_MAX_GRAMMAR_BYTES / 1024;
    if (kb > most)
        return ft_error_set(err, FT_INVALID,
                            "constraint: its states take %zu KB, at most %zu: make it smaller", kb,
                            most);
    xgrammar::GrammarCompiler compiler(vocab->by_xgrammar.tokens(), 1, false);
    *out = new ft_grammar{compiler.CompileGrammar(grammar), vocab->end, {1}};
    return FT_OK;
}

ft_status ft_grammar_compile(const ft_constrain_vocab *vocab, const ft_constraint *c,
                             const ft_compile_stop *stop, ft_error *err, ft_grammar **out)
{
    *out = nullptr;
    ft_status status = ft_constraint_check(c, err);
    if (status != FT_OK)
        return status;
    compilation running = {stop, COMPILE_STATES, COMPILE_WORK, {}, 1};
    compiling = &running;
    ft_xgrammar_work = COMPILE_WORK;
    try {
        status = compile(vocab, c, err, out);
    } catch (const stopped &) {
        status = ft_error_set(err, FT_ABORTED,
                              "constraint: it takes too long to compile: make it smaller");
    } catch (const std::bad_alloc &) {
        status = ft_error_set(err, FT_NOMEM, "constraint: out of memory");
    } catch (const bad_vocabulary &e) {
        status = ft_error_set(err, FT_INTERNAL, "constraint: vocabulary: %s", e.what());
    } catch (const std::exception &e) {
        status = refuse(err, e.what());
    } catch (...) {
        status = ft_error_set(err, FT_INTERNAL, "constraint: it cannot be compiled");
    }
    compiling = nullptr;
    ft_xgrammar_work = 0;
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

bool ft_grammar_is_shared(const ft_grammar *grammar)
{
    return grammar->refs.load(std::memory_order_acquire) > 1;
}

size_t ft_grammar_bytes(const ft_grammar *grammar)
{
    return grammar->compiled.MemorySizeBytes();
}
#endif
