/* SPDX-License-Identifier: Apache-2.0
 *
 * The server drafts trees itself for sessions in a run (serve -md). Called on the engine thread.
 */
#ifndef FT_SERVE_OWN_DRAFT_H
#define FT_SERVE_OWN_DRAFT_H

#include "serve/state.h"

/* Makes the draft engine for the draft model in v->opts. FT_PRECONDITION: the vocabularies of draft
 * and target differ; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_own_create(const ft_verifier *v, ft_error *err, ft_own **out);
/* All sessions must be gone. NULL is legal. */
void ft_own_destroy(ft_own *own);
/* Called before a pass. First the draft model reads new text, for at most about read_budget_us (0:
 * no limit). It can stop only between blocks of tokens. Then this function drafts trees for runs
 * among the batch's needs, where this saves time, and updates need.rows. Returns how long the
 * reading took, in us. */
int64_t ft_own_before_pass(ft_verifier *v, int64_t read_budget_us);
/* Called after the pass, when its trees have been walked. expected_us and us are the expected and
 * the measured time of the pass. */
void ft_own_after_pass(ft_verifier *v, int64_t expected_us, int64_t us);
/* Called with the verdict on a pass of a run. If the server had drafted a tree for this pass, the
 * drafter follows the accepted path. The verdict then gives the path as tokens, because the client
 * does not know the tree. */
void ft_own_verdict(ft_sess *s, ft_msg_verdict *verdict);
/* Frees the session's drafter and its tree. */
void ft_own_drop(ft_sess *s);
/* The expected time per token, in us, of a run for which the server drafts. 0: the time is not
 * known, or drafting does not save time. */
uint32_t ft_own_token_us(const ft_verifier *v);

#endif
