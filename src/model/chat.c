// SPDX-License-Identifier: Apache-2.0
// Converts conversations to tokens. libllama renders text. The tokens must distinguish the
// template's text from people's text; otherwise a message could end its own chat turn by spelling
// "<|im_end|>". So the conversation is rendered twice. The second rendering has placeholders for
// the contents and shows where each content is, for rendered.c.
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

typedef struct chat {
    const ft_vocab *v;
    const ft_chat_message *messages; /* [n], as the caller gave them */
    size_t n;
    ft_error *err;
    struct llama_chat_message *view; /* [n], messages for libllama */
    char (*placeholder)[PLACEHOLDER_BYTES];
    ft_buf text;          /* the rendering */
    ft_buf outline;       /* the rendering with placeholders */
    ft_stretch *contents; /* [n_contents], in order, not overlapping */
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
            c->contents[c->n_contents++] = (ft_stretch){at, end};
        at = end + n_rest;
        i = following;
    }
    if (!same || at != c->text.len)
        return ft_error_set(c->err, FT_UNSUPPORTED,
                            "the model's chat template changes message text, which cannot be "
                            "followed");
    return FT_OK;
}

ft_status ft_vocab_chat(const ft_vocab *vocab, const ft_chat_message *messages, size_t n,
                        const ft_tokenize_limits *limits, ft_error *err, ft_tokens *out)
{
    chat c = {.v = vocab, .messages = messages, .n = n, .err = err};
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
    const ft_rendered rendered = {ft_buf_str(&c.text), c.text.len, c.contents, c.n_contents};
    if (st == FT_OK)
        st = ft_vocab_tokenize_rendered(vocab, &rendered, limits, err, out);
    if (st != FT_OK)
        out->n = before;
    ft_buf_deinit(&c.text);
    ft_buf_deinit(&c.outline);
    free(c.view);
    free(c.placeholder);
    free(c.contents);
    return st;
}
