// SPDX-License-Identifier: Apache-2.0
// From a request of another API to one for a chat. What a translation does not know by name stays a
// field of the chat: sampling, our extensions, and what is refused there. So each field is honoured
// or refused in one place. No state, any thread.
#include "http/dialect.h"

#include <stdio.h>
#include <string.h>

ft_status ft_http_translate_nomem(ft_http_translation *t)
{
    ft_http_fail_from(t->fail, FT_NOMEM, NULL);
    return FT_NOMEM;
}

ft_status ft_http_translate_set(ft_http_translation *t, const char *name, json_t *take_value)
{
    return json_object_set_new(t->chat, name, take_value) == 0 ? FT_OK : ft_http_translate_nomem(t);
}

static bool is_one_of(json_t *v, const char *const *names)
{
    const char *text = json_string_value(v);
    while (text && *names && strcmp(text, *names) != 0)
        names++;
    return text && *names;
}

static ft_status add_part(ft_http_translation *t, json_t *text, json_t *parts)
{
    json_t *part = json_pack("{s:s,s:O}", "type", "text", "text", text);
    return json_array_append_new(parts, part) == 0 ? FT_OK : ft_http_translate_nomem(t);
}

ft_status ft_http_translate_part(ft_http_translation *t, json_t *content, size_t i,
                                 const char *path, const char *const *types, json_t *parts)
{
    json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
    char name[sizeof t->fail->param];
    if (is_one_of(json_object_get(part, "type"), types) && json_is_string(text))
        return add_part(t, text, parts);
    snprintf(name, sizeof name, "%s[%zu]", path, i);
    return ft_http_fail_set(t->fail, 400, "unsupported_content", name,
                            "'%s' must have 'text' and the type '%s': images, audio, files and "
                            "other parts are unsupported by this server.",
                            name, types[0]);
}

ft_status ft_http_translate_text(ft_http_translation *t, json_t *content, const char *path,
                                 const char *const *types, json_t *parts)
{
    ft_status status = FT_OK;
    if (json_is_string(content))
        return json_string_length(content) > 0 ? add_part(t, content, parts) : FT_OK;
    if (!json_is_array(content))
        return ft_http_fail_set(t->fail, 400, "invalid_type", path,
                                "'%s' must be a string or a list of text parts.", path);
    for (size_t i = 0; status == FT_OK && i < json_array_size(content); i++)
        status = ft_http_translate_part(t, content, i, path, types, parts);
    return status;
}

ft_status ft_http_translate_message(ft_http_translation *t, const char *role, json_t *take_parts,
                                    bool join)
{
    const size_t n = json_array_size(t->messages);
    json_t *last = n > 0 ? json_array_get(t->messages, n - 1) : NULL,
           *content = json_object_get(last, "content");
    if (join && last && strcmp(json_string_value(json_object_get(last, "role")), role) == 0 &&
        json_is_array(content)) {
        const int failed = json_array_extend(content, take_parts);
        json_decref(take_parts);
        return failed ? ft_http_translate_nomem(t) : FT_OK;
    }
    json_t *message = json_pack("{s:s,s:o}", "role", role, "content", take_parts);
    return json_array_append_new(t->messages, message) == 0 ? FT_OK : ft_http_translate_nomem(t);
}

ft_status ft_http_translate_call(ft_http_translation *t, json_t *id, json_t *name,
                                 json_t *take_arguments)
{
    const size_t n = json_array_size(t->messages);
    json_t *last = n > 0 ? json_array_get(t->messages, n - 1) : NULL;
    json_t *call = json_pack("{s:O,s:s,s:{s:O,s:o}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", take_arguments);
    int failed = 0;
    if (!last || strcmp(json_string_value(json_object_get(last, "role")), "assistant") != 0) {
        last = json_pack("{s:s,s:n}", "role", "assistant", "content");
        failed |= json_array_append_new(t->messages, last);
    }
    if (!failed && !json_object_get(last, "tool_calls"))
        failed |= json_object_set_new(last, "tool_calls", json_array());
    failed |= json_array_append_new(failed ? NULL : json_object_get(last, "tool_calls"), call);
    return failed ? ft_http_translate_nomem(t) : FT_OK;
}

ft_status ft_http_translate_result(ft_http_translation *t, json_t *call_id, json_t *take_parts)
{
    json_t *message =
        json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", call_id, "content", take_parts);
    return json_array_append_new(t->messages, message) == 0 ? FT_OK : ft_http_translate_nomem(t);
}

ft_status ft_http_translate_tool(ft_http_translation *t, json_t *tool, const char *schema,
                                 json_t *tools)
{
    json_t *function =
        json_pack("{s:O*,s:O*,s:O*,s:O*}", "name", json_object_get(tool, "name"), "description",
                  json_object_get(tool, "description"), "parameters", json_object_get(tool, schema),
                  "strict", json_object_get(tool, "strict"));
    json_t *item = json_pack("{s:s,s:o}", "type", "function", "function", function);
    return json_array_append_new(tools, item) == 0 ? FT_OK : ft_http_translate_nomem(t);
}

/* The chat's parser wants a text, or parts: no empty list. */
static ft_status fill_empty(ft_http_translation *t)
{
    int failed = 0;
    for (size_t i = 0; i < json_array_size(t->messages); i++) {
        json_t *message = json_array_get(t->messages, i);
        json_t *content = json_object_get(message, "content");
        if (json_is_array(content) && json_array_size(content) == 0)
            failed |= json_object_set_new(message, "content", json_string(""));
    }
    return failed ? ft_http_translate_nomem(t) : FT_OK;
}

/* The field whose name of the chat begins `text`; NULL: none. */
static const ft_http_renamed *find(const ft_http_renamed *renamed, const char *text)
{
    for (; renamed->chat; renamed++) {
        const size_t n = strlen(renamed->chat);
        if (strncmp(text, renamed->chat, n) == 0 && strchr("[.'", text[n]))
            return renamed; /* strchr finds the end of the text, too */
    }
    return NULL;
}

#define IN_TOOL "].function."

void ft_http_dialect_rename(const ft_http_dialect *dialect, char *text, size_t size)
{
    ft_buf out = {0};
    for (const char *at = text; *at;) {
        const bool begins = at == text || at[-1] == '\'';
        const ft_http_renamed *field = begins ? find(dialect->renamed, at) : NULL;
        const bool tool = strncmp(at, IN_TOOL, sizeof IN_TOOL - 1) == 0; /* others are flat */
        if (field)
            ft_buf_puts(&out, field->own);
        else
            ft_buf_append(&out, at, tool ? 2 : 1);
        at += field ? strlen(field->chat) : tool ? sizeof IN_TOOL - 1 : 1;
    }
    if (!out.failed) /* else a client reads the chat's names */
        snprintf(text, size, "%s", ft_buf_str(&out));
    ft_buf_deinit(&out);
}

static ft_status translate(const ft_http_dialect *dialect, ft_http_translation *t)
{
    if (json_object_update(t->chat, t->root) != 0) /* json_copy would not say that it failed */
        return ft_http_translate_nomem(t);
    for (size_t i = 0; dialect->own[i]; i++)
        json_object_del(t->chat, dialect->own[i]);
    if (json_object_set_new(t->chat, "messages", json_array()) != 0)
        return ft_http_translate_nomem(t);
    t->messages = json_object_get(t->chat, "messages");
    const ft_status status = dialect->translate(t);
    return status == FT_OK ? fill_empty(t) : status;
}

static ft_status parse_chat(const ft_http_dialect *dialect, const ft_http_translation *t,
                            ft_http_parsed *out)
{
    ft_http_fail *fail = t->fail;
    const ft_status status = ft_http_parse_root(json_incref(t->chat), true, t->model, fail, out);
    if (fail->http != 400) /* others name no field, but perhaps a model */
        return status;
    ft_http_dialect_rename(dialect, fail->param, sizeof fail->param);
    ft_http_dialect_rename(dialect, fail->message, sizeof fail->message);
    return status;
}

ft_status ft_http_dialect_parse(const ft_http_dialect *dialect, const char *body, size_t n,
                                const ft_http_model *model, ft_http_fail *fail, ft_http_parsed *out)
{
    ft_http_translation t = {.model = model, .fail = fail};
    *out = (ft_http_parsed){0};
    *fail = (ft_http_fail){0};
    ft_status status = ft_http_body_read(body, n, dialect->text, model->text_bytes, fail, &t.root);
    if (status != FT_OK)
        return status;
    t.chat = json_object();
    status = translate(dialect, &t);
    if (status == FT_OK)
        status = parse_chat(dialect, &t, out);
    if (status == FT_OK) {
        out->dialect = dialect;
        out->asked = json_incref(t.root);
    }
    json_decref(t.chat);
    json_decref(t.root);
    return status;
}
