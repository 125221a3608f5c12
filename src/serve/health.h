/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the engine works. ft_verifier_health (serve/verifier.h) tells other threads. The
 * functions here are called on the engine thread.
 *
 *           a pass fails, and so does the self-test
 *   WORKS <------------------------------------> FAILS: no passes, no opens; streams have ended
 *           a self-test succeeds (one a second)
 */
#ifndef FT_SERVE_HEALTH_H
#define FT_SERVE_HEALTH_H

#include "serve/state.h"

/* Called after a failed pass. Makes a self-test: computes a pass of one token that belongs to no
 * session. True: that works, so something in the failed pass made it fail. False: the engine fails.
 * Then all streams have ended with UNAVAILABLE, their sessions can be resumed, and no pass may run
 * before ft_health_works. why: the failure of the pass. */
bool ft_health_test(ft_verifier *v, const ft_error *why);
/* Whether passes may run. While the engine fails, makes a self-test once a second. False: *look_us
 * is the time until the next one. */
bool ft_health_works(ft_verifier *v, int64_t *look_us);

#endif
