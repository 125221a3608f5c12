// SPDX-License-Identifier: Apache-2.0
// The calls of tools in an answer. A call has the model's id for it, or else a random one.
#include "http/calls.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/secret.h"
#include "http/json.h"

void ft_http_calls_deinit(ft_http_calls *c)
{
    json_decref(c->list);
    ft_buf_deinit(&c->arguments);
    *c = (ft_http_calls){0};
}

size_t ft_http_calls_n(const ft_http_calls *c)
{
    return json_array_size(c->list);
}

/* Moves the arguments into the last call. */
static ft_status close_last(ft_http_calls *c)
{
    json_t *last = json_array_get(c->list, json_array_size(c->list) - 1);
    if (!last)
        return FT_OK;
    json_t *text = ft_http_json_text(ft_buf_str(&c->arguments), c->arguments.len);
    ft_buf_clear(&c->arguments);
    return json_object_set_new(json_object_get(last, "function"), "arguments", text) == 0
               ? FT_OK
               : FT_NOMEM;
}

ft_status ft_http_calls_id(const ft_chat_part *part, ft_buf *out)
{
    unsigned char random[12];
    char hex[2 * sizeof random + 1];
    if (part->id)
        return ft_buf_puts(out, part->id);
    const ft_status status = ft_random_bytes(random, sizeof random);
    if (status != FT_OK)
        return status;
    ft_hex(random, sizeof random, hex);
    ft_buf_puts(out, "call_");
    return ft_buf_puts(out, hex);
}

static ft_status add_call(ft_http_calls *c, const ft_chat_part *part, const char *id,
                          json_t **delta)
{
    if (!c->list)
        c->list = json_array();
    json_t *name = ft_http_json_text(part->text, part->n);
    json_t *call = json_pack("{s:s,s:s,s:{s:o,s:s}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", "");
    json_t *said = json_deep_copy(call);
    if (json_array_append_new(c->list, call) != 0 ||
        json_object_set_new(said, "index", json_integer((json_int_t)part->call)) != 0) {
        json_decref(said);
        return FT_NOMEM;
    }
    *delta = json_pack("[o]", said);
    return *delta ? FT_OK : FT_NOMEM;
}

static ft_status begin(ft_http_calls *c, const ft_chat_part *part, json_t **delta)
{
    ft_buf id = {0};
    ft_status status = close_last(c);
    if (status == FT_OK)
        status = ft_http_calls_id(part, &id);
    if (status == FT_OK)
        status = add_call(c, part, ft_buf_str(&id), delta);
    ft_buf_deinit(&id);
    return status;
}

ft_status ft_http_calls_add(ft_http_calls *c, const ft_chat_part *part, json_t **delta)
{
    *delta = NULL;
    if (part->kind == FT_CHAT_PART_CALL)
        return begin(c, part, delta);
    if (ft_buf_append(&c->arguments, part->text, part->n) != FT_OK)
        return FT_NOMEM;
    *delta = json_pack("[{s:I,s:{s:o}}]", "index", (json_int_t)part->call, "function", "arguments",
                       ft_http_json_text(part->text, part->n));
    return *delta ? FT_OK : FT_NOMEM;
}

ft_status ft_http_calls_take(ft_http_calls *c, json_t **out)
{
    const ft_status status = close_last(c);
    *out = c->list;
    c->list = NULL;
    return status;
}
