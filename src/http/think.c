// SPDX-License-Identifier: Apache-2.0
// Parts thoughts from the answer.
//
//   BEFORE --<think>--> INSIDE --</think>--> BEHIND --other than white space--> SAID
//      \--anything else---------------------------------------------------------^
//
// Invariant: `held` is empty in BEHIND and SAID.
#include "http/think.h"

#include <string.h>

#define OPEN  "<think>"
#define CLOSE "</think>"
#define SPACE " \t\r\n"

bool ft_http_think_marked(const char *chat_template)
{
    return chat_template && strstr(chat_template, OPEN) && strstr(chat_template, CLOSE);
}

void ft_http_think_deinit(ft_http_think *t)
{
    ft_buf_deinit(&t->held);
    *t = (ft_http_think){0};
}

/* White space at the beginning. */
static size_t space_at(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] && strchr(SPACE, text[i]))
        i++;
    return i;
}

/* So much of the text is left if white space at its end is cut off. */
static size_t without_space(const char *text, size_t n)
{
    while (n > 0 && text[n - 1] && strchr(SPACE, text[n - 1]))
        n--;
    return n;
}

/* BEFORE: decides, if it can, and leaves in `held` what comes behind the mark. */
static ft_status look_before(ft_http_think *t, ft_buf *said)
{
    const size_t space = space_at(t->held.data, t->held.len), rest = t->held.len - space;
    const size_t most = rest < strlen(OPEN) ? rest : strlen(OPEN);
    if (most > 0 && memcmp(t->held.data + space, OPEN, most) != 0) {
        const ft_status status = ft_buf_append(said, t->held.data, t->held.len);
        t->state = FT_HTTP_THINK_SAID;
        ft_buf_clear(&t->held);
        return status;
    }
    if (most == strlen(OPEN)) {
        t->state = FT_HTTP_THINK_INSIDE;
        ft_buf_shift(&t->held, space + most);
    }
    return FT_OK;
}

/* Moves n bytes of `held` to the thoughts, without the white space before the first. */
static ft_status think(ft_http_think *t, size_t n, ft_buf *thought)
{
    const size_t space = t->thought ? 0 : space_at(t->held.data, n);
    t->thought |= n > space;
    const ft_status status = ft_buf_append(thought, t->held.data + space, n - space);
    ft_buf_shift(&t->held, n);
    return status;
}

/* INSIDE: leaves in `held` what comes behind the mark; else what may be a part of it, and the white
 * space before that. */
static ft_status look_inside(ft_http_think *t, ft_buf *thought)
{
    const char *mark = memmem(t->held.data, t->held.len, CLOSE, strlen(CLOSE));
    if (mark) {
        const size_t n = (size_t)(mark - t->held.data), own = without_space(t->held.data, n);
        const ft_status status = think(t, own, thought);
        ft_buf_shift(&t->held, n - own + strlen(CLOSE));
        t->state = FT_HTTP_THINK_BEHIND;
        return status;
    }
    size_t part = t->held.len < strlen(CLOSE) ? t->held.len : strlen(CLOSE) - 1;
    while (memcmp(t->held.data + t->held.len - part, CLOSE, part) != 0)
        part--;
    return think(t, without_space(t->held.data, t->held.len - part), thought);
}

ft_status ft_http_think_push(ft_http_think *t, const char *text, size_t n, ft_buf *thought,
                             ft_buf *said)
{
    ft_status status = FT_OK;
    if (n == 0)
        return FT_OK;
    if (t->state == FT_HTTP_THINK_SAID)
        return ft_buf_append(said, text, n);
    if (ft_buf_append(&t->held, text, n) != FT_OK)
        return FT_NOMEM;
    if (t->state == FT_HTTP_THINK_BEFORE)
        status = look_before(t, said);
    if (status == FT_OK && t->state == FT_HTTP_THINK_INSIDE && t->held.len > 0)
        status = look_inside(t, thought);
    if (status == FT_OK && t->state == FT_HTTP_THINK_BEHIND) {
        const size_t space = space_at(t->held.data, t->held.len);
        if (space < t->held.len) {
            t->state = FT_HTTP_THINK_SAID;
            status = ft_buf_append(said, t->held.data + space, t->held.len - space);
        }
        ft_buf_clear(&t->held);
    }
    return status;
}

ft_status ft_http_think_finish(ft_http_think *t, ft_buf *thought, ft_buf *said)
{
    const ft_status status = t->state == FT_HTTP_THINK_INSIDE
                                 ? think(t, t->held.len, thought)
                                 : ft_buf_append(said, t->held.data, t->held.len);
    ft_http_think_deinit(t);
    return status;
}
