/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits the verifications in a pass so that two groups of sessions can alternate, and measures
 * what this decision needs: how long each edge drafts. Called on the engine thread.
 */
#ifndef FT_SERVE_GROUPS_H
#define FT_SERVE_GROUPS_H

#include "serve/state.h"

/* The engine has nothing to do. */
void ft_sessions_rest(ft_verifier *v, int64_t now_us);
/* A pass that began at started_us answers the session. Returns for how long the engine worked for
 * other sessions since this session's last verdict (0: it has had none), and restarts the count. */
uint32_t ft_sess_others_us(ft_sess *s, int64_t started_us, int64_t now_us);

/* A draft came: measures how long the edge took since the last verdict. */
void ft_sess_thought(ft_sess *s, const ft_msg_draft *draft, int64_t at_us);
/* The most verifications that the next pass should hold; 0: no limit. */
uint32_t ft_round_cap(ft_verifier *v, int64_t now_us);

#endif
