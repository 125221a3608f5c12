/* SPDX-License-Identifier: Apache-2.0
 *
 * llama.cpp's `common`, which runs the programs of chat templates (Jinja). It is C++: no exception
 * and none of its types gets past this header, and it logs nothing. Internal to the room.
 *
 * Limits stand in front: a template has FT_COMMON_SOURCE_MAX bytes and brackets nested
 * FT_COMMON_DEPTH_MAX deep at most, and runs on a stack that is large enough for both. A template
 * that calls itself without end, or loops for ever, is not stopped: it belongs to the operator, as
 * the model does.
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

/* Appends the rendering, ready for the assistant's message. FT_INVALID: the template refuses the
 * conversation, in its own words (raise_exception), or it fails. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_common_render(const ft_common *common, const ft_chat *chat,
                                          ft_error *err, ft_buf *out);

#ifdef __cplusplus
}
#endif
#endif
