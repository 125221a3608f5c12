// SPDX-License-Identifier: Apache-2.0
// Converts conversations to tokens. libllama renders text. The tokens must distinguish the
// template's text from people's text; otherwise a message could end its own chat turn by spelling
// "<|im_end|>". So the conversation is rendered twice. The second rendering has placeholders for
// the contents and shows where each content is. Special tokens count only if they are wholly in the
// template's text; nobody looks for them in people's. The text between them is tokenized piece by
// piece. If people spelled none, the tokens are those that libllama makes of the whole rendering.
// Stateless; any thread.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/secret.h"
#include "model/llama_calls.h"
#include "model/vocab_impl.h"

enum { MAX_MESSAGES = 4096, PLACEHOLDER_BYTES = 64, MAX_BYTES = 1 << 29 };

/* A part of a rendering that people wrote. */
typedef struct span {
    size_t begin, end;
} span;

typedef struct chat {
    const ft_vocab *v;
    const ft_chat_message *messages; /* [n], as the caller gave them */
    size_t n;
    const ft_tokenize_limits *limits;
    ft_error *err;
    struct llama_chat_message *view; /* [n], messages for libllama */
    char (*placeholder)[PLACEHOLDER_BYTES];
    ft_buf text;    /* the rendering */
    ft_buf outline; /* the rendering with placeholders */
    span *contents; /* [n_contents], in order, not overlapping */
    size_t n_contents;
} chat;

static ft_status no_memory(const chat *c)
{
    return ft_error_set(c->err, FT_NOMEM, "out of memory for a conversation of %zu messages", c->n);
}

static ft_status check_messages(chat *c)
{
    size_t bytes = 0;
    if (!c->v->chat_template)
        return ft_error_set(c->err, FT_UNSUPPORTED,
                            "the model's file has no chat template: use a "
                            "model tuned for chat, or plain completions");
    if (c->n == 0 || c->n > MAX_MESSAGES)
        return ft_error_set(c->err, FT_INVALID, "a conversation has 1 to %d messages, not %zu",
                            MAX_MESSAGES, c->n);
    for (size_t i = 0; i < c->n; i++) {
        const char *role = c->messages[i].role;
        if (!role || !c->messages[i].content)
            return ft_error_set(c->err, FT_INVALID, "message %zu lacks a role or content", i);
        if (strcmp(role, "tool") == 0 || strcmp(role, "function") == 0)
            return ft_error_set(c->err, FT_INVALID,
                                "message %zu has role '%s': tool calls are not supported", i, role);
        if (strcmp(role, "developer") == 0)
            role = "system";
        if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 &&
            strcmp(role, "assistant") != 0)
            return ft_error_set(c->err, FT_INVALID,
                                "message %zu has role '%.40s', not system, user or assistant", i,
                                role);
        bytes += strlen(c->messages[i].content);
        c->view[i] = (struct llama_chat_message){role, c->messages[i].content};
    }
    if (bytes > MAX_BYTES) /* libllama counts in int32_t */
        return ft_error_set(c->err, FT_TOO_LARGE, "a conversation of %zu bytes is too long", bytes);
    return FT_OK;
}

static ft_status render(chat *c, ft_buf *out)
{
    const char *template = c->v->chat_template;
    int32_t n = 0;
    ft_status st = ft_llama_chat(template, c->view, c->n, NULL, &n, c->err);
    if (st != FT_OK)
        return st;
    if (n < 0)
        return ft_error_set(c->err, FT_UNSUPPORTED,
                            "libllama does not know the model's chat template");
    if (ft_buf_reserve(out, (size_t)n + 1) != FT_OK)
        return no_memory(c);
    const int32_t bytes = n++;
    st = ft_llama_chat(template, c->view, c->n, out->data, &n, c->err);
    if (st == FT_OK && n != bytes) /* out of memory, libllama's C++ streams leave text out */
        st = no_memory(c);
    out->len = (size_t)bytes;
    out->data[bytes] = 0;
    return st;
}

/* Makes words that no message contains, because nobody can guess them. */
static ft_status make_placeholders(chat *c)
{
    uint8_t random[12];
    char stem[2 * sizeof random + 1];
    if (ft_random_bytes(random, sizeof random) != FT_OK)
        return ft_error_set(c->err, FT_IO, "the system has no random numbers");
    ft_hex(random, sizeof random, stem);
    for (size_t i = 0; i < c->n; i++) {
        snprintf(c->placeholder[i], PLACEHOLDER_BYTES, "x%sx%zux", stem, i);
        c->view[i].content = c->placeholder[i];
    }
    return FT_OK;
}

static bool has_at(const ft_buf *text, size_t at, const char *data, size_t n)
{
    return n <= text->len - at && memcmp(text->data + at, data, n) == 0;
}

/* Finds the content's bytes in the rendering at `at` and before `next` (the template's text up to
 * the following content): whole, or trimmed as some templates do. */
static bool match_content(const chat *c, const char *content, size_t at, const char *next,
                          size_t n_next, size_t *end)
{
    const char *from = content, *to = content + strlen(content);
    for (int trimmed = 0; trimmed < 2; trimmed++) {
        size_t n = (size_t)(to - from);
        if (has_at(&c->text, at, from, n) && has_at(&c->text, at + n, next, n_next)) {
            *end = at + n;
            return true;
        }
        while (from < to && isspace((unsigned char)*from))
            from++;
        while (to > from && isspace((unsigned char)to[-1]))
            to--;
    }
    return false;
}

/* The first placeholder at or after `at` of the outline; c->n if there is none. */
static size_t next_placeholder(const chat *c, size_t first, const char *at, const char **where)
{
    for (size_t i = first; i < c->n; i++) {
        *where = strstr(at, c->placeholder[i]);
        if (*where)
            return i;
    }
    *where = c->outline.data + c->outline.len;
    return c->n;
}

/* Compares outline and rendering side by side. A template may leave messages out, but not reorder
 * them. */
static ft_status find_contents(chat *c)
{
    const char *outline = ft_buf_str(&c->outline), *where = outline;
    size_t at = 0, end = 0;
    size_t i = next_placeholder(c, 0, outline, &where);
    bool same = has_at(&c->text, 0, outline, (size_t)(where - outline));
    at = (size_t)(where - outline);
    while (same && i < c->n) {
        const char *rest = where + strlen(c->placeholder[i]);
        size_t following = next_placeholder(c, i + 1, rest, &where);
        size_t n_rest = (size_t)(where - rest);
        same = match_content(c, c->messages[i].content, at, rest, n_rest, &end);
        if (same)
            c->contents[c->n_contents++] = (span){at, end};
        at = end + n_rest;
        i = following;
    }
    if (!same || at != c->text.len)
        return ft_error_set(c->err, FT_UNSUPPORTED,
                            "the model's chat template changes message text, which cannot be "
                            "followed");
    return FT_OK;
}

/* Returns the next special token in the template's own text at or after *at, and sets *at to its
 * place; NULL: none. *content: the first content that does not end before *at; starts with 0. */
static const ft_special *find_special(const chat *c, size_t *at, size_t *content)
{
    while (*at < c->text.len) {
        while (*content < c->n_contents && c->contents[*content].end <= *at)
            (*content)++;
        const span *s = *content < c->n_contents ? &c->contents[*content] : NULL;
        if (s && s->begin <= *at) {
            *at = s->end;
            continue;
        }
        const size_t limit = s ? s->begin : c->text.len;
        const ft_special *found = ft_vocab_special_at(c->v, c->text.data + *at, limit - *at);
        if (found)
            return found;
        (*at)++;
    }
    return NULL;
}

/* The text between two special tokens, either of which may be NULL. */
static ft_status tokenize_between(const chat *c, const ft_special *left, size_t from,
                                  const ft_special *right, size_t to, ft_tokens *out)
{
    const char *text = c->text.data;
    while (left && left->strips_right && from < to && isspace((unsigned char)text[from]))
        from++;
    while (right && right->strips_left && to > from && isspace((unsigned char)text[to - 1]))
        to--;
    return ft_vocab_tokenize_text(c->v, text + from, to - from, c->limits, c->err, out);
}

static ft_status tokenize_all(const chat *c, ft_tokens *out)
{
    const ft_special *left = NULL, *right;
    size_t from = 0, at = 0, content = 0;
    ft_status st;
    do {
        right = find_special(c, &at, &content);
        st = tokenize_between(c, left, from, right, right ? at : c->text.len, out);
        if (st == FT_OK && right && ft_tokens_append(out, &right->token, 1) != FT_OK)
            st = no_memory(c);
        left = right;
        from = at += right ? right->n : 0;
    } while (st == FT_OK && right);
    return st;
}

static ft_status tokenize(const chat *c, ft_tokens *out)
{
    const ft_vocab *v = c->v;
    ft_tokens body = {0};
    ft_status st = tokenize_all(c, &body);
    /* Some templates write BOS themselves. */
    if (st == FT_OK && v->add_bos && (body.n == 0 || body.id[0] != v->bos) &&
        ft_tokens_append(out, &v->bos, 1) != FT_OK)
        st = no_memory(c);
    if (st == FT_OK && ft_tokens_append(out, body.id, body.n) != FT_OK)
        st = no_memory(c);
    ft_tokens_deinit(&body);
    return st;
}

ft_status ft_vocab_chat(const ft_vocab *vocab, const ft_chat_message *messages, size_t n,
                        const ft_tokenize_limits *limits, ft_error *err, ft_tokens *out)
{
    chat c = {.v = vocab, .messages = messages, .n = n, .limits = limits, .err = err};
    size_t room = n > 0 && n <= MAX_MESSAGES ? n : 1;
    size_t before = out->n;
    c.view = calloc(room, sizeof *c.view);
    c.placeholder = calloc(room, sizeof *c.placeholder);
    c.contents = calloc(room, sizeof *c.contents);
    ft_status st = c.view && c.placeholder && c.contents ? check_messages(&c) : no_memory(&c);
    if (st == FT_OK)
        st = render(&c, &c.text);
    if (st == FT_OK)
        st = make_placeholders(&c);
    if (st == FT_OK)
        st = render(&c, &c.outline);
    if (st == FT_OK)
        st = find_contents(&c);
    if (st == FT_OK)
        st = tokenize(&c, out);
    if (st != FT_OK)
        out->n = before;
    ft_buf_deinit(&c.text);
    ft_buf_deinit(&c.outline);
    free(c.view);
    free(c.placeholder);
    free(c.contents);
    return st;
}
