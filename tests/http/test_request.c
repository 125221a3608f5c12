// SPDX-License-Identifier: Apache-2.0
// The request parser: what is understood, and what is refused with which status, code and field.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "http/request.h"

#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static const ft_http_model model = {.id = "m-1", .text_bytes = (size_t)16 << 20, .n_vocab = 1000};

static ft_status parse(const char *body, bool chat, ft_http_fail *fail, ft_http_parsed *out)
{
    /* an exact copy, so that a read past its end is caught */
    size_t n = strlen(body);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, body, n);
    ft_status status = ft_http_parse(copy, n, chat, &model, fail, out);
    free(copy);
    return status;
}

static void good(const char *body, bool chat, ft_http_parsed *out)
{
    ft_http_fail fail;
    ft_status status = parse(body, chat, &fail, out);
    if (status != FT_OK)
        fail_msg("%s: %s", body, fail.message);
}

static void test_chat(void **state)
{
    ft_http_parsed p;
    good("{\"model\":\"m-1\",\"messages\":[{\"role\":\"developer\",\"content\":\"be brief\"},"
         "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"text\",\"text\":\"b\"}],\"name\":\"x\"},"
         "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[]},"
         "{\"role\":\"user\",\"content\":\"\\u00e9\"}],"
         "\"temperature\":0.5,\"top_p\":0.25,\"top_k\":40,\"min_p\":0.05,\"seed\":-1,"
         "\"max_completion_tokens\":17,\"stop\":[\"x\",\"yz\"],\"logprobs\":true,"
         "\"top_logprobs\":3,\"stream\":true,\"stream_options\":{\"include_usage\":true,"
         "\"include_draft\":true},\"no_speculation\":true}",
         true, &p);
    const ft_http_request *q = &p.request;
    assert_true(q->chat);
    assert_int_equal(q->conversation.n_messages, 4);
    assert_string_equal(q->conversation.messages[0].role, "system");
    assert_string_equal(q->conversation.messages[0].content, "be brief");
    assert_string_equal(q->conversation.messages[1].content, "a\nb");
    assert_string_equal(q->conversation.messages[2].content, "");
    assert_string_equal(q->conversation.messages[3].content, "\xc3\xa9");
    assert_true(q->temperature == 0.5f && q->top_p == 0.25f && q->min_p == 0.05f);
    assert_int_equal(q->top_k, 40);
    assert_true(q->has_seed && q->seed == UINT64_MAX);
    assert_int_equal(q->max_tokens, 17);
    assert_int_equal(q->n_stops, 2);
    assert_string_equal(q->stops[1], "yz");
    assert_true(q->logprobs && p.stream && p.include_usage);
    assert_true(p.include_draft && q->no_speculation);
    assert_int_equal(q->top_logprobs, 3);
    ft_http_parsed_deinit(&p);
}

static void test_defaults(void **state)
{
    ft_http_parsed p;
    good("{" CHAT ",\"temperature\":null,\"stop\":null,\"stream\":null,\"model\":null,"
         "\"max_tokens\":null,\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":true,"
         "\"something_new\":[1,2]}",
         true, &p);
    const ft_http_request *q = &p.request;
    assert_true(q->temperature == 1 && q->top_p == 1 && q->min_p == 0 && q->top_k == 0);
    assert_false(q->has_seed || q->logprobs || p.stream || p.include_usage);
    assert_false(p.include_draft || q->no_speculation);
    assert_int_equal(q->max_tokens, 0);
    assert_int_equal(q->n_stops, 0);
    ft_http_parsed_deinit(&p);
}

static void test_harmless(void **state)
{
    static const char *const fields[] = {
        "\"n\":1",
        "\"presence_penalty\":0.0,\"frequency_penalty\":0",
        "\"tools\":[],\"tool_choice\":\"none\"",
        "\"tools\":null,\"tool_choice\":\"auto\",\"functions\":[],\"function_call\":\"none\"",
        "\"response_format\":{\"type\":\"text\"}",
        "\"response_format\":{\"type\":\"text\",\"other\":1}",
        "\"logit_bias\":{},\"modalities\":[\"text\"],\"audio\":null",
        "\"grammar\":null,\"json_schema\":null,\"guided_json\":null,\"structured_outputs\":null",
        "\"chat_template_kwargs\":{},\"reasoning_effort\":null,\"grammar\":\"\"",
        "\"repetition_penalty\":1,\"repeat_penalty\":1.0,\"min_tokens\":0,\"ignore_eos\":false",
        "\"guided\":1,\"grammars\":1",
        "\"top_logprobs\":0",
        "\"max_tokens\":5,\"max_completion_tokens\":5",
        "\"stop\":[]",
        "\"top_k\":-1",
        "\"top_p\":0",
        "\"temperature\":2",
        "\"seed\":9223372036854775807",
        "\"stream\":true,\"stream_options\":{}",
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[512];
        ft_http_parsed p;
        snprintf(body, sizeof body, "{" CHAT ",%s}", fields[i]);
        good(body, true, &p);
        ft_http_parsed_deinit(&p);
    }
}

static void test_prompts(void **state)
{
    ft_http_parsed p;
    good("{\"prompt\":\"once\",\"logprobs\":2,\"echo\":false,\"best_of\":1,\"suffix\":\"\"}", false,
         &p);
    assert_string_equal(p.request.prompt, "once");
    assert_true(p.request.logprobs && p.request.top_logprobs == 2);
    ft_http_parsed_deinit(&p);
    good("{\"prompt\":[\"twice\"],\"logprobs\":0}", false, &p);
    assert_string_equal(p.request.prompt, "twice");
    assert_true(p.request.logprobs && p.request.top_logprobs == 0);
    ft_http_parsed_deinit(&p);
    good("{\"prompt\":\"\"}", false, &p);
    assert_string_equal(p.request.prompt, "");
    assert_false(p.request.logprobs);
    ft_http_parsed_deinit(&p);
    static const char *const tokens[] = {"{\"prompt\":[1,0,2147483647]}",
                                         "{\"prompt\":[[1,0,2147483647]]}"};
    for (size_t i = 0; i < 2; i++) {
        good(tokens[i], false, &p);
        assert_null(p.request.prompt);
        assert_int_equal(p.request.n_prompt_tokens, 3);
        assert_int_equal(p.request.prompt_tokens[2], INT32_MAX);
        ft_http_parsed_deinit(&p);
    }
}

/* n texts for each prompt, in this order; the seeds count up. */
static void test_several(void **state)
{
    static const size_t n_tokens[] = {0, 2, 1};
    ft_http_parsed p;
    good("{\"prompt\":[\"a\",[1,2],[3]],\"n\":2,\"seed\":7,\"stream\":true,\"logprobs\":1}", false,
         &p);
    assert_int_equal(p.n_texts, 6);
    for (uint32_t i = 0; i < 6; i++) {
        const ft_http_request q = ft_http_parsed_text(&p, i);
        assert_true(q.seed == 7 + i && q.has_seed && q.logprobs);
        assert_true((q.prompt != NULL) == (i < 2));
        assert_int_equal(q.n_prompt_tokens, n_tokens[i / 2]);
        if (q.prompt)
            assert_string_equal(q.prompt, "a");
        else
            assert_int_equal(q.prompt_tokens[0], i < 4 ? 1 : 3);
    }
    ft_http_parsed_deinit(&p);
    good("{" CHAT ",\"n\":16}", true, &p);
    assert_int_equal(p.n_texts, 16);
    ft_http_parsed_deinit(&p);
}

/* Any of its names; answers say the one that was asked for. */
static void test_names(void **state)
{
    static const char *const aliases[] = {"m-2", "m-3"};
    const ft_http_model named = {
        .id = "m-1", .aliases = aliases, .n_aliases = 2, .text_bytes = 100};
    static const char *const bodies[] = {
        "{\"prompt\":\"\",\"model\":\"m-1\"}", "{\"prompt\":\"\",\"model\":\"m-2\"}",
        "{\"prompt\":\"\",\"model\":\"m-3\"}", "{\"prompt\":\"\"}"};
    for (size_t i = 0; i < 4; i++) {
        ft_http_fail fail;
        ft_http_parsed p;
        const ft_status status =
            ft_http_parse(bodies[i], strlen(bodies[i]), false, &named, &fail, &p);
        assert_int_equal(status, FT_OK);
        assert_string_equal(p.model, i < 3 ? ft_http_model_name(&named, i) : "m-1");
        ft_http_parsed_deinit(&p);
    }
}

typedef struct bad_case {
    const char *body;
    const char *code, *param; /* expected; param "" for none */
} bad_case;

static void check_bad(const bad_case *cases, size_t n, bool chat, int http)
{
    for (size_t i = 0; i < n; i++) {
        ft_http_fail fail;
        ft_http_parsed p;
        if (parse(cases[i].body, chat, &fail, &p) != FT_INVALID)
            fail_msg("accepted: %s", cases[i].body);
        if (fail.http != http || strcmp(fail.code, cases[i].code) != 0 ||
            strcmp(fail.param, cases[i].param) != 0 || fail.message[0] == 0)
            fail_msg("%s: %d %s %s: %s", cases[i].body, fail.http, fail.code, fail.param,
                     fail.message);
        assert_null(p.root);
    }
}
#define BAD(cases, chat) check_bad(cases, sizeof(cases) / sizeof *(cases), chat, 400)

/* n times `unit` between head and tail; the caller frees it. */
static char *repeat(const char *head, const char *unit, size_t n, const char *tail)
{
    const size_t one = strlen(unit);
    char *body = malloc(strlen(head) + n * one + strlen(tail) + 1), *at = body;
    assert_non_null(body);
    at = stpcpy(at, head);
    for (size_t i = 0; i < n; i++, at += one)
        memcpy(at, unit, one);
    strcpy(at, tail);
    return body;
}

/* Values are counted before they take memory; what strings hold is no value. */
static void test_many_values(void **state)
{
    static const struct {
        const char *head, *unit;
        size_t n;
        const char *tail;
        bool good;
    } bodies[] = {
        {"{\"prompt\":[1", ",12", FT_HTTP_VALUES_MAX - 3, "]}", true},
        {"{\"prompt\":[1", ",12", FT_HTTP_VALUES_MAX - 2, "]}", false},
        {"{\"prompt\":\"a\",\"user\":[{}", ",{}", FT_HTTP_OBJECTS_MAX, "]}", false},
        {"{\"prompt\":\"a\",\"user\":", "[", 8 << 20, "", false},
        {"{\"prompt\":\"", "[{,\\\",", FT_HTTP_VALUES_MAX, "\"}", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        ft_http_parsed p;
        ft_http_fail fail;
        char *body = repeat(bodies[i].head, bodies[i].unit, bodies[i].n, bodies[i].tail);
        const ft_status status = parse(body, false, &fail, &p);
        assert_int_equal(status, bodies[i].good ? FT_OK : FT_INVALID);
        if (status == FT_OK)
            ft_http_parsed_deinit(&p);
        else
            assert_string_equal(fail.code, "body_too_large");
        free(body);
    }
}

/* So are those in the arguments of all calls together, which are JSON in strings. */
#define CALL "{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[0"
#define CALLS                                                                       \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\"," \
    "\"tool_calls\":[" CALL
static void test_many_arguments(void **state)
{
    const size_t half = FT_HTTP_VALUES_MAX / 2 - 3; /* and three beside */
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        ft_http_parsed p;
        ft_http_fail fail;
        char *first = repeat(CALLS, ",0", half + more, "]}\"}},");
        char *second = repeat(CALL, ",0", half, "]}\"}}]}]}");
        char *body = repeat(first, second, 1, "");
        const ft_status status = parse(body, true, &fail, &p);
        assert_int_equal(status, more ? FT_INVALID : FT_OK);
        if (status == FT_OK)
            ft_http_parsed_deinit(&p);
        else
            assert_string_equal(fail.code, "body_too_large");
        free(first);
        free(second);
        free(body);
    }
}

static void test_bad_json(void **state)
{
    static const bad_case cases[] = {
        {"", "invalid_json", ""},
        {"{", "invalid_json", ""},
        {"nonsense", "invalid_json", ""},
        {"[]", "invalid_json", ""},
        {"\"text\"", "invalid_json", ""},
        {"{" CHAT "} x", "invalid_json", ""},
        {"{" CHAT "," CHAT "}", "invalid_json", ""},
        {"{\"seed\":1e999}", "invalid_json", ""},
        {"{\"seed\":99999999999999999999}", "invalid_json", ""},
        {"{\"prompt\":\"a\\u0000b\"}", "invalid_json", ""},
        {"{\"a\\u0000b\":1}", "invalid_json", ""},
        {"{\"prompt\":\"\\ud800\"}", "invalid_json", ""},
        {"{\"prompt\":\"\xff\"}", "invalid_json", ""},
        {"{\"prompt\":\"\xc0\x80\"}", "invalid_json", ""},
        {"{\"temperature\":NaN}", "invalid_json", ""},
    };
    BAD(cases, true);
    BAD(cases, false);
    /* the reason is said */
    ft_http_fail fail;
    ft_http_parsed p;
    assert_int_equal(parse("{\"prompt\":\"a\\u0000b\"}", false, &fail, &p), FT_INVALID);
    assert_non_null(strstr(fail.message, "NUL"));
    assert_int_equal(parse("{\"prompt\":\"\xff\"}", false, &fail, &p), FT_INVALID);
    assert_non_null(strstr(fail.message, "UTF-8"));
    assert_int_equal(ft_http_parse("{\"a\":\"\0\"}", 9, false, &model, &fail, &p), FT_INVALID);
}

static void test_deep(void **state)
{
    size_t n = 1 << 17;
    char *body = malloc(n);
    ft_http_fail fail;
    ft_http_parsed p;
    assert_non_null(body);
    memset(body, '[', n);
    assert_int_equal(ft_http_parse(body, n, true, &model, &fail, &p), FT_INVALID);
    assert_non_null(strstr(fail.message, "nested"));
    free(body);
}

static void test_prediction(void **state)
{
    static const char *const bodies[] = {
        "{" CHAT ",\"prediction\":{\"type\":\"content\",\"content\":\"a b\"}}",
        "{" CHAT ",\"prediction\":{\"type\":\"content\",\"content\":["
        "{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\" b\"}]}}",
        "{\"prompt\":\"x\",\"prediction\":{\"type\":\"content\",\"content\":\"a b\"}}"};
    ft_http_parsed p;
    ft_http_fail fail;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        good(bodies[i], i < 2, &p);
        assert_string_equal(p.request.prediction, "a b");
        ft_http_parsed_deinit(&p);
    }
    good("{" CHAT ",\"prediction\":null}", true, &p);
    assert_null(p.request.prediction);
    ft_http_parsed_deinit(&p);
    const ft_http_model small = {.id = "m-1", .text_bytes = 8};
    const char *body = "{\"prompt\":\"x\",\"prediction\":{\"type\":\"content\",\"content\":"
                       "\"123456789\"}}";
    assert_int_equal(ft_http_parse(body, strlen(body), false, &small, &fail, &p), FT_INVALID);
    assert_int_equal(fail.http, 400);
    assert_string_equal(fail.code, "context_length_exceeded");
    assert_string_equal(fail.param, "prediction");
}

/* A completion with a field that is ignored and holds `unit` so often. */
static ft_status parse_long(const char *unit, size_t times, ft_http_fail *fail)
{
    const ft_http_model small = {.id = "m-1", .text_bytes = 10};
    ft_http_parsed p;
    ft_buf body = {0};
    ft_buf_puts(&body, "{\"prompt\":\"hi\",\"user\":\"");
    for (size_t i = 0; i < times; i++)
        ft_buf_puts(&body, unit);
    assert_int_equal(ft_buf_puts(&body, "\"}"), FT_OK);
    const ft_status status = ft_http_parse(body.data, body.len, false, &small, fail, &p);
    ft_http_parsed_deinit(&p);
    ft_buf_deinit(&body);
    return status;
}

/* Strings that no text of the context's length needs are refused before they are parsed, also in a
 * field that is ignored. An escape counts as one byte. */
static void test_long_strings(void **state)
{
    const size_t most = FT_HTTP_OTHER_BYTES + 2 * 10 -
                        strlen("prompt"
                               "hi"
                               "user");
    static const char *const units[] = {"x", "\\u0041", "\\\"", "\\\\"};
    ft_http_fail fail;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        assert_int_equal(parse_long(units[i], most, &fail), FT_OK);
        assert_int_equal(parse_long(units[i], most + 1, &fail), FT_INVALID);
        assert_int_equal(fail.http, 400);
        assert_string_equal(fail.code, "context_length_exceeded");
    }
    /* what is wrong behind that is not even looked at */
    assert_int_equal(parse_long("\xff", most + 1, &fail), FT_INVALID);
    assert_string_equal(fail.code, "context_length_exceeded");
}

static void test_bad_chat(void **state)
{
    static const bad_case cases[] = {
        {"{}", "missing_required_parameter", "messages"},
        {"{\"prompt\":\"x\"}", "missing_required_parameter", "messages"},
        {"{\"messages\":[]}", "invalid_type", "messages"},
        {"{\"messages\":\"hi\"}", "invalid_type", "messages"},
        {"{\"messages\":{}}", "invalid_type", "messages"},
        {"{\"messages\":[1]}", "invalid_type", "messages[0]"},
        {"{\"messages\":[{}]}", "invalid_value", "messages[0].role"},
        {"{\"messages\":[{\"role\":1,\"content\":\"\"}]}", "invalid_value", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"tool\",\"content\":\"\"}]}", "invalid_type",
         "messages[0].tool_call_id"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "invalid_type", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "invalid_type",
         "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", "invalid_type",
         "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", "unsupported_content",
         "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://x\"}}]}]}",
         "unsupported_content", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}]}",
         "unsupported_content", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{}]}]}",
         "invalid_type", "messages[0].tool_calls[0]"},
    };
    BAD(cases, true);
}

static void check_bad_fields(const bad_case *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char body[512];
        snprintf(body, sizeof body, "{" CHAT ",%s}", fields[i].body);
        bad_case c = {body, fields[i].code, fields[i].param};
        check_bad(&c, 1, true, 400);
    }
}

static void test_bad_fields(void **state)
{
    static const bad_case fields[] = {
        {"\"model\":1", "invalid_type", "model"},
        {"\"temperature\":\"1\"", "invalid_type", "temperature"},
        {"\"temperature\":true", "invalid_type", "temperature"},
        {"\"temperature\":-0.1", "invalid_value", "temperature"},
        {"\"temperature\":2.1", "invalid_value", "temperature"},
        {"\"top_p\":1.5", "invalid_value", "top_p"},
        {"\"min_p\":-1", "invalid_value", "min_p"},
        {"\"top_k\":1.5", "invalid_type", "top_k"},
        {"\"top_k\":-2", "invalid_value", "top_k"},
        {"\"seed\":1.0", "invalid_type", "seed"},
        {"\"seed\":\"1\"", "invalid_type", "seed"},
        {"\"max_tokens\":0", "invalid_value", "max_tokens"},
        {"\"max_tokens\":-1", "invalid_value", "max_tokens"},
        {"\"max_tokens\":4294967296", "invalid_value", "max_tokens"},
        {"\"max_tokens\":\"5\"", "invalid_type", "max_tokens"},
        {"\"max_completion_tokens\":[]", "invalid_type", "max_completion_tokens"},
        {"\"max_tokens\":5,\"max_completion_tokens\":6", "invalid_value", "max_tokens"},
        {"\"stream\":1", "invalid_type", "stream"},
        {"\"stream_options\":{\"include_usage\":true}", "invalid_value", "stream_options"},
        {"\"stream\":true,\"stream_options\":[]", "invalid_type", "stream_options"},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":1}", "invalid_type",
         "stream_options.include_usage"},
        {"\"stream\":true,\"stream_options\":{\"include_draft\":\"yes\"}", "invalid_type",
         "stream_options.include_draft"},
        {"\"no_speculation\":1", "invalid_type", "no_speculation"},
        {"\"n\":17", "invalid_value", "n"},
        {"\"n\":0", "invalid_value", "n"},
        {"\"n\":\"1\"", "invalid_type", "n"},
        {"\"n\":2,\"logprobs\":true", "unsupported_parameter", "logprobs"},
        {"\"stop\":1", "invalid_type", "stop"},
        {"\"stop\":\"\"", "invalid_value", "stop"},
        {"\"stop\":[\"a\",1]", "invalid_type", "stop"},
        {"\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\","
         "\"m\",\"n\",\"o\",\"p\",\"q\"]",
         "invalid_value", "stop"},
        {"\"logprobs\":1", "invalid_type", "logprobs"},
        {"\"top_logprobs\":2", "invalid_value", "top_logprobs"},
        {"\"logprobs\":true,\"top_logprobs\":21", "invalid_value", "top_logprobs"},
    };
    check_bad_fields(fields, sizeof fields / sizeof *fields);
}

static void test_bad_penalties(void **state)
{
    static const bad_case fields[] = {
        {"\"presence_penalty\":2.5", "invalid_value", "presence_penalty"},
        {"\"presence_penalty\":\"0\"", "invalid_type", "presence_penalty"},
        {"\"frequency_penalty\":-2.01", "invalid_value", "frequency_penalty"},
        {"\"repetition_penalty\":0", "invalid_value", "repetition_penalty"},
        {"\"repetition_penalty\":11", "invalid_value", "repetition_penalty"},
        {"\"logit_bias\":[]", "invalid_type", "logit_bias"},
        {"\"logit_bias\":1", "invalid_type", "logit_bias"},
        {"\"logit_bias\":{\"1000\":1}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"-1\":1}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"01\":1}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"\":1}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"1 \":1}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"99999999999999999999\":1}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"1\":101}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"1\":\"1\"}", "invalid_value", "logit_bias"},
        {"\"logit_bias\":{\"1\":null}", "invalid_value", "logit_bias"},
    };
    check_bad_fields(fields, sizeof fields / sizeof *fields);
}

static void test_penalties(void **state)
{
    ft_http_parsed p;
    good("{" CHAT ",\"presence_penalty\":0.5,\"frequency_penalty\":-1,\"repetition_penalty\":1.25,"
         "\"logit_bias\":{\"999\":100,\"0\":-100,\"17\":0.5}}",
         true, &p);
    const ft_penalties *q = p.request.penalties;
    assert_non_null(q);
    assert_true(q->presence == 0.5f && q->frequency == -1 && q->repetition == 1.25f);
    assert_int_equal(q->n_bias, 3); /* they rise */
    assert_int_equal(q->bias_token[0], 0);
    assert_int_equal(q->bias_token[1], 17);
    assert_int_equal(q->bias_token[2], 999);
    assert_true(q->bias[0] == -100 && q->bias[1] == 0.5f && q->bias[2] == 100);
    ft_http_parsed_deinit(&p);
    good("{" CHAT ",\"presence_penalty\":0,\"repetition_penalty\":1,\"logit_bias\":{}}", true, &p);
    assert_null(p.request.penalties);
    ft_http_parsed_deinit(&p);
    /* 300 entries and no more */
    for (int n = FT_BIAS_MAX; n <= FT_BIAS_MAX + 1; n++) {
        ft_buf body = {0};
        ft_http_fail fail;
        ft_buf_puts(&body, "{\"prompt\":\"x\",\"logit_bias\":{");
        for (int i = 0; i < n; i++)
            ft_buf_printf(&body, "%s\"%d\":1", i > 0 ? "," : "", n - i);
        assert_int_equal(ft_buf_puts(&body, "}}"), FT_OK);
        const ft_status status = ft_http_parse(body.data, body.len, false, &model, &fail, &p);
        assert_int_equal(status, n == FT_BIAS_MAX ? FT_OK : FT_INVALID);
        ft_http_parsed_deinit(&p);
        ft_buf_deinit(&body);
    }
}

static void test_constraints(void **state)
{
    static const struct {
        const char *field;
        ft_constraint_kind kind;
        const char *text, *name;
    } good[] = {
        {"\"response_format\":{\"type\":\"json_object\"}", FT_CONSTRAINT_JSON_OBJECT, "",
         "response_format"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":"
         "{\"z\": 1, \"a\": \"\u00e9\"}}}",
         FT_CONSTRAINT_JSON_SCHEMA, "{\"z\":1,\"a\":\"\xc3\xa9\"}", "response_format"},
        {"\"json_schema\":{}", FT_CONSTRAINT_JSON_SCHEMA, "{}", "json_schema"},
        {"\"grammar\":\"root ::= [a-z]\"", FT_CONSTRAINT_GRAMMAR, "root ::= [a-z]", "grammar"},
        {"\"regex\":\"a|b\",\"grammar\":\"\"", FT_CONSTRAINT_REGEX, "a|b", "regex"},
        {"\"structured_outputs\":{\"json\":\"true\",\"regex\":null}", FT_CONSTRAINT_JSON_SCHEMA,
         "true", "structured_outputs"},
        {"\"structured_outputs\":{\"json_object\":true}", FT_CONSTRAINT_JSON_OBJECT, "",
         "structured_outputs"},
        {"\"structured_outputs\":{\"choice\":[\"a\\\"b\\\\\",\"\\n\"]}", FT_CONSTRAINT_GRAMMAR,
         "root ::= \"a\\\"b\\\\\" | \"\\x0a\"", "structured_outputs"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ft_http_fail fail;
        ft_http_parsed p;
        char body[512];
        snprintf(body, sizeof body, "{\"prompt\":\"x\",%s}", good[i].field);
        if (ft_http_parse(body, strlen(body), false, &model, &fail, &p) != FT_OK)
            fail_msg("%s: %s", body, fail.message);
        const ft_constraint *c = &p.request.constraint;
        assert_int_equal(c->kind, good[i].kind);
        assert_int_equal(c->n, strlen(good[i].text));
        assert_string_equal(c->n ? c->data : "", good[i].text);
        assert_string_equal(p.request.constraint_field, good[i].name);
        ft_http_parsed_deinit(&p);
    }
    static const bad_case bad[] = {
        {"\"response_format\":\"text\"", "invalid_value", "response_format.type"},
        {"\"response_format\":{\"type\":\"xml\"}", "invalid_value", "response_format.type"},
        {"\"response_format\":{\"type\":\"json_schema\"}", "invalid_value",
         "response_format.json_schema.schema"},
        {"\"json_schema\":[]", "invalid_value", "json_schema"},
        {"\"grammar\":1", "invalid_value", "grammar"},
        {"\"regex\":{}", "invalid_value", "regex"},
        {"\"regex\":\"a\",\"grammar\":\"b\"", "invalid_value", "regex"},
        {"\"structured_outputs\":1", "invalid_value", "structured_outputs"},
        {"\"structured_outputs\":{\"choice\":[]}", "invalid_value", "structured_outputs.choice"},
        {"\"structured_outputs\":{\"choice\":[\"\"]}", "invalid_value",
         "structured_outputs.choice"},
        {"\"structured_outputs\":{\"json\":{},\"regex\":\"a\"}", "invalid_value",
         "structured_outputs.regex"},
    };
    check_bad_fields(bad, sizeof bad / sizeof *bad);
}

static void test_unsupported(void **state)
{
    static const bad_case fields[] = {
        {"\"guided_json\":{}", "unsupported_parameter", "guided_json"},
        {"\"guided_regex\":\"a\"", "unsupported_parameter", "guided_regex"},
        {"\"structured_outputs\":{\"structural_tag\":\"a\"}", "unsupported_parameter",
         "structured_outputs"},
        {"\"repeat_penalty\":0", "unsupported_parameter", "repeat_penalty"},
        {"\"min_tokens\":1", "unsupported_parameter", "min_tokens"},
        {"\"ignore_eos\":true", "unsupported_parameter", "ignore_eos"},
        {"\"modalities\":[\"text\",\"audio\"]", "unsupported_parameter", "modalities"},
    };
    check_bad_fields(fields, sizeof fields / sizeof *fields);
}

#define TALK(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}" more "}"
#define CALLED(function)                                                                 \
    TALK(",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\"," \
         "\"function\":" function "}]}]")

#define TOOL_F "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"

static void test_tool_choice(void **state)
{
    ft_http_fail fail;
    ft_http_parsed p;
    (void)state;
    assert_int_equal(parse(TALK("]," TOOL_F ",\"tool_choice\":\"required\""), true, &fail, &p),
                     FT_OK);
    assert_int_equal(p.request.conversation.choice, FT_CHAT_CHOICE_REQUIRED);
    assert_null(p.request.conversation.choice_tool);
    ft_http_parsed_deinit(&p);
    assert_int_equal(parse(TALK("]," TOOL_F ",\"tool_choice\":{\"type\":\"function\","
                                "\"function\":{\"name\":\"f\"}}"),
                           true, &fail, &p),
                     FT_OK);
    assert_int_equal(p.request.conversation.choice, FT_CHAT_CHOICE_REQUIRED);
    assert_string_equal(p.request.conversation.choice_tool->name, "f");
    ft_http_parsed_deinit(&p);
}

/* Beside calls, content may be absent, null, or a list without parts, as instructor writes null. */
static void test_no_content(void **state)
{
    static const char *const none[] = {"null", "[]"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ft_http_fail fail;
        ft_http_parsed p;
        char body[400];
        snprintf(body, sizeof body,
                 TALK(",{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[{\"id\":\"a\","
                      "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}]"),
                 none[i]);
        assert_int_equal(parse(body, true, &fail, &p), FT_OK);
        assert_null(p.request.conversation.messages[1].content);
        ft_http_parsed_deinit(&p);
        snprintf(body, sizeof body, TALK(",{\"role\":\"assistant\",\"content\":%s}]"), none[i]);
        assert_int_equal(parse(body, true, &fail, &p), FT_INVALID);
        assert_string_equal(fail.param, "messages[1].content");
    }
}

static void test_tools(void **state)
{
    static const bad_case bad[] = {
        {TALK("],\"tools\":5"), "invalid_type", "tools"},
        {TALK("],\"tools\":[{\"type\":\"web\"}]"), "invalid_value", "tools[0]"},
        {TALK("],\"tools\":[{\"type\":\"function\",\"function\":{}}]"), "invalid_type",
         "tools[0].function.name"},
        {TALK("],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
              "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"),
         "invalid_value", "tools[1].function.name"},
        {TALK("],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
              "\"parameters\":\"x\"}}]"),
         "invalid_type", "tools[0].function.parameters"},
        {TALK("],\"tool_choice\":\"required\""), "invalid_value", "tool_choice"},
        {TALK("],\"tool_choice\":{\"type\":\"function\"}"), "invalid_value", "tool_choice"},
        {TALK("]," TOOL_F ",\"tool_choice\":\"f\""), "invalid_value", "tool_choice"},
        {TALK("]," TOOL_F ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"),
         "invalid_value", "tool_choice.function.name"},
        {TALK("]," TOOL_F ",\"tool_choice\":\"required\",\"regex\":\"a\""), "invalid_value",
         "tool_choice"},
        {TALK("],\"parallel_tool_calls\":1"), "invalid_type", "parallel_tool_calls"},
        {TALK(",{\"role\":\"wizard\",\"content\":\"\"}]"), "invalid_value", "messages[1].role"},
        {TALK(",{\"role\":\"tool\",\"content\":\"\"}]"), "invalid_type",
         "messages[1].tool_call_id"},
        {TALK(",{\"role\":\"assistant\",\"content\":null}]"), "invalid_type",
         "messages[1].content"},
        {CALLED("{\"name\":\"f\",\"arguments\":\"{\"}"), "invalid_value",
         "messages[1].tool_calls[0].function.arguments"},
        {CALLED("{\"name\":\"f\",\"arguments\":\"[]\"}"), "invalid_value",
         "messages[1].tool_calls[0].function.arguments"},
        {CALLED("{\"name\":\"f f\",\"arguments\":\"{}\"}"), "invalid_value",
         "messages[1].tool_calls[0].function.name"},
        {TALK(",{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":[]}]"),
         "invalid_type", "messages[1].reasoning_content"},
    };
    ft_http_fail fail;
    ft_http_parsed p;
    (void)state;
    check_bad(bad, sizeof bad / sizeof *bad, true, 400);
    assert_int_equal(
        parse(TALK(",{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"so\",\"tool_"
                   "calls\":[{\"id\":\"a\","
                   "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"4\"}],"
                   "\"tool_choice\":\"none\",\"parallel_tool_calls\":false,\"tools\":[{\"type\":"
                   "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"a\":1}}}]"),
              true, &fail, &p),
        FT_OK);
    const ft_chat *chat = &p.request.conversation;
    assert_int_equal(chat->messages[1].n_calls, 1);
    assert_null(chat->messages[1].content);
    assert_string_equal(chat->messages[1].reasoning, "so");
    assert_null(chat->messages[2].reasoning);
    assert_string_equal(chat->messages[1].calls[0].arguments, "{}");
    assert_string_equal(chat->messages[2].call_id, "a");
    assert_string_equal(chat->tools[0].parameters, "{\"a\": 1}");
    assert_true(chat->choice == FT_CHAT_CHOICE_NONE && !chat->parallel_calls);
    ft_http_parsed_deinit(&p);
}

static void test_template_args(void **state)
{
    static const bad_case fields[] = {
        {"\"chat_template_kwargs\":[1]", "invalid_type", "chat_template_kwargs"},
        {"\"chat_template_kwargs\":{\"messages\":[]}", "invalid_value", "chat_template_kwargs"},
        {"\"chat_template_kwargs\":{\"a\":1,\"bos_token\":\"x\"}", "invalid_value",
         "chat_template_kwargs"},
        {"\"reasoning_effort\":1", "invalid_type", "reasoning_effort"},
        {"\"reasoning_effort\":\"\"", "invalid_value", "reasoning_effort"},
        {"\"reasoning_effort\":\"<|im_end|>\"", "invalid_value", "reasoning_effort"},
    };
    ft_http_fail fail;
    ft_http_parsed p;
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s}",
                 fields[i].body);
        assert_int_equal(parse(body, true, &fail, &p), FT_INVALID);
        assert_string_equal(fail.code, fields[i].code);
        assert_string_equal(fail.param, fields[i].param);
    }
    assert_int_equal(parse("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                           "\"chat_template_kwargs\":{\"a\":[1],\"b\":\"c\"},"
                           "\"reasoning_effort\":\"high\"}",
                           true, &fail, &p),
                     FT_OK);
    assert_string_equal(p.request.conversation.template_args, "{\"a\": [1], \"b\": \"c\"}");
    assert_string_equal(p.request.conversation.reasoning_effort, "high");
    ft_http_parsed_deinit(&p);
}

/* A field's name that is cut in a character still makes a whole error object. */
static void test_long_name(void **state)
{
    char *body = repeat("{\"prompt\":\"x\",\"guided_", "\xc3\xa9", 100, "\":1}");
    ft_http_fail fail;
    ft_http_parsed p;
    ft_buf out = {0};
    (void)state;
    assert_int_equal(parse(body, false, &fail, &p), FT_INVALID);
    assert_int_equal(strncmp(fail.param, "guided_\xc3\xa9", 9), 0);
    assert_int_equal(ft_http_fail_json(&fail, &out), FT_OK);
    ft_buf_deinit(&out);
    free(body);
}

static void test_bad_prediction(void **state)
{
    static const bad_case fields[] = {
        {"\"prediction\":\"text\"", "invalid_type", "prediction"},
        {"\"prediction\":[]", "invalid_type", "prediction"},
        {"\"prediction\":{}", "invalid_value", "prediction.type"},
        {"\"prediction\":{\"type\":\"text\",\"content\":\"x\"}", "invalid_value",
         "prediction.type"},
        {"\"prediction\":{\"type\":1,\"content\":\"x\"}", "invalid_value", "prediction.type"},
        {"\"prediction\":{\"type\":\"content\"}", "invalid_type", "prediction.content"},
        {"\"prediction\":{\"type\":\"content\",\"content\":5}", "invalid_type",
         "prediction.content"},
        {"\"prediction\":{\"type\":\"content\",\"content\":[]}", "invalid_type",
         "prediction.content"},
        {"\"prediction\":{\"type\":\"content\",\"content\":[{\"type\":\"image_url\"}]}",
         "unsupported_content", "prediction.content"},
    };
    check_bad_fields(fields, sizeof fields / sizeof *fields);
}

static void test_bad_prompts(void **state)
{
    static const bad_case cases[] = {
        {"{}", "missing_required_parameter", "prompt"},
        {"{\"prompt\":null}", "missing_required_parameter", "prompt"},
        {"{\"prompt\":1}", "invalid_type", "prompt"},
        {"{\"prompt\":[]}", "invalid_type", "prompt"},
        {"{\"prompt\":[[]]}", "invalid_type", "prompt"},
        {"{\"prompt\":[\"a\",1]}", "invalid_type", "prompt"},
        {"{\"prompt\":[[1],[\"a\"]]}", "invalid_type", "prompt"},
        {"{\"prompt\":[[1],[]]}", "invalid_type", "prompt"},
        {"{\"prompt\":[[1],[-1]]}", "invalid_value", "prompt"},
        {"{\"prompt\":{\"a\":1}}", "invalid_type", "prompt"},
        {"{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\","
         "\"m\",\"n\",\"o\",\"p\",\"q\"]}",
         "invalid_value", "prompt"},
        {"{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":6}", "invalid_value", "n"},
        {"{\"prompt\":[1,\"a\"]}", "invalid_type", "prompt"},
        {"{\"prompt\":[1.5]}", "invalid_type", "prompt"},
        {"{\"prompt\":[-1]}", "invalid_value", "prompt"},
        {"{\"prompt\":[2147483648]}", "invalid_value", "prompt"},
        {"{\"prompt\":\"a\",\"logprobs\":true}", "invalid_type", "logprobs"},
        {"{\"prompt\":\"a\",\"logprobs\":21}", "invalid_value", "logprobs"},
        {"{\"prompt\":\"a\",\"echo\":true}", "unsupported_parameter", "echo"},
        {"{\"prompt\":\"a\",\"best_of\":2}", "unsupported_parameter", "best_of"},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "unsupported_parameter", "suffix"},
    };
    BAD(cases, false);
}

/* What cannot fit into the context is refused by its bytes: all messages count together. */
static void test_long_text(void **state)
{
    static const struct {
        const char *body;
        bool chat, fits;
    } cases[] = {
        {"{\"prompt\":\"12345678\"}", false, true},
        {"{\"prompt\":\"123456789\"}", false, false},
        {"{\"prompt\":\"\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041\"}", false, true},
        {"{\"prompt\":[1,2,3,4,5,6,7,8,9,10]}", false, true}, /* the backend counts tokens */
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"1234\"},"
         "{\"role\":\"user\",\"content\":\"5678\"}]}",
         true, true},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"1234\"},"
         "{\"role\":\"user\",\"content\":\"56789\"}]}",
         true, false},
    };
    const ft_http_model small = {.id = "m-1", .text_bytes = 8};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_http_fail fail;
        ft_http_parsed p;
        const ft_status status =
            ft_http_parse(cases[i].body, strlen(cases[i].body), cases[i].chat, &small, &fail, &p);
        assert_int_equal(status, cases[i].fits ? FT_OK : FT_INVALID);
        if (!cases[i].fits) {
            assert_int_equal(fail.http, 400);
            assert_string_equal(fail.code, "context_length_exceeded");
            assert_string_equal(fail.param, cases[i].chat ? "messages" : "prompt");
        }
        ft_http_parsed_deinit(&p);
    }
}

static void test_other_model(void **state)
{
    static const bad_case chat = {"{\"model\":\"gpt-9\"," CHAT "}", "model_not_found", "model"};
    static const bad_case text = {"{\"model\":\"\",\"prompt\":\"x\"}", "model_not_found", "model"};
    check_bad(&chat, 1, true, 404);
    check_bad(&text, 1, false, 404);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),           cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_harmless),       cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_bad_json),       cmocka_unit_test(test_many_values),
        cmocka_unit_test(test_many_arguments), cmocka_unit_test(test_several),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_prediction),
        cmocka_unit_test(test_bad_prediction), cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_template_args),  cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_tool_choice),    cmocka_unit_test(test_no_content),
        cmocka_unit_test(test_tools),          cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_bad_penalties),  cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_long_strings),   cmocka_unit_test(test_deep),
        cmocka_unit_test(test_bad_chat),       cmocka_unit_test(test_bad_fields),
        cmocka_unit_test(test_bad_prompts),    cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
