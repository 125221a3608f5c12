// SPDX-License-Identifier: Apache-2.0
// The Responses and Messages APIs over a real socket: their requests become chats, or are refused
// by the name of the field; their answers, whole and streamed, with thoughts, cut, broken, silent.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <jansson.h>

#include "http/dialect.h"
#include "http/openai.h"
#include "support/http_backend.h"
#include "support/http_client.h"

#define RESPONSES "/v1/responses"
#define MESSAGES  "/v1/messages"

static http_backend backend;
static ft_http *http;
static int port;

static int setup(void **state)
{
    ft_error err = {0};
    http_backend_init(&backend);
    const ft_http_opts opts = {
        .backend = http_backend_of(&backend), .refusal_ms = 1, .keep_alive_ms = 10};
    if (ft_http_create(&opts, &err, &http) != FT_OK) {
        print_error("%s\n", err.message);
        return -1;
    }
    port = ft_http_port(http);
    return 0;
}

static int teardown(void **state)
{
    ft_http_destroy(http);
    http_backend_deinit(&backend);
    return 0;
}

/* ---- requests ---- */

static ft_status parse(const ft_http_dialect *dialect, const char *body, ft_http_fail *fail,
                       ft_http_parsed *out)
{
    const ft_http_model model = {.id = "m", .text_bytes = 4096, .n_vocab = 100};
    char *copy = malloc(strlen(body)); /* exact, so that a read past its end is caught */
    assert_non_null(copy);
    memcpy(copy, body, strlen(body));
    const ft_status status = ft_http_dialect_parse(dialect, copy, strlen(body), &model, fail, out);
    free(copy);
    return status;
}

/* A good request; its messages as "role:content|..." */
static ft_http_parsed *good(const ft_http_dialect *dialect, const char *body, const char *chat)
{
    static ft_http_parsed p;
    ft_http_fail fail;
    ft_buf all = {0};
    if (parse(dialect, body, &fail, &p) != FT_OK)
        fail_msg("%s: %s", body, fail.message);
    assert_true(p.request.chat && p.dialect == dialect && p.n_texts == 1);
    for (size_t i = 0; i < p.request.conversation.n_messages; i++)
        ft_buf_printf(&all, "%s:%s|", p.request.conversation.messages[i].role,
                      p.request.conversation.messages[i].content);
    assert_string_equal(ft_buf_str(&all), chat);
    ft_buf_deinit(&all);
    return &p;
}

static void test_responses_requests(void **state)
{
    const ft_http_dialect *d = &ft_http_responses;
    ft_http_parsed *p = good(d,
                             "{\"input\":\"hi\",\"instructions\":\"be brief\",\"stream\":true,"
                             "\"max_output_tokens\":9,\"temperature\":0.5,\"top_p\":0.25,"
                             "\"seed\":7,\"top_k\":3,\"store\":true,\"metadata\":{\"a\":\"b\"},"
                             "\"include\":[\"reasoning.encrypted_content\"],"
                             "\"stream_options\":{\"include_obfuscation\":false},"
                             "\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"},"
                             "\"reasoning\":{\"summary\":\"auto\",\"effort\":null},"
                             "\"tools\":[{\"type\":\"web_search\"},{\"type\":\"local_shell\"}],"
                             "\"tool_choice\":\"auto\",\"previous_response_id\":null}",
                             "system:be brief|user:hi|");
    assert_true(p->stream && p->request.temperature == 0.5f && p->request.top_p == 0.25f);
    assert_int_equal(p->request.max_tokens, 9);
    assert_true(p->request.has_seed && p->request.seed == 7 && p->request.top_k == 3);
    ft_http_parsed_deinit(p);
    /* system messages at the beginning are one; an answer's items come back */
    p = good(d,
             "{\"instructions\":\"a\",\"input\":[{\"role\":\"developer\",\"content\":\"b\"},"
             "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
             "\"text\":\"c\"},{\"type\":\"input_text\",\"text\":\"d\"}]},"
             "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]},"
             "{\"type\":\"message\",\"role\":\"assistant\",\"id\":\"msg_1\","
             "\"status\":\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"e\","
             "\"annotations\":[]}]},{\"role\":\"user\",\"content\":[]},"
             "{\"role\":\"user\",\"content\":\"f\"}]}",
             "system:a\nb|user:c\nd|assistant:e|user:|user:f|");
    ft_http_parsed_deinit(p);
}

/* Calls and results, as "id:name(arguments)" and "id=content". */
static void calls_of(const ft_http_parsed *p, ft_buf *out)
{
    const ft_chat *chat = &p->request.conversation;
    for (size_t i = 0; i < chat->n_messages; i++) {
        const ft_chat_message *m = &chat->messages[i];
        for (size_t k = 0; k < m->n_calls; k++)
            ft_buf_printf(out, "%s:%s(%s)|", m->calls[k].id, m->calls[k].name,
                          m->calls[k].arguments);
        if (strcmp(m->role, "tool") == 0)
            ft_buf_printf(out, "%s=%s|", m->call_id, m->content);
        else
            ft_buf_printf(out, "%s:%s|", m->role, m->content ? m->content : "-");
    }
}

static void check_tools(const ft_http_dialect *dialect, const char *body, const char *expected)
{
    ft_http_parsed p;
    ft_http_fail fail;
    ft_buf all = {0};
    if (parse(dialect, body, &fail, &p) != FT_OK)
        fail_msg("%s: %s", body, fail.message);
    calls_of(&p, &all);
    assert_string_equal(ft_buf_str(&all), expected);
    const ft_chat *chat = &p.request.conversation;
    assert_int_equal(chat->n_tools, 2);
    assert_string_equal(chat->tools[0].name, "f");
    assert_string_equal(chat->tools[0].description, "what");
    assert_string_equal(chat->tools[0].parameters, "{\"type\": \"object\"}");
    assert_int_equal(chat->choice, FT_CHAT_CHOICE_REQUIRED);
    assert_ptr_equal(chat->choice_tool, &chat->tools[1]);
    ft_http_parsed_deinit(&p);
    ft_buf_deinit(&all);
}

static void test_tools(void **state)
{
    check_tools(
        &ft_http_responses,
        "{\"tools\":[{\"type\":\"web_search\"},{\"type\":\"function\",\"name\":\"f\","
        "\"description\":\"what\",\"parameters\":{\"type\":\"object\"},\"strict\":true},"
        "{\"type\":\"function\",\"name\":\"g\"}],"
        "\"tool_choice\":{\"type\":\"function\",\"name\":\"g\"},\"input\":["
        "{\"role\":\"user\",\"content\":\"q\"},"
        "{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"{}\"},"
        "{\"type\":\"function_call\",\"call_id\":\"b\",\"name\":\"g\",\"arguments\":\"{}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"x\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":[{\"type\":"
        "\"input_text\",\"text\":\"y\"}]}]}",
        "user:q|a:f({})|b:g({})|assistant:-|a=x|b=y|");
    check_tools(
        &ft_http_messages,
        "{\"max_tokens\":5,\"tools\":[{\"name\":\"f\",\"description\":\"what\",\"input_schema\":"
        "{\"type\":\"object\"}},{\"type\":\"custom\",\"name\":\"g\"}],"
        "\"tool_choice\":{\"type\":\"tool\",\"name\":\"g\"},\"messages\":["
        "{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"text\",\"text\":\"t\"},"
        "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"n\":1}},"
        "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"g\",\"input\":{}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\","
        "\"content\":\"x\"},{\"type\":\"tool_result\",\"tool_use_id\":\"b\",\"content\":["
        "{\"type\":\"text\",\"text\":\"y\"}],\"is_error\":true},"
        "{\"type\":\"text\",\"text\":\"and\"}]}]}",
        "user:q|a:f({\"n\":1})|b:g({})|assistant:t|a=x|b=y|user:and|");
}

static void test_messages_requests(void **state)
{
    const ft_http_dialect *d = &ft_http_messages;
    ft_http_parsed *p =
        good(d,
             "{\"max_tokens\":5,\"system\":[{\"type\":\"text\",\"text\":\"a\","
             "\"cache_control\":{\"type\":\"ephemeral\"}},{\"type\":\"text\",\"text\":\"b\"}],"
             "\"stop_sequences\":[\"x\",\"yz\"],\"top_k\":3,\"metadata\":{\"user_id\":\"u\"},"
             "\"thinking\":{\"type\":\"disabled\"},\"tool_choice\":{\"type\":\"auto\"},"
             "\"messages\":[{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"user\","
             "\"content\":[{\"type\":\"text\",\"text\":\"d\"}]},{\"role\":\"assistant\","
             "\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\",\"signature\":\"\"},"
             "{\"type\":\"text\",\"text\":\"e\"}]},{\"role\":\"user\",\"content\":\"f\"}]}",
             "system:a\nb|user:c\nd|assistant:e|user:f|");
    assert_int_equal(p->request.max_tokens, 5);
    assert_int_equal(p->request.n_stops, 2);
    assert_string_equal(p->request.stops[1], "yz");
    assert_int_equal(p->request.top_k, 3);
    ft_http_parsed_deinit(p);
    /* as Claude Code asks: nothing of this changes the prompt */
    p = good(d,
             "{\"max_tokens\":5,\"thinking\":{\"type\":\"adaptive\"},\"context_management\":"
             "{\"edits\":[{\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}]},"
             "\"output_config\":{\"effort\":\"high\"},\"messages\":[{\"role\":\"user\","
             "\"content\":\"c\"},{\"role\":\"system\",\"content\":\"s\"}]}",
             "user:c|system:s|");
    ft_http_parsed_deinit(p);
    p = good(&ft_http_messages_count, "{\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]}",
             "user:c|");
    ft_http_parsed_deinit(p);
}

static void expect_constraint(const ft_http_dialect *dialect, const char *body,
                              ft_constraint_kind kind, const char *text)
{
    ft_http_parsed *p = good(dialect, body, "user:hi|");
    const ft_constraint *c = &p->request.constraint;
    assert_int_equal(c->kind, kind);
    assert_int_equal(c->n, strlen(text));
    assert_memory_equal(c->data ? c->data : "", text, c->n);
    ft_http_parsed_deinit(p);
}

/* Each API says in its own form what the text must be. */
static void test_constraints(void **state)
{
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}";
    char body[400];
    snprintf(body, sizeof body,
             "{\"input\":\"hi\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\","
             "\"strict\":true,\"schema\":%s}}}",
             schema);
    expect_constraint(&ft_http_responses, body, FT_CONSTRAINT_JSON_SCHEMA, schema);
    expect_constraint(&ft_http_responses,
                      "{\"input\":\"hi\",\"text\":{\"format\":{\"type\":\"json_object\"}}}",
                      FT_CONSTRAINT_JSON_OBJECT, "");
    expect_constraint(&ft_http_responses,
                      "{\"input\":\"hi\",\"text\":{\"format\":{\"type\":\"text\"}}}",
                      FT_CONSTRAINT_NONE, "");
    expect_constraint(&ft_http_responses, "{\"input\":\"hi\",\"regex\":\"[a-z]+\"}",
                      FT_CONSTRAINT_REGEX, "[a-z]+");
    snprintf(body, sizeof body,
             "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
             "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":%s}}}",
             schema);
    expect_constraint(&ft_http_messages, body, FT_CONSTRAINT_JSON_SCHEMA, schema);
    expect_constraint(&ft_http_messages_count, body, FT_CONSTRAINT_JSON_SCHEMA, schema);
}

/* Refused: the message names the field as the client wrote it. */
static void bad(const ft_http_dialect *dialect, const char *body, const char *code,
                const char *param)
{
    ft_http_parsed p;
    ft_http_fail fail;
    if (parse(dialect, body, &fail, &p) == FT_OK)
        fail_msg("accepted: %s", body);
    assert_int_equal(fail.http, strcmp(code, "model_not_found") == 0 ? 404 : 400);
    assert_string_equal(fail.code, code);
    if (strcmp(fail.param, param) != 0 || (param[0] && fail.message[0] == '\'' &&
                                           strncmp(fail.message + 1, param, strlen(param)) != 0))
        fail_msg("%s: '%s' instead of '%s': %s", body, fail.param, param, fail.message);
    if (strcmp(param, "response_format") != 0 && strstr(fail.message, "response_format"))
        fail_msg("%s: a name of chats: %s", body, fail.message);
    assert_null(p.root);
}

static void bad_response(const char *fields, const char *code, const char *param)
{
    char body[600];
    snprintf(body, sizeof body, "{\"input\":\"hi\",%s}", fields);
    bad(&ft_http_responses, body, code, param);
}

static void test_responses_refused(void **state)
{
    static const char unsupported[] = "unsupported_parameter";
    const ft_http_dialect *d = &ft_http_responses;
    bad(d, "{}", "missing_required_parameter", "input");
    bad(d, "{\"input\":[]}", "invalid_type", "input");
    bad(d, "{\"input\":[{\"type\":\"reasoning\"}]}", "invalid_type", "input");
    bad(d, "{\"input\":[1]}", "invalid_type", "input[0]");
    bad(d, "{\"input\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "invalid_value", "input[0].role");
    bad(d, "{\"input\":[{\"role\":\"user\",\"content\":7}]}", "invalid_type", "input[0].content");
    bad(d,
        "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
        "{\"type\":\"input_image\",\"image_url\":\"u\"}]}]}",
        "unsupported_content", "input[0].content[1]");
    bad(d, "{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}", "unsupported_content",
        "input[0].type");
    bad_response("\"previous_response_id\":\"resp_1\"", unsupported, "previous_response_id");
    bad_response("\"conversation\":\"c\"", unsupported, "conversation");
    bad_response("\"prompt\":{\"id\":\"p\"}", unsupported, "prompt");
    bad_response("\"background\":true", unsupported, "background");
    bad_response("\"truncation\":\"auto\"", unsupported, "truncation");
    bad_response("\"top_logprobs\":2", unsupported, "top_logprobs");
    bad_response("\"n\":2", unsupported, "n");
    bad_response("\"messages\":[]", unsupported, "messages");
    bad_response("\"max_tokens\":9", unsupported, "max_tokens");
    bad_response("\"max_completion_tokens\":9", unsupported, "max_completion_tokens");
    bad_response("\"verbosity\":\"medium\"", unsupported, "verbosity");
    bad_response("\"reasoning_effort\":\"low\"", unsupported, "reasoning_effort");
    bad_response("\"response_format\":{\"type\":\"json_object\"}", unsupported, "response_format");
    bad_response("\"guided_regex\":\"x\"", unsupported, "guided_regex");
    bad_response("\"include\":[\"message.output_text.logprobs\"]", unsupported, "include");
    bad_response("\"text\":{\"format\":{\"type\":\"no_such\"}}", "invalid_value",
                 "text.format.type");
    bad_response("\"text\":{\"verbosity\":\"high\"}", unsupported, "text.verbosity");
    bad_response("\"text\":{\"format\":7}", "invalid_type", "text.format");
    bad_response("\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\"}}", "invalid_value",
                 "text.format.schema");
    bad_response("\"text\":{\"format\":{\"type\":\"json_schema\",\"json_schema\":"
                 "{\"schema\":{}}}}",
                 "invalid_value", "text.format.schema");
    bad_response("\"text\":{\"format\":{\"type\":\"json_object\"}},\"regex\":\"x\"",
                 "invalid_value", "regex");
    bad_response("\"n_predict\":7", unsupported, "n_predict");
    bad_response("\"reasoning\":{\"summary\":\"detailed\"}", unsupported, "reasoning.summary");
    bad_response("\"tools\":[{\"type\":\"function\"}]", "invalid_type", "tools[0].name");
    bad_response("\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":7}]",
                 "invalid_type", "tools[0].parameters");
    bad_response("\"tool_choice\":\"required\"", "invalid_value", "tool_choice");
    bad_response("\"tool_choice\":{\"type\":\"web_search\"}", unsupported, "tool_choice");
    bad_response("\"tools\":{}", "invalid_type", "tools");
    bad_response("\"instructions\":[]", "invalid_type", "instructions");
    bad_response("\"max_output_tokens\":0", "invalid_value", "max_output_tokens");
    bad_response("\"max_output_tokens\":\"9\"", "invalid_type", "max_output_tokens");
    bad_response("\"temperature\":9", "invalid_value", "temperature");
    bad_response("\"model\":\"gpt\"", "model_not_found", "model");
}

static void bad_message(const char *fields, const char *code, const char *param)
{
    char body[600];
    snprintf(body, sizeof body,
             "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],%s}", fields);
    bad(&ft_http_messages, body, code, param);
}

static void test_messages_refused(void **state)
{
    static const char unsupported[] = "unsupported_parameter";
    const ft_http_dialect *d = &ft_http_messages;
    bad(d, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", "missing_required_parameter",
        "max_tokens");
    bad(d, "{\"max_tokens\":5}", "missing_required_parameter", "messages");
    bad(d, "{\"max_tokens\":5,\"messages\":[]}", "invalid_type", "messages");
    bad(d, "{\"max_tokens\":5,\"messages\":[1]}", "invalid_type", "messages[0]");
    bad(d, "{\"max_tokens\":5,\"messages\":[{\"role\":\"developer\",\"content\":\"x\"}]}",
        "invalid_value", "messages[0].role");
    bad(d, "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":null}]}", "invalid_type",
        "messages[0].content");
    bad(d,
        "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
        "unsupported_content", "messages[0].content[0]");
    bad(d,
        "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":\"b\"}]}",
        unsupported, "messages");
    bad_message("\"system\":7", "invalid_type", "system");
    bad_message("\"stop\":\"x\"", unsupported, "stop");
    bad_message("\"reasoning_effort\":\"low\"", unsupported, "reasoning_effort");
    bad_message("\"response_format\":{\"type\":\"text\"}", unsupported, "response_format");
    bad_message("\"output_format\":{\"type\":\"json_schema\",\"schema\":{}}", unsupported,
                "output_format");
    bad_message("\"stop_sequences\":\"x\"", "invalid_type", "stop_sequences");
    bad_message("\"stop_sequences\":[\"\"]", "invalid_value", "stop_sequences");
    bad_message("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}", unsupported,
                "thinking");
    bad_message("\"thinking\":{\"type\":\"between_tools\"}", unsupported, "thinking.type");
    bad_message("\"thinking\":true", "invalid_type", "thinking");
    bad_message("\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}", unsupported,
                "thinking.display");
    bad_message("\"output_config\":{\"format\":{\"type\":\"no_such\"}}", "invalid_type",
                "output_config.format");
    bad_message("\"output_config\":{\"format\":{\"type\":\"json_schema\"}}", "invalid_value",
                "output_config.format.schema");
    bad_message("\"tools\":7", "invalid_type", "tools");
    bad_message("\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]", unsupported,
                "tools[0].type");
    bad_message("\"tools\":[{\"input_schema\":{}}]", "invalid_type", "tools[0].name");
    bad_message("\"tool_choice\":{\"type\":\"any\"}", "invalid_value", "tool_choice");
    bad_message("\"tool_choice\":{\"type\":\"tool\"}", "invalid_type", "tool_choice");
    bad_message("\"context_management\":{\"edits\":[{\"type\":\"clear_tool_uses_20250919\"}]}",
                unsupported, "context_management");
    bad_message("\"mcp_servers\":[{}]", unsupported, "mcp_servers");
    bad_message("\"container\":\"c\"", unsupported, "container");
    bad_message("\"temperature\":9", "invalid_value", "temperature");
    bad_message("\"model\":\"claude\"", "model_not_found", "model");
}

/* ---- answers ---- */

/* A JSON value by a path of keys and indices, "choices/0/message"; NULL where there is none. */
static json_t *at(json_t *v, const char *path)
{
    char key[64];
    while (v && *path) {
        const size_t n = strcspn(path, "/");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        v = json_is_array(v) ? json_array_get(v, strtoul(key, NULL, 10)) : json_object_get(v, key);
        path += n + (path[n] == '/');
    }
    return v;
}

static void expect(json_t *v, const char *path, const char *text)
{
    json_t *found = at(v, path);
    if (!json_is_string(found) || strcmp(json_string_value(found), text) != 0) {
        char *all = json_dumps(v, 0);
        print_error("%s is not '%s' in %s\n", path, text, all);
        free(all);
        fail();
    }
}

static void expect_int(json_t *v, const char *path, json_int_t n)
{
    assert_true(json_is_integer(at(v, path)));
    assert_int_equal(json_integer_value(at(v, path)), n);
}

static json_t *ask(int status, const char *path, const char *body)
{
    http_response r;
    assert_int_equal(http_ask(port, "POST", path, "", body, &r), status);
    json_t *v = json_loadb(r.body.data, r.body.len, 0, NULL);
    assert_non_null(v);
    http_response_deinit(&r);
    return v;
}

/* The events of a stream, each with its own type; silence is left out. */
static json_t *ask_stream(const char *path, const char *body)
{
    static const char silence[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    http_response r;
    json_t *events = json_array();
    char name[64];
    assert_int_equal(http_ask(port, "POST", path, "", body, &r), 200);
    for (const char *p = ft_buf_str(&r.body), *end; *p; p = end + 2) {
        end = strstr(p, "\n\n");
        assert_non_null(end);
        if (*p == ':' || strncmp(p, silence, strlen(silence)) == 0)
            continue;
        assert_int_equal(sscanf(p, "event: %63s\n", name), 1);
        const char *data = strstr(p, "\ndata: ");
        assert_true(data && data < end);
        json_t *event = json_loadb(data + 7, (size_t)(end - data) - 7, 0, NULL);
        expect(event, "type", name);
        json_array_append_new(events, event);
    }
    http_response_deinit(&r);
    return events;
}

/* The types of events, without what they have in common, one behind the other. */
static void expect_events(json_t *events, const char *expected)
{
    ft_buf all = {0};
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *type = json_string_value(at(json_array_get(events, i), "type"));
        ft_buf_printf(&all, "%s ", strncmp(type, "response.", 9) == 0 ? type + 9 : type);
    }
    assert_string_equal(ft_buf_str(&all), expected);
    ft_buf_deinit(&all);
}

/* The texts of all events that have this path, joined. */
static void expect_joined(json_t *events, const char *path, const char *expected)
{
    ft_buf all = {0};
    for (size_t i = 0; i < json_array_size(events); i++)
        if (json_is_string(at(json_array_get(events, i), path)))
            ft_buf_puts(&all, json_string_value(at(json_array_get(events, i), path)));
    assert_string_equal(ft_buf_str(&all), expected);
    ft_buf_deinit(&all);
}

static json_t *last_of(json_t *events)
{
    return json_array_get(events, json_array_size(events) - 1);
}

static void test_response_whole(void **state)
{
    json_t *r =
        ask(200, RESPONSES,
            "{\"model\":\"other-name\",\"instructions\":\"be brief\",\"metadata\":"
            "{\"a\":\"b\"},\"temperature\":0.5,\"input\":\"<think>one two</think> three\"}");
    expect(r, "object", "response");
    expect(r, "status", "completed");
    expect(r, "model", "other-name");
    expect(r, "instructions", "be brief");
    expect(r, "metadata/a", "b");
    assert_true(json_real_value(at(r, "temperature")) == 0.5);
    assert_true(json_is_null(at(r, "error")) && json_is_null(at(r, "incomplete_details")));
    assert_int_equal(json_array_size(at(r, "output")), 2);
    expect(r, "output/0/type", "reasoning");
    expect(r, "output/0/content/0/type", "reasoning_text");
    expect(r, "output/0/content/0/text", "one two");
    expect(r, "output/1/type", "message");
    expect(r, "output/1/role", "assistant");
    expect(r, "output/1/status", "completed");
    expect(r, "output/1/content/0/type", "output_text");
    expect(r, "output/1/content/0/text", "three");
    expect_int(r, "usage/input_tokens", 28);
    expect_int(r, "usage/input_tokens_details/cached_tokens", 1);
    expect_int(r, "usage/output_tokens", 3);
    expect_int(r, "usage/output_tokens_details/reasoning_tokens", 2);
    expect_int(r, "usage/total_tokens", 31);
    expect_int(r, "usage/foretoken/rounds", 3);
    json_decref(r);
    r = ask(200, RESPONSES, "{\"max_output_tokens\":1,\"input\":\"one two\"}");
    expect(r, "status", "incomplete");
    expect(r, "incomplete_details/reason", "max_output_tokens");
    expect(r, "output/0/status", "incomplete");
    expect(r, "output/0/content/0/text", "one ");
    json_decref(r);
    r = ask(400, RESPONSES,
            "{\"text\":{\"format\":{\"type\":\"json_object\"}},\"input\":\"constrain\"}");
    expect(r, "error/param", "text.format");
    expect(r, "error/message", "serve: constrain");
    json_decref(r);
    r = ask(200, RESPONSES, "{\"input\":\"silent\"}");
    expect(r, "output/0/content/0/text", "");
    json_decref(r);
}

static void test_response_stream(void **state)
{
    json_t *e = ask_stream(RESPONSES, "{\"stream\":true,\"input\":\"one two\"}");
    expect_events(e, "created in_progress output_item.added content_part.added output_text.delta "
                     "output_text.delta output_text.done content_part.done output_item.done "
                     "completed ");
    for (size_t i = 0; i < json_array_size(e); i++)
        expect_int(json_array_get(e, i), "sequence_number", (json_int_t)i);
    expect(e, "0/response/status", "in_progress");
    assert_int_equal(json_array_size(at(e, "0/response/output")), 0);
    expect_joined(e, "delta", "one two");
    expect(e, "6/text", "one two");
    expect(e, "7/part/text", "one two");
    expect(e, "8/item/content/0/text", "one two");
    for (size_t i = 2; i < 9; i++) {
        char path[32];
        snprintf(path, sizeof path, "%zu/output_index", i);
        expect_int(e, path, 0);
        snprintf(path, sizeof path, i == 2 || i == 8 ? "%zu/item/id" : "%zu/item_id", i);
        expect(e, path, json_string_value(at(e, "2/item/id")));
    }
    expect(e, "9/response/id", json_string_value(at(e, "0/response/id")));
    expect(e, "9/response/output/0/content/0/text", "one two");
    expect_int(e, "9/response/usage/output_tokens", 2);
    json_decref(e);
    e = ask_stream(RESPONSES, "{\"stream\":true,\"max_output_tokens\":2,"
                              "\"input\":\"<think>one</think> two three\"}");
    expect_events(e, "created in_progress output_item.added content_part.added "
                     "reasoning_text.delta reasoning_text.done content_part.done "
                     "output_item.done output_item.added content_part.added output_text.delta "
                     "output_text.done content_part.done output_item.done incomplete ");
    expect(e, "7/item/content/0/text", "one");
    expect(e, "7/item/status", "completed");
    expect_int(e, "8/output_index", 1);
    expect(e, "13/item/status", "incomplete");
    json_decref(e);
    e = ask_stream(RESPONSES, "{\"stream\":true,\"input\":\"silent\"}");
    expect_events(e, "created in_progress output_item.added content_part.added output_text.done "
                     "content_part.done output_item.done completed ");
    json_decref(e);
}

static void test_response_fails(void **state)
{
    json_t *v = ask(400, RESPONSES, "{\"stream\":true,\"input\":\"refuse\"}");
    expect(v, "error/code", "context_length_exceeded");
    json_decref(v);
    v = ask(400, RESPONSES, "{\"input\":\"hi\",\"previous_response_id\":\"resp_1\"}");
    expect(v, "error/param", "previous_response_id");
    json_decref(v);
    v = ask_stream(RESPONSES, "{\"stream\":true,\"input\":\"break\"}");
    expect_joined(v, "delta", "half ");
    expect(last_of(v), "type", "response.failed");
    expect(last_of(v), "response/status", "failed");
    expect(last_of(v), "response/error/code", "server_error");
    expect(last_of(v), "response/error/message", "it broke");
    json_decref(v);
}

static void test_message_whole(void **state)
{
    json_t *m = ask(200, MESSAGES,
                    "{\"max_tokens\":9,\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024},"
                    "\"messages\":[{\"role\":\"user\",\"content\":\"<think>one</think> two\"}]}");
    expect(m, "type", "message");
    expect(m, "role", "assistant");
    expect(m, "model", HTTP_BACKEND_MODEL);
    expect(m, "content/0/type", "thinking");
    expect(m, "content/0/thinking", "one");
    expect(m, "content/1/type", "text");
    expect(m, "content/1/text", "two");
    expect(m, "stop_reason", "end_turn");
    assert_true(json_is_null(at(m, "stop_sequence")));
    expect_int(m, "usage/input_tokens", 21);
    expect_int(m, "usage/cache_read_input_tokens", 1);
    expect_int(m, "usage/output_tokens", 2);
    json_decref(m);
    m = ask(200, MESSAGES,
            "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"one two\"}]}");
    expect(m, "stop_reason", "max_tokens");
    expect(m, "content/0/text", "one ");
    json_decref(m);
    m = ask(200, MESSAGES,
            "{\"max_tokens\":9,\"stop_sequences\":[\"x\",\"END\"],"
            "\"messages\":[{\"role\":\"user\",\"content\":\"stopped\"}]}");
    expect(m, "stop_reason", "stop_sequence");
    expect(m, "stop_sequence", "END");
    json_decref(m);
}

static void test_message_stream(void **state)
{
    json_t *e = ask_stream(MESSAGES, "{\"max_tokens\":9,\"stream\":true,\"messages\":"
                                     "[{\"role\":\"user\",\"content\":\"one two\"}]}");
    expect_events(e, "message_start content_block_start content_block_delta content_block_delta "
                     "content_block_stop message_delta message_stop ");
    expect(e, "0/message/role", "assistant");
    expect_int(e, "0/message/usage/output_tokens", 0);
    expect(e, "1/content_block/type", "text");
    expect(e, "2/delta/type", "text_delta");
    expect_joined(e, "delta/text", "one two");
    expect(e, "5/delta/stop_reason", "end_turn");
    expect_int(e, "5/usage/output_tokens", 2);
    expect_int(e, "5/usage/input_tokens", 6);
    json_decref(e);
    e = ask_stream(MESSAGES, "{\"max_tokens\":9,\"stream\":true,\"stop_sequences\":[\"END\"],"
                             "\"messages\":[{\"role\":\"user\",\"content\":\"stopped\"}]}");
    expect(e, "4/delta/stop_reason", "stop_sequence");
    expect(e, "4/delta/stop_sequence", "END");
    json_decref(e);
    e = ask_stream(MESSAGES, "{\"max_tokens\":2,\"stream\":true,\"messages\":[{\"role\":\"user\","
                             "\"content\":\"<think>one</think> two three\"}]}");
    expect_events(e, "message_start content_block_start content_block_delta content_block_stop "
                     "content_block_start content_block_delta content_block_stop message_delta "
                     "message_stop ");
    expect(e, "1/content_block/type", "thinking");
    expect(e, "2/delta/thinking", "one");
    expect_int(e, "4/index", 1);
    expect(e, "7/delta/stop_reason", "max_tokens");
    json_decref(e);
}

static void test_message_fails(void **state)
{
    static const struct {
        const char *prompt;
        int status;
        const char *type;
    } cases[] = {{"refuse", 400, "invalid_request_error"},
                 {"stranger", 401, "authentication_error"},
                 {"forbid", 403, "permission_error"},
                 {"overload", 429, "rate_limit_error"},
                 {"break", 500, "api_error"},
                 {"away", 503, "overloaded_error"}};
    char body[160];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body,
                 "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
                 cases[i].prompt);
        json_t *v = ask(cases[i].status, MESSAGES, body);
        expect(v, "type", "error");
        expect(v, "error/type", cases[i].type);
        assert_true(json_is_string(at(v, "error/message")));
        json_decref(v);
    }
    json_t *v = ask(400, MESSAGES, "{\"max_tokens\":9}");
    expect(v, "error/param", "messages");
    json_decref(v);
    v = ask(400, MESSAGES,
            "{\"max_tokens\":9,\"output_config\":{\"format\":{\"type\":\"json_schema\","
            "\"schema\":{}}},\"messages\":[{\"role\":\"user\",\"content\":\"constrain\"}]}");
    expect(v, "error/param", "output_config.format");
    expect(v, "error/message", "serve: constrain");
    json_decref(v);
    v = ask_stream(MESSAGES, "{\"max_tokens\":9,\"stream\":true,\"messages\":[{\"role\":\"user\","
                             "\"content\":\"break\"}]}");
    expect_joined(v, "delta/text", "half ");
    expect(last_of(v), "type", "error");
    expect(last_of(v), "error/type", "api_error");
    expect(last_of(v), "error/message", "it broke");
    json_decref(v);
}

static void test_count_tokens(void **state)
{
    json_t *v = ask(200, MESSAGES "/count_tokens",
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}");
    expect_int(v, "input_tokens", 3);
    json_decref(v);
    v = ask(400, MESSAGES "/count_tokens",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Z\"}]}");
    expect(v, "error/type", "invalid_request_error");
    json_decref(v);
    v = ask(400, MESSAGES "/count_tokens", "{}");
    expect(v, "error/type", "invalid_request_error");
    json_decref(v);
}

/* While nothing is said, each API's own sign of life; when the client goes, the generation ends. */
static void test_silence_and_leaving(void **state)
{
    static const struct {
        const char *path, *body, *sign;
    } cases[] = {{RESPONSES, "{\"stream\":true,\"input\":\"prefill\"}", "\n: waiting\n\n"},
                 {MESSAGES,
                  "{\"stream\":true,\"max_tokens\":9,\"messages\":[{\"role\":\"user\","
                  "\"content\":\"prefill\"}]}",
                  "\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"}};
    for (unsigned i = 0; i < 2; i++) {
        http_client c;
        const unsigned before = http_backend_count(&backend, &backend.cancelled);
        assert_true(http_client_open(&c, port));
        assert_true(http_client_request(&c, "POST", cases[i].path, "", cases[i].body));
        assert_true(http_client_read_until(&c, cases[i].sign));
        http_client_close(&c);
        assert_true(http_backend_wait(&backend, &backend.cancelled, before + 1));
    }
}

/* An error behind a sign of life is an event, though no text came before it. */
static void test_late_failure(void **state)
{
    static const struct {
        const char *path, *body, *sign, *error;
    } cases[] = {{RESPONSES, "{\"stream\":true,\"input\":\"late\"}", ": waiting\n\n",
                  "\"code\":\"rate_limit_exceeded\""},
                 {MESSAGES,
                  "{\"stream\":true,\"max_tokens\":9,\"messages\":[{\"role\":\"user\","
                  "\"content\":\"late\"}]}",
                  "event: ping\n", "\"type\":\"rate_limit_error\""}};
    http_client c[2];
    http_response r;
    for (unsigned i = 0; i < 2; i++) {
        assert_true(http_client_open(&c[i], port));
        assert_true(http_client_request(&c[i], "POST", cases[i].path, "", cases[i].body));
    }
    for (unsigned i = 0; i < 2; i++)
        assert_true(http_client_read_until(&c[i], cases[i].sign));
    http_backend_release(&backend);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(http_client_response(&c[i], false, &r));
        assert_int_equal(r.status, 200);
        assert_non_null(strstr(ft_buf_str(&r.body), cases[i].error));
        http_response_deinit(&r);
        http_client_close(&c[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_responses_requests), cmocka_unit_test(test_tools),
        cmocka_unit_test(test_messages_requests),  cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_responses_refused),  cmocka_unit_test(test_messages_refused),
        cmocka_unit_test(test_response_whole),     cmocka_unit_test(test_response_stream),
        cmocka_unit_test(test_response_fails),     cmocka_unit_test(test_message_whole),
        cmocka_unit_test(test_message_stream),     cmocka_unit_test(test_message_fails),
        cmocka_unit_test(test_count_tokens),       cmocka_unit_test(test_silence_and_leaving),
        cmocka_unit_test(test_late_failure),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
