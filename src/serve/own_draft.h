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
/* Drafts trees for runs among the batch's needs where this saves time, and updates need.rows.
 * Before that the draft model reads new text for at most about read_budget_us (0: no limit; it
 * stops between blocks of tokens). Returns how long the reading took. */
int64_t ft_own_before_pass(ft_verifier *v, int64_t read_budget_us);
/* After the pass, when its trees were walked. expected_us, us: expected and measured time. */
void ft_own_after_pass(ft_verifier *v, int64_t expected_us, int64_t us);
/* A verdict on a pass of a run. If the run had a tree of the server's own, the drafter follows the
 * accepted path, and the path becomes tokens in the verdict: the client does not know the tree. */
void ft_own_verdict(ft_sess *s, ft_msg_verdict *verdict);
/* Frees the session's drafter and its tree. */
void ft_own_drop(ft_sess *s);
/* Expected time per token of a run with the server's drafts, in us; 0: not known, or drafting does
 * not save time. */
uint32_t ft_own_token_us(const ft_verifier *v);

#endif
