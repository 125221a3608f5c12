// SPDX-License-Identifier: Apache-2.0
// Each allocation of an answer fails in turn, jansson's too: the answer is FT_NOMEM, or it lacks
// nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
