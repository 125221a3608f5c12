/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks in what people wrote, where it could become a special token. A template's program may trim,
 * split, escape and join texts; so a place in the rendering is found again by a mark in it, and
 * not by its number. A mark stands before a character. It is made of digits that nobody can guess,
 * and no special token begins at that character or reaches over it from the left. Text that
 * spells nothing special has no marks. Internal to the room.
 */
#ifndef FT_TEMPLATE_MARKS_H
#define FT_TEMPLATE_MARKS_H

#include "base/chat.h"
#include "base/status.h"
#include "model/vocab.h"

/* Nested JSON in tools and calls may be so deep. */
#define FT_TEMPLATE_DEPTH_MAX 64

/* What of a vocabulary's special tokens a template could complete. Immutable; any thread. */
typedef struct ft_marks ft_marks;

/* Borrows vocab. source: the template. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_marks_create(const ft_vocab *vocab, const char *source, ft_marks **out);
void ft_marks_destroy(ft_marks *marks);

typedef struct ft_marked ft_marked;

/* A copy of the conversation with marks; it borrows from `chat` what has none. FT_INVALID: JSON in
 * it is none, or is nested too deeply. FT_NOMEM, FT_IO: no random numbers. */
FT_WARN_UNUSED ft_status ft_marked_create(const ft_marks *marks, const ft_chat *chat, ft_error *err,
                                          ft_marked **out);
void ft_marked_destroy(ft_marked *marked);
const ft_chat *ft_marked_chat(const ft_marked *marked);

/* Takes the marks out of a text. */
void ft_marked_clean(const ft_marked *marked, ft_buf *text);
/* So too; *foreign: malloc'ed, the caller's: the characters behind marks. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_marked_find(const ft_marked *marked, ft_buf *text, ft_stretch **foreign,
                                        size_t *n_foreign);

#endif
