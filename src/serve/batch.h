/* SPDX-License-Identifier: Apache-2.0
 *
 * Composes the batch of a pass. Called on the engine thread, in this order:
 *
 *   ft_sess_batch_gather -> ft_own_before_pass: drafts trees for runs -> ft_sess_batch_compose
 */
#ifndef FT_SERVE_BATCH_H
#define FT_SERVE_BATCH_H

#include "serve/state.h"

/* Allocates the arrays for the limits in opts. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_sess_batch_init(ft_sess_batch *batch, const ft_verifier_opts *opts,
                                            ft_error *err);
/* All-zero is legal. */
void ft_sess_batch_deinit(ft_sess_batch *batch);

/* Writes the sessions that have work into `needs`, in order of service. False: no session has work,
 * or the policy starts none of it before *look_us from now (< 0: no session has work). */
bool ft_sess_batch_gather(ft_verifier *v, int64_t *look_us);
/* How long the draft model may read prompts before this pass; 0: no limit. */
int64_t ft_sess_batch_read_us(const ft_verifier *v);
/* Fills the batch with the work that the policy picks from the work that fits. read_us: time that
 * the draft model has just spent on prompts; this pass has so much less for prompts. */
void ft_sess_batch_compose(ft_verifier *v, int64_t now_us, int64_t read_us);

#endif
