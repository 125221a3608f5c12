// SPDX-License-Identifier: Apache-2.0
// Answers in OpenAI's shapes. A streamed answer is a sequence of events: in a chat one that names
// the role, then one for each piece of text, one with the finish_reason; the same of further texts;
// one with usage and without choices (with include_usage), and [DONE]. Extensions: usage.foretoken,
// a list where there are several texts; llama.cpp's timings; with include_draft an object
// `foretoken` in each event (http/told.h).
// The text of a token that is not complete UTF-8 is escaped as OpenAI does it ("\xe2\x80"); in
// completions "bytes:" comes before it.
#include "http/answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/secret.h"
#include "base/text.h"
#include "http/dialect.h"
#include "http/json.h"
#include "http/told.h"

/* The lists of completions; a chat has the first alone. */
enum { TOKENS, TOKEN_LOGPROBS, TOP_LOGPROBS, TEXT_OFFSET, N_LISTS };

ft_status ft_http_answer_init(ft_http_answer *a, const ft_http_backend *backend,
                              const ft_http_parsed *parsed, bool parts, int64_t now_s)
{
    unsigned char random[12];
    char hex[2 * sizeof random + 1];
    *a = (ft_http_answer){.backend = backend, .parsed = parsed, .created_s = now_s};
    a->parts = parts && parsed->request.chat && !parsed->include_draft;
    ft_status status = ft_random_bytes(random, sizeof random);
    if (status != FT_OK)
        return status;
    ft_hex(random, sizeof random, hex);
    if (parsed->dialect) {
        snprintf(a->id, sizeof a->id, "%s%s", parsed->dialect->shape->id_prefix, hex);
        return ft_http_items_init(&a->items, parsed, a->id, now_s);
    }
    snprintf(a->id, sizeof a->id, "%s-%s", parsed->request.chat ? "chatcmpl" : "cmpl", hex);
    return FT_OK;
}

static void drop_reader(ft_http_answer *a)
{
    if (a->reader.destroy)
        a->reader.destroy(a->reader.ctx);
    a->reader = (ft_chat_reader){0};
}

void ft_http_answer_deinit(ft_http_answer *a)
{
    ft_http_think_deinit(&a->think);
    drop_reader(a);
    ft_http_calls_deinit(&a->calls);
    ft_buf_deinit(&a->thought);
    ft_buf_deinit(&a->said);
    ft_buf_deinit(&a->piece);
    ft_buf_deinit(&a->told);
    ft_http_items_deinit(&a->items);
    for (size_t i = 0; i < N_LISTS; i++)
        ft_buf_deinit(&a->logprobs[i]);
    *a = (ft_http_answer){0};
}

void ft_http_answer_thinks(ft_http_answer *a)
{
    a->think.state = FT_HTTP_THINK_INSIDE;
}

void ft_http_answer_reads(ft_http_answer *a, const ft_chat_reader *take)
{
    drop_reader(a);
    a->reader = *take;
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

/* Returns the value, or NULL if a part of it could not be added: an answer lacks nothing. */
static json_t *whole(json_t *take_value, int failed)
{
    if (!failed)
        return take_value;
    json_decref(take_value);
    return NULL;
}

/* Chat: {"token","logprob","bytes"}. */
static json_t *chat_candidate(ft_http_answer *a, int32_t token, float logprob)
{
    json_t *text = json_token_text(a, token, ""), *bytes = json_array();
    int failed = 0;
    for (size_t i = 0; i < a->piece.len; i++)
        failed |= json_array_append_new(bytes, json_integer((unsigned char)a->piece.data[i]));
    return json_pack("{s:o,s:o,s:o}", "token", text, "logprob", json_logprob(logprob), "bytes",
                     whole(bytes, failed));
}

static json_t *chat_token(ft_http_answer *a, const ft_gen_token *t)
{
    json_t *object = chat_candidate(a, t->id, t->logprob.logprob), *top = json_array();
    int failed = 0;
    for (uint32_t i = 0; i < t->logprob.n_top; i++)
        failed |= json_array_append_new(
            top, chat_candidate(a, t->logprob.top[i].token, t->logprob.top[i].logprob));
    failed |= json_object_set_new(object, "top_logprobs", top);
    return whole(object, failed);
}

/* Takes item, and appends it to a list. FT_NOMEM. */
static ft_status append_item(ft_buf *list, json_t *item)
{
    if (list->len > 0)
        ft_buf_puts(list, ",");
    return ft_http_json_append(item, list);
}

/* Completions: an object from the texts of the alternatives to their log-probabilities. */
static json_t *completion_top(ft_http_answer *a, const ft_gen_token *t)
{
    json_t *top = json_object();
    int failed = 0;
    for (uint32_t i = 0; i < t->logprob.n_top; i++) {
        json_t *key = json_token_text(a, t->logprob.top[i].token, "bytes:");
        failed |= json_object_set_new_nocheck(top, json_string_value(key),
                                              json_logprob(t->logprob.top[i].logprob));
        json_decref(key);
    }
    return whole(top, failed);
}

static ft_status append_columns(ft_http_answer *a, const ft_gen_token *t)
{
    ft_buf *lists = a->logprobs;
    ft_status status = FT_OK;
    if (a->parsed->request.top_logprobs > 0)
        status = append_item(&lists[TOP_LOGPROBS], completion_top(a, t));
    if (status == FT_OK)
        status = append_item(&lists[TOKENS], json_token_text(a, t->id, "bytes:"));
    if (status == FT_OK)
        status = append_item(&lists[TOKEN_LOGPROBS], json_logprob(t->logprob.logprob));
    if (status == FT_OK)
        status = append_item(&lists[TEXT_OFFSET], json_integer((json_int_t)a->offset_char));
    for (size_t i = 0; i < a->piece.len; i++) /* of the token itself */
        a->offset_char += ((unsigned char)a->piece.data[i] & 0xC0) != 0x80;
    return status;
}

static ft_status add_tokens(ft_http_answer *a, const ft_gen_token *tokens, size_t n_tokens)
{
    const ft_http_request *q = &a->parsed->request;
    ft_status status = FT_OK;
    for (size_t i = 0; q->logprobs && status == FT_OK && i < n_tokens; i++)
        status = q->chat ? append_item(&a->logprobs[0], chat_token(a, &tokens[i]))
                         : append_columns(a, &tokens[i]);
    return status;
}

/* Appends a member of an object whose value is a list. Takes what the list holds. */
static void move_list(const char *name, ft_buf *list, ft_buf *out)
{
    ft_buf_printf(out, "\"%s\":[", name);
    ft_buf_append(out, list->data, list->len);
    ft_buf_puts(out, "]");
    ft_buf_deinit(list);
}

/* Appends the value of "logprobs" for the tokens since the last call. */
static void move_logprobs(ft_http_answer *a, ft_buf *out)
{
    ft_buf_puts(out, "{");
    if (a->parsed->request.chat) {
        move_list("content", &a->logprobs[0], out);
        ft_buf_puts(out, ",\"refusal\":null}");
        return;
    }
    move_list("tokens", &a->logprobs[TOKENS], out);
    ft_buf_puts(out, ",");
    move_list("token_logprobs", &a->logprobs[TOKEN_LOGPROBS], out);
    ft_buf_puts(out, ",");
    if (a->parsed->request.top_logprobs > 0)
        move_list("top_logprobs", &a->logprobs[TOP_LOGPROBS], out);
    else
        ft_buf_puts(out, "\"top_logprobs\":null");
    ft_buf_puts(out, ",");
    move_list("text_offset", &a->logprobs[TEXT_OFFSET], out);
    ft_buf_puts(out, "}");
}

static json_t *json_usage(const ft_http_result *r)
{
    json_int_t prompt = r->prompt_tokens, completion = r->completion_tokens;
    json_t *details = json_pack(
        "{s:I,s:I}", "accepted_prediction_tokens", (json_int_t)r->accepted_prediction_tokens,
        "rejected_prediction_tokens", (json_int_t)r->rejected_prediction_tokens);
    return json_pack("{s:I,s:I,s:I,s:{s:I},s:o,s:O*}", "prompt_tokens", prompt, "completion_tokens",
                     completion, "total_tokens", prompt + completion, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)r->cached_tokens, "completion_tokens_details",
                     details, "foretoken", r->extension);
}

/* `part`: the time of `n` tokens, by the names that llama.cpp's server gives it. */
static void set_timing(json_t *timings, const char *part, uint32_t n, int64_t us)
{
    char name[48];
    const double ms = (double)us / 1000;
    snprintf(name, sizeof name, "%s_n", part);
    json_object_set_new(timings, name, json_integer(n));
    snprintf(name, sizeof name, "%s_ms", part);
    json_object_set_new(timings, name, json_real(ms));
    snprintf(name, sizeof name, "%s_per_token_ms", part);
    json_object_set_new(timings, name, json_real(n > 0 ? ms / n : 0));
    snprintf(name, sizeof name, "%s_per_second", part);
    json_object_set_new(timings, name, json_real(us > 0 ? n * 1e3 / ms : 0));
}

static json_t *json_timings(const ft_http_result *r)
{
    json_t *timings = json_pack("{s:I}", "cache_n", (json_int_t)r->cached_tokens);
    set_timing(timings, "prompt", r->prompt_tokens - r->cached_tokens, r->first_us);
    set_timing(timings, "predicted", r->completion_tokens, r->total_us - r->first_us);
    if (r->drafted > 0) {
        json_object_set_new(timings, "draft_n", json_integer(r->drafted));
        json_object_set_new(timings, "draft_n_accepted", json_integer(r->accepted));
    }
    return timings;
}

static const char *object_name(const ft_http_answer *a)
{
    if (!a->parsed->request.chat)
        return "text_completion";
    return a->parsed->stream ? "chat.completion.chunk" : "chat.completion";
}

/* Begins the answer's object, up to its choices. */
static void open_object(const ft_http_answer *a, ft_buf *out)
{
    json_t *head = json_pack("{s:s,s:s,s:I,s:s}", "id", a->id, "object", object_name(a), "created",
                             (json_int_t)a->created_s, "model", a->parsed->model);
    ft_buf_puts(out, "{");
    (void)ft_http_json_embed(head, out);
    ft_buf_puts(out, ",\"choices\":[");
}

/* Appends what follows the choices, but for the object's end. Takes usage and timings; NULL: none.
 */
static void append_tail(const ft_http_answer *a, json_t *usage, json_t *timings, ft_buf *out)
{
    char target[24];
    snprintf(target, sizeof target, "fp_%016" PRIx64, a->target);
    ft_buf_puts(out, "]");
    if (!a->target && !usage && !timings)
        return;
    json_t *tail = json_pack("{s:s*,s:o*,s:o*}", "system_fingerprint", a->target ? target : NULL,
                             "usage", usage, "timings", timings);
    ft_buf_puts(out, ",");
    (void)ft_http_json_embed(tail, out);
}

/* Appends a choice, with the log-probabilities since the last call if `logprobs` is set.
 * Takes choice. */
static void append_choice(ft_http_answer *a, json_t *choice, bool logprobs, ft_buf *out)
{
    ft_buf_puts(out, "{");
    (void)ft_http_json_embed(choice, out);
    ft_buf_puts(out, ",\"logprobs\":");
    if (logprobs)
        move_logprobs(a, out);
    else
        ft_buf_puts(out, "null");
    ft_buf_puts(out, "}");
}

/* Ends the object and what is around it. If anything since `before` failed, nothing is appended. */
static ft_status close_object(const char *end, size_t before, ft_buf *out)
{
    ft_buf_puts(out, end);
    if (!out->failed)
        return FT_OK;
    out->len = before;
    return FT_NOMEM;
}

/* How a text ends. */
typedef struct ending {
    const char *finish;         /* NULL: not yet */
    const ft_http_result *last; /* of the last text: the sums */
} ending;

/* One event with one choice. name: of the delta's member; text: its value, NULL at the end. */
static ft_status append_chunk(ft_http_answer *a, const char *name, json_t *text, bool logprobs,
                              ending end, ft_buf *out)
{
    const size_t before = out->len;
    json_t *choice;
    if (a->parsed->request.chat) {
        json_t *delta = json_pack("{s:s*,s:o*}", "role", a->begun ? NULL : "assistant", name, text);
        choice = json_pack("{s:i,s:o,s:s?}", "index", (int)a->index, "delta", delta,
                           "finish_reason", end.finish);
    } else {
        choice = json_pack("{s:o,s:i,s:s?}", "text", text ? text : json_string(""), "index",
                           (int)a->index, "finish_reason", end.finish);
    }
    /* the event that names the role has no text to say something of */
    const bool told = a->told.len > 0 && (a->begun || !a->parsed->request.chat);
    a->begun = true;
    ft_buf_puts(out, "data: ");
    open_object(a, out);
    append_choice(a, choice, logprobs, out);
    append_tail(a, a->parsed->include_usage ? json_null() : NULL,
                end.last && !a->parsed->include_usage ? json_timings(end.last) : NULL, out);
    if (told) {
        ft_buf_puts(out, ",\"foretoken\":");
        ft_buf_append(out, a->told.data, a->told.len);
        ft_buf_clear(&a->told);
    }
    return close_object("}\n\n", before, out);
}

static ft_status begin_stream(ft_http_answer *a, ft_buf *out)
{
    if (a->begun || !a->parsed->request.chat)
        return FT_OK;
    return append_chunk(a, "content", json_string(""), false, (ending){0}, out);
}

/* Parts a piece of text into what is thought and said. */
static ft_status part(ft_http_answer *a, const char *text, size_t n)
{
    return a->parts ? ft_http_think_push(&a->think, text, n, &a->thought, &a->said)
                    : ft_buf_append(&a->said, text, n);
}

/* Appends an event with the text in `take_text`, and the log-probabilities since the last one. */
static ft_status append_text(ft_http_answer *a, const char *name, ft_buf *take_text, ft_buf *out)
{
    json_t *piece = ft_http_json_text(ft_buf_str(take_text), take_text->len);
    ft_buf_clear(take_text);
    return piece ? append_chunk(a, name, piece, a->parsed->request.logprobs, (ending){0}, out)
                 : FT_NOMEM;
}

/* Streams what was thought and said. */
static ft_status append_parts(ft_http_answer *a, ft_buf *out)
{
    ft_status status = FT_OK;
    const bool other = a->logprobs[TOKENS].len > 0 || a->told.len > 0;
    if (a->thought.len > 0)
        status = append_text(a, "reasoning_content", &a->thought, out);
    else if (a->said.len == 0 && other)
        return append_text(a, "content", &a->said, out);
    return status == FT_OK && a->said.len > 0 ? append_text(a, "content", &a->said, out) : status;
}

/* Adds a part of what a reader has read; a stream says what came before a call first. */
static ft_status add_part(ft_http_answer *a, const ft_chat_part *part, ft_buf *out)
{
    const bool thought = part->kind == FT_CHAT_PART_REASONING;
    if (thought || part->kind == FT_CHAT_PART_CONTENT)
        return ft_buf_append(thought ? &a->thought : &a->said, part->text, part->n);
    json_t *delta = NULL;
    ft_status status = ft_http_calls_add(&a->calls, part, &delta);
    if (status != FT_OK || !a->parsed->stream) {
        json_decref(delta);
        return status;
    }
    if (a->thought.len > 0 || a->said.len > 0)
        status = append_parts(a, out);
    if (status == FT_OK)
        return append_chunk(a, "tool_calls", delta, false, (ending){0}, out);
    json_decref(delta);
    return status;
}

/* The same for an API with items. */
static ft_status add_item_part(ft_http_answer *a, const ft_chat_part *part, ft_buf *out)
{
    const bool thought = part->kind == FT_CHAT_PART_REASONING;
    if (thought || part->kind == FT_CHAT_PART_CONTENT)
        return ft_buf_append(thought ? &a->thought : &a->said, part->text, part->n);
    if (part->kind != FT_CHAT_PART_CALL)
        return ft_http_items_arguments(&a->items, part->text, part->n, out);
    ft_buf id = {0};
    ft_status status = ft_http_items_push(&a->items, &a->thought, &a->said, out);
    if (status == FT_OK)
        status = ft_http_calls_id(part, &id);
    if (status == FT_OK)
        status = ft_http_items_call(&a->items, ft_buf_str(&id), part->text, part->n, out);
    ft_buf_deinit(&id);
    return status;
}

/* Reads more of a text that may have calls, for an API with items. */
static ft_status read_items(ft_http_answer *a, const ft_chat_part *parts, size_t n, ft_buf *out)
{
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = add_item_part(a, &parts[i], out);
    return status == FT_OK ? ft_http_items_push(&a->items, &a->thought, &a->said, out) : status;
}

/* Reads more of a text that may have calls. */
static ft_status read_more(ft_http_answer *a, const char *text, size_t n, bool last, ft_buf *out)
{
    const ft_chat_part *parts;
    size_t n_parts;
    ft_status status = a->reader.read(a->reader.ctx, text, n, last, &parts, &n_parts);
    if (status == FT_OK && a->parsed->dialect)
        return read_items(a, parts, n_parts, out);
    if (status == FT_OK && n_parts > 0 && a->parsed->stream)
        status = begin_stream(a, out);
    for (size_t i = 0; status == FT_OK && i < n_parts; i++)
        status = add_part(a, &parts[i], out);
    if (status == FT_OK && n_parts > 0 && a->parsed->stream)
        status = append_parts(a, out);
    return status;
}

ft_status ft_http_answer_add(ft_http_answer *a, const char *text, size_t n,
                             const ft_gen_token *tokens, size_t n_tokens, ft_buf *out)
{
    ft_status status = add_tokens(a, tokens, n_tokens);
    if (a->reader.read) {
        status = status == FT_OK ? read_more(a, text, n, false, out) : status;
        if (a->parsed->dialect && a->items.open == FT_HTTP_ITEM_THOUGHT)
            a->items.thought_tok += (uint32_t)n_tokens;
        return status;
    }
    if (status == FT_OK)
        status = part(a, text, n);
    if (ft_http_think_inside(&a->think))
        a->items.thought_tok += (uint32_t)n_tokens;
    if (status != FT_OK || !a->parsed->stream)
        return status;
    if (a->parsed->dialect)
        return ft_http_items_push(&a->items, &a->thought, &a->said, out);
    if (a->thought.len == 0 && a->said.len == 0 && a->logprobs[TOKENS].len == 0 && a->told.len == 0)
        return FT_OK;
    status = begin_stream(a, out);
    return status == FT_OK ? append_parts(a, out) : status;
}

ft_status ft_http_answer_told(ft_http_answer *a, const ft_told *told)
{
    ft_buf_clear(&a->told);
    return ft_http_told_append(told, &a->told);
}

ft_status ft_http_answer_away(ft_http_answer *a, ft_buf *out)
{
    ft_status status = begin_stream(a, out);
    ft_buf_clear(&a->told);
    if (status == FT_OK)
        status = ft_http_away_append(&a->told);
    return status == FT_OK ? append_chunk(a, "content", json_string(""), false, (ending){0}, out)
                           : status;
}

static ft_status end_whole(ft_http_answer *a, const char *finish, ft_buf *out)
{
    const size_t before = out->len;
    json_t *text = ft_http_json_text(ft_buf_str(&a->said), a->said.len), *thought = NULL, *choice;
    if (a->thought.len > 0)
        thought = ft_http_json_text(ft_buf_str(&a->thought), a->thought.len);
    json_t *calls = NULL;
    if (ft_http_calls_take(&a->calls, &calls) != FT_OK) {
        json_decref(calls);
        json_decref(text);
        json_decref(thought);
        return FT_NOMEM;
    }
    if (calls && a->said.len == 0) { /* calls alone: no content */
        json_decref(text);
        text = json_null();
    }
    if (a->parsed->request.chat)
        choice = json_pack("{s:i,s:{s:s,s:o,s:o*,s:o*,s:n},s:s}", "index", (int)a->index, "message",
                           "role", "assistant", "content", text, "reasoning_content", thought,
                           "tool_calls", calls, "refusal", "finish_reason", finish);
    else
        choice = json_pack("{s:o,s:i,s:s}", "text", text, "index", (int)a->index, "finish_reason",
                           finish);
    if (a->index == 0)
        open_object(a, out);
    else
        ft_buf_puts(out, ",");
    append_choice(a, choice, a->parsed->request.logprobs, out);
    ft_buf_clear(&a->said);
    ft_buf_clear(&a->thought);
    return close_object("", before, out);
}

static ft_status end_items(ft_http_answer *a, bool length, const ft_http_result *result,
                           ft_buf *out)
{
    const ft_http_ending how = {.length = length, .stop = a->stop, .result = result};
    const ft_status status = ft_http_items_push(&a->items, &a->thought, &a->said, out);
    return status == FT_OK ? ft_http_items_end(&a->items, &how, out) : status;
}

ft_status ft_http_answer_end(ft_http_answer *a, bool length, const ft_http_result *last,
                             ft_buf *out)
{
    ft_status status = a->reader.read ? read_more(a, "", 0, true, out)
                                      : ft_http_think_finish(&a->think, &a->thought, &a->said);
    if (status != FT_OK)
        return status;
    drop_reader(a);
    if (a->parsed->dialect)
        return end_items(a, length, last, out);
    const bool calls = ft_http_calls_n(&a->calls) > 0;
    const ending end = {length ? "length" : calls ? "tool_calls" : "stop", last};
    if (!a->parsed->stream) {
        status = end_whole(a, end.finish, out);
    } else {
        status = begin_stream(a, out);
        if (status == FT_OK)
            status = append_parts(a, out);
        if (status == FT_OK)
            status = append_chunk(a, "content", NULL, false, end, out);
    }
    ft_http_calls_deinit(&a->calls);
    a->index++;
    a->begun = false;
    a->offset_char = 0;
    return status;
}

ft_status ft_http_answer_finish(ft_http_answer *a, const ft_http_result *sum, ft_buf *out)
{
    const size_t before = out->len;
    if (a->parsed->dialect)
        return FT_OK;
    if (!a->parsed->stream || a->parsed->include_usage) {
        if (a->parsed->stream) {
            ft_buf_puts(out, "data: ");
            open_object(a, out);
        }
        append_tail(a, json_usage(sum), json_timings(sum), out);
        ft_buf_puts(out, a->parsed->stream ? "}\n\n" : "}");
    }
    return close_object(a->parsed->stream ? "data: [DONE]\n\n" : "", before, out);
}

ft_status ft_http_answer_fail(ft_http_answer *a, const ft_http_fail *fail, ft_buf *out)
{
    if (a->parsed->dialect)
        return ft_http_items_fail(&a->items, fail, out);
    ft_buf_puts(out, "data: ");
    ft_status status = ft_http_fail_json(fail, out);
    return status == FT_OK ? ft_buf_puts(out, "\n\ndata: [DONE]\n\n") : status;
}
