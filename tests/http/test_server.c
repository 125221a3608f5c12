// SPDX-License-Identifier: Apache-2.0
// The shapes of answers over a real socket (answer, exchange, reply): whole and streamed, both
// APIs, usage, logprobs, errors.
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

#include "http/openai.h"
#include "support/http_backend.h"
#include "support/http_client.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"

static http_backend backend;
static ft_http *http;
static int port;

static int setup(void **state)
{
    ft_error err = {0};
    http_backend_init(&backend);
    ft_http_opts opts = {.backend = http_backend_of(&backend), .refusal_ms = 1};
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

/* A JSON value by a path of keys and indices, "choices/0/message"; NULL where there is none. */
static json_t *at(json_t *v, const char *path)
{
    char key[64];
    while (v && *path) {
        size_t n = strcspn(path, "/");
        assert_true(n < sizeof key);
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        v = json_is_array(v) ? json_array_get(v, strtoul(key, NULL, 10)) : json_object_get(v, key);
        path += n + (path[n] == '/');
    }
    return v;
}

static const char *str_at(json_t *v, const char *path)
{
    const char *s = json_string_value(at(v, path));
    return s ? s : "(none)";
}

static json_int_t int_at(json_t *v, const char *path)
{
    assert_true(json_is_integer(at(v, path)));
    return json_integer_value(at(v, path));
}

static json_t *load(const char *text, size_t n)
{
    json_error_t e;
    json_t *v = json_loadb(text, n, 0, &e);
    if (!v)
        fail_msg("%s in: %.*s", e.text, (int)n, text);
    return v;
}

static json_t *ask(int status, const char *method, const char *path, const char *body)
{
    http_response r;
    char type[64];
    int got = http_ask(port, method, path, "", body, &r);
    if (got != status)
        fail_msg("%s %s: %d instead of %d: %s", method, path, got, status, ft_buf_str(&r.body));
    assert_true(http_response_header(&r, "Content-Type", type, sizeof type));
    assert_string_equal(type, "application/json");
    json_t *v = load(r.body.data, r.body.len);
    http_response_deinit(&r);
    return v;
}

/* The events of a streamed answer as a list; the last one must be [DONE] and is left out. */
static json_t *ask_stream(const char *path, const char *body)
{
    http_response r;
    char type[64];
    json_t *events = json_array();
    assert_int_equal(http_ask(port, "POST", path, "", body, &r), 200);
    assert_true(http_response_header(&r, "Content-Type", type, sizeof type));
    assert_string_equal(type, "text/event-stream; charset=utf-8");
    const char *p = ft_buf_str(&r.body), *end;
    while (strncmp(p, "data: {", 7) == 0 && (end = strstr(p, "\n\n"))) {
        json_array_append_new(events, load(p + 6, (size_t)(end - p) - 6));
        p = end + 2;
    }
    assert_string_equal(p, "data: [DONE]\n\n");
    http_response_deinit(&r);
    return events;
}

static void check_usage(json_t *usage, json_int_t prompt, json_int_t completion)
{
    assert_int_equal(int_at(usage, "prompt_tokens"), prompt);
    assert_int_equal(int_at(usage, "completion_tokens"), completion);
    assert_int_equal(int_at(usage, "total_tokens"), prompt + completion);
    assert_int_equal(int_at(usage, "prompt_tokens_details/cached_tokens"), 1);
    assert_int_equal(int_at(usage, "completion_tokens_details/accepted_prediction_tokens"), 4);
    assert_int_equal(int_at(usage, "completion_tokens_details/rejected_prediction_tokens"), 6);
    assert_int_equal(int_at(usage, "foretoken/rounds"), 3);
    assert_int_equal(int_at(usage, "foretoken/drafted"), 7);
    assert_int_equal(int_at(usage, "foretoken/accepted"), 5);
    assert_int_equal(int_at(usage, "foretoken/runs"), 2);
    assert_int_equal(int_at(usage, "foretoken/run_tokens"), 9);
    assert_int_equal(int_at(usage, "foretoken/bytes_sent"), 11);
    assert_int_equal(int_at(usage, "foretoken/bytes_received"), 13);
    assert_true(json_real_value(at(usage, "foretoken/ttft_ms")) == 1.5);
    assert_true(json_real_value(at(usage, "foretoken/total_ms")) == 2.5);
}

static void test_models(void **state)
{
    json_t *v = ask(200, "GET", "/v1/models", NULL);
    assert_string_equal(str_at(v, "object"), "list");
    assert_int_equal(json_array_size(at(v, "data")), 2);
    assert_int_equal(int_at(v, "data/0/max_model_len"), HTTP_BACKEND_CONTEXT);
    assert_string_equal(str_at(v, "data/1/id"), HTTP_BACKEND_ALIAS);
    assert_string_equal(str_at(v, "data/0/id"), HTTP_BACKEND_MODEL);
    assert_string_equal(str_at(v, "data/0/object"), "model");
    assert_true(int_at(v, "data/0/created") > 1600000000);
    json_decref(v);
    v = ask(200, "GET", "/v1/models/test%2Fmodel-1", NULL);
    assert_string_equal(str_at(v, "id"), HTTP_BACKEND_MODEL);
    json_decref(v);
    v = ask(200, "GET", "/v1/models/test/model-1", NULL);
    json_decref(v);
    v = ask(200, "GET", "/v1/models/" HTTP_BACKEND_ALIAS, NULL);
    assert_string_equal(str_at(v, "id"), HTTP_BACKEND_ALIAS);
    json_decref(v);
    v = ask(200, "POST", TEXT, "{\"prompt\":\"a\",\"model\":\"" HTTP_BACKEND_ALIAS "\"}");
    assert_string_equal(str_at(v, "model"), HTTP_BACKEND_ALIAS);
    json_decref(v);
    v = ask(404, "GET", "/v1/models/other", NULL);
    assert_string_equal(str_at(v, "error/code"), "model_not_found");
    json_decref(v);
}

static void test_health_and_metrics(void **state)
{
    http_response r;
    json_t *v = ask(200, "GET", "/health", NULL);
    assert_string_equal(str_at(v, "status"), "ok");
    json_decref(v);
    backend.sick = true;
    v = ask(503, "GET", "/health", NULL);
    assert_string_equal(str_at(v, "error/message"), "the server at 10.0.0.9 is away");
    assert_string_equal(str_at(v, "error/type"), "server_error");
    json_decref(v);
    backend.sick = false;
    assert_int_equal(http_ask(port, "GET", "/metrics", "", NULL, &r), 200);
    assert_non_null(strstr(ft_buf_str(&r.body), "test_generations"));
    http_response_deinit(&r);
}

/* A backend that cannot generate yet says why, whatever is asked of it. */
static void test_not_there_yet(void **state)
{
    static const char *const asked[][3] = {{"GET", "/v1/models", NULL},
                                           {"GET", "/v1/models/" HTTP_BACKEND_MODEL, NULL},
                                           {"POST", TEXT, "{\"model\":\"any\",\"prompt\":\"a\"}"}};
    const unsigned before = http_backend_count(&backend, &backend.started);
    backend.early = true;
    for (int i = 0; i < 3; i++) {
        json_t *v = ask(503, asked[i][0], asked[i][1], asked[i][2]);
        assert_string_equal(str_at(v, "error/message"), "no server at 10.0.0.9 yet");
        assert_string_equal(str_at(v, "error/code"), "unavailable");
        json_decref(v);
    }
    backend.early = false;
    assert_int_equal(http_backend_count(&backend, &backend.started), before);
}

/* {"prompt":"`unit`, n times"} */
static char *prompt_of(const char *unit, size_t n)
{
    const size_t one = strlen(unit);
    char *body = malloc(32 + n * one), *at = body;
    assert_non_null(body);
    at = stpcpy(at, "{\"prompt\":\"");
    for (size_t i = 0; i < n; i++, at += one)
        memcpy(at, unit, one);
    strcpy(at, "\"}");
    return body;
}

/* A text that cannot fit into the context is refused by its bytes, before anybody tokenizes it. One
 * that fits does so with every byte escaped, too. */
/* The ids of `body`'s text as one number: "abc" is 123. */
static void expect_tokens(const char *path, const char *body, json_int_t expected)
{
    json_t *v = ask(200, "POST", path, body), *list = at(v, "tokens");
    json_int_t number = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t id = json_integer_value(json_array_get(list, i));
        number = 10 * number + (id == 0 ? 9 : id - HTTP_BACKEND_PIECES + 1); /* 9: BOS */
    }
    assert_int_equal(number, expected);
    assert_int_equal(int_at(v, "count"), json_array_size(list));
    assert_int_equal(int_at(v, "max_model_len"), HTTP_BACKEND_CONTEXT);
    json_decref(v);
}

static void test_tokenize(void **state)
{
    expect_tokens("/v1/tokenize", "{\"prompt\":\"abc\"}", 9123);
    expect_tokens("/tokenize", "{\"prompt\":\"abc\",\"add_special_tokens\":false}", 123);
    expect_tokens("/tokenize", "{\"content\":\"abc\"}", 123);
    expect_tokens("/tokenize", "{\"content\":\"abc\",\"add_special\":true}", 9123);
    expect_tokens("/tokenize", "{\"content\":\"\",\"parse_special\":false}", 0);
    expect_tokens("/tokenize", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", 1);
    static const struct {
        const char *body, *param;
    } bad[] = {
        {"{}", "prompt"},
        {"{\"prompt\":[1]}", "prompt"},
        {"{\"content\":1}", "content"},
        {"{\"content\":\"a\",\"prompt\":\"a\"}", "content"},
        {"{\"content\":\"a\",\"with_pieces\":true}", "with_pieces"},
        {"{\"content\":\"a\",\"parse_special\":true}", "parse_special"},
        {"{\"content\":\"a\",\"add_special\":1}", "add_special"},
        {"{\"messages\":[]}", "messages"},
        {"{\"content\":\"a\",\"model\":1}", "model"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *v = ask(400, "POST", "/tokenize", bad[i].body);
        assert_string_equal(str_at(v, "error/param"), bad[i].param);
        json_decref(v);
    }
    json_decref(ask(400, "POST", "/tokenize", "{\"content\":\"A\"}")); /* the backend's error */
    json_decref(ask(404, "POST", "/tokenize", "{\"content\":\"a\",\"model\":\"x\"}"));
    json_decref(ask(405, "GET", "/tokenize", NULL));
}

static void test_detokenize(void **state)
{
    json_t *v = ask(200, "POST", "/v1/detokenize", "{\"tokens\":[1002,1000,1001]}");
    assert_string_equal(str_at(v, "content"), "cab");
    assert_string_equal(str_at(v, "prompt"), "cab");
    json_decref(v);
    v = ask(200, "POST", "/detokenize", "{\"tokens\":[]}");
    assert_string_equal(str_at(v, "content"), "");
    json_decref(v);
    static const char *const bad[] = {"{}",
                                      "{\"tokens\":\"a\"}",
                                      "{\"tokens\":[1021]}",
                                      "{\"tokens\":[-1]}",
                                      "{\"tokens\":[1.5]}",
                                      "[]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        json_decref(ask(400, "POST", "/detokenize", bad[i]));
}

static void test_props(void **state)
{
    json_t *v = ask(200, "GET", "/props", NULL);
    assert_int_equal(int_at(v, "default_generation_settings/n_ctx"), HTTP_BACKEND_CONTEXT);
    assert_string_equal(str_at(v, "model_alias"), HTTP_BACKEND_MODEL);
    assert_string_equal(str_at(v, "chat_template"), HTTP_BACKEND_TEMPLATE);
    json_decref(v);
}

static void test_long_text(void **state)
{
    const unsigned before = http_backend_count(&backend, &backend.started);
    char *body = prompt_of("A", HTTP_BACKEND_TEXT_BYTES + 1);
    json_t *v = ask(400, "POST", TEXT, body);
    assert_string_equal(str_at(v, "error/code"), "context_length_exceeded");
    assert_string_equal(str_at(v, "error/param"), "prompt");
    json_decref(v);
    free(body);
    assert_int_equal(http_backend_count(&backend, &backend.started), before);
    body = prompt_of("\\u0041", HTTP_BACKEND_TEXT_BYTES);
    v = ask(200, "POST", TEXT, body);
    assert_int_equal(strlen(str_at(v, "choices/0/text")), HTTP_BACKEND_TEXT_BYTES);
    json_decref(v);
    free(body);
}

/* The body's limit follows from the text's. What is larger is refused by its announced size. */
static void test_long_body(void **state)
{
    const size_t most = ((size_t)64 << 10) + 6 * HTTP_BACKEND_TEXT_BYTES;
    http_client c;
    http_response r;
    char head[256];
    snprintf(head, sizeof head,
             "POST " TEXT " HTTP/1.1\r\nHost: localhost:%d\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             port, most + 1);
    assert_true(http_client_open(&c, port) && http_client_puts(&c, head));
    assert_true(http_client_response(&c, false, &r));
    assert_int_equal(r.status, 413);
    assert_non_null(strstr(ft_buf_str(&r.body), "body_too_large"));
    http_response_deinit(&r);
    http_client_close(&c);
    char *body = malloc(most + 1);
    assert_non_null(body);
    memset(body, ' ', most);
    memcpy(body, "{\"prompt\":\"A\"}", 14);
    body[most] = 0;
    json_decref(ask(200, "POST", TEXT, body));
    free(body);
}

static void test_chat(void **state)
{
    json_t *v = ask(200, "POST", CHAT,
                    "{\"model\":\"" HTTP_BACKEND_MODEL "\",\"messages\":[{\"role\":\"user\","
                    "\"content\":\"one two \\u2026 \\\"q\\\"\"}]}");
    assert_memory_equal(str_at(v, "id"), "chatcmpl-", 9);
    assert_string_equal(str_at(v, "object"), "chat.completion");
    assert_string_equal(str_at(v, "model"), HTTP_BACKEND_MODEL);
    assert_string_equal(str_at(v, "system_fingerprint"), "fp_00000000000000ab");
    assert_true(int_at(v, "created") > 1600000000);
    assert_int_equal(json_array_size(at(v, "choices")), 1);
    assert_int_equal(int_at(v, "choices/0/index"), 0);
    assert_string_equal(str_at(v, "choices/0/message/role"), "assistant");
    assert_string_equal(str_at(v, "choices/0/message/content"), "one two \xe2\x80\xa6 \"q\"");
    assert_true(json_is_null(at(v, "choices/0/logprobs")));
    assert_string_equal(str_at(v, "choices/0/finish_reason"), "stop");
    check_usage(at(v, "usage"), 15, 4);
    json_decref(v);
    v = ask(200, "POST", CHAT,
            "{\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"one two three\"}]}");
    assert_string_equal(str_at(v, "choices/0/message/content"), "one two ");
    assert_string_equal(str_at(v, "choices/0/finish_reason"), "length");
    json_decref(v);
    v = ask(200, "POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}");
    assert_string_equal(str_at(v, "choices/0/message/content"), "");
    json_decref(v);
}

static void test_completion(void **state)
{
    json_t *v = ask(200, "POST", TEXT, "{\"prompt\":\"one two\",\"max_tokens\":9}");
    assert_memory_equal(str_at(v, "id"), "cmpl-", 5);
    assert_string_equal(str_at(v, "object"), "text_completion");
    assert_string_equal(str_at(v, "choices/0/text"), "one two");
    assert_string_equal(str_at(v, "choices/0/finish_reason"), "stop");
    assert_true(json_is_null(at(v, "choices/0/logprobs")));
    check_usage(at(v, "usage"), 7, 2);
    json_decref(v);
    v = ask(200, "POST", TEXT, "{\"prompt\":[5,6,7]}");
    assert_string_equal(str_at(v, "choices/0/text"), "tokens 3");
    json_decref(v);
}

static void test_chat_logprobs(void **state)
{
    json_t *v = ask(200, "POST", CHAT,
                    "{\"logprobs\":true,\"top_logprobs\":2,\"messages\":[{\"role\":\"user\","
                    "\"content\":\"pieces\"}]}");
    json_t *content = at(v, "choices/0/logprobs/content");
    assert_string_equal(str_at(v, "choices/0/message/content"), "\xe2\x80\xa6");
    assert_int_equal(json_array_size(content), 2);
    assert_string_equal(str_at(content, "0/token"), "\\xe2\\x80");
    assert_int_equal(int_at(content, "0/bytes/0"), 0xe2);
    assert_int_equal(int_at(content, "1/bytes/0"), 0xa6);
    assert_true(json_real_value(at(content, "0/logprob")) == -0.25);
    assert_int_equal(json_array_size(at(content, "0/top_logprobs")), 2);
    assert_string_equal(str_at(content, "0/top_logprobs/1/token"), "b");
    assert_true(json_real_value(at(content, "0/top_logprobs/1/logprob")) == -1.25);
    json_decref(v);
    v = ask(200, "POST", CHAT,
            "{\"logprobs\":true,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    content = at(v, "choices/0/logprobs/content");
    assert_int_equal(json_array_size(at(content, "0/top_logprobs")), 0);
    json_decref(v);
}

static void test_completion_logprobs(void **state)
{
    json_t *v = ask(200, "POST", TEXT, "{\"prompt\":\"\\u00e9\\u00e9 b c\",\"logprobs\":2}");
    json_t *l = at(v, "choices/0/logprobs");
    assert_int_equal(json_array_size(at(l, "tokens")), 3);
    assert_string_equal(str_at(l, "tokens/0"), "\xc3\xa9\xc3\xa9 ");
    assert_true(json_real_value(at(l, "token_logprobs/2")) == -0.25);
    assert_int_equal(json_array_size(at(l, "text_offset")), 3);
    assert_int_equal(int_at(l, "text_offset/0"), 0);
    assert_int_equal(int_at(l, "text_offset/1"), 3); /* characters, not bytes */
    assert_int_equal(int_at(l, "text_offset/2"), 5);
    assert_true(json_real_value(json_object_get(at(l, "top_logprobs/2"), "c")) == -0.25);
    assert_true(json_real_value(json_object_get(at(l, "top_logprobs/2"), "b")) == -1.25);
    json_decref(v);
    v = ask(200, "POST", TEXT, "{\"prompt\":\"pieces\",\"logprobs\":0}");
    assert_string_equal(str_at(v, "choices/0/logprobs/tokens/0"), "bytes:\\xe2\\x80");
    assert_true(json_is_null(at(v, "choices/0/logprobs/top_logprobs")));
    json_decref(v);
}

static void test_chat_stream(void **state)
{
    json_t *e = ask_stream(CHAT, "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":"
                                 "\"one two three\"}],\"max_tokens\":2}");
    assert_int_equal(json_array_size(e), 4);
    assert_string_equal(str_at(e, "0/object"), "chat.completion.chunk");
    assert_string_equal(str_at(e, "0/choices/0/delta/role"), "assistant");
    assert_string_equal(str_at(e, "0/choices/0/delta/content"), "");
    assert_string_equal(str_at(e, "1/choices/0/delta/content"), "one ");
    assert_null(at(e, "1/choices/0/delta/role"));
    assert_true(json_is_null(at(e, "1/choices/0/finish_reason")));
    assert_string_equal(str_at(e, "2/choices/0/delta/content"), "two ");
    assert_int_equal(json_object_size(at(e, "3/choices/0/delta")), 0);
    assert_string_equal(str_at(e, "3/choices/0/finish_reason"), "length");
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(str_at(json_array_get(e, i), "id"), str_at(e, "0/id"));
        assert_null(at(json_array_get(e, i), "usage"));
    }
    json_decref(e);
}

static void test_stream_usage(void **state)
{
    json_t *e = ask_stream(CHAT, "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                                 "\"messages\":[{\"role\":\"user\",\"content\":\"one\"}]}");
    assert_int_equal(json_array_size(e), 4);
    assert_true(json_is_null(at(e, "0/usage")));
    assert_true(json_is_null(at(e, "2/usage")));
    assert_int_equal(json_array_size(at(e, "3/choices")), 0);
    check_usage(at(e, "3/usage"), 3, 1);
    json_decref(e);
    e = ask_stream(TEXT, "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                         "\"prompt\":\"one\"}");
    assert_int_equal(json_array_size(e), 3);
    check_usage(at(e, "2/usage"), 3, 1);
    json_decref(e);
}

static void check_timings(json_t *timings)
{
    assert_int_equal(int_at(timings, "cache_n"), 1);
    assert_int_equal(int_at(timings, "prompt_n"), 2);
    assert_true(json_real_value(at(timings, "prompt_ms")) == 4);
    assert_true(json_real_value(at(timings, "prompt_per_token_ms")) == 2);
    assert_true(json_real_value(at(timings, "prompt_per_second")) == 500);
    assert_int_equal(int_at(timings, "predicted_n"), 1);
    assert_true(json_real_value(at(timings, "predicted_ms")) == 2);
    assert_int_equal(int_at(timings, "draft_n"), 7);
    assert_int_equal(int_at(timings, "draft_n_accepted"), 5);
}

/* In a whole answer, and in a stream's last event. */
static void test_timings(void **state)
{
    json_t *v = ask(200, "POST", TEXT, "{\"prompt\":\"one\"}");
    check_timings(at(v, "timings"));
    json_decref(v);
    v = ask_stream(TEXT, "{\"stream\":true,\"prompt\":\"one\"}");
    assert_null(at(v, "0/timings"));
    check_timings(at(v, "1/timings"));
    json_decref(v);
    v = ask_stream(TEXT, "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                         "\"prompt\":\"one\"}");
    assert_null(at(v, "1/timings"));
    check_timings(at(v, "2/timings"));
    json_decref(v);
}

static void test_several(void **state)
{
    json_t *v = ask(200, "POST", TEXT, "{\"prompt\":[\"seed\",\"x y\"],\"n\":2,\"seed\":40}");
    static const char *const texts[] = {"40", "41", "x y", "x y"};
    assert_int_equal(json_array_size(at(v, "choices")), 4);
    for (int i = 0; i < 4; i++) {
        json_t *choice = json_array_get(at(v, "choices"), (size_t)i);
        assert_int_equal(int_at(choice, "index"), i);
        assert_string_equal(str_at(choice, "text"), texts[i]);
        assert_string_equal(str_at(choice, "finish_reason"), "stop");
    }
    assert_int_equal(int_at(v, "usage/prompt_tokens"), 4 + 3); /* each prompt once */
    assert_int_equal(int_at(v, "usage/completion_tokens"), 1 + 1 + 2 + 2);
    assert_int_equal(json_array_size(at(v, "usage/foretoken")), 4);
    assert_int_equal(int_at(v, "usage/foretoken/3/rounds"), 3);
    json_decref(v);
    v = ask(429, "POST", TEXT, "{\"prompt\":[\"x\",\"overload\"]}");
    json_decref(v);
}

static void test_several_stream(void **state)
{
    json_t *e = ask_stream(CHAT, "{\"stream\":true,\"n\":2,\"seed\":5,\"messages\":["
                                 "{\"role\":\"user\",\"content\":\"seed\"}]}");
    assert_int_equal(json_array_size(e), 6); /* of each: role, text, end */
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(int_at(json_array_get(e, i), "choices/0/index"), i / 3);
    assert_string_equal(str_at(e, "3/choices/0/delta/role"), "assistant");
    assert_string_equal(str_at(e, "1/choices/0/delta/content"), "5");
    assert_string_equal(str_at(e, "4/choices/0/delta/content"), "6");
    assert_string_equal(str_at(e, "2/choices/0/finish_reason"), "stop");
    assert_null(at(e, "2/timings"));
    assert_int_equal(int_at(e, "5/timings/predicted_n"), 2);
    json_decref(e);
    e = ask_stream(TEXT, "{\"stream\":true,\"prompt\":[\"a\",\"overload\"]}");
    assert_string_equal(str_at(e, "2/error/code"), "rate_limit_exceeded"); /* text, end, error */
    json_decref(e);
}

#define THINKS "\"messages\":[{\"role\":\"user\",\"content\":\"<think>a b </think>\\n c d\"}]"

static void test_thoughts(void **state)
{
    json_t *v = ask(200, "POST", CHAT, "{" THINKS "}");
    assert_string_equal(str_at(v, "choices/0/message/reasoning_content"), "a b");
    assert_string_equal(str_at(v, "choices/0/message/content"), "c d");
    json_decref(v);
    v = ask(200, "POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    assert_null(at(v, "choices/0/message/reasoning_content"));
    json_decref(v);
    v = ask(200, "POST", TEXT, "{\"prompt\":\"<think>a</think>b\"}"); /* no chat */
    assert_string_equal(str_at(v, "choices/0/text"), "<think>a</think>b");
    json_decref(v);
    v = ask_stream(CHAT, "{\"stream\":true,\"n\":2,\"max_tokens\":3," THINKS "}");
    assert_string_equal(str_at(v, "1/choices/0/delta/reasoning_content"), "a");
    assert_string_equal(str_at(v, "2/choices/0/delta/reasoning_content"), " b");
    assert_string_equal(str_at(v, "3/choices/0/finish_reason"), "length");
    assert_string_equal(str_at(v, "5/choices/0/delta/reasoning_content"), "a"); /* the second */
    json_decref(v);
    v = ask_stream(CHAT, "{\"stream\":true," THINKS "}");
    assert_string_equal(str_at(v, "3/choices/0/delta/content"), "c ");
    assert_string_equal(str_at(v, "4/choices/0/delta/content"), "d");
    json_decref(v);
    v = ask_stream(CHAT, "{\"stream\":true,\"logprobs\":true,\"max_tokens\":3," THINKS "}");
    size_t n = 0; /* each token's log-probability comes once */
    for (size_t i = 0; i < json_array_size(v); i++)
        n += json_array_size(at(json_array_get(v, i), "choices/0/logprobs/content"));
    assert_int_equal(n, 3);
    json_decref(v);
    /* spans count the text as it is */
    v = ask_stream(CHAT,
                   "{\"stream\":true,\"stream_options\":{\"include_draft\":true}," THINKS "}");
    assert_string_equal(str_at(v, "1/choices/0/delta/content"), "<think>a ");
    json_decref(v);
}

static void test_thoughts_left(void **state)
{
    ft_error err = {0};
    ft_http *other;
    const ft_http_opts opts = {.backend = http_backend_of(&backend),
                               .reasoning = FT_HTTP_REASONING_NONE};
    const int kept = port;
    assert_int_equal(ft_http_create(&opts, &err, &other), FT_OK);
    port = ft_http_port(other);
    json_t *v = ask(200, "POST", CHAT, "{" THINKS "}");
    assert_string_equal(str_at(v, "choices/0/message/content"), "<think>a b </think>\n c d");
    assert_null(at(v, "choices/0/message/reasoning_content"));
    json_decref(v);
    port = kept;
    ft_http_destroy(other);
}

static void test_stream_draft(void **state)
{
    json_t *e = ask_stream(CHAT, "{\"stream\":true,\"stream_options\":{\"include_draft\":true},"
                                 "\"messages\":[{\"role\":\"user\",\"content\":\"one two\"}]}");
    assert_int_equal(json_array_size(e), 4);
    assert_null(at(e, "0/foretoken")); /* it names the role */
    assert_string_equal(str_at(e, "1/choices/0/delta/content"), "one ");
    assert_int_equal(int_at(e, "1/foretoken/spans/0/0"), 3);
    assert_string_equal(str_at(e, "1/foretoken/spans/0/1"), "draft");
    assert_int_equal(int_at(e, "1/foretoken/spans/1/0"), 1);
    assert_string_equal(str_at(e, "1/foretoken/spans/1/1"), "target");
    assert_int_equal(int_at(e, "2/foretoken/round"), int_at(e, "1/foretoken/round") + 1);
    assert_true(json_real_value(at(e, "1/foretoken/ms")) == 1.5);
    assert_true(json_real_value(at(e, "1/foretoken/rtt_ms")) == 0.25);
    assert_null(at(e, "1/foretoken/wait_ms")); /* it is not known */
    assert_null(at(e, "1/foretoken/reason"));
    assert_string_equal(str_at(e, "1/foretoken/kind"), "tree");
    assert_int_equal(int_at(e, "1/foretoken/drafted"), 3);
    assert_int_equal(int_at(e, "1/foretoken/accepted"), 1);
    assert_int_equal(int_at(e, "1/foretoken/tokens"), 1);
    assert_int_equal(int_at(e, "1/foretoken/bytes_sent"), 40);
    assert_string_equal(str_at(e, "1/foretoken/rejected/0"), " no");
    assert_string_equal(str_at(e, "1/foretoken/rejected/1"), "\xef\xbf\xbd");
    assert_null(at(e, "3/foretoken"));
    json_decref(e);
    e = ask_stream(TEXT, "{\"stream\":true,\"stream_options\":{\"include_draft\":true},"
                         "\"prompt\":\"lost\"}");
    assert_int_equal(json_array_size(e), 3);
    assert_string_equal(str_at(e, "0/choices/0/text"), "");
    assert_string_equal(str_at(e, "0/foretoken/state"), "reconnecting");
    assert_string_equal(str_at(e, "1/choices/0/text"), "back");
    assert_int_equal(int_at(e, "1/foretoken/spans/0/0"), 3);
    json_decref(e);
    e = ask_stream(TEXT, "{\"stream\":true,\"prompt\":\"lost\"}"); /* nobody asked */
    assert_int_equal(json_array_size(e), 2);
    assert_null(at(e, "0/foretoken"));
    json_decref(e);
}

static void test_no_speculation(void **state)
{
    json_t *v = ask(200, "POST", TEXT, "{\"prompt\":\"undrafted\",\"no_speculation\":true}");
    assert_string_equal(str_at(v, "choices/0/text"), "yes");
    json_decref(v);
    v = ask(200, "POST", TEXT, "{\"prompt\":\"undrafted\"}");
    assert_string_equal(str_at(v, "choices/0/text"), "no");
    json_decref(v);
}

static void test_completion_stream(void **state)
{
    json_t *e = ask_stream(TEXT, "{\"stream\":true,\"prompt\":\"one two\",\"logprobs\":1}");
    assert_int_equal(json_array_size(e), 3);
    assert_string_equal(str_at(e, "0/object"), "text_completion");
    assert_string_equal(str_at(e, "0/choices/0/text"), "one ");
    assert_int_equal(int_at(e, "0/choices/0/logprobs/text_offset/0"), 0);
    assert_string_equal(str_at(e, "1/choices/0/text"), "two");
    assert_int_equal(int_at(e, "1/choices/0/logprobs/text_offset/0"), 4);
    assert_string_equal(str_at(e, "2/choices/0/text"), "");
    assert_string_equal(str_at(e, "2/choices/0/finish_reason"), "stop");
    json_decref(e);
}

static void test_stream_logprobs(void **state)
{
    json_t *e = ask_stream(CHAT, "{\"stream\":true,\"logprobs\":true,\"messages\":[{\"role\":"
                                 "\"user\",\"content\":\"pieces\"}]}");
    /* role; a token without text yet; the character; the end */
    assert_int_equal(json_array_size(e), 4);
    assert_string_equal(str_at(e, "1/choices/0/delta/content"), "");
    assert_int_equal(int_at(e, "1/choices/0/logprobs/content/0/bytes/1"), 0x80);
    assert_string_equal(str_at(e, "2/choices/0/delta/content"), "\xe2\x80\xa6");
    json_decref(e);
}

static void check_error(json_t *v, const char *type, const char *code)
{
    assert_int_equal(json_object_size(at(v, "error")), 4);
    assert_string_equal(str_at(v, "error/type"), type);
    if (code)
        assert_string_equal(str_at(v, "error/code"), code);
    else
        assert_true(json_is_null(at(v, "error/code")));
    assert_true(strlen(str_at(v, "error/message")) > 5);
    json_decref(v);
}

static void test_errors(void **state)
{
    check_error(ask(404, "GET", "/v1/nothing", NULL), "invalid_request_error", "unknown_url");
    check_error(ask(404, "GET", "/v1", NULL), "invalid_request_error", "unknown_url");
    check_error(ask(405, "GET", CHAT, NULL), "invalid_request_error", "method_not_allowed");
    check_error(ask(405, "DELETE", "/v1/models", NULL), "invalid_request_error",
                "method_not_allowed");
    check_error(ask(405, "POST", "/health", "{}"), "invalid_request_error", "method_not_allowed");
    check_error(ask(400, "POST", CHAT, "{"), "invalid_request_error", "invalid_json");
    check_error(ask(400, "POST", CHAT, ""), "invalid_request_error", "invalid_json");
    json_t *v = ask(400, "POST", TEXT, "{\"prompt\":\"x\",\"temperature\":\"warm\"}");
    assert_string_equal(str_at(v, "error/param"), "temperature");
    check_error(v, "invalid_request_error", "invalid_type");
    v = ask(404, "POST", TEXT, "{\"prompt\":\"x\",\"model\":\"gpt\\u00e9\"}");
    assert_non_null(strstr(str_at(v, "error/message"), "gpt\xc3\xa9"));
    check_error(v, "invalid_request_error", "model_not_found");
}

/* What the backend refuses is an error status, for a stream too; a stream that began ends in an
 * event. */
static void test_backend_errors(void **state)
{
    check_error(ask(400, "POST", TEXT, "{\"prompt\":\"refuse\"}"), "invalid_request_error",
                "context_length_exceeded");
    check_error(ask(400, "POST", TEXT, "{\"prompt\":\"refuse\",\"stream\":true}"),
                "invalid_request_error", "context_length_exceeded");
    check_error(ask(429, "POST", TEXT, "{\"prompt\":\"overload\"}"), "rate_limit_error",
                "rate_limit_exceeded");
    check_error(ask(401, "POST", TEXT, "{\"prompt\":\"stranger\"}"), "invalid_request_error",
                "not_authenticated");
    check_error(ask(403, "POST", TEXT, "{\"prompt\":\"forbid\",\"stream\":true}"),
                "invalid_request_error", "permission_denied");
    check_error(ask(502, "POST", TEXT, "{\"prompt\":\"misfit\"}"), "server_error",
                "upstream_refused");
    check_error(ask(503, "POST", TEXT, "{\"prompt\":\"away\"}"), "server_error", "unavailable");
    check_error(ask(500, "POST", TEXT, "{\"prompt\":\"break\"}"), "server_error", NULL);
    json_t *e = ask_stream(TEXT, "{\"prompt\":\"break\",\"stream\":true}");
    assert_int_equal(json_array_size(e), 2);
    assert_string_equal(str_at(e, "0/choices/0/text"), "half ");
    assert_string_equal(str_at(e, "1/error/message"), "it broke");
    json_decref(e);
}

/* When to try again is what the backend says, in whole seconds; else a second. */
static void test_retry_after(void **state)
{
    static const struct {
        const char *body, *seconds;
    } cases[] = {{"{\"prompt\":\"overload\"}", "3"}, {"{\"prompt\":\"away\"}", "1"}};
    for (size_t i = 0; i < 2; i++) {
        http_response r;
        char seconds[16];
        assert_true(http_ask(port, "POST", TEXT, "", cases[i].body, &r) >= 429);
        assert_true(http_response_header(&r, "Retry-After", seconds, sizeof seconds));
        assert_string_equal(seconds, cases[i].seconds);
        http_response_deinit(&r);
    }
}

static void test_keep_alive_and_head(void **state)
{
    http_client c;
    http_response r;
    char allow[64];
    assert_true(http_client_open(&c, port));
    /* two requests at once on one connection, then a HEAD, then a POST */
    assert_true(http_client_request(&c, "GET", "/v1/models", "", NULL));
    assert_true(http_client_request(&c, "GET", "/health", "", NULL));
    assert_true(http_client_response(&c, false, &r) && r.status == 200);
    http_response_deinit(&r);
    assert_true(http_client_response(&c, false, &r) && r.status == 200);
    http_response_deinit(&r);
    assert_true(http_client_request(&c, "HEAD", "/v1/models", "", NULL));
    assert_true(http_client_response(&c, true, &r) && r.status == 200);
    http_response_deinit(&r);
    assert_true(http_client_request(&c, "PUT", "/health", "", NULL));
    assert_true(http_client_response(&c, false, &r) && r.status == 405);
    assert_true(http_response_header(&r, "Allow", allow, sizeof allow));
    assert_string_equal(allow, "GET, HEAD, OPTIONS");
    http_response_deinit(&r);
    for (int i = 0; i < 3; i++) {
        assert_true(http_client_request(&c, "POST", TEXT, "",
                                        "{\"prompt\":\"again and\",\"stream\":true}"));
        assert_true(http_client_response(&c, false, &r) && r.status == 200);
        assert_non_null(strstr(r.body.data, "[DONE]"));
        http_response_deinit(&r);
    }
    http_client_close(&c);
}

/* A connection that has asked for nothing but /health cannot be kept by asking again. */
static void test_health_keeps_nothing(void **state)
{
    http_client c;
    http_response r;
    char value[16];
    assert_true(http_client_open(&c, port));
    assert_true(http_client_request(&c, "GET", "/health", "", NULL));
    assert_true(http_client_response(&c, false, &r) && r.status == 200);
    assert_true(http_response_header(&r, "Connection", value, sizeof value));
    assert_string_equal(value, "close");
    assert_true(http_client_at_end(&c));
    http_response_deinit(&r);
    http_client_close(&c);
}

static void test_chunked_body_and_http10(void **state)
{
    http_client c;
    http_response r;
    char text[256];
    assert_true(http_client_open(&c, port));
    snprintf(text, sizeof text,
             "POST " TEXT " HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: application/json; "
             "charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
             "9\r\n{\"prompt\"\r\n6\r\n:\"ab\"}\r\n0\r\n\r\n",
             port);
    assert_true(http_client_puts(&c, text) && http_client_response(&c, false, &r));
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body.data, "\"text\":\"ab\""));
    http_response_deinit(&r);
    http_client_close(&c);
    assert_true(http_client_open(&c, port));
    snprintf(text, sizeof text,
             "POST " TEXT " HTTP/1.0\r\nHost: localhost:%d\r\nContent-Type: application/json\r\n"
             "Content-Length: 29\r\n\r\n{\"prompt\":\"ab\",\"stream\":true}",
             port);
    assert_true(http_client_puts(&c, text) && http_client_at_end(&c));
    assert_non_null(strstr(c.in.data, "data: [DONE]\n\n"));
    assert_null(strstr(c.in.data, "chunked"));
    http_client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_health_and_metrics),
        cmocka_unit_test(test_not_there_yet),
        cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_detokenize),
        cmocka_unit_test(test_props),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_long_body),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_completion),
        cmocka_unit_test(test_chat_logprobs),
        cmocka_unit_test(test_completion_logprobs),
        cmocka_unit_test(test_chat_stream),
        cmocka_unit_test(test_stream_usage),
        cmocka_unit_test(test_timings),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_several_stream),
        cmocka_unit_test(test_thoughts),
        cmocka_unit_test(test_thoughts_left),
        cmocka_unit_test(test_stream_draft),
        cmocka_unit_test(test_no_speculation),
        cmocka_unit_test(test_completion_stream),
        cmocka_unit_test(test_stream_logprobs),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_backend_errors),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_keep_alive_and_head),
        cmocka_unit_test(test_health_keeps_nothing),
        cmocka_unit_test(test_chunked_body_and_http10),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
