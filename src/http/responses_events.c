// SPDX-License-Identifier: Apache-2.0
// Answers of OpenAI's Responses API: an object `response` with a list of output items, and events
// that are numbered. What a model thinks is an item of type `reasoning` with its text as content
// and without a summary; a call of a tool is one of type `function_call`. No state but that of the
// items.
#include <stdio.h>
#include <string.h>

#include "http/dialect.h"
#include "http/json.h"

/* What an item's kind is called. */
static const struct {
    const char *id, *delta, *done;
} kinds[] = {
    [FT_HTTP_ITEM_THOUGHT] = {"rs", "response.reasoning_text.delta",
                              "response.reasoning_text.done"},
    [FT_HTTP_ITEM_TEXT] = {"msg", "response.output_text.delta", "response.output_text.done"},
    [FT_HTTP_ITEM_CALL] = {"fc", "response.function_call_arguments.delta",
                           "response.function_call_arguments.done"},
};

/* The id of the open item: its kind, the answer's number and its index. */
static const char *item_id(const ft_http_items *items, char id[64])
{
    const char *number = strchr(items->id, '_');
    snprintf(id, 64, "%s%s%02zu", kinds[items->open].id, number ? number : "_",
             json_array_size(items->done));
    return id;
}

/* The object with a further member; NULL: out of memory. Takes both. */
static json_t *with(json_t *take_object, const char *name, json_t *take_value)
{
    if (json_object_set_new(take_object, name, take_value) == 0)
        return take_object;
    json_decref(take_object);
    return NULL;
}

/* Takes data. */
static void event(ft_http_items *items, const char *name, json_t *take_data, ft_buf *out)
{
    json_t *number = json_integer(items->n_events++);
    ft_http_items_event(name, with(take_data, "sequence_number", number), out);
}

/* ---- the response ---- */

/* Adds what the request said, else what holds. Takes both. */
static json_t *echo(const ft_http_items *items, json_t *take_response, const char *name,
                    json_t *take_other)
{
    json_t *v = json_object_get(items->parsed->asked, name);
    if (!v || json_is_null(v))
        return with(take_response, name, take_other);
    json_decref(take_other);
    return with(take_response, name, json_incref(v));
}

static json_t *json_usage(const ft_http_items *items, const ft_http_result *r)
{
    const json_int_t prompt = r->prompt_tokens, answer = r->completion_tokens;
    return json_pack("{s:I,s:{s:I,s:i},s:I,s:{s:I},s:I,s:O*}", "input_tokens", prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)r->cached_tokens,
                     "cache_write_tokens", 0, "output_tokens", answer, "output_tokens_details",
                     "reasoning_tokens", (json_int_t)items->thought_tok, "total_tokens",
                     prompt + answer, "foretoken", r->extension);
}

/* NULL: out of memory. */
static json_t *json_response(const ft_http_items *items, const char *status, json_t *take_error,
                             const ft_http_ending *ending)
{
    const ft_http_request *q = &items->parsed->request;
    json_t *cut =
        ending && ending->length ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null();
    json_t *usage = ending ? json_usage(items, ending->result) : json_null();
    json_t *r = json_pack(
        "{s:s,s:s,s:I,s:s,s:b,s:o,s:o,s:s,s:O,s:n,s:b,s:s,s:o}", "id", items->id, "object",
        "response", "created_at", (json_int_t)items->created_s, "status", status, "background", 0,
        "error", take_error, "incomplete_details", cut, "model", items->parsed->model, "output",
        items->done, "previous_response_id", "store", 0, "truncation", "disabled", "usage", usage);
    r = echo(items, r, "instructions", json_null());
    r = echo(items, r, "max_output_tokens", json_null());
    r = echo(items, r, "metadata", json_object());
    r = echo(items, r, "parallel_tool_calls", json_true());
    r = echo(items, r, "reasoning", json_null());
    r = echo(items, r, "temperature", json_real((double)q->temperature));
    r = echo(items, r, "text", json_pack("{s:{s:s}}", "format", "type", "text"));
    r = echo(items, r, "tool_choice", json_string("auto"));
    r = echo(items, r, "tools", json_array());
    r = echo(items, r, "top_p", json_real((double)q->top_p));
    r = echo(items, r, "user", json_null());
    return r;
}

/* ---- items ---- */

static json_t *json_part(const ft_http_items *items, json_t *take_text)
{
    if (items->open == FT_HTTP_ITEM_THOUGHT)
        return json_pack("{s:s,s:o}", "type", "reasoning_text", "text", take_text);
    return json_pack("{s:s,s:[],s:[],s:o}", "type", "output_text", "annotations", "logprobs",
                     "text", take_text);
}

/* An item that begins has none yet. */
static json_t *json_content(const ft_http_items *items, const char *status, json_t *take_text)
{
    if (strcmp(status, "in_progress") != 0)
        return json_pack("[o]", json_part(items, take_text));
    json_decref(take_text);
    return json_array();
}

/* text: all of it; "": the item begins. */
static json_t *json_item(const ft_http_items *items, const char *status, json_t *take_text)
{
    char id[64];
    item_id(items, id);
    if (items->open == FT_HTTP_ITEM_CALL)
        return json_pack("{s:s,s:s,s:s,s:o,s:o,s:s}", "id", id, "type", "function_call", "call_id",
                         ft_buf_str(&items->call_id), "name",
                         ft_http_json_text(ft_buf_str(&items->name), items->name.len), "arguments",
                         take_text, "status", status);
    json_t *content = json_content(items, status, take_text);
    if (items->open == FT_HTTP_ITEM_THOUGHT)
        return json_pack("{s:s,s:s,s:[],s:o,s:n,s:s}", "id", id, "type", "reasoning", "summary",
                         "content", content, "encrypted_content", "status", status);
    return json_pack("{s:s,s:s,s:s,s:o,s:s}", "id", id, "type", "message", "role", "assistant",
                     "content", content, "status", status);
}

static json_t *item(const ft_http_items *items, json_t *take_text, bool cut)
{
    return json_item(items, cut ? "incomplete" : "completed", take_text);
}

/* What events about the open item's text have. */
static json_t *json_place(const ft_http_items *items)
{
    char id[64];
    json_t *place = json_pack("{s:s,s:I}", "item_id", item_id(items, id), "output_index",
                              (json_int_t)json_array_size(items->done));
    return items->open == FT_HTTP_ITEM_CALL ? place : with(place, "content_index", json_integer(0));
}

static json_t *json_indexed_item(const ft_http_items *items, json_t *take_item)
{
    return json_pack("{s:I,s:o}", "output_index", (json_int_t)json_array_size(items->done), "item",
                     take_item);
}

/* ---- events ---- */

static void begin(ft_http_items *items, ft_buf *out)
{
    static const char *const names[] = {"response.created", "response.in_progress"};
    for (size_t i = 0; i < 2; i++)
        event(
            items, names[i],
            json_pack("{s:o}", "response", json_response(items, "in_progress", json_null(), NULL)),
            out);
}

static void open_item(ft_http_items *items, ft_buf *out)
{
    event(items, "response.output_item.added",
          json_indexed_item(items, json_item(items, "in_progress", json_string(""))), out);
    if (items->open != FT_HTTP_ITEM_CALL)
        event(items, "response.content_part.added",
              with(json_place(items), "part", json_part(items, json_string(""))), out);
}

/* An event about text: a piece, or all of it. */
static json_t *json_text_event(const ft_http_items *items, const char *name, json_t *take_text)
{
    json_t *data = with(json_place(items), name, take_text);
    return items->open == FT_HTTP_ITEM_TEXT ? with(data, "logprobs", json_array()) : data;
}

static void add(ft_http_items *items, json_t *take_text, ft_buf *out)
{
    event(items, kinds[items->open].delta, json_text_event(items, "delta", take_text), out);
}

static void close_item(ft_http_items *items, json_t *whole_item, ft_buf *out)
{
    const bool call = items->open == FT_HTTP_ITEM_CALL;
    json_t *part = json_array_get(json_object_get(whole_item, "content"), 0);
    json_t *text = call ? json_object_get(whole_item, "arguments") : json_object_get(part, "text");
    json_t *data = json_text_event(items, call ? "arguments" : "text", json_incref(text));
    if (call)
        data = with(data, "name", json_incref(json_object_get(whole_item, "name")));
    event(items, kinds[items->open].done, data, out);
    if (!call)
        event(items, "response.content_part.done",
              with(json_place(items), "part", json_incref(part)), out);
    event(items, "response.output_item.done", json_indexed_item(items, json_incref(whole_item)),
          out);
}

static const char *status_of(const ft_http_ending *ending)
{
    return ending->length ? "incomplete" : "completed";
}

static json_t *whole(const ft_http_items *items, const ft_http_ending *ending)
{
    return json_response(items, status_of(ending), json_null(), ending);
}

static void end(ft_http_items *items, const ft_http_ending *ending, ft_buf *out)
{
    event(items, ending->length ? "response.incomplete" : "response.completed",
          json_pack("{s:o}", "response", whole(items, ending)), out);
}

static void fail(ft_http_items *items, const ft_http_fail *why, ft_buf *out)
{
    const char *code = why->http == 429 ? "rate_limit_exceeded" : why->code;
    json_t *message = ft_http_json_text(why->message, strlen(why->message));
    json_t *error =
        json_pack("{s:s,s:o}", "code", code ? code : "server_error", "message", message);
    event(items, "response.failed",
          json_pack("{s:o}", "response", json_response(items, "failed", error, NULL)), out);
}

const ft_http_shape ft_http_responses_shape = {.id_prefix = "resp_",
                                               .begin = begin,
                                               .open = open_item,
                                               .add = add,
                                               .close = close_item,
                                               .end = end,
                                               .fail = fail,
                                               .item = item,
                                               .whole = whole};
