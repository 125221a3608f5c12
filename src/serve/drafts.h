/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns drafts from edges and verdicts into events of a session's round (serve/round_state.h).
 * Called on the engine thread.
 */
#ifndef FT_SERVE_DRAFTS_H
#define FT_SERVE_DRAFTS_H

#include "serve/state.h"

/* Takes a draft that arrived at at_us. Returns FT_OK in four cases:
 *   - the draft begins a round;
 *   - the record answers the draft;
 *   - the draft is kept until the round under way is over;
 *   - the draft came too late and is dropped.
 * On any error the caller must end the session: the draft is wrong, or memory is short (FT_NOMEM).
 * flooded: the edge sent more drafts than may wait, which is an error. */
FT_WARN_UNUSED ft_status ft_draft_take(ft_sess *s, ft_client_msg *take_draft, bool flooded,
                                       int64_t at_us, ft_error *err);
/* Updates the round for a verdict. The caller has already appended the verdict's tokens to the
 * text. If verdict->more is set, the verdict answers only a part of a run. Otherwise it answers the
 * whole round, and the kept draft becomes the next round or is dropped. The function sets
 * verdict->early_taken. */
void ft_draft_answered(ft_sess *s, ft_msg_verdict *verdict, int64_t now_us);
/* The edge has lost its stream: ends the round under way and drops the kept draft. */
void ft_draft_withdraw(ft_sess *s);

#endif
