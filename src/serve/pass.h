/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass of the engine. Called on the engine thread.
 */
#ifndef FT_SERVE_PASS_H
#define FT_SERVE_PASS_H

#include "serve/state.h"

/* Computes one forward pass over waiting work and gives its verdicts. False: there was no pass.
 * Then *look_us is the time from now before which the policy starts no pass; *look_us < 0: no work
 * waits. */
bool ft_pass_run(ft_verifier *v, int64_t *look_us);

#endif
