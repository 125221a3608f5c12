/* SPDX-License-Identifier: Apache-2.0
 *
 * llama.cpp's `common`, which runs the programs of chat templates (Jinja). It is C++: no exception
 * and none of its types gets past this header, and it logs nothing. Internal to the room.
 *
 * Limits stand in front: a template has FT_COMMON_SOURCE_MAX bytes and brackets nested
 * FT_COMMON_DEPTH_MAX deep at most, and runs on a stack that is large enough for both. A call that
 * runs it ends with FT_INVALID after 2 s of a processor, 20,000 items of one loop, 512 MiB of text
 * and lists, or calls nested 1,000 deep. After 100 ms of a processor it goes on at the lowest
 * priority. No limit is looked at within one function of `common`. If memory runs out, FT_NOMEM is
 * returned; but nlohmann's JSON, which `common` uses, ends the process where it moves members.
 */
#ifndef FT_TEMPLATE_COMMON_H
#define FT_TEMPLATE_COMMON_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/buf.h"
#include "base/chat.h"
#include "base/status.h"

#define FT_COMMON_SOURCE_MAX ((size_t)64 << 10) /* four times the largest that is known */
#define FT_COMMON_DEPTH_MAX  100

/* A compiled template. Immutable; any thread. */
typedef struct ft_common ft_common;

/* bos, eos: the texts of these tokens, "" if there are none. FT_INVALID: it is no template;
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_common_create(const char *source, const char *bos, const char *eos,
                                          ft_error *err, ft_common **out);
void ft_common_destroy(ft_common *common);

/* Whether it shows tools to the model. */
bool ft_common_has_tools(const ft_common *common);
/* Whether its runs are limited: not where the linker takes the library's own functions, as in a
 * program that has `common` in front of libforetoken. */
bool ft_common_is_limited(const ft_common *common);

/* Appends the rendering, ready for the assistant's message. FT_INVALID: the template refuses the
 * conversation, in its own words (raise_exception), or it fails, or reaches a limit. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_common_render(const ft_common *common, const ft_chat *chat,
                                          ft_error *err, ft_buf *out);

/* How a model with this template writes calls of a conversation's tools. */
typedef struct ft_common_parser ft_common_parser;

/* FT_INVALID: the template refuses the conversation; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_common_parser_create(const ft_common *common, const ft_chat *chat,
                                                 ft_error *err, ft_common_parser **out);
void ft_common_parser_destroy(ft_common_parser *parser);
/* Texts of tokens that the parser must see, even if they are special: 0, 1... NULL: no more. */
const char *ft_common_parser_mark(const ft_common_parser *parser, size_t i);

/* What was said. Borrowed from the parser until its next parse. */
typedef struct ft_common_said {
    const char *content, *reasoning;
    size_t n_content, n_reasoning, n_calls;
} ft_common_said;
/* Reads all of the text so far; partial: more will follow. FT_INVALID: it is not what the parser
 * expects, or its brackets are nested too deeply. FT_NOMEM. One thread. */
FT_WARN_UNUSED ft_status ft_common_parse(ft_common_parser *parser, const char *text, size_t n,
                                         bool partial, ft_common_said *out);
/* Call i < n_calls of what was said last. Strings are borrowed, "" where there is none. */
ft_chat_call ft_common_said_call(const ft_common_parser *parser, size_t i);

#ifdef __cplusplus
}
#endif
#endif
