// SPDX-License-Identifier: Apache-2.0
// Reads conversations. An error names the field by its path. Pure: no state, any thread.
#include "http/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/unsupported.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-"
enum { NAME_MAX_BYTES = 128, PATH_SIZE = 128 };

typedef struct reader {
    json_t *root;
    ft_http_fail *fail;
    ft_http_parsed *out;
    size_t n_calls;          /* of all messages so far */
    ft_http_sizes arguments; /* of all calls so far */
} reader;

static ft_status wrong(reader *r, const char *code, const char *path, const char *expected)
{
    return ft_http_fail_set(r->fail, 400, code, path, "'%s' must be %s.", path, expected);
}

static ft_status out_of_memory(ft_http_fail *fail)
{
    ft_http_fail_set(fail, 503, "unavailable", NULL, "out of memory");
    return FT_NOMEM;
}

/* NULL where the member is absent or null. */
static json_t *member(json_t *object, const char *name)
{
    json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

static bool is_string(json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

ft_status ft_http_join_parts(json_t *object, const char *name, const char *between,
                             ft_http_fail *fail)
{
    json_t *parts = json_object_get(object, "content");
    ft_buf text = {0};
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *part = json_array_get(parts, i), *piece = json_object_get(part, "text");
        if (!json_is_object(part) || !is_string(json_object_get(part, "type"), "text") ||
            !json_is_string(piece)) {
            ft_buf_deinit(&text);
            return ft_http_fail_set(fail, 400, "unsupported_content", name,
                                    "'%s' may hold only parts of type 'text': images, audio and "
                                    "files are unsupported by this server.",
                                    name);
        }
        if (i > 0)
            ft_buf_puts(&text, between);
        ft_buf_append(&text, json_string_value(piece), json_string_length(piece));
    }
    json_t *joined = text.failed ? NULL : json_stringn_nocheck(ft_buf_str(&text), text.len);
    ft_buf_deinit(&text);
    return json_object_set_new(object, "content", joined) == 0 ? FT_OK : out_of_memory(fail);
}

size_t ft_http_message_bytes(const ft_chat_message *m)
{
    size_t bytes = m->content ? strlen(m->content) : 0;
    bytes += m->reasoning ? strlen(m->reasoning) : 0;
    for (size_t i = 0; i < m->n_calls; i++)
        bytes += strlen(m->calls[i].arguments);
    return bytes;
}

/* A tool's name. */
static ft_status read_name(reader *r, json_t *v, const char *path, const char **out)
{
    *out = json_string_value(v);
    const size_t n = *out ? strspn(*out, NAME_CHARS) : 0;
    if (n == 0 || n > NAME_MAX_BYTES || n != json_string_length(v))
        return wrong(r, *out ? "invalid_value" : "invalid_type", path,
                     "a name of 1 to 128 letters, digits, '_', '-', '.' and ':'");
    return FT_OK;
}

/* ---- messages ---- */

/* The roles that a chat template knows. NULL: none of them. */
static const char *known_role(json_t *v)
{
    static const char *const roles[][2] = {{"system", "system"},
                                           {"developer", "system"}, /* its newer name */
                                           {"user", "user"},
                                           {"assistant", "assistant"},
                                           {"tool", "tool"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (is_string(v, roles[i][0]))
            return roles[i][1];
    return NULL;
}

static bool is_json_object(json_t *text)
{
    json_t *v = json_loadb(json_string_value(text), json_string_length(text), 0, NULL);
    const bool is = json_is_object(v);
    json_decref(v);
    return is;
}

static ft_status read_call(reader *r, json_t *v, const char *list, size_t i, ft_chat_call *out)
{
    char path[PATH_SIZE];
    json_t *function = json_object_get(v, "function"), *id = member(v, "id");
    json_t *arguments = json_object_get(function, "arguments");
    snprintf(path, sizeof path, "%.80s[%zu]", list, i);
    if (!json_is_object(function) || (id && !json_is_string(id)) ||
        (member(v, "type") && !is_string(member(v, "type"), "function")))
        return wrong(r, "invalid_type", path, "an object with 'id', 'type' and 'function'");
    snprintf(path, sizeof path, "%.80s[%zu].function.name", list, i);
    ft_status status = read_name(r, json_object_get(function, "name"), path, &out->name);
    if (status != FT_OK)
        return status;
    snprintf(path, sizeof path, "%.80s[%zu].function.arguments", list, i);
    if (json_is_string(arguments))
        status = ft_http_body_add(json_string_value(arguments), json_string_length(arguments), path,
                                  &r->arguments, r->fail);
    if (status != FT_OK)
        return status;
    if (!json_is_string(arguments) || !is_json_object(arguments))
        return wrong(r, json_is_string(arguments) ? "invalid_value" : "invalid_type", path,
                     "a string that is a JSON object");
    out->id = json_string_value(id);
    out->arguments = json_string_value(arguments);
    return FT_OK;
}

/* r->out->calls has room for all. */
static ft_status read_calls(reader *r, json_t *message, size_t i, ft_chat_message *m)
{
    char path[PATH_SIZE];
    json_t *calls = member(message, "tool_calls");
    ft_status status = FT_OK;
    snprintf(path, sizeof path, "messages[%zu].tool_calls", i);
    if (!calls || ft_http_is_empty(calls))
        return FT_OK;
    if (!json_is_array(calls) || strcmp(m->role, "assistant") != 0)
        return wrong(r, "invalid_type", path, "a list, of an assistant's message");
    m->calls = r->out->calls + r->n_calls;
    m->n_calls = json_array_size(calls);
    for (size_t k = 0; status == FT_OK && k < m->n_calls; k++)
        status = read_call(r, json_array_get(calls, k), path, k, &r->out->calls[r->n_calls++]);
    return status;
}

/* Of a tool's result: the call that it answers, and the tool's name. */
static ft_status read_result(reader *r, json_t *message, size_t i, ft_chat_message *m)
{
    char path[PATH_SIZE];
    json_t *id = member(message, "tool_call_id"), *name = member(message, "name");
    snprintf(path, sizeof path, "messages[%zu].tool_call_id", i);
    if (!json_is_string(id))
        return wrong(r, "invalid_type", path, "a string: the id of the call");
    m->call_id = json_string_value(id);
    snprintf(path, sizeof path, "messages[%zu].name", i);
    return name ? read_name(r, name, path, &m->name) : FT_OK;
}

static ft_status read_content(reader *r, json_t *message, size_t i, ft_chat_message *m)
{
    char path[PATH_SIZE];
    json_t *content = member(message, "content");
    const bool empty = !content || json_is_array(content); /* what has parts is joined */
    ft_status status = FT_OK;
    snprintf(path, sizeof path, "messages[%zu].content", i);
    if (json_array_size(content) > 0)
        status = ft_http_join_parts(message, path, "\n", r->fail);
    else if (!json_is_string(content) && !(m->n_calls > 0 && empty))
        status = wrong(r, "invalid_type", path, "a string or a list of text parts");
    m->content = json_string_value(json_object_get(message, "content"));
    return status;
}

/* What a client got as reasoning_content and sends back. The template decides what is shown. */
static ft_status read_reasoning(reader *r, json_t *message, size_t i, ft_chat_message *m)
{
    char path[PATH_SIZE];
    json_t *thought = member(message, "reasoning_content");
    snprintf(path, sizeof path, "messages[%zu].reasoning_content", i);
    if (!thought || strcmp(m->role, "assistant") != 0)
        return FT_OK;
    if (!json_is_string(thought))
        return wrong(r, "invalid_type", path, "a string");
    if (json_string_length(thought) > 0)
        m->reasoning = json_string_value(thought);
    return FT_OK;
}

static ft_status read_message(reader *r, json_t *v, size_t i)
{
    ft_chat_message *m = &r->out->messages[i];
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "messages[%zu]", i);
    if (!json_is_object(v))
        return wrong(r, "invalid_type", path, "an object with 'role' and 'content'");
    snprintf(path, sizeof path, "messages[%zu].role", i);
    m->role = known_role(json_object_get(v, "role"));
    if (!m->role)
        return wrong(r, "invalid_value", path,
                     "'system', 'developer', 'user', 'assistant' or 'tool'");
    ft_status status = read_calls(r, v, i, m);
    if (status == FT_OK && strcmp(m->role, "tool") == 0)
        status = read_result(r, v, i, m);
    if (status == FT_OK)
        status = read_reasoning(r, v, i, m);
    return status == FT_OK ? read_content(r, v, i, m) : status;
}

static ft_status read_messages(reader *r)
{
    ft_http_parsed *out = r->out;
    json_t *v = member(r->root, "messages");
    if (!v)
        return ft_http_fail_set(r->fail, 400, "missing_required_parameter", "messages",
                                "'messages' is missing: a chat completion needs at least one.");
    const size_t n = json_array_size(v);
    size_t n_calls = 0;
    if (!json_is_array(v) || n == 0)
        return wrong(r, "invalid_type", "messages", "a list of at least one message");
    for (size_t i = 0; i < n; i++)
        n_calls += json_array_size(json_object_get(json_array_get(v, i), "tool_calls"));
    out->messages = calloc(n, sizeof *out->messages);
    out->calls = calloc(n_calls + 1, sizeof *out->calls);
    if (!out->messages || !out->calls)
        return out_of_memory(r->fail);
    out->request.conversation.messages = out->messages;
    out->request.conversation.n_messages = n;
    out->n_prompts = 1;
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = read_message(r, json_array_get(v, i), i);
    return status;
}

/* ---- tools ---- */

static ft_status read_tool(reader *r, json_t *v, size_t i)
{
    ft_chat_tool *tool = &r->out->tools[i];
    json_t *function = json_object_get(v, "function");
    json_t *description = member(function, "description");
    json_t *parameters = member(function, "parameters");
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "tools[%zu]", i);
    if (!is_string(json_object_get(v, "type"), "function") || !json_is_object(function))
        return wrong(r, "invalid_value", path, "{\"type\":\"function\",\"function\":{...}}");
    snprintf(path, sizeof path, "tools[%zu].function.name", i);
    ft_status status = read_name(r, json_object_get(function, "name"), path, &tool->name);
    for (size_t k = 0; status == FT_OK && k < i; k++)
        if (strcmp(r->out->tools[k].name, tool->name) == 0)
            status = wrong(r, "invalid_value", path, "a name that no other tool has");
    if (status != FT_OK)
        return status;
    snprintf(path, sizeof path, "tools[%zu].function.description", i);
    if (description && !json_is_string(description))
        return wrong(r, "invalid_type", path, "a string");
    tool->description = json_string_value(description);
    snprintf(path, sizeof path, "tools[%zu].function.parameters", i);
    if (!parameters)
        return FT_OK;
    if (!json_is_object(parameters))
        return wrong(r, "invalid_type", path, "an object: a JSON schema");
    char *text = json_dumps(parameters, 0); /* kept in its place, as text */
    json_t *kept = text ? json_string_nocheck(text) : NULL;
    free(text);
    if (json_object_set_new(function, "parameters", kept) != 0)
        return out_of_memory(r->fail);
    tool->parameters = json_string_value(kept);
    return FT_OK;
}

/* A call that the model must make, of a tool by its name. */
static ft_status read_named_choice(reader *r, json_t *choice, ft_chat *chat)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (!is_string(json_object_get(choice, "type"), "function") || !name)
        return wrong(r, "invalid_value", "tool_choice",
                     "\"none\", \"auto\", \"required\" or "
                     "{\"type\":\"function\",\"function\":{\"name\":...}}");
    chat->choice = FT_CHAT_CHOICE_REQUIRED;
    for (size_t i = 0; i < chat->n_tools; i++)
        if (strcmp(chat->tools[i].name, name) == 0)
            chat->choice_tool = &chat->tools[i];
    return chat->choice_tool ? FT_OK
                             : wrong(r, "invalid_value", "tool_choice.function.name",
                                     "the name of one of the tools");
}

static ft_status read_choice(reader *r, ft_chat *chat)
{
    json_t *choice = member(r->root, "tool_choice"), *many = member(r->root, "parallel_tool_calls");
    chat->parallel_calls = !json_is_false(many);
    if (many && !json_is_boolean(many))
        return wrong(r, "invalid_type", "parallel_tool_calls", "true or false");
    if (!choice || is_string(choice, "auto"))
        return FT_OK;
    chat->choice = is_string(choice, "none") ? FT_CHAT_CHOICE_NONE : FT_CHAT_CHOICE_REQUIRED;
    if (chat->choice == FT_CHAT_CHOICE_NONE)
        return FT_OK;
    if (r->out->request.constraint.kind != FT_CONSTRAINT_NONE)
        return ft_http_fail_set(
            r->fail, 400, "invalid_value", "tool_choice",
            "'tool_choice' and '%s' both say what the answer must be: give one.",
            r->out->request.constraint_field);
    if (!is_string(choice, "required"))
        return read_named_choice(r, choice, chat);
    return chat->n_tools > 0 ? FT_OK
                             : wrong(r, "invalid_value", "tool_choice",
                                     "\"none\" or \"auto\" where there are no tools");
}

static ft_status read_tools(reader *r)
{
    ft_chat *chat = &r->out->request.conversation;
    json_t *tools = member(r->root, "tools");
    const size_t n = json_array_size(tools);
    ft_status status = FT_OK;
    if (tools && !ft_http_is_empty(tools) && (n == 0 || n > FT_HTTP_TOOLS_MAX))
        return wrong(r, "invalid_type", "tools", "a list of at most 512 tools");
    r->out->tools = calloc(n + 1, sizeof *r->out->tools);
    if (!r->out->tools)
        return out_of_memory(r->fail);
    chat->tools = r->out->tools;
    chat->n_tools = n;
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = read_tool(r, json_array_get(tools, i), i);
    return status == FT_OK ? read_choice(r, chat) : status;
}

/* ---- the template's variables ---- */

/* Variables that the template has from elsewhere. */
static bool is_taken(const char *name)
{
    static const char *const taken[] = {"messages", "tools", "bos_token", "eos_token",
                                        "add_generation_prompt"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i], name) == 0)
            return true;
    return false;
}

static ft_status read_template_args(reader *r)
{
    ft_chat *chat = &r->out->request.conversation;
    json_t *args = member(r->root, "chat_template_kwargs"), *v;
    json_t *effort = member(r->root, "reasoning_effort");
    const char *name;
    if (args && !json_is_object(args))
        return wrong(r, "invalid_type", "chat_template_kwargs", "an object");
    json_object_foreach(args, name, v)
    {
        if (is_taken(name))
            return wrong(r, "invalid_value", "chat_template_kwargs",
                         "an object of further variables, not messages or tokens");
    }
    if (json_object_size(args) > 0 && !(r->out->template_args = json_dumps(args, 0)))
        return out_of_memory(r->fail);
    chat->template_args = r->out->template_args;
    if (!effort)
        return FT_OK;
    if (!json_is_string(effort))
        return wrong(r, "invalid_type", "reasoning_effort", "a string");
    chat->reasoning_effort = json_string_value(effort);
    const size_t n = strspn(chat->reasoning_effort, "abcdefghijklmnopqrstuvwxyz");
    if (n == 0 || n > 16 || n != json_string_length(effort))
        return wrong(r, "invalid_value", "reasoning_effort",
                     "a word like 'low', 'medium' or 'high'");
    return FT_OK;
}

ft_status ft_http_chat_read(json_t *root, ft_http_fail *fail, ft_http_parsed *out)
{
    reader r = {.root = root, .fail = fail, .out = out};
    ft_status status = read_messages(&r);
    if (status == FT_OK)
        status = read_tools(&r);
    return status == FT_OK ? read_template_args(&r) : status;
}
