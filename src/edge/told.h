/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sink is told of a verdict (base/sink.h): which bytes of the text have which origin, and
 * what was drafted in vain. Owned by the generation's thread. No allocation but for the rejected
 * text, and none if the sink does not ask.
 */
#ifndef FT_EDGE_TOLD_H
#define FT_EDGE_TOLD_H

#include "base/buf.h"
#include "base/sink.h"
#include "model/vocab.h"
#include "wire/messages.h"

/* Origins change twice a round. Only text that is held back, as it may begin a stop string, gathers
 * more: beyond this, bytes count for the span before them. */
#define FT_TOLD_SPANS    64
#define FT_TOLD_REJECTED 8 /* the likeliest of them */

/* All zeros: nothing came yet. */
typedef struct ft_teller {
    ft_told told;                /* the caller fills in what is not said here */
    ft_span held[FT_TOLD_SPANS]; /* of bytes that came and were not shown */
    uint32_t n_held;
    ft_span span[FT_TOLD_SPANS];
    ft_piece piece[FT_TOLD_REJECTED];
    ft_buf rejected; /* the bytes of `piece` */
} ft_teller;

/* Frees its memory; all zeros are legal. */
void ft_teller_deinit(ft_teller *t);

/* A token of so many bytes came. */
void ft_teller_came(ft_teller *t, ft_origin origin, size_t bytes);
/* Of what came, text[n] (UTF-8) is shown now, and `held` bytes are still held back: sets
 * told.spans. They sum up to n and end between characters: a character belongs to the token that
 * completes it. */
void ft_teller_shown(ft_teller *t, const char *text, size_t n, size_t held);
/* Sets told.rejected, from the draft and its verdict. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_teller_rejected(ft_teller *t, const ft_vocab *vocab,
                                            const ft_msg_draft *draft, const ft_msg_verdict *v);

#endif
