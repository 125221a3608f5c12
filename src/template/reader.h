/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what a model says to a conversation with tools: content, thoughts and calls, as they come.
 * Internal to the room.
 */
#ifndef FT_TEMPLATE_READER_H
#define FT_TEMPLATE_READER_H

#include "base/chat.h"
#include "template/common.h"

/* Takes the parser, also if it fails. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_reader_create(ft_common_parser *take, ft_chat_reader *out);

#endif
