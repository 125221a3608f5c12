// SPDX-License-Identifier: Apache-2.0
// A call that `tool_choice` requires, from a client's request to its answer: server and edge run as
// programs on a tiny model with random weights. Such a model says nothing that means anything, so
// its answer comes from the constraint alone. The chat template writes calls between control
// tokens, or between letters. What a chat template refuses, and one that has no end, the client
// learns.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "constrain/constraint.h"
#include "support/http_client.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

/* A conversation, and calls as the tests' templates write them. */
#define TEMPLATE_SHOWING(tool, begin, between, arguments, end)          \
    "{% if tools %}{% for t in tools %}" tool "{% endfor %}{% endif %}" \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"                 \
    "{% if m.tool_calls %}{% for c in m.tool_calls %}" begin            \
    "{{ c.function.name }}" between arguments end "{% endfor %}"        \
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"      \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define TEMPLATE(begin, between, arguments, end) \
    TEMPLATE_SHOWING("{{ t | tojson }}\n", begin, between, arguments, end)

static const char *const marks[] = {"[CALLS]", "[ARGS]", NULL};

typedef struct pair {
    char *model;
    program server, edge;
    int port;
} pair;

static pair start(const char *chat_template)
{
    pair p = {
        .model = tiny_gguf_temp(&(tiny_gguf_opts){
            .type = GGML_TYPE_Q4_0, .seed = 3, .chat_template = chat_template, .control = marks})};
    char address[32];
    p.server = program_start((const char *[]){"serve", "-m", p.model, "-t", "1", "-c", "2048",
                                              "-ngl", "0", "--port", "0", NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&p.server, "listening"));
    p.edge = program_start((const char *[]){"edge", "--server", address, "-md", p.model, "-t", "1",
                                            "--port", "0", NULL});
    p.port = program_wait_port(&p.edge, "foretoken edge");
    assert_true(p.port > 0);
    return p;
}

static void end(pair *p)
{
    assert_int_equal(program_stop(&p->edge), 0);
    assert_int_equal(program_stop(&p->server), 0);
    unlink(p->model);
    free(p->model);
}

#define TOOL(name, value)                                                                 \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name                               \
    "\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"" value \
    "\",\"Oslo\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9}},"         \
    "\"required\":[\"city\",\"days\"],\"additionalProperties\":false}}}"

static int ask(const pair *p, const char *more, http_response *r)
{
    ft_buf body = {0};
    ft_buf_printf(&body,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":120,"
                  "\"tools\":[" TOOL("weather", "Paris") "," TOOL("tides", "Nice") "]%s}",
                  more);
    const int status = http_ask(p->port, "POST", "/v1/chat/completions", "", body.data, r);
    ft_buf_deinit(&body);
    return status;
}

static void needs_libraries(void)
{
#ifdef FT_HAVE_COMMON
    const bool common = true;
#else
    const bool common = false;
#endif
    if (!common || !ft_constrain_available())
        skip();
}

/* The arguments of a call, which fit its tool. The caller frees them. */
static json_t *fitting(const json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *arguments =
        json_loads(json_string_value(json_object_get(function, "arguments")), 0, NULL);
    const char *city = json_string_value(json_object_get(arguments, "city"));
    const json_int_t days = json_integer_value(json_object_get(arguments, "days"));
    const char *other = strcmp(name, "tides") == 0 ? "Nice" : "Paris";
    assert_int_equal(json_object_size(arguments), 2);
    assert_true(strcmp(city, "Oslo") == 0 || strcmp(city, other) == 0);
    assert_in_range(days, 1, 9);
    return arguments;
}

/* One call, of this tool if it is not NULL, with arguments that fit. Returns them with the tool's
 * name; the caller frees. */
static char *required(const pair *p, const char *choice, const char *more, const char *tool)
{
    char text[256];
    http_response r;
    snprintf(text, sizeof text, ",\"tool_choice\":%s%s", choice, more);
    const int status = ask(p, text, &r);
    if (status != 200)
        fail_msg("%d %s", status, r.body.data);
    json_t *root = json_loads(r.body.data, 0, NULL);
    json_t *first = json_array_get(json_object_get(root, "choices"), 0);
    json_t *said = json_object_get(first, "message");
    json_t *calls = json_object_get(said, "tool_calls");
    if (json_array_size(calls) != 1)
        fail_msg("%s", r.body.data);
    assert_string_equal(json_string_value(json_object_get(first, "finish_reason")), "tool_calls");
    assert_true(json_is_null(json_object_get(said, "content")));
    json_t *function = json_object_get(json_array_get(calls, 0), "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    if (tool)
        assert_string_equal(name, tool);
    json_decref(fitting(function));
    char *whole = json_dumps(function, JSON_COMPACT);
    json_decref(root);
    http_response_deinit(&r);
    return whole;
}

#define NAMED(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static void check_calls(const char *chat_template)
{
    needs_libraries();
    pair p = start(chat_template);
    static const char *const ways[] = {",\"temperature\":0", ",\"temperature\":1,\"seed\":7"};
    for (size_t i = 0; i < 2; i++) {
        char alone[128];
        snprintf(alone, sizeof alone, "%s,\"no_speculation\":true", ways[i]);
        char *a = required(&p, "\"required\"", ways[i], NULL);
        char *b = required(&p, "\"required\"", alone, NULL);
        assert_string_equal(a, b);
        free(a);
        free(b);
        free(required(&p, NAMED("tides"), ways[i], "tides"));
        free(required(&p, NAMED("weather"), ways[i], "weather"));
    }
    end(&p);
}

static void test_letters(void **state)
{
    (void)state;
    check_calls(TEMPLATE("<call>{\"name\": \"",
                         "\", \"arguments\": ", "{{ c.function.arguments | tojson }}", "}</call>"));
}

static void test_control_tokens(void **state)
{
    (void)state;
    check_calls(TEMPLATE("[CALLS]", "[ARGS]", "{{ c.function.arguments | tojson }}", ""));
}

/* So many calls, each of which fits; the last one may be cut. */
static void check_made(http_response *r, size_t least, size_t most, json_t *(*fit)(const json_t *))
{
    json_t *root = json_loads(r->body.data, 0, NULL);
    json_t *first = json_array_get(json_object_get(root, "choices"), 0);
    json_t *calls = json_object_get(json_object_get(first, "message"), "tool_calls");
    const char *finish = json_string_value(json_object_get(first, "finish_reason"));
    const bool cut = finish && strcmp(finish, "length") == 0;
    const size_t n = json_array_size(calls);
    if (n < least || n > most)
        fail_msg("%s", r->body.data);
    for (size_t i = 0; i + cut < n; i++)
        json_decref(fit(json_object_get(json_array_get(calls, i), "function")));
    json_decref(root);
    http_response_deinit(r);
}

/* The first mark is the vocabulary's last token: the model always wants to begin a call. */
#define EAGER "\"temperature\":1,\"seed\":7,\"logit_bias\":{\"319\":100}"

static void check_own_calls(const pair *p, const char *more, size_t least, size_t most)
{
    char text[256];
    http_response r;
    snprintf(text, sizeof text, "," EAGER "%s", more);
    assert_int_equal(ask(p, text, &r), 200);
    check_made(&r, least, most, fitting);
}

static void test_own_accord(void **state)
{
    (void)state;
    needs_libraries();
    pair p = start(TEMPLATE("[CALLS]", "[ARGS]", "{{ c.function.arguments | tojson }}", ""));
    check_own_calls(&p, ",\"parallel_tool_calls\":false", 1, 1);
    check_own_calls(&p, "", 2, 60);
    check_own_calls(&p, ",\"no_speculation\":true", 2, 60);
    end(&p);
}

/* Of one of many: tool t7 knows C7 and Oslo. */
static json_t *fitting_of_many(const json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *arguments =
        json_loads(json_string_value(json_object_get(function, "arguments")), 0, NULL);
    const char *city = json_string_value(json_object_get(arguments, "city"));
    if (!city || (strcmp(city, "Oslo") != 0 && (city[0] != 'C' || strcmp(city + 1, name + 1) != 0)))
        fail_msg("%s: %s", name, city ? city : "no city");
    assert_int_equal(json_object_size(arguments), 2);
    assert_in_range(json_integer_value(json_object_get(arguments, "days")), 1, 9);
    return arguments;
}

/* As many tools as an agent has, with long descriptions, which no constraint needs. */
static void test_many_tools(void **state)
{
    static char words[2000];
    ft_buf body = {0};
    http_response r;
    (void)state;
    needs_libraries();
    memset(words, 'w', sizeof words - 1);
    pair p = start(TEMPLATE_SHOWING("{{ t.function.name }} ", "[CALLS]", "[ARGS]",
                                    "{{ c.function.arguments | tojson }}", ""));
    for (int required = 0; required < 2; required++) {
        ft_buf_clear(&body);
        ft_buf_printf(&body,
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":200,"
                      "\"tool_choice\":\"%s\"," EAGER ",\"tools\":[",
                      required ? "required" : "auto");
        for (int i = 0; i < 40; i++)
            ft_buf_printf(
                &body,
                "%s{\"type\":\"function\",\"function\":{\"name\":\"t%d\",\"parameters\":{"
                "\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"C%d\",\"Oslo\"],"
                "\"description\":\"%s\"},\"days\":{\"type\":\"integer\",\"minimum\":1,"
                "\"maximum\":9}},\"required\":[\"city\",\"days\"],"
                "\"additionalProperties\":false}}}",
                i ? "," : "", i, i, words);
        ft_buf_puts(&body, "]}");
        const int status =
            http_ask(p.port, "POST", "/v1/chat/completions", "", ft_buf_str(&body), &r);
        if (status != 200)
            fail_msg("%d %s", status, r.body.data);
        check_made(&r, required ? 1 : 2, required ? 1 : 60, fitting_of_many);
    }
    ft_buf_deinit(&body);
    end(&p);
}

/* A schema that the compiler alone refuses, which no edge sees beforehand: without a constraint,
 * and no error; required calls are refused by the field's name. */
static void test_refused(void **state)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":9,"
        "\"temperature\":0,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\","
        "\"multipleOf\":0.5}}}}}],\"tool_choice\":\"%s\"}";
    char asked[600], first[2000] = "";
    http_response r;
    (void)state;
    needs_libraries();
    pair p = start(TEMPLATE("[CALLS]", "[ARGS]", "{{ c.function.arguments | tojson }}", ""));
    for (int i = 0; i < 2; i++) {
        snprintf(asked, sizeof asked, body, "auto");
        assert_int_equal(http_ask(p.port, "POST", "/v1/chat/completions", "", asked, &r), 200);
        json_t *root = json_loads(r.body.data, 0, NULL);
        char *text = json_dumps(json_object_get(root, "choices"), JSON_COMPACT);
        if (i == 0)
            snprintf(first, sizeof first, "%s", text);
        assert_string_equal(text, first);
        free(text);
        json_decref(root);
        http_response_deinit(&r);
    }
    snprintf(asked, sizeof asked, body, "required");
    assert_int_equal(http_ask(p.port, "POST", "/v1/chat/completions", "", asked, &r), 400);
    assert_non_null(strstr(r.body.data, "\"param\":\"tool_choice\""));
    http_response_deinit(&r);
    end(&p);
}

/* The same over the other APIs: a whole answer, a stream, and one that is cut within a call. */
static void other_api(const pair *p, const char *path, const char *body, bool stream, uint32_t most,
                      http_response *r)
{
    ft_buf all = {0};
    ft_buf_printf(&all, "{%s,\"%s\":%u,\"temperature\":0,\"stream\":%s}", body,
                  strstr(path, "messages") ? "max_tokens" : "max_output_tokens", most,
                  stream ? "true" : "false");
    const int status = http_ask(p->port, "POST", path, "", all.data, r);
    if (status != 200)
        fail_msg("%d %s", status, r->body.data);
    ft_buf_deinit(&all);
}

#define FITTING                                                                      \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"Paris\",\"Oslo\"]}," \
    "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9}},"                  \
    "\"required\":[\"city\",\"days\"],\"additionalProperties\":false}"
#define FLAT_TOOL(type, schema) \
    "{\"type\":\"" type "\",\"name\":\"weather\",\"" schema "\":" FITTING "}"
#define RESPONSES                                                                    \
    "\"input\":\"x\",\"tool_choice\":\"required\",\"tools\":[" FLAT_TOOL("function", \
                                                                         "parameters") "]"
#define MESSAGES                                            \
    "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]," \
    "\"tool_choice\":{\"type\":\"any\"},\"tools\":[" FLAT_TOOL("custom", "input_schema") "]"

/* Member `name` of item i of a list. */
static json_t *of_item(const json_t *root, const char *list, size_t i, const char *name)
{
    return json_object_get(json_array_get(json_object_get(root, list), i), name);
}

static void test_other_apis(void **state)
{
    (void)state;
    needs_libraries();
    pair p = start(TEMPLATE("[CALLS]", "[ARGS]", "{{ c.function.arguments | tojson }}", ""));
    http_response r;
    other_api(&p, "/v1/responses", RESPONSES, false, 120, &r);
    json_t *root = json_loads(r.body.data, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(root, "output")), 1);
    assert_string_equal(json_string_value(of_item(root, "output", 0, "type")), "function_call");
    json_decref(fitting(json_array_get(json_object_get(root, "output"), 0)));
    json_decref(root);
    http_response_deinit(&r);
    other_api(&p, "/v1/responses", RESPONSES, true, 120, &r);
    assert_non_null(strstr(r.body.data, "event: response.function_call_arguments.done"));
    assert_null(strstr(r.body.data, "content_part"));
    http_response_deinit(&r);
    other_api(&p, "/v1/messages", MESSAGES, false, 120, &r);
    root = json_loads(r.body.data, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(root, "stop_reason")), "tool_use");
    assert_string_equal(json_string_value(of_item(root, "content", 0, "name")), "weather");
    assert_int_equal(json_object_size(of_item(root, "content", 0, "input")), 2);
    json_decref(root);
    http_response_deinit(&r);
    other_api(&p, "/v1/messages", MESSAGES, true, 120, &r);
    assert_non_null(strstr(r.body.data, "\"input_json_delta\""));
    assert_non_null(strstr(r.body.data, "\"stop_reason\":\"tool_use\""));
    http_response_deinit(&r);
    other_api(&p, "/v1/messages", MESSAGES, false, 20, &r); /* its arguments are no JSON */
    root = json_loads(r.body.data, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(root, "stop_reason")), "max_tokens");
    assert_int_equal(json_object_size(of_item(root, "content", 0, "input")), 0);
    json_decref(root);
    http_response_deinit(&r);
    end(&p);
}

/* A template that begins a thought: an answer that must be JSON has none. */
static void test_no_thought(void **state)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":40,"
        "\"temperature\":0%s}";
    static const char format[] =
        ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\",\"schema\":"
        "{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"],"
        "\"additionalProperties\":false}}}";
    char asked[600];
    http_response r;
    (void)state;
    needs_libraries();
    pair p = start(
        "{# </think> #}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
        "{% endif %}");
    for (int i = 0; i < 2; i++) {
        snprintf(asked, sizeof asked, body, i ? "" : format);
        assert_int_equal(http_ask(p.port, "POST", "/v1/chat/completions", "", asked, &r), 200);
        json_t *root = json_loads(r.body.data, 0, NULL);
        json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
        json_t *said = json_object_get(choice, "message");
        json_t *text = json_object_get(said, "content");
        json_t *value = json_loads(json_is_string(text) ? json_string_value(text) : "", 0, NULL);
        if (i == 0 && (!json_is_boolean(json_object_get(value, "ok")) ||
                       json_object_get(said, "reasoning_content")))
            fail_msg("%s", r.body.data);
        if (i == 1)
            assert_non_null(json_object_get(said, "reasoning_content"));
        json_decref(value);
        json_decref(root);
        http_response_deinit(&r);
    }
    end(&p);
}

/* A template whose calls have no JSON: the client learns it, and the next request goes on. */
static void test_cannot(void **state)
{
    http_response r;
    (void)state;
    needs_libraries();
    pair p = start(TEMPLATE("<call>", "<city>", "{{ c.function.arguments.city }}", "</call>"));
    assert_int_equal(ask(&p, ",\"tool_choice\":\"required\"", &r), 400);
    json_t *root = json_loads(r.body.data, 0, NULL);
    json_t *error = json_object_get(root, "error");
    assert_string_equal(json_string_value(json_object_get(error, "param")), "tool_choice");
    assert_non_null(strstr(json_string_value(json_object_get(error, "message")), "chat template"));
    json_decref(root);
    http_response_deinit(&r);
    assert_int_equal(ask(&p, ",\"tool_choice\":\"none\"", &r), 200);
    http_response_deinit(&r);
    end(&p);
}

/* ---- templates that refuse, or have no end ---- */

static const char moody[] =
    "{% for m in messages %}{% if m.content == 'late' %}"
    "{{ raise_exception('no word after ' ~ 'noon, ' ~ m.role) }}{% elif m.content == 'long' %}"
    "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

static void say(char *out, size_t size, const char *content, const char *more)
{
    snprintf(out, size,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":4%s}", content,
             more);
}

/* 400, with these words. */
static void check_words(const http_response *r, int status, const char *words)
{
    if (status != 400 || !strstr(r->body.data, words))
        fail_msg("%d %s", status, r->body.data);
    json_t *root = json_loads(r->body.data, 0, NULL);
    const json_t *error = json_object_get(root, "error");
    assert_string_equal(json_string_value(json_object_get(error, "type")), "invalid_request_error");
    json_decref(root);
}

static void test_refusing_template(void **state)
{
    static const char *const paths[] = {"/v1/chat/completions", "/v1/messages"};
    static const char *const ways[] = {"", ",\"stream\":true"};
    char body[200];
    http_response r;
    (void)state;
    needs_libraries();
    pair p = start(moody);
    for (size_t i = 0; i < 4; i++) {
        say(body, sizeof body, "late", ways[i % 2]);
        const int status = http_ask(p.port, "POST", paths[i / 2], "", body, &r);
        check_words(&r, status, "no word after noon, user");
        http_response_deinit(&r);
        say(body, sizeof body, "early", ways[i % 2]);
        assert_int_equal(http_ask(p.port, "POST", paths[i / 2], "", body, &r), 200);
        http_response_deinit(&r);
    }
    end(&p);
}

typedef struct asked {
    int port, status;
    http_response r;
    pthread_t thread;
} asked;

static void *ask_long(void *arg)
{
    asked *a = arg;
    char body[200];
    say(body, sizeof body, "long", "");
    a->status = http_ask(a->port, "POST", "/v1/chat/completions", "", body, &a->r);
    return NULL;
}

/* Other requests are served meanwhile, and the edge ends while one is rendered. */
static void test_endless_template(void **state)
{
    char body[200];
    http_response r;
    http_client c;
    (void)state;
    needs_libraries();
    pair p = start(moody);
    asked a = {.port = p.port};
    assert_int_equal(pthread_create(&a.thread, NULL, ask_long, &a), 0);
    for (size_t i = 0; i < 3; i++) {
        say(body, sizeof body, "short", "");
        assert_int_equal(http_ask(p.port, "POST", "/v1/chat/completions", "", body, &r), 200);
        http_response_deinit(&r);
    }
    pthread_join(a.thread, NULL);
    check_words(&a.r, a.status, "2 s");
    http_response_deinit(&a.r);
    say(body, sizeof body, "long", "");
    assert_true(http_client_open(&c, p.port));
    assert_true(http_client_request(&c, "POST", "/v1/chat/completions", "", body));
    end(&p);
    http_client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_letters),           cmocka_unit_test(test_control_tokens),
        cmocka_unit_test(test_own_accord),        cmocka_unit_test(test_other_apis),
        cmocka_unit_test(test_refused),           cmocka_unit_test(test_cannot),
        cmocka_unit_test(test_many_tools),        cmocka_unit_test(test_no_thought),
        cmocka_unit_test(test_refusing_template), cmocka_unit_test(test_endless_template),
    };
    signal(SIGPIPE, SIG_IGN);
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
