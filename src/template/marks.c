// SPDX-License-Identifier: Apache-2.0
// Marks in what people wrote. A special token that is not the template's own alone has a first byte
// that people wrote, or begins in the template's text and goes on in people's. So a mark stands
//   - where a text spells a special token, or ends with the beginning of one,
//   - before a text that begins with the end of one ("|im_end|>" behind the template's "<"),
//   - before a text that is the middle of one whose end the template can write ("/s" in a
//     template's '<' ~ name ~ '>').
// A text is a string, and in JSON each string and each name of a member.
#include "template/marks.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { MARK_BYTES = 24, MARK_SIZE = MARK_BYTES + 1 };

/* A part of a special token's text. */
typedef struct tail {
    const char *text; /* [n] */
    size_t n;
    bool whole; /* dangerous if a text is it; else if a text begins with it */
} tail;

struct ft_marks {
    const ft_vocab *vocab;
    tail *tails;      /* [n_tails], by their first bytes */
    size_t from[257]; /* where those with a first byte begin */
    size_t n_tails, cap;
};

struct ft_marked {
    const ft_marks *marks;
    char mark[MARK_SIZE];
    ft_chat chat;
    ft_error *err;
    char **own; /* [n_own] strings with marks */
    size_t n_own, cap_own;
};

/* ---- what may become special ---- */

static int by_first_byte(const void *a, const void *b)
{
    return (int)(unsigned char)((const tail *)a)->text[0] -
           (int)(unsigned char)((const tail *)b)->text[0];
}

static ft_status add_tail(ft_marks *m, const char *text, size_t n, bool whole)
{
    if (m->n_tails == m->cap) {
        const size_t cap = m->cap ? 2 * m->cap : 256;
        tail *grown = realloc(m->tails, cap * sizeof *grown);
        if (!grown)
            return FT_NOMEM;
        m->tails = grown;
        m->cap = cap;
    }
    m->tails[m->n_tails++] = (tail){text, n, whole};
    m->from[(unsigned char)text[0] + 1]++;
    return FT_OK;
}

/* Whether the template can write `end` behind a text: a piece of its source begins so, behind a
 * quote, a brace or white space. */
static bool can_follow(const char *source, const char *end)
{
    for (const char *at = strstr(source, end); at; at = strstr(at + 1, end))
        if (at > source && strchr("'\"} \t\r\n", at[-1]))
            return true;
    return false;
}

static ft_status add_special(ft_marks *m, const char *text, const char *source)
{
    const size_t n = strlen(text);
    ft_status status = FT_OK;
    for (size_t from = 1; status == FT_OK && from < n; from++)
        status = add_tail(m, text + from, n - from, false);
    for (size_t end = 2; status == FT_OK && end < n; end++)
        if (can_follow(source, text + end))
            for (size_t from = 1; status == FT_OK && from < end; from++)
                status = add_tail(m, text + from, end - from, true);
    return status;
}

ft_status ft_marks_create(const ft_vocab *vocab, const char *source, ft_marks **out)
{
    ft_marks *m = calloc(1, sizeof *m);
    ft_status status = m ? FT_OK : FT_NOMEM;
    int32_t token;
    *out = NULL;
    for (size_t i = 0; status == FT_OK && i < ft_vocab_n_special(vocab); i++)
        status = add_special(m, ft_vocab_special(vocab, i, &token), source);
    if (status != FT_OK) {
        ft_marks_destroy(m);
        return status;
    }
    m->vocab = vocab;
    if (m->n_tails > 0)
        qsort(m->tails, m->n_tails, sizeof *m->tails, by_first_byte);
    for (size_t byte = 0; byte < 256; byte++)
        m->from[byte + 1] += m->from[byte];
    *out = m;
    return FT_OK;
}

void ft_marks_destroy(ft_marks *m)
{
    if (!m)
        return;
    free(m->tails);
    free(m);
}

/* Whether a special token could begin in front of this text and reach into it. */
static bool completes(const ft_marks *m, const char *text, size_t n)
{
    const unsigned char first = (unsigned char)text[0];
    for (size_t i = m->from[first]; n > 0 && i < m->from[first + 1]; i++) {
        const tail *t = &m->tails[i];
        if ((t->whole ? t->n == n : t->n <= n) && memcmp(t->text, text, t->n) == 0)
            return true;
    }
    return false;
}

/* ---- marking ---- */

/* Appends the text with its marks. False: it has none, and nothing was appended. */
static bool mark(const ft_marked *d, const char *text, size_t n, ft_buf *out)
{
    const ft_vocab *v = d->marks->vocab;
    size_t from = 0;
    bool marked = false;
    for (size_t i = 0; i < n; i++) {
        if (!ft_vocab_spells_special(v, text + i, n - i) &&
            !(i == 0 && completes(d->marks, text, n)))
            continue;
        ft_buf_append(out, text + from, i - from);
        ft_buf_puts(out, d->mark);
        from = i;
        marked = true;
    }
    if (marked)
        ft_buf_append(out, text + from, n - from);
    return marked;
}

static ft_status no_memory(const ft_marked *d)
{
    return ft_error_set(d->err, FT_NOMEM, "out of memory for a conversation");
}

/* Keeps a string as long as the copy. Takes it; NULL: out of memory. */
static ft_status keep(ft_marked *d, char *take, const char **out)
{
    if (take && d->n_own == d->cap_own) {
        const size_t cap = d->cap_own ? 2 * d->cap_own : 16;
        char **grown = realloc(d->own, cap * sizeof *grown);
        if (grown) {
            d->own = grown;
            d->cap_own = cap;
        }
    }
    if (!take || d->n_own == d->cap_own) {
        free(take);
        return no_memory(d);
    }
    *out = d->own[d->n_own++] = take;
    return FT_OK;
}

/* Replaces a text by one with marks, if it needs any. NULL stays. */
static ft_status mark_text(ft_marked *d, const char **text)
{
    ft_buf marked = {0};
    if (!*text || !mark(d, *text, strlen(*text), &marked))
        return FT_OK;
    ft_status status = marked.failed ? no_memory(d) : keep(d, strdup(ft_buf_str(&marked)), text);
    ft_buf_deinit(&marked);
    return status;
}

/* A new string with marks; NULL: it needs none. */
static json_t *marked_string(const ft_marked *d, const char *text, size_t n, bool *failed)
{
    ft_buf marked = {0};
    json_t *string = NULL;
    if (mark(d, text, n, &marked)) {
        string = marked.failed ? NULL : json_stringn_nocheck(ft_buf_str(&marked), marked.len);
        *failed |= !string;
    }
    ft_buf_deinit(&marked);
    return string;
}

/* Words of JSON Schema. Templates look for them, and they complete no special token. */
static bool is_schema_word(const char *word)
{
    static const char *const words[] = {
        "type",  "properties", "required", "description", "items",  "enum",
        "anyOf", "oneOf",      "allOf",    "default",     "string", "object",
        "array", "number",     "integer",  "boolean",     "null",   "nullable",
        "title", "format",     "minimum",  "maximum",     "$ref",   "$defs"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

/* Returns a value with marks, new; NULL: it needs none, or *failed, or it is too deep. */
static json_t *mark_value(const ft_marked *d, json_t *v, size_t depth, bool *failed, bool *deep);

static json_t *mark_object(const ft_marked *d, json_t *v, size_t depth, bool *failed, bool *deep)
{
    json_t *copy = json_object(), *member;
    const char *key;
    bool any = false;
    json_object_foreach(v, key, member)
    {
        json_t *name = is_schema_word(key) ? NULL : marked_string(d, key, strlen(key), failed);
        json_t *value = mark_value(d, member, depth, failed, deep);
        any |= name || value;
        if (!value)
            value = json_incref(member);
        *failed |=
            json_object_set_new_nocheck(copy, name ? json_string_value(name) : key, value) != 0;
        json_decref(name);
    }
    if (any)
        return copy;
    json_decref(copy);
    return NULL;
}

static json_t *mark_array(const ft_marked *d, json_t *v, size_t depth, bool *failed, bool *deep)
{
    json_t *copy = json_array();
    bool any = false;
    for (size_t i = 0; i < json_array_size(v); i++) {
        json_t *item = mark_value(d, json_array_get(v, i), depth, failed, deep);
        any |= item != NULL;
        if (!item)
            item = json_incref(json_array_get(v, i));
        *failed |= json_array_append_new(copy, item) != 0;
    }
    if (any)
        return copy;
    json_decref(copy);
    return NULL;
}

static json_t *mark_value(const ft_marked *d, json_t *v, size_t depth, bool *failed, bool *deep)
{
    *deep |= depth >= FT_TEMPLATE_DEPTH_MAX;
    if (*deep || *failed)
        return NULL;
    if (json_is_object(v))
        return mark_object(d, v, depth + 1, failed, deep);
    if (json_is_array(v))
        return mark_array(d, v, depth + 1, failed, deep);
    if (json_is_string(v) && !is_schema_word(json_string_value(v)))
        return marked_string(d, json_string_value(v), json_string_length(v), failed);
    return NULL;
}

/* The same of a text that is JSON. What needs no marks stays as it was written. */
static ft_status mark_json(ft_marked *d, const char **text, const char *what)
{
    json_error_t why;
    bool failed = false, deep = false;
    if (!*text)
        return FT_OK;
    json_t *v = json_loads(*text, JSON_DECODE_ANY, &why);
    if (!v)
        return ft_error_set(d->err, FT_INVALID, "%s: not JSON: %s", what, why.text);
    json_t *marked = mark_value(d, v, 0, &failed, &deep);
    ft_status status = failed ? no_memory(d) : FT_OK;
    if (deep)
        status = ft_error_set(d->err, FT_INVALID, "%s: nested more deeply than %d", what,
                              FT_TEMPLATE_DEPTH_MAX);
    if (status == FT_OK && marked)
        status = keep(d, json_dumps(marked, JSON_ENCODE_ANY), text);
    json_decref(marked);
    json_decref(v);
    return status;
}

/* ---- the conversation ---- */

/* A copy of an array that lives as long as `d`. */
static ft_status keep_array(ft_marked *d, const void *array, size_t n, size_t size,
                            const void **out)
{
    const char *kept = NULL;
    char *copy = malloc(n * size + 1);
    if (copy && n > 0)
        memcpy(copy, array, n * size);
    ft_status status = keep(d, copy, &kept);
    *out = kept;
    return status;
}

static ft_status mark_calls(ft_marked *d, ft_chat_message *m)
{
    const void *copy = NULL;
    ft_status status = keep_array(d, m->calls, m->n_calls, sizeof *m->calls, &copy);
    ft_chat_call *calls = (ft_chat_call *)(uintptr_t)copy;
    for (size_t i = 0; status == FT_OK && i < m->n_calls; i++) {
        status = mark_text(d, &calls[i].id);
        if (status == FT_OK)
            status = mark_text(d, &calls[i].name);
        if (status == FT_OK)
            status = mark_json(d, &calls[i].arguments, "a call's arguments");
    }
    m->calls = calls;
    return status;
}

static ft_status mark_messages(ft_marked *d)
{
    const void *copy = NULL;
    const size_t n = d->chat.n_messages;
    ft_status status = keep_array(d, d->chat.messages, n, sizeof *d->chat.messages, &copy);
    ft_chat_message *messages = (ft_chat_message *)(uintptr_t)copy;
    for (size_t i = 0; status == FT_OK && i < n; i++) {
        ft_chat_message *m = &messages[i];
        if ((status = mark_text(d, &m->content)) == FT_OK &&
            (status = mark_text(d, &m->reasoning)) == FT_OK &&
            (status = mark_text(d, &m->call_id)) == FT_OK &&
            (status = mark_text(d, &m->name)) == FT_OK && m->n_calls > 0)
            status = mark_calls(d, m);
    }
    d->chat.messages = messages;
    return status;
}

static ft_status mark_tools(ft_marked *d)
{
    const void *copy = NULL;
    const size_t n = d->chat.n_tools;
    ft_status status = keep_array(d, d->chat.tools, n, sizeof *d->chat.tools, &copy);
    ft_chat_tool *tools = (ft_chat_tool *)(uintptr_t)copy;
    for (size_t i = 0; status == FT_OK && i < n; i++)
        if ((status = mark_text(d, &tools[i].name)) == FT_OK &&
            (status = mark_text(d, &tools[i].description)) == FT_OK)
            status = mark_json(d, &tools[i].parameters, "a tool's parameters");
    d->chat.tools = tools;
    return status;
}

static ft_status make_mark(ft_marked *d)
{
    uint8_t random[MARK_BYTES];
    if (ft_random_bytes(random, sizeof random) != FT_OK)
        return ft_error_set(d->err, FT_IO, "the system has no random numbers");
    for (size_t i = 0; i < MARK_BYTES; i++)
        d->mark[i] = (char)('0' + random[i] % 10);
    return FT_OK;
}

ft_status ft_marked_create(const ft_marks *marks, const ft_chat *chat, ft_error *err,
                           ft_marked **out)
{
    *out = NULL;
    ft_marked *d = calloc(1, sizeof *d);
    if (!d)
        return ft_error_set(err, FT_NOMEM, "out of memory for a conversation");
    *d = (ft_marked){.marks = marks, .chat = *chat, .err = err};
    ft_status status = make_mark(d);
    if (status == FT_OK)
        status = mark_messages(d);
    if (status == FT_OK)
        status = mark_tools(d);
    if (status == FT_OK)
        status = mark_json(d, &d->chat.template_args, "chat_template_kwargs");
    if (status == FT_OK)
        status = mark_text(d, &d->chat.reasoning_effort);
    if (status != FT_OK) {
        ft_marked_destroy(d);
        return status;
    }
    *out = d;
    return FT_OK;
}

void ft_marked_destroy(ft_marked *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_own; i++)
        free(d->own[i]);
    free(d->own);
    free(d);
}

const ft_chat *ft_marked_chat(const ft_marked *d)
{
    return &d->chat;
}

/* ---- taking marks out ---- */

static const char *next_mark(const ft_marked *d, const ft_buf *text, size_t from)
{
    return text->len == 0 ? NULL : memmem(text->data + from, text->len - from, d->mark, MARK_BYTES);
}

ft_status ft_marked_find(const ft_marked *d, ft_buf *text, ft_stretch **foreign, size_t *n_foreign)
{
    size_t n = 0, from = 0, to = 0;
    const char *at;
    for (at = next_mark(d, text, 0); at; at = next_mark(d, text, (size_t)(at - text->data) + 1))
        n++;
    *n_foreign = 0;
    *foreign = calloc(n ? n : 1, sizeof **foreign);
    if (!*foreign || text->len == 0)
        return *foreign ? FT_OK : FT_NOMEM;
    while ((at = next_mark(d, text, from))) {
        const size_t own = (size_t)(at - text->data) - from;
        memmove(text->data + to, text->data + from, own);
        to += own;
        from += own + MARK_BYTES;
        if (*n_foreign == 0 || (*foreign)[*n_foreign - 1].begin < to)
            (*foreign)[(*n_foreign)++] = (ft_stretch){to, to + 1};
    }
    memmove(text->data + to, text->data + from, text->len - from);
    text->len = to + text->len - from;
    text->data[text->len] = 0;
    return FT_OK;
}

void ft_marked_clean(const ft_marked *d, ft_buf *text)
{
    ft_stretch *foreign;
    size_t n;
    (void)!ft_marked_find(d, text, &foreign, &n);
    free(foreign);
}
