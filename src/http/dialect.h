/* SPDX-License-Identifier: Apache-2.0
 *
 * Other APIs than chat completions: OpenAI's Responses and Anthropic's Messages. A request of
 * theirs becomes a chat request, which the chat's parser checks; the answer is written in their
 * shape (http/items.h). Internal to the room; a fuzzer calls it, too.
 */
#ifndef FT_HTTP_DIALECT_H
#define FT_HTTP_DIALECT_H

#include <jansson.h>

#include "http/items.h"
#include "http/request.h"

/* A request on its way. `root` is not changed: what is changed is copied. */
typedef struct ft_http_translation {
    json_t *root;     /* as it came */
    json_t *chat;     /* what becomes of it: at first all of its fields, but for those in `own` */
    json_t *messages; /* of the chat; borrowed from it */
    const ft_http_model *model;
    ft_http_fail *fail;
} ft_http_translation;

typedef struct ft_http_renamed {
    const char *chat, *own;
} ft_http_renamed;

struct ft_http_dialect {
    const char *text;               /* the field that holds most of the text */
    const char *const *own;         /* fields that are no field of a chat; ends in NULL */
    const ft_http_renamed *renamed; /* names in errors about the chat; ends in NULLs. The first that
                                       fits holds, so a longer name comes first */
    ft_status (*translate)(ft_http_translation *t);
    const ft_http_shape *shape;
    /* Appends an error as a body; NULL: as OpenAI. */
    ft_status (*fail)(const ft_http_fail *fail, ft_buf *out);
    const char *keep_alive; /* what a silent stream says */
};

extern const ft_http_shape ft_http_responses_shape, ft_http_messages_shape;
extern const ft_http_dialect ft_http_responses;
extern const ft_http_dialect ft_http_messages;
extern const ft_http_dialect ft_http_messages_count; /* the same, without max_tokens */

/* Parses body[0..n) as a request of the dialect, which *out names then. As ft_http_parse. */
FT_WARN_UNUSED ft_status ft_http_dialect_parse(const ft_http_dialect *dialect, const char *body,
                                               size_t n, const ft_http_model *model,
                                               ft_http_fail *fail, ft_http_parsed *out);

/* Gives a chat's fields their names in the dialect: all in text[size] that stand behind a quote,
 * and one that it begins with. A client reads the names of its own API. */
void ft_http_dialect_rename(const ft_http_dialect *dialect, char *text, size_t size);

/* --- for translations --- */

/* Appends the text of `content`, a string or a list of objects whose type is one of `types` (ends
 * in NULL), to a list of a chat's text parts. path: of content, for errors. */
FT_WARN_UNUSED ft_status ft_http_translate_text(ft_http_translation *t, json_t *content,
                                                const char *path, const char *const *types,
                                                json_t *parts);
/* The same for part i of such a list. */
FT_WARN_UNUSED ft_status ft_http_translate_part(ft_http_translation *t, json_t *content, size_t i,
                                                const char *path, const char *const *types,
                                                json_t *parts);
/* Adds a message. Takes parts. join: one whose role is that of the last is added to that. */
FT_WARN_UNUSED ft_status ft_http_translate_message(ft_http_translation *t, const char *role,
                                                   json_t *take_parts, bool join);
/* Adds a call of a tool to the last message, if that is the assistant's, or else to a new one.
 * arguments: JSON. */
FT_WARN_UNUSED ft_status ft_http_translate_call(ft_http_translation *t, json_t *id, json_t *name,
                                                json_t *take_arguments);
/* Adds the result of a call. Takes parts. */
FT_WARN_UNUSED ft_status ft_http_translate_result(ft_http_translation *t, json_t *call_id,
                                                  json_t *take_parts);
/* Adds a tool of the chat: `members` of tool, and its schema as `parameters`. */
FT_WARN_UNUSED ft_status ft_http_translate_tool(ft_http_translation *t, json_t *tool,
                                                const char *schema, json_t *tools);
/* Sets a field of the chat. Takes value. */
FT_WARN_UNUSED ft_status ft_http_translate_set(ft_http_translation *t, const char *name,
                                               json_t *take_value);
FT_WARN_UNUSED ft_status ft_http_translate_nomem(ft_http_translation *t);

/* --- Anthropic --- */

/* Answers /v1/messages/count_tokens, as ft_http_tokenize_answer does. */
FT_WARN_UNUSED ft_status ft_http_count_tokens_answer(const ft_http_backend *backend,
                                                     const ft_http_model *model, const char *body,
                                                     size_t n, ft_http_fail *fail, json_t **out);

#endif
