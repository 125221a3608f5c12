/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns drafts from edges and verdicts into events of a session's round (serve/round_state.h).
 * Called on the engine thread.
 */
#ifndef FT_SERVE_DRAFTS_H
#define FT_SERVE_DRAFTS_H

#include "serve/state.h"

/* Takes a draft that has arrived. It begins a round, is answered from the record, is kept until the
 * round under way is over, or comes too late and is dropped: FT_OK. Otherwise the draft is wrong,
 * and the caller must end the session. flooded: more drafts came than may wait, which is wrong. */
FT_WARN_UNUSED ft_status ft_draft_take(ft_sess *s, ft_client_msg *take_draft, bool flooded,
                                       int64_t at_us, ft_error *err);
/* A verdict is given. Its tokens are already the last of the text. `more` in it says whether it
 * answers a part of a run or the whole round. In the second case the kept draft becomes the next
 * round or is dropped. Sets verdict->early_taken. */
void ft_draft_answered(ft_sess *s, ft_msg_verdict *verdict, int64_t now_us);
/* The edge has lost its stream: ends the round under way and drops the kept draft. */
void ft_draft_withdraw(ft_sess *s);

#endif
