/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of tools in an answer, as OpenAI writes them. Internal to the room; one thread.
 */
#ifndef FT_HTTP_CALLS_H
#define FT_HTTP_CALLS_H

#include <jansson.h>

#include "base/buf.h"
#include "base/chat.h"

/* All zeros: none. */
typedef struct ft_http_calls {
    json_t *list;     /* of whole calls, but for the last one's arguments; NULL: none */
    ft_buf arguments; /* of the last */
} ft_http_calls;

/* Leaves it all zeros. */
void ft_http_calls_deinit(ft_http_calls *c);
/* The id of a call that begins: the model's, or else a random one. */
FT_WARN_UNUSED ft_status ft_http_calls_id(const ft_chat_part *part, ft_buf *out);
/* Calls that have begun. */
size_t ft_http_calls_n(const ft_http_calls *c);
/* Adds a part of a call. *delta: what a stream says of it, `tool_calls` of a delta. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_calls_add(ft_http_calls *c, const ft_chat_part *part,
                                           json_t **delta);
/* The whole calls, and none are left. NULL: there are none, or FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_calls_take(ft_http_calls *c, json_t **out);

#endif
