/* SPDX-License-Identifier: Apache-2.0
 *
 * Composes the batch of a pass. Called on the engine thread, in this order:
 *
 *   ft_sess_batch_gather -> ft_own_before_pass (drafts trees for runs) -> ft_sess_batch_compose
 */
#ifndef FT_SERVE_BATCH_H
#define FT_SERVE_BATCH_H

#include "serve/state.h"

/* Allocates the arrays. The limits in opts say how large they are. Error: FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_sess_batch_init(ft_sess_batch *batch, const ft_verifier_opts *opts,
                                            ft_error *err);
/* A batch of all zeros is legal. */
void ft_sess_batch_deinit(ft_sess_batch *batch);

/* Writes the sessions that have work into `needs`. The session that has waited longest comes first.
 * Verifications that the policy holds back are left out. *look_us: in how many microseconds the
 * policy will start them; < 0: it holds none back. Returns false if `needs` is empty. */
bool ft_sess_batch_gather(ft_verifier *v, int64_t *look_us);
/* How long the draft model may read prompts before this pass; 0: no limit. */
int64_t ft_sess_batch_read_us(const ft_verifier *v);
/* Fills the batch. The policy picks the work from all work that fits into the KV pool. read_us: the
 * time that the draft model has just spent on prompts. Prompts may add so much less time to this
 * pass. */
void ft_sess_batch_compose(ft_verifier *v, int64_t now_us, int64_t read_us);
/* Makes a part of the batch the segments of the pass. */
void ft_sess_batch_narrow(ft_verifier *v, const ft_sess_part *part);

/* What the last passes say to a session's edge for its next draft. */
ft_msg_hints ft_sess_batch_hints(const ft_sess *s);

#endif
