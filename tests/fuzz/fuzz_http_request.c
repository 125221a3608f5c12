// SPDX-License-Identifier: Apache-2.0
// What an HTTP client sends: the JSON bodies of both endpoints, and the header values that we take
// apart ourselves. Whatever is accepted must keep the promises of ft_http_request.
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/text.h"
#include "http/guard.h"
#include "http/request.h"
#include "http/tokens.h"
#include "spec/penalties.h"

enum { VOCAB = 300 };

static void require(int condition)
{
    if (!condition)
        abort();
}

static void require_text(const char *text)
{
    require(text && ft_utf8_valid(text, strlen(text)));
}

static void check_request(const ft_http_request *q, size_t most_bytes)
{
    size_t bytes = q->prompt ? strlen(q->prompt) : 0;
    require(q->temperature >= 0 && q->temperature <= 2);
    require(q->top_p > 0 && q->top_p <= 1 && q->min_p >= 0 && q->min_p <= 1);
    require(q->top_k >= 0 && q->max_tokens <= INT32_MAX);
    require(q->top_logprobs <= FT_TOP_LOGPROBS_MAX && (q->logprobs || q->top_logprobs == 0));
    ft_error err;
    if (q->penalties)
        require(ft_penalties_check(q->penalties, VOCAB, &err) == FT_OK);
    require(q->n_stops <= FT_HTTP_STOPS_MAX);
    for (size_t i = 0; i < q->n_stops; i++) {
        require_text(q->stops[i]);
        require(q->stops[i][0] != 0);
    }
    require(!q->chat || q->conversation.n_messages > 0);
    for (size_t i = 0; i < q->conversation.n_messages; i++) {
        require_text(q->conversation.messages[i].role);
        require_text(q->conversation.messages[i].content);
        bytes += strlen(q->conversation.messages[i].content);
    }
    require(bytes <= most_bytes);
    require(!q->prediction || strlen(q->prediction) <= most_bytes);
    if (q->prediction)
        require_text(q->prediction);
    require((q->constraint.kind == FT_CONSTRAINT_NONE) == !q->constraint_field);
    require(q->constraint.n <= FT_CONSTRAINT_MAX_BYTES);
    require((q->constraint.n > 0) == (q->constraint.kind > FT_CONSTRAINT_JSON_OBJECT));
    require(q->chat || q->prompt || q->n_prompt_tokens > 0);
    if (q->prompt)
        require_text(q->prompt);
    for (size_t i = 0; i < q->n_prompt_tokens; i++)
        require(q->prompt_tokens[i] >= 0);
}

static void check_body(const char *data, size_t n, bool chat)
{
    ft_http_fail fail;
    ft_http_parsed parsed;
    ft_buf out = {0};
    const ft_http_model model = {.id = "m", .text_bytes = 256, .n_vocab = VOCAB};
    if (ft_http_parse(data, n, chat, &model, &fail, &parsed) == FT_OK) {
        require(parsed.request.chat == chat && fail.http == 0);
        require(parsed.n_texts > 0 && parsed.n_texts <= FT_HTTP_TEXTS_MAX);
        for (uint32_t i = 0; i < parsed.n_texts; i++) {
            const ft_http_request q = ft_http_parsed_text(&parsed, i);
            check_request(&q, model.text_bytes);
        }
        ft_http_parsed_deinit(&parsed);
    } else {
        require(fail.http == 400 || fail.http == 404 || fail.http == 413);
        require(ft_http_fail_json(&fail, &out) == FT_OK && ft_utf8_valid(out.data, out.len));
    }
    require(parsed.root == NULL);
    ft_buf_deinit(&out);
}

static ft_status token_text(void *ctx, int32_t token, ft_buf *out)
{
    (void)ctx;
    require(token >= 0 && token < VOCAB);
    return ft_buf_append(out, &(char){(char)token}, 1);
}

static void check_tokens(const char *data, size_t n)
{
    ft_http_fail fail;
    ft_http_tokenize t;
    json_t *answer;
    const ft_http_model model = {.id = "m", .text_bytes = 256, .n_vocab = VOCAB};
    const ft_http_backend backend = {.token_text = token_text};
    if (ft_http_tokenize_parse(data, n, &model, &fail, &t) == FT_OK) {
        require(fail.http == 0 &&
                (t.request.chat ? t.request.conversation.n_messages > 0 : !!t.request.prompt));
        if (t.request.prompt)
            require(strlen(t.request.prompt) <= model.text_bytes);
        ft_http_tokenize_deinit(&t);
    } else {
        require(fail.http != 0 && !t.root && !t.parsed.root);
    }
    if (ft_http_detokenize_answer(&backend, &model, data, n, &fail, &answer) == FT_OK)
        require(json_is_string(json_object_get(answer, "content")));
    else
        require(fail.http != 0 && !answer);
    json_decref(answer);
}

/* X-Forwarded-For of a proxy that is trusted. */
static void check_forwarded(const char *text, size_t n)
{
    const ft_networks everybody = {.n = 1};
    const ft_address peer = {{0}}, client = ft_networks_client(&everybody, &peer, text, n);
    char network[FT_CLIENT_ADDRESS_SIZE];
    ft_address_network(&client, network);
    require(strlen(network) > 1 && strspn(network, "0123456789abcdef.:/") == strlen(network));
}

static void check_header(const char *data, size_t n)
{
    char authority[64];
    const char *path;
    char *text = malloc(n + 1);
    require(text != NULL);
    memcpy(text, data, n);
    text[n] = 0;
    ft_http_is_json_type(text);
    if (ft_http_split_uri(text, &path, authority, sizeof authority)) {
        require(path[0] == '/' || strcmp(path, "*") == 0);
        require(!strchr(authority, '/') && !strchr(authority, '@'));
    }
    check_forwarded(text, n);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    check_body((const char *)data, n, true);
    check_body((const char *)data, n, false);
    check_tokens((const char *)data, n);
    if (n > 0)
        check_header((const char *)data, n);
    return 0;
}
