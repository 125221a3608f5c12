// SPDX-License-Identifier: Apache-2.0
// What clients of the Responses and Messages APIs send. Whatever is accepted is a chat that keeps
// the promises of ft_http_request, and can be answered; what is refused is refused in the API's own
// shape.
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/answer.h"
#include "http/dialect.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_request(const ft_http_request *q, const ft_http_model *model)
{
    size_t bytes = 0;
    require(q->chat && q->conversation.n_messages > 0 && q->n_stops <= FT_HTTP_STOPS_MAX);
    require(q->max_tokens <= INT32_MAX && !q->logprobs);
    for (size_t i = 0; i < q->conversation.n_messages; i++) {
        const ft_chat_message *m = &q->conversation.messages[i];
        require(m->role && (m->content || m->n_calls > 0));
        for (size_t k = 0; k < m->n_calls; k++)
            require(m->calls[k].name && m->calls[k].arguments);
        if (!m->content)
            continue;
        require(ft_utf8_valid(m->content, strlen(m->content)));
        bytes += strlen(m->content);
    }
    require(bytes <= model->text_bytes);
}

/* A whole answer is JSON, a streamed one is events. */
static void check_answer(const ft_http_parsed *parsed)
{
    const ft_http_backend backend = {0};
    const ft_http_result result = {.prompt_tokens = 3, .completion_tokens = 2};
    ft_http_answer answer;
    ft_buf out = {0};
    require(ft_http_answer_init(&answer, &backend, parsed, true, 1) == FT_OK);
    require(ft_http_answer_add(&answer, "<think>a</think>", 16, NULL, 0, &out) == FT_OK);
    require(ft_http_answer_add(&answer, "b", 1, NULL, 0, &out) == FT_OK);
    require(ft_http_answer_end(&answer, false, &result, &out) == FT_OK);
    require(ft_http_answer_finish(&answer, &result, &out) == FT_OK);
    if (parsed->stream) {
        require(strncmp(ft_buf_str(&out), "event: ", 7) == 0);
    } else {
        json_t *root = json_loadb(out.data, out.len, 0, NULL);
        require(root != NULL);
        json_decref(root);
    }
    ft_http_answer_deinit(&answer);
    ft_buf_deinit(&out);
}

static void check(const ft_http_dialect *dialect, const char *data, size_t n, const char *template)
{
    const ft_http_model model = {
        .id = "m", .text_bytes = 256, .n_vocab = 300, .chat_template = template};
    ft_http_fail fail;
    ft_http_parsed parsed;
    ft_buf out = {0};
    if (ft_http_dialect_parse(dialect, data, n, &model, &fail, &parsed) == FT_OK) {
        require(parsed.dialect == dialect && parsed.asked && parsed.n_texts == 1);
        check_request(&parsed.request, &model);
        check_answer(&parsed);
        ft_http_parsed_deinit(&parsed);
    } else {
        require(fail.http == 400 || fail.http == 404 || fail.http == 413);
        require((dialect->fail ? dialect->fail : ft_http_fail_json)(&fail, &out) == FT_OK);
        require(ft_utf8_valid(out.data, out.len));
    }
    require(!parsed.root && !parsed.asked);
    ft_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    check(&ft_http_responses, (const char *)data, n, NULL);
    check(&ft_http_messages, (const char *)data, n, "<think></think>");
    check(&ft_http_messages_count, (const char *)data, n, NULL);
    return 0;
}
