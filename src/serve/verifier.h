/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: target model, engine, scheduler and sessions, without a network. `foretoken serve`
 * adds the gRPC server (serve/server.h); `foretoken run` and tests call it in process.
 *
 * Threads: the verifier has one engine thread, which owns the engine and all sessions. The calls
 * below and the calls on handles (serve/vsession.h) may come from any thread. They put their work
 * into a queue and return. Client callbacks run on the engine thread and must not block.
 *
 * Locks: the verifier has one lock. It is held for queue operations only, never during callbacks.
 * So callers may hold their own locks. There is one exception: ft_vsession_detach waits for a
 * running callback of its handle, so its caller must hold no lock that the callback takes.
 *
 *            open            draft             verdict
 *   (none) -------> PREFILL -------> WAITING -----------> IDLE --draft--> WAITING ...
 *                                    |     ^ \
 *                                    \-----/  \--the text's last verdict--> ENDED
 *                       a verdict that is not the run's last
 *
 *   any state --detach--> DETACHED --open(resume)--> PREFILL (ENDED stays ENDED)   --ttl--> gone
 *   any state --close / failure--> gone
 */
#ifndef FT_SERVE_VERIFIER_H
#define FT_SERVE_VERIFIER_H

#include "constrain/grammars.h"
#include "serve/keys.h"
#include "serve/opts.h"
#include "serve/stats.h"
#include "serve/vsession.h"

typedef struct ft_verifier ft_verifier;

/* Makes the engine and the KV pool, and starts the thread. FT_INVALID: the limits contradict each
 * other; FT_PRECONDITION: the model and the vocabulary are from different files, or the
 * vocabularies of draft and target differ; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_verifier_create(const ft_verifier_opts *opts, ft_error *err,
                                            ft_verifier **out);
/* Waits until no session is left: grace_us at most, and resume_us at most while no session has a
 * stream, as those that have lost theirs may be resumed. Returns how many are left. */
uint64_t ft_verifier_wait_over(ft_verifier *verifier, int64_t grace_us, int64_t resume_us);
/* Ends all sessions (on_gone with FT_UNAVAILABLE) and the engine thread. FT_TIMEOUT: the engine
 * thread has not ended its present pass within timeout_us (< 0: no limit); it ends when it has.
 * Only ft_verifier_stop, ft_verifier_destroy, ft_vsession_detach and calls that ask may follow. */
FT_WARN_UNUSED ft_status ft_verifier_stop(ft_verifier *verifier, int64_t timeout_us, ft_error *err);
/* Stops the verifier without a limit, and frees everything, handles included. No other call may be
 * running, and none may follow. NULL is legal. */
void ft_verifier_destroy(ft_verifier *verifier);

/* Opens or resumes a session.
 * credential: names the session's tenant, and is copied. A resume must present the same credential.
 * key: the client's key in opts.keys, copied. The key's limits apply to a new session
 * (FT_FORBIDDEN: the promise is too fast; FT_EXHAUSTED: too many sessions). NULL: the client has no
 * key, and only the server's limits apply.
 * The caller must call ft_vsession_detach exactly once for each handle, also after close and
 * on_gone. Failures (wrong vocabulary, prompt too long, server full) come through on_gone only.
 * Returns NULL when out of memory; then no callback comes. */
ft_vsession *ft_verifier_open(ft_verifier *verifier, const ft_msg_open *open,
                              const char *credential, const ft_key *key, const ft_vclient *client);
/* For manual clocks. Returns once the engine thread has handled all earlier calls and has ended the
 * detached sessions whose ttl is over. Must not be called from callbacks. */
void ft_verifier_tick(ft_verifier *verifier);

/* The time of the pass of one row by which the engine was warmed up, reading of weights included;
 * 0: there was none. May be called from any thread. */
int64_t ft_verifier_pass_us(const ft_verifier *verifier);
/* What each of a few more rows adds to it; 0: not known, as where the target is read in every pass.
 * Any thread. */
int64_t ft_verifier_row_us(const ft_verifier *verifier);

/* Its compiled constraints; borrowed; NULL: it takes none. A text's tenant is ft_client_name of
 * ft_vclient.asks. Any thread. */
ft_grammars *ft_verifier_grammars(ft_verifier *verifier);

/* Writes the answer to Info. May be called from any thread. */
void ft_verifier_info(ft_verifier *verifier, ft_msg_info *out);

/* Whether the engine works. FT_UNAVAILABLE: it fails, or its present pass takes much longer than
 * all passes before; err says which. It may work again later. May be called from any thread. */
FT_WARN_UNUSED ft_status ft_verifier_health(ft_verifier *verifier, ft_error *err);

/* Writes the statistics as they were at the last pass, callback or tick, or newer ones. May be
 * called from any thread. */
void ft_verifier_get_stats(ft_verifier *verifier, ft_verifier_stats *out);

#endif
