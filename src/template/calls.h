/* SPDX-License-Identifier: Apache-2.0
 *
 * How a model with a template writes a call, so that an answer can be made to be one. Nobody lists
 * the families: the template renders a call of a tool, and what stands around the arguments is the
 * form. Internal to the room.
 */
#ifndef FT_TEMPLATE_CALLS_H
#define FT_TEMPLATE_CALLS_H

#include "base/buf.h"
#include "base/chat.h"
#include "template/common.h"

/* Ends a thought that the template itself has begun, in front of an answer that has none. */
#define FT_TEMPLATE_THOUGHT_END "\n</think>\n\n"

/* Appends the data of FT_CONSTRAINT_CALL. choice REQUIRED: a call of chat->choice_tool, or of any
 * tool. AUTO: any text, and calls from the mark on that the template begins them with. The parser
 * must be able to read such calls. FT_UNSUPPORTED: the template does not write arguments as JSON,
 * or the parser reads something else; AUTO: calls begin with no mark, or have ids that the model
 * chooses. FT_INVALID: the template refuses; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_template_calls(const ft_common *common, const ft_chat *chat,
                                           ft_common_parser *parser, ft_error *err, ft_buf *out);

#endif
