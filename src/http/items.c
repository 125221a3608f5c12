// SPDX-License-Identifier: Apache-2.0
// An answer as a list of items. At most one item is open; a piece of the other kind closes it. An
// answer without any text has one item with an empty text, as clients look at the first.
#include "http/items.h"

#include "http/json.h"
#include "http/request.h"

#include "http/dialect.h"

ft_status ft_http_items_init(ft_http_items *items, const ft_http_parsed *parsed, const char *id,
                             int64_t created_s)
{
    *items = (ft_http_items){.shape = parsed->dialect->shape,
                             .parsed = parsed,
                             .id = id,
                             .created_s = created_s,
                             .done = json_array()};
    return items->done ? FT_OK : FT_NOMEM;
}

void ft_http_items_deinit(ft_http_items *items)
{
    ft_buf_deinit(&items->text);
    ft_buf_deinit(&items->name);
    ft_buf_deinit(&items->call_id);
    json_decref(items->done);
    *items = (ft_http_items){0};
}

void ft_http_items_event(const char *name, json_t *take_data, ft_buf *out)
{
    json_t *data = json_pack("{s:s}", "type", name); /* first, for people who read it */
    if (json_object_update(data, take_data) != 0) {
        json_decref(data);
        data = NULL;
    }
    json_decref(take_data);
    ft_buf_printf(out, "event: %s\ndata: ", name);
    (void)ft_http_json_append(data, out); /* out->failed says it */
    ft_buf_puts(out, "\n\n");
}

/* If anything since `before` failed, nothing is appended. */
static ft_status checked(size_t before, ft_buf *out)
{
    if (!out->failed)
        return FT_OK;
    out->len = before;
    return FT_NOMEM;
}

static void begin(ft_http_items *items, ft_buf *out)
{
    if (!items->begun && items->parsed->stream)
        items->shape->begin(items, out);
    items->begun = true;
}

static void close_item(ft_http_items *items, bool cut, ft_buf *out)
{
    if (items->open == FT_HTTP_ITEM_NONE)
        return;
    json_t *text = ft_http_json_text(ft_buf_str(&items->text), items->text.len);
    json_t *item = text ? items->shape->item(items, text, cut) : NULL;
    if (item && items->parsed->stream)
        items->shape->close(items, item, out);
    out->failed |= json_array_append_new(items->done, item) != 0;
    ft_buf_clear(&items->text);
    items->open = FT_HTTP_ITEM_NONE;
}

/* Closes the one that is open. */
static void open_item(ft_http_items *items, ft_http_item kind, ft_buf *out)
{
    begin(items, out);
    close_item(items, false, out);
    items->open = kind;
    if (items->parsed->stream)
        items->shape->open(items, out);
}

static void add(ft_http_items *items, const char *piece, size_t n, ft_buf *out)
{
    out->failed |= ft_buf_append(&items->text, piece, n) != FT_OK;
    if (!items->parsed->stream)
        return;
    json_t *text = ft_http_json_text(piece, n);
    out->failed |= !text;
    if (text)
        items->shape->add(items, text, out);
}

static void say(ft_http_items *items, ft_http_item kind, ft_buf *piece, ft_buf *out)
{
    if (piece->len == 0)
        return;
    if (items->open != kind)
        open_item(items, kind, out);
    add(items, piece->data, piece->len, out);
    ft_buf_clear(piece);
}

ft_status ft_http_items_push(ft_http_items *items, ft_buf *thought, ft_buf *said, ft_buf *out)
{
    const size_t before = out->len;
    say(items, FT_HTTP_ITEM_THOUGHT, thought, out);
    say(items, FT_HTTP_ITEM_TEXT, said, out);
    return checked(before, out);
}

ft_status ft_http_items_call(ft_http_items *items, const char *id, const char *name, size_t n_name,
                             ft_buf *out)
{
    const size_t before = out->len;
    begin(items, out);
    close_item(items, false, out);
    ft_buf_clear(&items->name);
    ft_buf_clear(&items->call_id);
    out->failed |= ft_buf_append(&items->name, name, n_name) != FT_OK;
    out->failed |= ft_buf_puts(&items->call_id, id) != FT_OK;
    items->n_calls++;
    open_item(items, FT_HTTP_ITEM_CALL, out);
    return checked(before, out);
}

ft_status ft_http_items_arguments(ft_http_items *items, const char *text, size_t n, ft_buf *out)
{
    const size_t before = out->len;
    if (n > 0)
        add(items, text, n, out);
    return checked(before, out);
}

ft_status ft_http_items_end(ft_http_items *items, const ft_http_ending *ending, ft_buf *out)
{
    const size_t before = out->len;
    if (items->open == FT_HTTP_ITEM_NONE)
        open_item(items, FT_HTTP_ITEM_TEXT, out);
    close_item(items, ending->length, out);
    if (items->parsed->stream)
        items->shape->end(items, ending, out);
    else
        (void)ft_http_json_append(items->shape->whole(items, ending), out); /* out->failed */
    return checked(before, out);
}

ft_status ft_http_items_fail(ft_http_items *items, const ft_http_fail *fail, ft_buf *out)
{
    const size_t before = out->len;
    begin(items, out);
    items->shape->fail(items, fail, out);
    return checked(before, out);
}
