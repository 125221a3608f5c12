// SPDX-License-Identifier: Apache-2.0
// Answers by themselves: what a whole answer with log-probabilities takes in memory.
#include <jansson.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "http/answer.h"
#include "support/http_backend.h"

enum { N_TOKENS = 1000 };

static size_t allocated(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Log-probabilities are kept as JSON text. As jansson's values those of a token with 20
 * alternatives took 16 KB. */
static void check_memory(bool chat, const char *body, const char *path)
{
    const ft_http_model model = {.id = HTTP_BACKEND_MODEL, .text_bytes = HTTP_BACKEND_TEXT_BYTES};
    http_backend backend;
    ft_http_parsed parsed;
    ft_http_answer answer;
    ft_http_fail fail;
    ft_buf out = {0};
    ft_gen_token token = {.id = HTTP_BACKEND_PIECES, .logprob = {.logprob = -0.5f, .n_top = 20}};
    for (int32_t i = 0; i < 20; i++) {
        token.logprob.top[i].token = HTTP_BACKEND_PIECES + i;
        token.logprob.top[i].logprob = -0.123456789f * (float)(i + 1);
    }
    http_backend_init(&backend);
    const ft_http_backend b = http_backend_of(&backend);
    assert_int_equal(ft_http_parse(body, strlen(body), chat, &model, &fail, &parsed), FT_OK);
    assert_int_equal(ft_http_answer_init(&answer, &b, &parsed, false, 1), FT_OK);
    const size_t before = allocated();
    for (int i = 0; i < N_TOKENS; i++)
        assert_int_equal(ft_http_answer_add(&answer, "a", 1, &token, 1, &out), FT_OK);
    assert_true(allocated() < before + (size_t)N_TOKENS * 4096);
    const ft_http_result result = {.completion_tokens = N_TOKENS};
    assert_int_equal(ft_http_answer_end(&answer, false, &result, &out), FT_OK);
    assert_int_equal(ft_http_answer_finish(&answer, &result, &out), FT_OK);
    json_t *root = json_loadb(out.data, out.len, 0, NULL);
    const json_t *list =
        json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs");
    assert_int_equal(json_array_size(json_object_get(list, path)), N_TOKENS);
    json_decref(root);
    ft_buf_deinit(&out);
    ft_http_answer_deinit(&answer);
    ft_http_parsed_deinit(&parsed);
    http_backend_deinit(&backend);
}

static void test_chat_memory(void **state)
{
    check_memory(true,
                 "{\"logprobs\":true,\"top_logprobs\":20,"
                 "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                 "content");
}

static void test_completion_memory(void **state)
{
    check_memory(false, "{\"logprobs\":20,\"prompt\":\"a\"}", "top_logprobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_memory),
        cmocka_unit_test(test_completion_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
