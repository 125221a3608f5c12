// SPDX-License-Identifier: Apache-2.0
// In place of common.cc, where llama.cpp's `common` is not: there are no compiled templates.
#include "template/common.h"

#ifndef FT_HAVE_COMMON

ft_status ft_common_create(const char *source, const char *bos, const char *eos, ft_error *err,
                           ft_common **out)
{
    *out = NULL;
    return ft_error_set(err, FT_UNSUPPORTED, "this build has no llama.cpp `common`");
}

bool ft_common_has_tools(const ft_common *common)
{
    return false;
}

bool ft_common_is_limited(const ft_common *common)
{
    return false;
}

void ft_common_destroy(ft_common *common) {}

ft_status ft_common_render(const ft_common *common, const ft_chat *chat, ft_error *err, ft_buf *out)
{
    return FT_UNSUPPORTED;
}

ft_status ft_common_parser_create(const ft_common *common, const ft_chat *chat, ft_error *err,
                                  ft_common_parser **out)
{
    *out = NULL;
    return FT_UNSUPPORTED;
}

void ft_common_parser_destroy(ft_common_parser *parser) {}

const char *ft_common_parser_mark(const ft_common_parser *parser, size_t i)
{
    return NULL;
}

ft_status ft_common_parse(ft_common_parser *parser, const char *text, size_t n, bool partial,
                          ft_common_said *out)
{
    return FT_UNSUPPORTED;
}

ft_chat_call ft_common_said_call(const ft_common_parser *parser, size_t i)
{
    return (ft_chat_call){0};
}

#endif
