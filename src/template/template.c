// SPDX-License-Identifier: Apache-2.0
// A model's chat template. The conversation is marked where it spells special tokens, rendered,
// and tokenized with the marks' places. Immutable once created; any thread.
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "template/calls.h"
#include "template/common.h"
#include "template/marks.h"
#include "template/reader.h"

#define BYTES_MAX ((size_t)64 << 20) /* of a conversation */

struct ft_template {
    const ft_vocab *vocab;
    char *source;      /* NULL: there is none */
    ft_common *common; /* NULL: the table of known templates renders */
    ft_marks *marks;   /* with common */
};

/* ---- the template ---- */

static ft_status append_piece(const ft_vocab *vocab, int32_t token, ft_buf *out)
{
    return token < 0 ? FT_OK : ft_vocab_piece(vocab, token, true, out);
}

static ft_status compile(ft_template *t, ft_error *err)
{
    ft_buf bos = {0}, eos = {0};
    ft_status status = append_piece(t->vocab, ft_vocab_bos(t->vocab), &bos);
    if (status == FT_OK)
        status = append_piece(t->vocab, ft_vocab_eos(t->vocab), &eos);
    if (status == FT_OK)
        status = ft_marks_create(t->vocab, t->source, &t->marks);
    status = status == FT_OK
                 ? ft_common_create(t->source, ft_buf_str(&bos), ft_buf_str(&eos), err, &t->common)
                 : ft_error_set(err, status, "out of memory for a chat template");
    ft_buf_deinit(&bos);
    ft_buf_deinit(&eos);
    return status;
}

ft_status ft_template_create(const ft_vocab *vocab, const char *source, ft_error *err,
                             ft_template **out)
{
    const char *own = ft_vocab_chat_template(vocab);
    *out = NULL;
    ft_template *t = calloc(1, sizeof *t);
    if (t && (source || own))
        t->source = strdup(source ? source : own);
    if (!t || ((source || own) && !t->source)) {
        ft_template_destroy(t);
        return ft_error_set(err, FT_NOMEM, "out of memory for a chat template");
    }
    t->vocab = vocab;
    ft_error why = {0};
    const ft_status status = t->source ? compile(t, &why) : FT_OK;
    if (status == FT_NOMEM || (status != FT_OK && source)) {
        ft_template_destroy(t);
        return ft_error_set(err, status, "%s", why.message);
    }
    if (status != FT_OK)
        FT_LOGW("template", "libllama's table of known templates renders chats, without tools: %s",
                why.message);
    if (t->common && !ft_common_is_limited(t->common))
        FT_LOGI("template", "nothing stops a chat template that loops without end");
    *out = t;
    return FT_OK;
}

void ft_template_destroy(ft_template *t)
{
    if (!t)
        return;
    ft_common_destroy(t->common);
    ft_marks_destroy(t->marks);
    free(t->source);
    free(t);
}

const char *ft_template_source(const ft_template *t)
{
    return t->source;
}

/* ---- a conversation ---- */

void ft_template_prompt_deinit(ft_template_prompt *p)
{
    ft_tokens_deinit(&p->tokens);
    ft_tokens_deinit(&p->spelled);
    ft_buf_deinit(&p->call);
    if (p->reader.destroy)
        p->reader.destroy(p->reader.ctx);
    *p = (ft_template_prompt){0};
}

static size_t bytes_of(const char *text)
{
    return text ? strlen(text) : 0;
}

static bool is_role(const char *role)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0)
            return true;
    return false;
}

static ft_status check_message(const ft_chat_message *m, size_t i, ft_error *err)
{
    if (!is_role(m->role))
        return ft_error_set(err, FT_INVALID,
                            "message %zu has role '%.40s', not system, user, "
                            "assistant or tool",
                            i, m->role ? m->role : "");
    if (!m->content && m->n_calls == 0)
        return ft_error_set(err, FT_INVALID, "message %zu lacks content", i);
    return FT_OK;
}

static ft_status check(const ft_template *t, const ft_chat *chat, ft_error *err)
{
    size_t bytes = bytes_of(chat->template_args);
    ft_status status = FT_OK;
    if (chat->n_messages == 0 || chat->n_messages > FT_TEMPLATE_MESSAGES_MAX)
        return ft_error_set(err, FT_INVALID, "a conversation has 1 to %d messages, not %zu",
                            FT_TEMPLATE_MESSAGES_MAX, chat->n_messages);
    for (size_t i = 0; status == FT_OK && i < chat->n_messages; i++) {
        const ft_chat_message *m = &chat->messages[i];
        status = check_message(m, i, err);
        bytes += bytes_of(m->content) + bytes_of(m->reasoning);
        for (size_t k = 0; k < m->n_calls; k++)
            bytes += bytes_of(m->calls[k].arguments);
    }
    for (size_t i = 0; i < chat->n_tools; i++)
        bytes += bytes_of(chat->tools[i].description) + bytes_of(chat->tools[i].parameters);
    if (status == FT_OK && chat->n_tools > 0 && t->common && !ft_common_has_tools(t->common))
        return ft_error_set(err, FT_INVALID,
                            "tools: the model's chat template does not show tools to the model "
                            "(--chat-template sets another)");
    if (status == FT_OK && bytes > BYTES_MAX)
        return ft_error_set(err, FT_TOO_LARGE, "a conversation of %zu bytes is too long", bytes);
    return status;
}

/* libllama's table knows messages alone. */
static ft_status apply_table(const ft_template *t, const ft_chat *chat,
                             const ft_tokenize_limits *limits, ft_error *err, ft_tokens *out)
{
    const char *what = NULL;
    if (chat->n_tools > 0)
        what = "tools";
    else if (chat->template_args)
        what = "chat_template_kwargs";
    else if (chat->reasoning_effort)
        what = "reasoning_effort";
    for (size_t i = 0; !what && i < chat->n_messages; i++)
        what = chat->messages[i].n_calls > 0 ? "tool_calls" : NULL;
    if (what)
        return ft_error_set(err, FT_INVALID,
                            "%s: unsupported, because this server cannot run the model's chat "
                            "template (its log says why)",
                            what);
    return ft_vocab_chat(t->vocab, chat->messages, chat->n_messages, limits, err, out);
}

/* Whether the rendering ends so, but for white space. */
static bool ends_with(const ft_buf *text, const char *end)
{
    size_t n = text->len;
    while (n > 0 && strchr(" \t\r\n", text->data[n - 1]))
        n--;
    return n >= strlen(end) && memcmp(text->data + n - strlen(end), end, strlen(end)) == 0;
}

static ft_status render(const ft_template *t, const ft_marked *marked, ft_error *err, ft_buf *text)
{
    const ft_status status = ft_common_render(t->common, ft_marked_chat(marked), err, text);
    ft_buf words = {0};
    if (status == FT_OK || !err)
        return status;
    ft_buf_puts(&words, err->message); /* the template may repeat what people wrote */
    ft_marked_clean(marked, &words);
    ft_error_set(err, status, "%s", ft_buf_str(&words));
    ft_buf_deinit(&words);
    return status;
}

static ft_status apply_program(const ft_template *t, const ft_chat *chat,
                               const ft_tokenize_limits *limits, ft_error *err,
                               ft_template_prompt *out)
{
    ft_marked *marked = NULL;
    ft_buf text = {0};
    ft_stretch *foreign = NULL;
    size_t n_foreign = 0;
    ft_status status = ft_marked_create(t->marks, chat, err, &marked);
    if (status == FT_OK)
        status = render(t, marked, err, &text);
    if (status == FT_OK && ft_marked_find(marked, &text, &foreign, &n_foreign) != FT_OK)
        status = ft_error_set(err, FT_NOMEM, "out of memory for a conversation");
    out->thinks = status == FT_OK && ends_with(&text, "<think>") && !chat->no_thought;
    if (status == FT_OK && chat->no_thought && ends_with(&text, "<think>") &&
        ft_buf_puts(&text, FT_TEMPLATE_THOUGHT_END) != FT_OK)
        status = ft_error_set(err, FT_NOMEM, "out of memory for a conversation");
    const ft_rendered rendered = {ft_buf_str(&text), text.len, foreign, n_foreign};
    if (status == FT_OK)
        status = ft_vocab_tokenize_rendered(t->vocab, &rendered, limits, err, &out->tokens);
    free(foreign);
    ft_buf_deinit(&text);
    ft_marked_destroy(marked);
    return status;
}

static bool has_mark(const ft_common_parser *parser, const char *special)
{
    const char *mark;
    for (size_t i = 0; (mark = ft_common_parser_mark(parser, i)); i++)
        if (strcmp(mark, special) == 0)
            return true;
    return false;
}

/* The special tokens that the parser must see: its own, and those of a required call. */
static ft_status find_spelled(const ft_template *t, const ft_common_parser *parser,
                              const ft_buf *call, ft_tokens *out)
{
    ft_status status = FT_OK;
    for (size_t k = 0; status == FT_OK && k < ft_vocab_n_special(t->vocab); k++) {
        int32_t token;
        const char *special = ft_vocab_special(t->vocab, k, &token);
        if (has_mark(parser, special) || strstr(ft_buf_str(call), special))
            status = ft_tokens_append(out, &token, 1);
    }
    return status;
}

/* A call that the model makes of its own accord need not be constrained. */
static ft_status add_call(const ft_template *t, const ft_chat *chat, ft_common_parser *parser,
                          ft_error *err, ft_buf *out)
{
    ft_error why;
    if (chat->choice == FT_CHAT_CHOICE_REQUIRED)
        return ft_template_calls(t->common, chat, parser, err, out);
    const ft_status status = ft_template_calls(t->common, chat, parser, &why, out);
    return status == FT_NOMEM ? ft_error_set(err, status, "out of memory for a conversation")
                              : FT_OK;
}

/* With tools that the model may call: how it writes the calls, and what a required one is. */
static ft_status add_reader(const ft_template *t, const ft_chat *chat, ft_error *err,
                            ft_template_prompt *out)
{
    ft_common_parser *parser;
    if (chat->n_tools == 0 || chat->choice == FT_CHAT_CHOICE_NONE)
        return FT_OK;
    ft_status status = ft_common_parser_create(t->common, chat, err, &parser);
    if (status != FT_OK)
        return status;
    status = add_call(t, chat, parser, err, &out->call);
    if (status != FT_OK) {
        ft_common_parser_destroy(parser);
        return status;
    }
    status = find_spelled(t, parser, &out->call, &out->spelled);
    if (status == FT_OK)
        status = ft_reader_create(parser, &out->reader);
    else
        ft_common_parser_destroy(parser);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "out of memory for a conversation");
}

ft_status ft_template_apply(const ft_template *t, const ft_chat *chat,
                            const ft_tokenize_limits *limits, ft_error *err,
                            ft_template_prompt *out)
{
    *out = (ft_template_prompt){0};
    ft_status status = check(t, chat, err);
    if (status == FT_OK)
        status = t->common ? apply_program(t, chat, limits, err, out)
                           : apply_table(t, chat, limits, err, &out->tokens);
    if (status == FT_OK && t->common)
        status = add_reader(t, chat, err, out);
    if (status != FT_OK)
        ft_template_prompt_deinit(out);
    return status;
}

ft_status ft_template_chat(const ft_template *t, const ft_chat_message *messages, size_t n,
                           const ft_tokenize_limits *limits, ft_error *err, ft_tokens *out)
{
    const ft_chat chat = {.messages = messages, .n_messages = n};
    ft_template_prompt prompt;
    const ft_status status = ft_template_apply(t, &chat, limits, err, &prompt);
    *out = prompt.tokens;
    return status;
}

ft_status ft_template_ask(const ft_vocab *vocab, const char *text, ft_error *err, ft_tokens *out)
{
    const ft_chat_message message = {.role = "user", .content = text};
    ft_template *t;
    ft_status status = ft_template_create(vocab, NULL, err, &t);
    if (status == FT_OK)
        status = ft_template_chat(t, &message, 1, NULL, err, out);
    ft_template_destroy(t);
    return status;
}
