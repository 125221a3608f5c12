/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer as a list of items, as the Responses and Messages APIs have it: what the model thinks,
 * what it says, the tools that it calls. Each item is opened, gets text, and is closed; events of a
 * stream say so. Internal to the room. Belongs to one thread.
 *
 *   NONE, THOUGHT, TEXT or CALL --thought--> THOUGHT
 *                               --said-----> TEXT
 *                               --a call---> CALL, a new one
 */
#ifndef FT_HTTP_ITEMS_H
#define FT_HTTP_ITEMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/fail.h"
#include "http/openai.h"

struct ft_http_parsed;
typedef struct ft_http_items ft_http_items;

/* How a text ended. */
typedef struct ft_http_ending {
    bool length;      /* it was cut */
    const char *stop; /* the stop string that ended it; NULL: none did */
    const ft_http_result *result;
} ft_http_ending;

/* How an API writes items. All append events to *out. If memory is short, out->failed is set. */
typedef struct ft_http_shape {
    const char *id_prefix;
    void (*begin)(ft_http_items *items, ft_buf *out);
    void (*open)(ft_http_items *items, ft_buf *out);
    void (*add)(ft_http_items *items, json_t *take_text, ft_buf *out);
    /* The open item's text is complete; item: as `item` below made it, borrowed. */
    void (*close)(ft_http_items *items, json_t *item, ft_buf *out);
    void (*end)(ft_http_items *items, const ft_http_ending *ending, ft_buf *out);
    void (*fail)(ft_http_items *items, const ft_http_fail *fail, ft_buf *out);
    /* The open item with this text; cut: the answer ends in it for want of room. */
    json_t *(*item)(const ft_http_items *items, json_t *take_text, bool cut);
    /* The whole answer, for a request that is not streamed. */
    json_t *(*whole)(const ft_http_items *items, const ft_http_ending *ending);
} ft_http_shape;

typedef enum ft_http_item {
    FT_HTTP_ITEM_NONE,
    FT_HTTP_ITEM_THOUGHT,
    FT_HTTP_ITEM_TEXT,
    FT_HTTP_ITEM_CALL /* of a tool; its text is the arguments, JSON */
} ft_http_item;

struct ft_http_items {
    const ft_http_shape *shape;
    const struct ft_http_parsed *parsed; /* borrowed */
    const char *id;                      /* of the answer; borrowed */
    int64_t created_s;                   /* since 1970 */
    bool begun;                          /* stream: its first event was written */
    uint32_t n_events;                   /* that have a number */
    ft_http_item open;
    ft_buf text;          /* of the open item */
    ft_buf name, call_id; /* of the open call */
    uint32_t n_calls;
    json_t *done;         /* the list of closed items; their number is the open one's index */
    uint32_t thought_tok; /* tokens of thoughts */
};

/* FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_items_init(ft_http_items *items,
                                            const struct ft_http_parsed *parsed, const char *id,
                                            int64_t created_s);
void ft_http_items_deinit(ft_http_items *items);

/* Adds what is in the two buffers, thoughts first, and empties them. Streams: appends events. */
FT_WARN_UNUSED ft_status ft_http_items_push(ft_http_items *items, ft_buf *thought, ft_buf *said,
                                            ft_buf *out);
/* A call of a tool begins; its arguments follow. */
FT_WARN_UNUSED ft_status ft_http_items_call(ft_http_items *items, const char *id, const char *name,
                                            size_t n_name, ft_buf *out);
FT_WARN_UNUSED ft_status ft_http_items_arguments(ft_http_items *items, const char *text, size_t n,
                                                 ft_buf *out);
/* The text has ended: appends the last events, or the whole answer. */
FT_WARN_UNUSED ft_status ft_http_items_end(ft_http_items *items, const ft_http_ending *ending,
                                           ft_buf *out);
/* A stream failed: appends the last event. */
FT_WARN_UNUSED ft_status ft_http_items_fail(ft_http_items *items, const ft_http_fail *fail,
                                            ft_buf *out);

/* For shapes: appends an event of this name. Takes data, whose "type" becomes the name. */
void ft_http_items_event(const char *name, json_t *take_data, ft_buf *out);

#endif
