// SPDX-License-Identifier: Apache-2.0
// Each allocation of a request and of an answer fails in turn, jansson's too: both are FT_NOMEM, or
// lack nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/json_file.h"
#include "http/answer.h"
#include "http/dialect.h"
#include "support/fail_allocs.h"
#include "support/http_backend.h"

static const char response[] =
    "{\"input\":\"hi\",\"instructions\":\"be brief\",\"metadata\":{\"a\":\"b\"},\"stream\":%s}";
static const char message[] = "{\"max_tokens\":9,\"stop_sequences\":[\"END\"],\"stream\":%s,"
                              "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

/* Writes an answer that has all kinds of items. Random is the id alone: it is cut out. */
static ft_status answer_once(const ft_http_parsed *parsed, ft_buf *out)
{
    const ft_http_backend backend = {0};
    const ft_http_result result = {.prompt_tokens = 3, .completion_tokens = 2};
    ft_http_answer a;
    ft_buf_clear(out);
    ft_status status = ft_http_answer_init(&a, &backend, parsed, true, 1);
    if (parsed->dialect)
        snprintf(a.id, sizeof a.id, "x_1");
    if (status == FT_OK)
        status = ft_http_answer_add(&a, "<think>one two</think> three", 28, NULL, 0, out);
    if (status == FT_OK)
        status = ft_http_answer_add(&a, " four", 5, NULL, 0, out);
    if (status == FT_OK)
        status = ft_http_answer_end(&a, true, &result, out);
    if (status == FT_OK)
        status = ft_http_answer_finish(&a, &result, out);
    ft_http_answer_deinit(&a);
    return status;
}

static void check(const ft_http_dialect *dialect, const char *format, const char *stream)
{
    static const char *const modules[] = {"", "libjansson", NULL};
    const ft_http_model model = {
        .id = "m", .text_bytes = 4096, .chat_template = HTTP_BACKEND_TEMPLATE};
    char body[256];
    ft_http_parsed parsed;
    ft_http_fail fail;
    ft_buf wanted = {0}, out = {0};
    snprintf(body, sizeof body, format, stream);
    assert_int_equal(ft_http_dialect_parse(dialect, body, strlen(body), &model, &fail, &parsed),
                     FT_OK);
    assert_int_equal(answer_once(&parsed, &wanted), FT_OK);
    fail_allocs_init(modules);
    long n = 0;
    for (bool failed = true; failed; n++) {
        ft_buf_deinit(&out);
        fail_allocs_arm(n + 1);
        const ft_status status = answer_once(&parsed, &out);
        failed = fail_allocs_disarm() != NULL;
        if (status == FT_OK)
            assert_string_equal(ft_buf_str(&out), ft_buf_str(&wanted));
        else
            assert_true(failed && status == FT_NOMEM);
    }
    assert_true(n > 50);
    ft_buf_deinit(&out);
    ft_buf_deinit(&wanted);
    ft_http_parsed_deinit(&parsed);
}

/* What is read of a request, as text. */
static void describe(const ft_http_parsed *p, ft_buf *out)
{
    const ft_chat *chat = &p->request.conversation;
    ft_buf_clear(out);
    for (size_t i = 0; i < chat->n_messages; i++)
        ft_buf_printf(out, "%s:%s|", chat->messages[i].role, chat->messages[i].content);
    for (uint32_t i = 0; i < p->request.n_stops; i++)
        ft_buf_printf(out, "stop %s|", p->request.stops[i]);
    ft_buf_printf(out, "%d:%.*s|%u", (int)p->request.constraint.kind, (int)p->request.constraint.n,
                  p->request.constraint.n ? p->request.constraint.data : "", p->request.max_tokens);
}

/* Parses it with its n-th allocation failing; 0: none. *failed: there was one. */
static ft_status parse(const ft_http_dialect *dialect, const char *body, long n, bool *failed,
                       ft_http_fail *fail, ft_buf *out)
{
    const ft_http_model model = {.id = "m", .text_bytes = 4096};
    ft_http_parsed parsed;
    fail_allocs_arm(n);
    const ft_status status =
        ft_http_dialect_parse(dialect, body, strlen(body), &model, fail, &parsed);
    *failed = fail_allocs_disarm() != NULL;
    if (status == FT_OK)
        describe(&parsed, out);
    ft_http_parsed_deinit(&parsed);
    return status;
}

/* Allocations of reading its JSON. None of them fails here: jansson 2.14 does not outlast all. */
static long json_allocs(const char *body)
{
    const long most = 1000000;
    json_error_t at;
    json_t *root;
    fail_allocs_arm(most);
    assert_int_equal(ft_json_read(body, strlen(body), &at, &root), FT_OK);
    const long n = most - atomic_load(&fail_allocs.left);
    fail_allocs_disarm();
    json_decref(root);
    return n;
}

static void check_request(const ft_http_dialect *dialect, const char *body)
{
    static const char *const modules[] = {"", "libjansson", NULL};
    ft_http_fail fail;
    ft_buf wanted = {0}, out = {0};
    bool failed;
    fail_allocs_init(modules);
    assert_int_equal(parse(dialect, body, 0, &failed, &fail, &wanted), FT_OK);
    const long first = json_allocs(body);
    long n = first;
    for (failed = true; failed; n++) {
        const ft_status status = parse(dialect, body, n + 1, &failed, &fail, &out);
        if (status == FT_OK)
            assert_string_equal(ft_buf_str(&out), ft_buf_str(&wanted));
        else if (!failed || status != FT_NOMEM || fail.http != 503)
            fail_msg("%s: allocation %ld: %s", body, n + 1, fail.message);
    }
    assert_true(n > first + 50);
    ft_buf_deinit(&out);
    ft_buf_deinit(&wanted);
}

static void test_requests(void **state)
{
    if (!FAILS_ALLOCS) {
        print_message("SKIPPED: allocations cannot fail in this build\n");
        skip();
    }
    check_request(&ft_http_responses,
                  "{\"instructions\":\"a\",\"input\":[{\"role\":\"developer\",\"content\":\"b\"},"
                  "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"c\"}]},"
                  "{\"role\":\"user\",\"content\":[]}],\"tools\":[],\"max_output_tokens\":9,"
                  "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":"
                  "{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}}}}");
    check_request(&ft_http_messages,
                  "{\"max_tokens\":5,\"system\":\"a\",\"stop_sequences\":[\"x\"],"
                  "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                  "\"text\":\"c\"}]},{\"role\":\"user\",\"content\":\"d\"}],\"output_config\":"
                  "{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}}}");
}

static void test_answers(void **state)
{
    if (!FAILS_ALLOCS) {
        print_message("SKIPPED: allocations cannot fail in this build\n");
        skip();
    }
    check(&ft_http_responses, response, "true");
    check(&ft_http_responses, response, "false");
    check(&ft_http_messages, message, "true");
    check(&ft_http_messages, message, "false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests),
                                       cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
