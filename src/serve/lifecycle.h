/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens, resumes, detaches, expires and ends sessions. Called on the engine thread.
 */
#ifndef FT_SERVE_LIFECYCLE_H
#define FT_SERVE_LIFECYCLE_H

#include "serve/state.h"

/* The limits that Opened and Info tell clients. */
ft_msg_limits ft_sess_limits(const ft_verifier *v);
/* Opens or resumes a session for the handle. If it refuses, it tells the handle why, and
 * frees the handle's opening; so it does when the session is open. If a constraint is still being
 * compiled, the opening stays, and the handle waits. */
void ft_sess_open(ft_verifier *v, ft_vsession *handle, int64_t now_us);
/* Takes the draft. False: the draft was wrong and the session has ended, or there was no memory for
 * it and the session was cut. */
bool ft_sess_draft(ft_sess *s, const ft_mail *mail, bool flooded);
/* Called when the stream is lost. The session loses its handle and is kept for the ttl. */
void ft_sess_detach(ft_sess *s, int64_t now_us);
/* Ends the stream of an attached session with FT_UNAVAILABLE and a time to come back. The session
 * is kept for the ttl: whoever resumes it goes on where it was. */
void ft_sess_cut(ft_sess *s, const char *message, int64_t now_us);
/* Frees the session; its handle, if any, gets the code and the message. */
void ft_sess_end(ft_sess *s, ft_status code, const char *message);
/* Ends detached sessions whose ttl is over, and detaches sessions whose clients have been silent
 * for idle_s. Returns the time in us until the next one is due; < 0: none is. */
int64_t ft_sessions_expire(ft_verifier *v, int64_t now_us);

#endif
