/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts what a model thinks aloud, between <think> and </think> at the beginning of its text, from
 * what it says. Internal to the room. A ft_http_think belongs to one thread.
 */
#ifndef FT_HTTP_THINK_H
#define FT_HTTP_THINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Whether models with this chat template think between these marks. NULL: no. */
bool ft_http_think_marked(const char *chat_template);

typedef enum ft_http_think_state {
    FT_HTTP_THINK_BEFORE, /* the text may begin with <think> */
    FT_HTTP_THINK_INSIDE,
    FT_HTTP_THINK_BEHIND, /* </think> came, and no text behind it */
    FT_HTTP_THINK_SAID
} ft_http_think_state;

/* All zeros: a text begins. */
typedef struct ft_http_think {
    ft_http_think_state state;
    bool thought; /* some of what is inside was handed out */
    ft_buf held;  /* what may be white space before a mark, or a part of one */
} ft_http_think;

/* Whether the text is not yet behind a thought. */
static inline bool ft_http_think_inside(const ft_http_think *t)
{
    return t->state == FT_HTTP_THINK_INSIDE || t->state == FT_HTTP_THINK_BEHIND;
}

/* Frees what it holds. */
void ft_http_think_deinit(ft_http_think *t);
/* Adds text, and appends what is known by now. White space around both is left out. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_think_push(ft_http_think *t, const char *text, size_t n,
                                            ft_buf *thought, ft_buf *said);
/* The text has ended: appends what was held. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_think_finish(ft_http_think *t, ft_buf *thought, ft_buf *said);

#endif
