/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the conversation of a chat completion: messages, tools and what the template gets beside
 * them. Internal to the room.
 */
#ifndef FT_HTTP_CHAT_H
#define FT_HTTP_CHAT_H

#include <jansson.h>

#include "http/fail.h"
#include "http/request.h"

#define FT_HTTP_TOOLS_MAX 512

/* Reads the fields of `root` into out->request.conversation, which points into `root` and into what
 * *out owns; they are changed in place where they must be text. FT_INVALID; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_chat_read(json_t *root, ft_http_fail *fail, ft_http_parsed *out);

/* Replaces an object's `content`, a list of text parts, by one string, with `between` between them.
 * name: of the field. */
FT_WARN_UNUSED ft_status ft_http_join_parts(json_t *object, const char *name, const char *between,
                                            ft_http_fail *fail);

/* Bytes of text of a message. */
size_t ft_http_message_bytes(const ft_chat_message *m);

#endif
