/* SPDX-License-Identifier: Apache-2.0
 *
 * A session's text: the tokens of prompt and answer. The engine thread owns it. The array grows by
 * doubling, so a short text costs little memory. Room is reserved before a round begins, so a
 * verdict never allocates memory.
 */
#ifndef FT_SERVE_TEXT_H
#define FT_SERVE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "wire/messages.h"

/* The room of a new text in tokens, which is 1 KiB. With half of this, an idle session with a short
 * prompt would save 512 bytes, but the array of most answers would have to grow once more. */
#define FT_TEXT_ROOM 256

typedef struct ft_sess_text {
    int32_t *token; /* [room], of which [len] are set */
    uint32_t len, room;
    uint32_t max_len; /* from max_tokens and the context length */
    uint32_t n_prompt;
    ft_finish finish;
} ft_sess_text;

/* Makes a text that has only the prompt. n_prompt <= max_len. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_sess_text_init(ft_sess_text *text, const int32_t *prompt,
                                           uint32_t n_prompt, uint32_t max_len);
/* An all-zero text is legal. */
void ft_sess_text_deinit(ft_sess_text *text);
/* Makes room for a text of n_tok tokens, at most max_len. FT_NOMEM: nothing changed. */
FT_WARN_UNUSED ft_status ft_sess_text_reserve(ft_sess_text *text, uint64_t n_tok);
/* Appends a token; its room must be reserved. end: it is an end-of-text token. True: the text ends
 * here, and `finish` says why. */
bool ft_sess_text_append(ft_sess_text *text, int32_t token, bool end);

#endif
