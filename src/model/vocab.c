// SPDX-License-Identifier: Apache-2.0
// A model's vocabulary, loaded alone through libllama. Invariants: the file has passed our own
// checks before libllama sees it, and every id passed to libllama is in range. Calls that may throw
// go through llama_calls.h. Immutable once loaded, so any thread may call. chat.c renders
// conversations, rendered.c tokenizes them.
#include "model/vocab.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "base/text.h"
#include "model/hparams.h"
#include "model/llama_calls.h"
#include "model/model_impl.h"
#include "model/packed_file.h"
#include "model/tokenizer_check.h"
#include "model/vocab_impl.h"

void ft_tokens_deinit(ft_tokens *tokens)
{
    free(tokens->id);
    *tokens = (ft_tokens){0};
}

static ft_status tokens_reserve(ft_tokens *tokens, size_t n)
{
    if (n <= tokens->cap - tokens->n)
        return FT_OK;
    if (n > SIZE_MAX / sizeof *tokens->id / 2 - tokens->n)
        return FT_NOMEM;
    size_t cap = tokens->n + n;
    if (cap < 2 * tokens->cap)
        cap = 2 * tokens->cap;
    int32_t *id = realloc(tokens->id, cap * sizeof *id);
    if (!id)
        return FT_NOMEM;
    tokens->id = id;
    tokens->cap = cap;
    return FT_OK;
}

ft_status ft_tokens_append(ft_tokens *tokens, const int32_t *id, size_t n)
{
    ft_status st = tokens_reserve(tokens, n);
    if (st == FT_OK && n > 0)
        memcpy(tokens->id + tokens->n, id, n * sizeof *id);
    if (st == FT_OK)
        tokens->n += n;
    return st;
}

/* llama_vocab_get_attr's bits that decide what a token does to text. */
static uint32_t kind_of(const ft_vocab *v, int32_t token)
{
    return (uint32_t)llama_vocab_get_attr(v->vocab, token) &
           (LLAMA_TOKEN_ATTR_UNKNOWN | LLAMA_TOKEN_ATTR_UNUSED | LLAMA_TOKEN_ATTR_NORMAL |
            LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_BYTE);
}

static uint64_t fingerprint_of(const ft_vocab *v)
{
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, &v->n_tokens, sizeof v->n_tokens);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        const char *text = llama_vocab_get_text(v->vocab, i);
        uint32_t about[2] = {kind_of(v, i), llama_vocab_is_eog(v->vocab, i)};
        hash = ft_fnv64(hash, text, strlen(text) + 1); /* the NUL keeps neighbours apart */
        hash = ft_fnv64(hash, about, sizeof about);
    }
    return hash;
}

/* ---- where text may be cut ---- */

/* libllama splits text into words before it looks for tokens, and for many tokenizers
 * (tokenizer.ggml.pre) by std::regex, which calls itself for each character of a word: a word of
 * 50,000 letters overflows the stack. So libllama gets no longer words than this. Every tokenizer
 * begins a word at a space behind something else. */
#define WORD_MAX 2048

/* libllama cannot be stopped, so it gets so much text at a time: 10 ms or less. */
#define PIECE_BYTES ((size_t)16 << 10)

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether the text ends in white space, as Unicode and the tokenizers' patterns know it. n > 0. */
static bool ends_in_space(const char *text, size_t n)
{
    static const char *const others[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                         "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                         "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (is_space(text[n - 1]) ||
        (n > 2 && memcmp(text + n - 3, "\xe2\x80", 2) == 0 && (unsigned char)text[n - 1] <= 0x8a))
        return true; /* U+2000 to U+200A are spaces of several widths */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const size_t len = strlen(others[i]);
        if (n >= len && memcmp(text + n - len, others[i], len) == 0)
            return true;
    }
    return false;
}

/* Whether a space begins at text[at] behind something else. at > 0. */
static bool is_word_start(const char *text, size_t at)
{
    return text[at] == ' ' && !ends_in_space(text, at);
}

/* Looks at the bytes of each token. If none holds the start of a word within it, none is made of
 * text on both sides of one, so a cut there changes no token. One that takes away the white space
 * behind it would not find it behind a cut. */
static ft_status measure_tokens(ft_vocab *v, ft_error *err)
{
    ft_buf piece = {0};
    ft_status st = FT_OK;
    v->cut_at_spaces = true;
    for (int32_t i = 0; i < v->n_tokens && st == FT_OK; i++) {
        ft_buf_clear(&piece);
        st = ft_vocab_piece(v, i, true, &piece);
        if (piece.len > v->longest_bytes)
            v->longest_bytes = piece.len;
        for (size_t at = 1; at < piece.len; at++)
            v->cut_at_spaces &= !is_word_start(piece.data, at);
        v->cut_at_spaces &= !(llama_vocab_get_attr(v->vocab, i) & LLAMA_TOKEN_ATTR_RSTRIP);
    }
    ft_buf_deinit(&piece);
    return st == FT_OK ? FT_OK : ft_error_set(err, st, "out of memory for a vocabulary");
}

/* ---- special tokens ---- */

/* As bytes; the shorter of two that begin alike first. */
static int by_bytes(const void *a, const void *b)
{
    const ft_special *x = a, *y = b;
    const int differ = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return differ != 0 ? differ : (x->n > y->n) - (x->n < y->n);
}

static ft_status collect_specials(ft_vocab *v, ft_error *err)
{
    const uint32_t special = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN;
    for (int32_t i = 0; i < v->n_tokens; i++)
        v->n_special += (kind_of(v, i) & special) != 0;
    v->special = calloc(v->n_special ? v->n_special : 1, sizeof *v->special);
    if (!v->special)
        return ft_error_set(err, FT_NOMEM, "out of memory for a vocabulary");
    size_t n = 0;
    for (int32_t i = 0; i < v->n_tokens; i++) {
        if ((kind_of(v, i) & special) == 0)
            continue;
        const char *text = llama_vocab_get_text(v->vocab, i);
        const int attr = (int)llama_vocab_get_attr(v->vocab, i);
        v->special[n++] = (ft_special){.text = text,
                                       .n = strlen(text),
                                       .token = i,
                                       .strips_left = (attr & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                                       .strips_right = (attr & LLAMA_TOKEN_ATTR_RSTRIP) != 0};
        v->special_from[(unsigned char)text[0] + 1]++;
    }
    for (size_t byte = 0; byte < 256; byte++)
        v->special_from[byte + 1] += v->special_from[byte];
    qsort(v->special, n, sizeof *v->special, by_bytes);
    return FT_OK;
}

/* Of special[from..to), whose texts are the same before byte `at` and longer than that: the first
 * whose byte there is not below c. */
static size_t first_from(const ft_vocab *v, size_t from, size_t to, size_t at, unsigned c)
{
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if ((unsigned char)v->special[middle].text[at] < c)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const ft_special *ft_vocab_special_at(const ft_vocab *v, const char *text, size_t n, bool *open)
{
    const ft_special *found = NULL;
    *open = false;
    if (n == 0)
        return NULL;
    const unsigned char first = (unsigned char)text[0];
    size_t from = v->special_from[first], to = v->special_from[first + 1];
    for (size_t at = 1; from < to; at++) { /* all that are left begin with text[0..at) */
        for (; from < to && v->special[from].n <= at; from++)
            found = v->special[from].n == at ? &v->special[from] : found;
        *open = from < to && at == n;
        if (from == to || at == n)
            break;
        const unsigned c = (unsigned char)text[at];
        from = first_from(v, from, to, at, c);
        to = first_from(v, from, to, at, c + 1);
    }
    return found;
}

bool ft_vocab_spells_special(const ft_vocab *v, const char *text, size_t n)
{
    bool open;
    return ft_vocab_special_at(v, text, n, &open) || open;
}

size_t ft_vocab_n_special(const ft_vocab *v)
{
    return v->n_special;
}

const char *ft_vocab_special(const ft_vocab *v, size_t i, int32_t *token)
{
    *token = v->special[i].token;
    return v->special[i].text;
}

static ft_status load(ft_gguf *gguf, ft_vocab *v)
{
    ft_error why = {0};
    ft_status st = ft_llama_vocab(gguf->ctx, &why, &v->model);
    if (st != FT_OK)
        return ft_gguf_refuse(gguf, st, "%s", why.message);
    v->vocab = llama_model_get_vocab(v->model);
    if (llama_vocab_type(v->vocab) == LLAMA_VOCAB_TYPE_NONE)
        return ft_gguf_refuse(gguf, FT_UNSUPPORTED, "it has no vocabulary");
    v->n_tokens = llama_vocab_n_tokens(v->vocab);
    v->bos = llama_vocab_bos(v->vocab);
    v->add_bos = llama_vocab_get_add_bos(v->vocab) && v->bos >= 0;
    v->chat_template = llama_model_chat_template(v->model, NULL);
    v->fingerprint = fingerprint_of(v);
    st = measure_tokens(v, gguf->err);
    return st == FT_OK ? collect_specials(v, gguf->err) : st;
}

/* The keys that tokens are made of. */
static bool is_of_tokens(const char *key)
{
    return strncmp(key, "tokenizer.", 10) == 0 && strcmp(key, "tokenizer.chat_template") != 0;
}

ft_status ft_vocab_written(ft_gguf *gguf, uint64_t *out)
{
    return ft_keys_hash(gguf->ctx, is_of_tokens, out) == FT_OK
               ? gguf->st
               : ft_gguf_refuse(gguf, FT_NOMEM, "out of memory");
}

bool ft_vocab_is_of(const ft_vocab *v, const ft_model *model)
{
    return model->vocab_written == v->written;
}

ft_status ft_vocab_read(ft_gguf *gguf, ft_vocab **out)
{
    *out = NULL;
    ft_status st = ft_tokenizer_check(gguf);
    if (st != FT_OK)
        return st;
    ft_vocab *v = calloc(1, sizeof *v);
    if (!v)
        return ft_gguf_refuse(gguf, FT_NOMEM, "out of memory");
    st = load(gguf, v);
    if (st == FT_OK)
        st = ft_vocab_written(gguf, &v->written);
    if (st == FT_OK)
        *out = v;
    else
        ft_vocab_destroy(v);
    return st;
}

/* The hyperparameters are checked, too: libllama is trusted only with these families. And a packed
 * file's checksum is. */
ft_status ft_vocab_load(const char *path, ft_error *err, ft_vocab **out)
{
    ft_gguf gguf;
    ft_packed packed;
    ft_hparams hp;
    *out = NULL;
    ft_status st = ft_gguf_open(path, err, &gguf);
    if (st != FT_OK)
        return st;
    st = ft_packed_read(&gguf, &packed);
    if (st == FT_OK)
        st = ft_hparams_read(&gguf, &hp);
    if (st == FT_OK)
        st = ft_vocab_read(&gguf, out);
    ft_gguf_close(&gguf);
    return st;
}

void ft_vocab_destroy(ft_vocab *v)
{
    if (!v)
        return;
    llama_model_free(v->model);
    free(v->special);
    free(v);
}

int32_t ft_vocab_size(const ft_vocab *v)
{
    return v->n_tokens;
}

int32_t ft_vocab_bos(const ft_vocab *v)
{
    return v->bos >= 0 ? v->bos : -1;
}

int32_t ft_vocab_eos(const ft_vocab *v)
{
    const int32_t eos = llama_vocab_eos(v->vocab);
    return eos >= 0 ? eos : -1;
}

bool ft_vocab_is_eog(const ft_vocab *v, int32_t token)
{
    return token >= 0 && token < v->n_tokens && llama_vocab_is_eog(v->vocab, token);
}

size_t ft_vocab_longest_bytes(const ft_vocab *v)
{
    return v->longest_bytes;
}

uint64_t ft_vocab_fingerprint(const ft_vocab *v)
{
    return v->fingerprint;
}

const char *ft_vocab_chat_template(const ft_vocab *v)
{
    return v->chat_template;
}

bool ft_vocab_has_chat(const ft_vocab *v)
{
    return v->chat_template != NULL;
}

/* How many bytes of text to pass to libllama together: up to a place where a cut changes no token,
 * or to where a word that is too long is cut, or all. */
static size_t piece_len(const ft_vocab *v, const char *text, size_t n)
{
    size_t word = 0;
    if (llama_vocab_type(v->vocab) != LLAMA_VOCAB_TYPE_BPE)
        return n; /* no words there; and it may put a space before each text */
    for (size_t i = 1; i < n; i++) {
        if (is_space(text[i]) && !is_space(text[i - 1])) {
            if (i >= PIECE_BYTES && v->cut_at_spaces && is_word_start(text, i))
                return i;
            word = i;
        }
        if (i - word >= WORD_MAX && ((unsigned char)text[i] & 0xc0) != 0x80)
            return i; /* not within a character */
    }
    return n;
}

/* text is valid UTF-8, and has no word that is too long. libllama does not look for control tokens
 * in it. */
static ft_status append_tokens(const ft_vocab *v, const char *text, size_t n, ft_error *err,
                               ft_tokens *out)
{
    /* Guesses one token for three bytes; libllama reports if it needs more. */
    int32_t need = (int32_t)(n / 3) + 16;
    for (int tries = 0; tries < 2; tries++) {
        if (tokens_reserve(out, (size_t)need) != FT_OK)
            break;
        const ft_llama_text what = {v->vocab, text, (int32_t)n};
        int32_t got = need;
        ft_status st = ft_llama_tokenize(&what, out->id + out->n, &got, err);
        if (st != FT_OK)
            return st;
        if (got >= 0) {
            out->n += (size_t)got;
            return FT_OK;
        }
        if (got == INT32_MIN)
            break;
        need = -got;
    }
    return ft_error_set(err, FT_NOMEM, "out of memory for the tokens of %zu bytes", n);
}

static ft_status check_limits(const ft_tokenize_limits *limits, size_t n_tok, ft_error *err)
{
    if (limits && limits->cancelled(limits->ctx))
        return ft_error_set(err, FT_CANCELLED, "cancelled while the text was tokenized");
    if (limits && n_tok >= limits->max_tok)
        return ft_error_set(err, FT_TOO_LARGE,
                            "the prompt has more than %zu tokens, the context holds %zu", n_tok,
                            limits->max_tok);
    return FT_OK;
}

ft_status ft_vocab_tokenize_text(const ft_vocab *v, const char *text, size_t n,
                                 const ft_tokenize_limits *limits, ft_error *err, ft_tokens *out)
{
    const size_t before = out->n;
    ft_buf repaired = {0};
    if (n > INT32_MAX / 4)
        return ft_error_set(err, FT_TOO_LARGE, "a text of %zu bytes is too long to tokenize", n);
    /* libllama throws through its C interface at codepoints that do not exist. */
    if (n > 0 && !ft_utf8_valid(text, n)) {
        if (ft_utf8_repair(text, n, &repaired) != FT_OK)
            return ft_error_set(err, FT_NOMEM, "out of memory for %zu bytes of text", n);
        text = repaired.data;
        n = repaired.len;
    }
    ft_status st = FT_OK;
    for (size_t at = 0, len; st == FT_OK && at < n; at += len) {
        len = piece_len(v, text + at, n - at);
        st = check_limits(limits, out->n, err);
        if (st == FT_OK)
            st = append_tokens(v, text + at, len, err, out);
    }
    if (st != FT_OK)
        out->n = before;
    ft_buf_deinit(&repaired);
    return st;
}

/* libllama's own add_special would also add an end token if a model asks for it, and asserts if a
 * model wants a BOS that it does not have. So BOS is added here. */
ft_status ft_vocab_tokenize(const ft_vocab *v, const char *text, size_t n,
                            const ft_tokenize_limits *limits, ft_error *err, ft_tokens *out)
{
    const size_t before = out->n;
    if (v->add_bos && ft_tokens_append(out, &v->bos, 1) != FT_OK)
        return ft_error_set(err, FT_NOMEM, "out of memory for tokens");
    const ft_status st = ft_vocab_tokenize_text(v, text, n, limits, err, out);
    if (st != FT_OK)
        out->n = before;
    return st;
}

ft_status ft_vocab_piece(const ft_vocab *v, int32_t token, bool special, ft_buf *out)
{
    char small[128];
    if (token < 0 || token >= v->n_tokens)
        return FT_OK;
    int32_t n = sizeof small;
    ft_status st = ft_llama_piece(v->vocab, token, special, small, &n);
    if (st != FT_OK || n >= 0)
        return st == FT_OK ? ft_buf_append(out, small, (size_t)n) : st;
    n = -n;
    char *large = malloc((size_t)n);
    if (!large)
        return FT_NOMEM;
    st = ft_llama_piece(v->vocab, token, special, large, &n);
    if (st == FT_OK)
        st = ft_buf_append(out, large, n > 0 ? (size_t)n : 0);
    free(large);
    return st;
}
