// SPDX-License-Identifier: Apache-2.0
// Requests of OpenAI's Responses API. Nothing is stored: each request brings its whole text, and
// what names something stored is refused. What a model thought earlier (items of type `reasoning`)
// is left out, as chat templates do. How an answer is cached, billed and traced changes no text:
// ignored.
#include <stdio.h>
#include <string.h>

#include "http/dialect.h"
#include "http/unsupported.h"

#define NULL_ "[]"

/* Read here, or ignored. */
static const char *const own[] = {
    "input",     "instructions",   "max_output_tokens", "text",
    "reasoning", "include",        "stream_options", /* obfuscation, which nothing needs here */
    "store",     "max_tool_calls",                   /* of tools that the server runs: none */
    NULL};

static const ft_http_restricted restricted[] = {
    {"previous_response_id", NULL_, "null: nothing is stored, send the whole conversation"},
    {"conversation", NULL_, "null: nothing is stored, send the whole conversation"},
    {"prompt", NULL_, "null"},
    {"background", "[false]", "false"},
    {"truncation", "[\"disabled\"]", "\"disabled\""},
    {"context_management", "[[]]", "an empty list"},
    {"moderation", NULL_, "null"},
    {"messages", NULL_, "null: 'input' is its name here"},
    {"max_tokens", NULL_, "null: 'max_output_tokens' is its name here"},
    {"max_completion_tokens", NULL_, "null: 'max_output_tokens' is its name here"},
    {"response_format", NULL_, "null: 'text.format' is its name here"},
    {"verbosity", NULL_, "null: 'text.verbosity' is its name here"},
    {"reasoning_effort", NULL_, "null: 'reasoning.effort' is its name here"},
    {"n", "[1]", "1"},
    {"logprobs", "[false]", "false"},
    {"top_logprobs", "[0]", "0"},
};

static const ft_http_renamed renamed[] = {{"messages", "input"},
                                          {"max_completion_tokens", "max_output_tokens"},
                                          {"response_format.json_schema", "text.format"},
                                          {"response_format", "text.format"},
                                          {"verbosity", "text.verbosity"},
                                          {"reasoning_effort", "reasoning.effort"},
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

static ft_status unsupported(ft_http_translation *t, const char *name, const char *only)
{
    return ft_http_fail_set(t->fail, 400, "unsupported_parameter", name,
                            "'%s' is unsupported by this server: leave it out (only %s is "
                            "accepted).",
                            name, only);
}

/* Copies a member of an object to a field of the chat. */
static ft_status copy(ft_http_translation *t, json_t *object, const char *from, const char *to)
{
    json_t *v = field(object, from);
    return v ? ft_http_translate_set(t, to, json_incref(v)) : FT_OK;
}

/* ---- input ---- */

static ft_status add_text(ft_http_translation *t, const char *role, json_t *content,
                          const char *path)
{
    static const char *const types[] = {"input_text", "output_text", "text", NULL};
    json_t *parts = json_array();
    if (!parts)
        return ft_http_translate_nomem(t);
    const ft_status status = ft_http_translate_text(t, content, path, types, parts);
    if (status != FT_OK) {
        json_decref(parts);
        return status;
    }
    /* instructions and the system messages behind them are one: many templates take only one */
    const bool system = strcmp(role, "system") == 0;
    return ft_http_translate_message(t, role, parts, system && json_array_size(t->messages) == 1);
}

static ft_status add_message(ft_http_translation *t, json_t *item, size_t i)
{
    static const char *const roles[][2] = {{"user", "user"},
                                           {"assistant", "assistant"},
                                           {"system", "system"},
                                           {"developer", "system"}};
    char path[48];
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        if (is(json_object_get(item, "role"), roles[r][0])) {
            snprintf(path, sizeof path, "input[%zu].content", i);
            return add_text(t, roles[r][1], json_object_get(item, "content"), path);
        }
    snprintf(path, sizeof path, "input[%zu].role", i);
    return ft_http_fail_set(t->fail, 400, "invalid_value", path,
                            "'%s' must be 'user', 'assistant', 'system' or 'developer'.", path);
}

/* A member of item i that must be a string; NULL: it is none, and t->fail says so. */
static json_t *string_of(ft_http_translation *t, json_t *item, const char *name, size_t i)
{
    char path[48];
    json_t *v = json_object_get(item, name);
    if (json_is_string(v))
        return v;
    snprintf(path, sizeof path, "input[%zu].%s", i, name);
    (void)wrong(t, path, "a string");
    return NULL;
}

static ft_status add_call(ft_http_translation *t, json_t *item, size_t i)
{
    json_t *id = string_of(t, item, "call_id", i),
           *name = id ? string_of(t, item, "name", i) : NULL,
           *arguments = name ? string_of(t, item, "arguments", i) : NULL;
    char path[48];
    ft_http_sizes sizes = {0};
    if (!arguments)
        return FT_INVALID;
    snprintf(path, sizeof path, "input[%zu].arguments", i);
    if (ft_http_body_add(json_string_value(arguments), json_string_length(arguments), path, &sizes,
                         t->fail) != FT_OK)
        return FT_INVALID;
    json_t *parsed = json_loads(json_string_value(arguments), JSON_REJECT_DUPLICATES, NULL);
    const bool object = json_is_object(parsed);
    json_decref(parsed);
    return object ? ft_http_translate_call(t, id, name, json_incref(arguments))
                  : wrong(t, path, "a JSON object, as a string");
}

static ft_status add_output(ft_http_translation *t, json_t *item, size_t i)
{
    static const char *const types[] = {"input_text", "output_text", NULL};
    char path[48];
    json_t *id = string_of(t, item, "call_id", i), *parts = id ? json_array() : NULL;
    if (!parts)
        return id ? ft_http_translate_nomem(t) : FT_INVALID;
    snprintf(path, sizeof path, "input[%zu].output", i);
    const ft_status status =
        ft_http_translate_text(t, json_object_get(item, "output"), path, types, parts);
    if (status == FT_OK)
        return ft_http_translate_result(t, id, parts);
    json_decref(parts);
    return status;
}

static ft_status add_item(ft_http_translation *t, json_t *item, size_t i)
{
    char path[48];
    json_t *type = field(item, "type");
    snprintf(path, sizeof path, "input[%zu]", i);
    if (!json_is_object(item))
        return wrong(t, path, "an object");
    if (!type || is(type, "message"))
        return add_message(t, item, i);
    if (is(type, "reasoning"))
        return FT_OK;
    if (is(type, "function_call"))
        return add_call(t, item, i);
    if (is(type, "function_call_output"))
        return add_output(t, item, i);
    snprintf(path, sizeof path, "input[%zu].type", i);
    return ft_http_fail_set(t->fail, 400, "unsupported_content", path,
                            "'%s': items of type '%.40s' are unsupported by this server (messages, "
                            "reasoning, function calls and their outputs are accepted).",
                            path, json_is_string(type) ? json_string_value(type) : "?");
}

static ft_status read_input(ft_http_translation *t)
{
    json_t *input = field(t->root, "input"), *instructions = field(t->root, "instructions");
    const size_t n = json_array_size(input);
    ft_status status = FT_OK;
    if (!input)
        return ft_http_fail_set(t->fail, 400, "missing_required_parameter", "input",
                                "'input' is missing.");
    if (!json_is_string(input) && n == 0)
        return wrong(t, "input", "a string or a list of at least one item");
    if (instructions && !json_is_string(instructions))
        return wrong(t, "instructions", "a string");
    if (instructions)
        status = add_text(t, "system", instructions, "instructions");
    if (status == FT_OK && json_is_string(input))
        status = add_text(t, "user", input, "input");
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = add_item(t, json_array_get(input, i), i);
    if (status == FT_OK && json_array_size(t->messages) == 0)
        return wrong(t, "input", "a list with at least one message");
    return status;
}

/* ---- the form of the answer ---- */

/* {"type", "name", "schema", ...} -> {"type", "json_schema": {"schema"}}: the rest says nothing */
static ft_status read_format(ft_http_translation *t, json_t *format)
{
    if (!json_is_object(format))
        return wrong(t, "text.format", "an object with 'type'");
    if (!is(json_object_get(format, "type"), "json_schema"))
        return ft_http_translate_set(t, "response_format", json_incref(format));
    return ft_http_translate_set(t, "response_format",
                                 json_pack("{s:s,s:{s:O*}}", "type", "json_schema", "json_schema",
                                           "schema", json_object_get(format, "schema")));
}

static ft_status read_text_options(ft_http_translation *t)
{
    json_t *text = field(t->root, "text"), *format = field(text, "format");
    ft_status status = FT_OK;
    if (text && !json_is_object(text))
        return wrong(t, "text", "an object");
    if (format)
        status = read_format(t, format);
    return status == FT_OK ? copy(t, text, "verbosity", "verbosity") : status;
}

/* A summary as long as the server likes is none. */
static ft_status check_summary(ft_http_translation *t, json_t *reasoning, const char *name)
{
    json_t *v = field(reasoning, strchr(name, '.') + 1);
    return !v || is(v, "auto") ? FT_OK : unsupported(t, name, "\"auto\"");
}

static ft_status read_reasoning(ft_http_translation *t)
{
    json_t *reasoning = field(t->root, "reasoning");
    if (reasoning && !json_is_object(reasoning))
        return wrong(t, "reasoning", "an object");
    ft_status status = check_summary(t, reasoning, "reasoning.summary");
    if (status == FT_OK)
        status = check_summary(t, reasoning, "reasoning.generate_summary");
    return status == FT_OK ? copy(t, reasoning, "effort", "reasoning_effort") : status;
}

/* Of what may be included we have nothing but log-probabilities, and those have no place yet. */
static ft_status check_include(ft_http_translation *t)
{
    json_t *include = field(t->root, "include");
    if (include && !json_is_array(include))
        return wrong(t, "include", "a list of strings");
    for (size_t i = 0; i < json_array_size(include); i++)
        if (is(json_array_get(include, i), "message.output_text.logprobs"))
            return unsupported(t, "include", "what has no log-probabilities");
    return FT_OK;
}

/* ---- tools ---- */

/* Tools that the server would run itself, and those of other kinds, are skipped. */
static ft_status read_tools(ft_http_translation *t)
{
    json_t *tools = field(t->root, "tools"), *ours;
    ft_status status = FT_OK;
    if (tools && !json_is_array(tools))
        return wrong(t, "tools", "a list");
    ours = json_array();
    for (size_t i = 0; status == FT_OK && i < json_array_size(tools); i++)
        if (is(json_object_get(json_array_get(tools, i), "type"), "function"))
            status = ft_http_translate_tool(t, json_array_get(tools, i), "parameters", ours);
    if (status == FT_OK)
        return ft_http_translate_set(t, "tools", ours);
    json_decref(ours);
    return status;
}

/* {"type": "function", "name"} -> {"type", "function": {"name"}}; words stay. */
static ft_status read_tool_choice(ft_http_translation *t)
{
    json_t *choice = field(t->root, "tool_choice"), *name = json_object_get(choice, "name");
    if (!choice || json_is_string(choice))
        return FT_OK;
    if (!is(json_object_get(choice, "type"), "function") || !json_is_string(name))
        return unsupported(t, "tool_choice", "a word or the name of a function");
    return ft_http_translate_set(
        t, "tool_choice", json_pack("{s:s,s:{s:O}}", "type", "function", "function", "name", name));
}

static ft_status translate(ft_http_translation *t)
{
    ft_status status;
    if ((status = ft_http_refuse_restricted(
             t->root, restricted, sizeof restricted / sizeof *restricted, t->fail)) != FT_OK ||
        (status = read_text_options(t)) != FT_OK || (status = read_reasoning(t)) != FT_OK ||
        (status = check_include(t)) != FT_OK || (status = read_tools(t)) != FT_OK ||
        (status = read_tool_choice(t)) != FT_OK ||
        (status = copy(t, t->root, "max_output_tokens", "max_completion_tokens")) != FT_OK)
        return status;
    return read_input(t);
}

const ft_http_dialect ft_http_responses = {.text = "input",
                                           .own = own,
                                           .renamed = renamed,
                                           .translate = translate,
                                           .shape = &ft_http_responses_shape,
                                           .keep_alive = ": waiting\n\n"};
