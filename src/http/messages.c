// SPDX-License-Identifier: Apache-2.0
// Requests of Anthropic's Messages API. Messages of one role that follow each other are one, as
// that API has it. What a model thought earlier is left out, as chat templates do. `cache_control`
// is not looked at: the prefix cache needs no marks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/dialect.h"
#include "http/json.h"
#include "http/think.h"
#include "http/unsupported.h"

#define NULL_ "[]"

/* Read here, or ignored. */
static const char *const own[] = {"system",
                                  "stop_sequences",
                                  "thinking",
                                  "output_config",
                                  "tool_choice",
                                  "metadata",
                                  "diagnostics",
                                  "service_tier",
                                  "context_management",
                                  "inference_geo",
                                  "cache_control",
                                  "container",
                                  NULL};

static const ft_http_restricted restricted[] = {
    {"max_completion_tokens", NULL_, "null: 'max_tokens' is its name here"},
    {"stop", NULL_, "null: 'stop_sequences' is its name here"},
    {"response_format", NULL_, "null: 'output_config.format' is its name here"},
    {"output_format", NULL_, "null: 'output_config.format' is its newer name"},
    {"reasoning_effort", NULL_, "null: 'output_config.effort' is its name here"},
    {"stream_options", NULL_, "null"},
    {"container", NULL_, "null"},
    {"mcp_servers", "[[]]", "an empty list"},
    {"speed", "[\"standard\"]", "\"standard\""},
    {"n", "[1]", "1"},
    {"logprobs", "[false]", "false"},
    {"top_logprobs", "[0]", "0"},
};

static const ft_http_renamed renamed[] = {{"stop", "stop_sequences"},
                                          {"response_format.json_schema", "output_config.format"},
                                          {"response_format", "output_config.format"},
                                          {"reasoning_effort", "output_config.effort"},
                                          {NULL, NULL}};

/* NULL where the field is absent or null. */
static json_t *field(json_t *object, const char *name)
{
    json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

static bool is(json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static ft_status wrong(ft_http_translation *t, const char *name, const char *expected)
{
    return ft_http_fail_set(t->fail, 400, "invalid_type", name, "'%s' must be %s.", name, expected);
}

static ft_status unsupported(ft_http_translation *t, const char *name, const char *why)
{
    return ft_http_fail_set(t->fail, 400, "unsupported_parameter", name,
                            "'%s' is unsupported by this server: %s.", name, why);
}

/* ---- messages ---- */

static const char *const text_types[] = {"text", NULL};

/* The content of a message. */
typedef struct blocks {
    const char *role, *path;
    json_t *list;   /* borrowed */
    json_t *parts;  /* text: owned */
    size_t n_tools; /* calls, or results */
} blocks;

/* The call of a tool, which is behind the message's text. */
static ft_status add_call(ft_http_translation *t, json_t *block, const char *path)
{
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
           *input = json_object_get(block, "input");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_object(input))
        return wrong(t, path, "a tool_use with 'id', 'name' and 'input', an object");
    char *text = json_dumps(input, JSON_COMPACT);
    json_t *arguments = text ? json_string_nocheck(text) : NULL;
    free(text);
    return ft_http_translate_call(t, id, name, arguments);
}

/* The result of a tool, which is before the message's text. Whether the call failed, its text
 * says. */
static ft_status add_result(ft_http_translation *t, json_t *block, const char *path)
{
    json_t *id = json_object_get(block, "tool_use_id"), *content = field(block, "content"), *parts;
    if (!json_is_string(id))
        return wrong(t, path, "a tool_result with 'tool_use_id'");
    parts = json_array();
    ft_status status = parts ? FT_OK : ft_http_translate_nomem(t);
    if (status == FT_OK && content)
        status = ft_http_translate_text(t, content, path, text_types, parts);
    if (status == FT_OK)
        return ft_http_translate_result(t, id, parts);
    json_decref(parts);
    return status;
}

/* Adds all blocks of one kind: texts, which make one message, or calls or results. */
static ft_status add_blocks(ft_http_translation *t, blocks *b, bool tools)
{
    const bool assistant = strcmp(b->role, "assistant") == 0;
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < json_array_size(b->list); i++) {
        json_t *block = json_array_get(b->list, i), *type = json_object_get(block, "type");
        char path[64];
        snprintf(path, sizeof path, "%s[%zu]", b->path, i);
        const bool call = assistant && is(type, "tool_use"),
                   result = strcmp(b->role, "user") == 0 && is(type, "tool_result"),
                   thought = is(type, "thinking") || is(type, "redacted_thinking");
        b->n_tools += !tools && (call || result);
        if (tools && (call || result))
            status = call ? add_call(t, block, path) : add_result(t, block, path);
        else if (!tools && !call && !result && !thought)
            status = ft_http_translate_part(t, b->list, i, b->path, text_types, b->parts);
    }
    return status;
}

static ft_status add_content(ft_http_translation *t, const char *role, json_t *content,
                             const char *path)
{
    blocks b = {.role = role, .path = path, .list = content, .parts = json_array()};
    const bool assistant = strcmp(role, "assistant") == 0;
    ft_status status = b.parts ? FT_OK : ft_http_translate_nomem(t);
    if (status == FT_OK && !json_is_array(content))
        status = ft_http_translate_text(t, content, path, text_types, b.parts);
    else if (status == FT_OK)
        status = add_blocks(t, &b, false);
    if (status == FT_OK && !assistant)
        status = add_blocks(t, &b, true);
    if (status == FT_OK && (b.n_tools == 0 || json_array_size(b.parts) > 0))
        status = ft_http_translate_message(t, role, json_incref(b.parts), true);
    if (status == FT_OK && assistant)
        status = add_blocks(t, &b, true);
    json_decref(b.parts);
    return status;
}

static ft_status add_message(ft_http_translation *t, json_t *message, size_t i)
{
    char path[48];
    json_t *role = json_object_get(message, "role");
    snprintf(path, sizeof path, "messages[%zu]", i);
    if (!json_is_object(message))
        return wrong(t, path, "an object with 'role' and 'content'");
    snprintf(path, sizeof path, "messages[%zu].role", i);
    if (!is(role, "user") && !is(role, "assistant") && !is(role, "system"))
        return ft_http_fail_set(t->fail, 400, "invalid_value", path,
                                "'%s' must be 'user', 'assistant' or 'system'.", path);
    snprintf(path, sizeof path, "messages[%zu].content", i);
    return add_content(t, json_string_value(role), json_object_get(message, "content"), path);
}

static ft_status read_messages(ft_http_translation *t)
{
    json_t *system = field(t->root, "system"), *messages = field(t->root, "messages");
    const size_t n = json_array_size(messages);
    ft_status status = FT_OK;
    if (!messages)
        return ft_http_fail_set(t->fail, 400, "missing_required_parameter", "messages",
                                "'messages' is missing: at least one is needed.");
    if (n == 0)
        return wrong(t, "messages", "a list of at least one message");
    if (is(json_object_get(json_array_get(messages, n - 1), "role"), "assistant"))
        return unsupported(t, "messages",
                           "the last message must be of the user, as an answer cannot go on in "
                           "the assistant's words");
    if (system)
        status = add_content(t, "system", system, "system");
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = add_message(t, json_array_get(messages, i), i);
    return status;
}

/* ---- other fields ---- */

static ft_status read_stops(ft_http_translation *t)
{
    json_t *stops = field(t->root, "stop_sequences");
    if (stops && !json_is_array(stops))
        return wrong(t, "stop_sequences", "a list of strings");
    return stops ? ft_http_translate_set(t, "stop", json_incref(stops)) : FT_OK;
}

/* A model that has marks for its thoughts thinks; how much, nobody tells it. With `adaptive` it may
 * think or not. */
static ft_status check_thinking(ft_http_translation *t)
{
    json_t *thinking = field(t->root, "thinking"), *type = json_object_get(thinking, "type"),
           *display = field(thinking, "display");
    if (thinking && !json_is_object(thinking))
        return wrong(t, "thinking", "an object with 'type'");
    if (!thinking || is(type, "disabled"))
        return FT_OK;
    if (!is(type, "enabled") && !is(type, "adaptive"))
        return unsupported(t, "thinking.type",
                           "only 'enabled', 'adaptive' and 'disabled' are known");
    if (display && !is(display, "summarized"))
        return unsupported(t, "thinking.display", "thoughts are shown as they are");
    if (is(type, "enabled") && !ft_http_think_marked(t->model->chat_template))
        return unsupported(t, "thinking", "this model has no marks for its thoughts");
    return FT_OK;
}

/* What would be left out of the prompt: thoughts, which are in none; nothing else. */
static ft_status check_context_management(ft_http_translation *t)
{
    json_t *edits = json_object_get(field(t->root, "context_management"), "edits");
    for (size_t i = 0; i < json_array_size(edits); i++) {
        json_t *type = json_object_get(json_array_get(edits, i), "type");
        if (!json_is_string(type) || strncmp(json_string_value(type), "clear_thinking_", 15) != 0)
            return unsupported(t, "context_management", "only thoughts are left out of prompts");
    }
    return FT_OK;
}

/* The effort `high` is that API's name for what a model does by itself. */
static ft_status read_output_config(ft_http_translation *t)
{
    json_t *config = field(t->root, "output_config"), *effort = field(config, "effort"),
           *format = field(config, "format");
    ft_status status = FT_OK;
    if (config && !json_is_object(config))
        return wrong(t, "output_config", "an object");
    if (format && !is(json_object_get(format, "type"), "json_schema"))
        return wrong(t, "output_config.format", "an object of type 'json_schema'");
    if (effort && !is(effort, "high"))
        status = ft_http_translate_set(t, "reasoning_effort", json_incref(effort));
    if (status == FT_OK && format)
        status = ft_http_translate_set(t, "response_format",
                                       json_pack("{s:s,s:{s:s,s:O*}}", "type", "json_schema",
                                                 "json_schema", "name", "answer", "schema",
                                                 json_object_get(format, "schema")));
    return status;
}

/* Tools of other types run at Anthropic, or are known to its models alone. */
static ft_status read_tools(ft_http_translation *t)
{
    json_t *tools = field(t->root, "tools"), *ours;
    ft_status status = FT_OK;
    if (tools && !json_is_array(tools))
        return wrong(t, "tools", "a list");
    ours = json_array();
    for (size_t i = 0; status == FT_OK && i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i), *type = field(tool, "type");
        char path[40];
        snprintf(path, sizeof path, "tools[%zu].type", i);
        if (type && !is(type, "custom"))
            status = unsupported(t, path, "only tools of type 'custom' are known");
        else
            status = ft_http_translate_tool(t, tool, "input_schema", ours);
    }
    if (status == FT_OK)
        return ft_http_translate_set(t, "tools", ours);
    json_decref(ours);
    return status;
}

static ft_status read_tool_choice(ft_http_translation *t)
{
    static const char *const words[][2] = {{"auto", "auto"}, {"none", "none"}, {"any", "required"}};
    json_t *choice = field(t->root, "tool_choice"), *type = json_object_get(choice, "type"),
           *name = json_object_get(choice, "name"), *chosen = NULL;
    ft_status status = FT_OK;
    if (!choice)
        return FT_OK;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(type, words[i][0]))
            chosen = json_string(words[i][1]);
    if (is(type, "tool") && json_is_string(name))
        chosen = json_pack("{s:s,s:{s:O}}", "type", "function", "function", "name", name);
    if (!chosen)
        return wrong(t, "tool_choice",
                     "'auto', 'none', 'any' or 'tool' with a 'name', in an object");
    if (json_is_true(json_object_get(choice, "disable_parallel_tool_use")))
        status = ft_http_translate_set(t, "parallel_tool_calls", json_false());
    if (status == FT_OK)
        return ft_http_translate_set(t, "tool_choice", chosen);
    json_decref(chosen);
    return status;
}

static ft_status translate_count(ft_http_translation *t)
{
    ft_status status;
    if ((status = ft_http_refuse_restricted(
             t->root, restricted, sizeof restricted / sizeof *restricted, t->fail)) != FT_OK ||
        (status = check_context_management(t)) != FT_OK || (status = read_stops(t)) != FT_OK ||
        (status = check_thinking(t)) != FT_OK || (status = read_output_config(t)) != FT_OK ||
        (status = read_tools(t)) != FT_OK || (status = read_tool_choice(t)) != FT_OK)
        return status;
    return read_messages(t);
}

static ft_status translate(ft_http_translation *t)
{
    if (!field(t->root, "max_tokens"))
        return ft_http_fail_set(t->fail, 400, "missing_required_parameter", "max_tokens",
                                "'max_tokens' is missing.");
    return translate_count(t);
}

/* ---- errors ---- */

static const char *type_of(int http)
{
    static const struct {
        int http;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"},
                 {404, "not_found_error"},      {413, "request_too_large"},
                 {429, "rate_limit_error"},     {503, "overloaded_error"},
                 {504, "timeout_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].http == http)
            return types[i].type;
    return http >= 500 ? "api_error" : "invalid_request_error";
}

/* `param` and `code` are ours: that API has no place for a field's name. */
static ft_status fail_json(const ft_http_fail *fail, ft_buf *out)
{
    json_t *param = fail->param[0] ? ft_http_json_text(fail->param, strlen(fail->param)) : NULL;
    json_t *message = ft_http_json_text(fail->message, strlen(fail->message));
    return ft_http_json_append(json_pack("{s:s,s:{s:s,s:o,s:o*,s:s*},s:n}", "type", "error",
                                         "error", "type", type_of(fail->http), "message", message,
                                         "param", param, "code", fail->code, "request_id"),
                               out);
}

/* ---- counting ---- */

ft_status ft_http_count_tokens_answer(const ft_http_backend *backend, const ft_http_model *model,
                                      const char *body, size_t n, ft_http_fail *fail, json_t **out)
{
    ft_http_parsed parsed;
    ft_error err = {0};
    int32_t *tokens = NULL;
    size_t n_tokens = 0;
    *out = NULL;
    if (ft_http_dialect_parse(&ft_http_messages_count, body, n, model, fail, &parsed) != FT_OK)
        return FT_INVALID;
    ft_status status =
        backend->tokenize(backend->ctx, &parsed.request, false, &err, &tokens, &n_tokens);
    if (status == FT_OK)
        *out = json_pack("{s:I}", "input_tokens", (json_int_t)n_tokens);
    if (!*out)
        ft_http_fail_from(fail, status == FT_OK ? FT_NOMEM : status, &err);
    free(tokens);
    ft_http_parsed_deinit(&parsed);
    return *out ? FT_OK : FT_INVALID;
}

#define COMMON                                                                            \
    .text = "messages", .own = own, .renamed = renamed, .shape = &ft_http_messages_shape, \
    .fail = fail_json, .keep_alive = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
const ft_http_dialect ft_http_messages = {COMMON, .translate = translate};
const ft_http_dialect ft_http_messages_count = {COMMON, .translate = translate_count};
#undef COMMON
