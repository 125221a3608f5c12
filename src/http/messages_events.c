// SPDX-License-Identifier: Apache-2.0
// Answers of Anthropic's Messages API: a message with a list of content blocks, and its events. A
// stream's first event has no count of the prompt's tokens, which is known later; `message_delta`
// has it. No state but that of the items.
#include "http/dialect.h"
#include "http/json.h"

/* result NULL: nothing is known yet. */
static json_t *json_usage(const ft_http_result *r)
{
    const ft_http_result none = {0};
    r = r ? r : &none;
    return json_pack("{s:I,s:i,s:I,s:I,s:O*}", "input_tokens",
                     (json_int_t)r->prompt_tokens - (json_int_t)r->cached_tokens,
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens",
                     (json_int_t)r->cached_tokens, "output_tokens",
                     (json_int_t)r->completion_tokens, "foretoken", r->extension);
}

static const char *reason_of(const ft_http_items *items, const ft_http_ending *ending)
{
    if (ending->length)
        return "max_tokens";
    if (items->n_calls > 0)
        return "tool_use";
    return ending->stop ? "stop_sequence" : "end_turn";
}

/* ending NULL: the text begins. */
static json_t *json_message(const ft_http_items *items, const ft_http_ending *ending)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:O,s:s?,s:s?,s:o}", "id", items->id, "type", "message",
                     "role", "assistant", "model", items->parsed->model, "content", items->done,
                     "stop_reason", ending ? reason_of(items, ending) : NULL, "stop_sequence",
                     ending ? ending->stop : NULL, "usage",
                     json_usage(ending ? ending->result : NULL));
}

static json_t *whole(const ft_http_items *items, const ft_http_ending *ending)
{
    return json_message(items, ending);
}

/* Arguments that are no JSON object, as those of a call that begins or was cut, are empty. */
static json_t *json_call(const ft_http_items *items, json_t *take_arguments)
{
    const char *text = json_string_value(take_arguments);
    json_t *input = text ? json_loads(text, 0, NULL) : NULL;
    if (!json_is_object(input)) {
        json_decref(input);
        input = json_object();
    }
    json_decref(take_arguments);
    return json_pack("{s:s,s:s,s:o,s:o}", "type", "tool_use", "id", ft_buf_str(&items->call_id),
                     "name", ft_http_json_text(ft_buf_str(&items->name), items->name.len), "input",
                     input);
}

static json_t *item(const ft_http_items *items, json_t *take_text, bool cut)
{
    if (items->open == FT_HTTP_ITEM_CALL)
        return json_call(items, take_text);
    if (items->open == FT_HTTP_ITEM_THOUGHT)
        return json_pack("{s:s,s:o,s:s}", "type", "thinking", "thinking", take_text, "signature",
                         "");
    return json_pack("{s:s,s:o}", "type", "text", "text", take_text);
}

static json_int_t index_of(const ft_http_items *items)
{
    return (json_int_t)json_array_size(items->done);
}

static void begin(ft_http_items *items, ft_buf *out)
{
    ft_http_items_event("message_start", json_pack("{s:o}", "message", json_message(items, NULL)),
                        out);
}

static void open_block(ft_http_items *items, ft_buf *out)
{
    ft_http_items_event("content_block_start",
                        json_pack("{s:I,s:o}", "index", index_of(items), "content_block",
                                  item(items, json_string(""), false)),
                        out);
}

static void add(ft_http_items *items, json_t *take_text, ft_buf *out)
{
    static const char *const kinds[][2] = {
        [FT_HTTP_ITEM_THOUGHT] = {"thinking_delta", "thinking"},
        [FT_HTTP_ITEM_TEXT] = {"text_delta", "text"},
        [FT_HTTP_ITEM_CALL] = {"input_json_delta", "partial_json"}};
    json_t *delta =
        json_pack("{s:s,s:o}", "type", kinds[items->open][0], kinds[items->open][1], take_text);
    ft_http_items_event("content_block_delta",
                        json_pack("{s:I,s:o}", "index", index_of(items), "delta", delta), out);
}

static void close_block(ft_http_items *items, json_t *whole_item, ft_buf *out)
{
    ft_http_items_event("content_block_stop", json_pack("{s:I}", "index", index_of(items)), out);
}

static void end(ft_http_items *items, const ft_http_ending *ending, ft_buf *out)
{
    ft_http_items_event("message_delta",
                        json_pack("{s:{s:s,s:s?},s:o}", "delta", "stop_reason",
                                  reason_of(items, ending), "stop_sequence", ending->stop, "usage",
                                  json_usage(ending->result)),
                        out);
    ft_http_items_event("message_stop", json_object(), out);
}

static void fail(ft_http_items *items, const ft_http_fail *why, ft_buf *out)
{
    ft_buf_puts(out, "event: error\ndata: ");
    (void)items->parsed->dialect->fail(why, out); /* out->failed says it */
    ft_buf_puts(out, "\n\n");
}

const ft_http_shape ft_http_messages_shape = {.id_prefix = "msg_",
                                              .begin = begin,
                                              .open = open_block,
                                              .add = add,
                                              .close = close_block,
                                              .end = end,
                                              .fail = fail,
                                              .item = item,
                                              .whole = whole};
