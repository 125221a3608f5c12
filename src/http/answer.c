// SPDX-License-Identifier: Apache-2.0
// Answers in OpenAI's shapes. A streamed answer is a sequence of events: in a chat one that names
// the role, then one for each piece of text, one with the finish_reason, one with usage and without
// choices (with include_usage), and [DONE]. Extension: usage.foretoken.
// The text of a token that is not complete UTF-8 is escaped as OpenAI does it ("\xe2\x80"); in
// completions "bytes:" comes before it.
#include "http/answer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/secret.h"
#include "base/text.h"
#include "http/json.h"

ft_status ft_http_answer_init(ft_http_answer *a, const ft_http_backend *backend,
                              const ft_http_parsed *parsed, const char *model, int64_t now_s)
{
    unsigned char random[12];
    char hex[2 * sizeof random + 1];
    *a = (ft_http_answer){.backend = backend, .parsed = parsed, .model = model, .created_s = now_s};
    ft_status status = ft_random_bytes(random, sizeof random);
    if (status != FT_OK)
        return status;
    ft_hex(random, sizeof random, hex);
    snprintf(a->id, sizeof a->id, "%s-%s", parsed->request.chat ? "chatcmpl" : "cmpl", hex);
    return FT_OK;
}

void ft_http_answer_deinit(ft_http_answer *a)
{
    ft_buf_deinit(&a->text);
    ft_buf_deinit(&a->piece);
    json_decref(a->logprobs);
    *a = (ft_http_answer){0};
}

static json_t *json_logprob(float logprob)
{
    /* JSON has no infinity; -9999 is what OpenAI says instead */
    return json_real(isfinite(logprob) ? logprob : -9999.0);
}

/* A token's text, whose bytes are in a->piece until the next call. NULL: out of memory. */
static json_t *json_token_text(ft_http_answer *a, int32_t token, const char *prefix)
{
    ft_buf escaped = {0};
    ft_buf_clear(&a->piece);
    if (a->backend->token_text(a->backend->ctx, token, &a->piece) != FT_OK)
        return NULL;
    const char *bytes = ft_buf_str(&a->piece);
    if (ft_utf8_valid(bytes, a->piece.len))
        return json_stringn_nocheck(bytes, a->piece.len);
    ft_buf_puts(&escaped, prefix);
    for (size_t i = 0; i < a->piece.len; i++)
        ft_buf_printf(&escaped, "\\x%02x", (unsigned char)bytes[i]);
    json_t *text = escaped.failed ? NULL : json_stringn_nocheck(ft_buf_str(&escaped), escaped.len);
    ft_buf_deinit(&escaped);
    return text;
}

/* Chat: {"token","logprob","bytes"}. */
static json_t *chat_candidate(ft_http_answer *a, int32_t token, float logprob)
{
    json_t *text = json_token_text(a, token, ""), *bytes = json_array();
    for (size_t i = 0; bytes && i < a->piece.len; i++)
        json_array_append_new(bytes, json_integer((unsigned char)a->piece.data[i]));
    return json_pack("{s:o,s:o,s:o}", "token", text, "logprob", json_logprob(logprob), "bytes",
                     bytes);
}

static json_t *chat_token(ft_http_answer *a, const ft_gen_token *t)
{
    json_t *object = chat_candidate(a, t->id, t->logprob.logprob), *top = json_array();
    for (uint32_t i = 0; i < t->logprob.n_top; i++)
        json_array_append_new(
            top, chat_candidate(a, t->logprob.top[i].token, t->logprob.top[i].logprob));
    json_object_set_new(object, "top_logprobs", top);
    return object;
}

/* Completions: one row [token, logprob, top or null, offset], turned into columns at the end. */
static json_t *completion_token(ft_http_answer *a, const ft_gen_token *t)
{
    json_t *top = a->parsed->request.top_logprobs > 0 ? json_object() : NULL;
    for (uint32_t i = 0; top && i < t->logprob.n_top; i++) {
        json_t *key = json_token_text(a, t->logprob.top[i].token, "bytes:");
        if (key)
            json_object_set_new_nocheck(top, json_string_value(key),
                                        json_logprob(t->logprob.top[i].logprob));
        json_decref(key);
    }
    json_t *text = json_token_text(a, t->id, "bytes:");
    const json_int_t offset = (json_int_t)a->offset_char;
    for (size_t i = 0; i < a->piece.len; i++)
        a->offset_char += ((unsigned char)a->piece.data[i] & 0xC0) != 0x80;
    return json_pack("[o,o,o?,I]", text, json_logprob(t->logprob.logprob), top, offset);
}

static ft_status add_tokens(ft_http_answer *a, const ft_gen_token *tokens, size_t n_tokens)
{
    if (!a->parsed->request.logprobs)
        return FT_OK;
    if (!a->logprobs)
        a->logprobs = json_array();
    for (size_t i = 0; i < n_tokens; i++) {
        json_t *t =
            a->parsed->request.chat ? chat_token(a, &tokens[i]) : completion_token(a, &tokens[i]);
        if (json_array_append_new(a->logprobs, t) != 0)
            return FT_NOMEM;
    }
    return FT_OK;
}

/* The value of "logprobs" for the tokens since the last call; null if the request asks for none. */
static json_t *take_logprobs(ft_http_answer *a)
{
    if (!a->parsed->request.logprobs)
        return json_null();
    json_t *rows = a->logprobs ? a->logprobs : json_array();
    a->logprobs = NULL;
    if (a->parsed->request.chat)
        return json_pack("{s:o,s:n}", "content", rows, "refusal");
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    json_t *object = json_object();
    for (size_t column = 0; column < 4; column++) {
        json_t *list = json_array();
        for (size_t i = 0; i < json_array_size(rows); i++)
            json_array_append(list, json_array_get(json_array_get(rows, i), column));
        json_object_set_new(object, names[column], list);
    }
    if (a->parsed->request.top_logprobs == 0)
        json_object_set_new(object, "top_logprobs", json_null());
    json_decref(rows);
    return object;
}

static json_t *json_usage(const ft_http_result *r)
{
    json_int_t prompt = r->prompt_tokens, completion = r->completion_tokens;
    return json_pack("{s:I,s:I,s:I,s:O*}", "prompt_tokens", prompt, "completion_tokens", completion,
                     "total_tokens", prompt + completion, "foretoken", r->extension);
}

static const char *object_name(const ft_http_answer *a)
{
    if (!a->parsed->request.chat)
        return "text_completion";
    return a->parsed->stream ? "chat.completion.chunk" : "chat.completion";
}

/* Takes choices and usage. NULL: there is no usage. */
static json_t *envelope(const ft_http_answer *a, json_t *choices, json_t *usage)
{
    return json_pack("{s:s,s:s,s:I,s:s,s:o,s:o*}", "id", a->id, "object", object_name(a), "created",
                     (json_int_t)a->created_s, "model", a->model, "choices", choices, "usage",
                     usage);
}

static ft_status append_event(json_t *root, ft_buf *out)
{
    size_t before = out->len;
    ft_buf_puts(out, "data: ");
    ft_status status = ft_http_json_append(root, out);
    if (status == FT_OK)
        status = ft_buf_puts(out, "\n\n");
    if (status != FT_OK)
        out->len = before;
    return status;
}

/* One event with one choice. text is NULL at the end, where finish is given. */
static ft_status append_chunk(ft_http_answer *a, json_t *text, json_t *logprobs, const char *finish,
                              ft_buf *out)
{
    json_t *choice;
    if (a->parsed->request.chat) {
        json_t *delta =
            json_pack("{s:s*,s:o*}", "role", a->begun ? NULL : "assistant", "content", text);
        choice = json_pack("{s:i,s:o,s:o,s:s?}", "index", 0, "delta", delta, "logprobs", logprobs,
                           "finish_reason", finish);
    } else {
        choice = json_pack("{s:o,s:i,s:o,s:s?}", "text", text ? text : json_string(""), "index", 0,
                           "logprobs", logprobs, "finish_reason", finish);
    }
    a->begun = true;
    json_t *choices = choice ? json_pack("[o]", choice) : NULL;
    return append_event(envelope(a, choices, a->parsed->include_usage ? json_null() : NULL), out);
}

static ft_status begin_stream(ft_http_answer *a, ft_buf *out)
{
    if (a->begun || !a->parsed->request.chat)
        return FT_OK;
    return append_chunk(a, json_string(""), json_null(), NULL, out);
}

ft_status ft_http_answer_add(ft_http_answer *a, const char *text, size_t n,
                             const ft_gen_token *tokens, size_t n_tokens, ft_buf *out)
{
    ft_status status = add_tokens(a, tokens, n_tokens);
    if (status != FT_OK)
        return status;
    if (!a->parsed->stream)
        return ft_buf_append(&a->text, text, n);
    if (n == 0 && !a->logprobs)
        return FT_OK;
    status = begin_stream(a, out);
    if (status != FT_OK)
        return status;
    return append_chunk(a, ft_http_json_text(text, n), take_logprobs(a), NULL, out);
}

static ft_status finish_stream(ft_http_answer *a, const ft_http_result *result, const char *finish,
                               ft_buf *out)
{
    ft_status status = begin_stream(a, out);
    if (status == FT_OK)
        status = append_chunk(a, NULL, json_null(), finish, out);
    if (status == FT_OK && a->parsed->include_usage)
        status = append_event(envelope(a, json_array(), json_usage(result)), out);
    return status == FT_OK ? ft_buf_puts(out, "data: [DONE]\n\n") : status;
}

static ft_status finish_whole(ft_http_answer *a, const ft_http_result *result, const char *finish,
                              ft_buf *out)
{
    json_t *text = ft_http_json_text(ft_buf_str(&a->text), a->text.len);
    json_t *choices;
    if (a->parsed->request.chat)
        choices = json_pack("[{s:i,s:{s:s,s:o,s:n},s:o,s:s}]", "index", 0, "message", "role",
                            "assistant", "content", text, "refusal", "logprobs", take_logprobs(a),
                            "finish_reason", finish);
    else
        choices = json_pack("[{s:o,s:i,s:o,s:s}]", "text", text, "index", 0, "logprobs",
                            take_logprobs(a), "finish_reason", finish);
    return ft_http_json_append(envelope(a, choices, json_usage(result)), out);
}

ft_status ft_http_answer_finish(ft_http_answer *a, const ft_http_result *result, ft_buf *out)
{
    const char *finish = result->length ? "length" : "stop";
    return a->parsed->stream ? finish_stream(a, result, finish, out)
                             : finish_whole(a, result, finish, out);
}

ft_status ft_http_answer_fail(ft_http_answer *a, const ft_http_fail *fail, ft_buf *out)
{
    (void)a;
    ft_buf_puts(out, "data: ");
    ft_status status = ft_http_fail_json(fail, out);
    return status == FT_OK ? ft_buf_puts(out, "\n\ndata: [DONE]\n\n") : status;
}
