/* SPDX-License-Identifier: Apache-2.0
 *
 * How loaded the verifier is: the gauges that proxies and autoscalers read. Called on the engine
 * thread.
 */
#ifndef FT_SERVE_LOAD_H
#define FT_SERVE_LOAD_H

#include "serve/state.h"

/* Sets the gauges of v->stats from the sessions, between two passes. */
void ft_load_look(ft_verifier *v, int64_t now_us);

#endif
