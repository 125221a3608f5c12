/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends answers to clients. Each call publishes the statistics first, so that a client that reads
 * them after an answer finds it counted. Called on the engine thread.
 */
#ifndef FT_SERVE_ANSWERS_H
#define FT_SERVE_ANSWERS_H

#include "serve/state.h"

/* Copies the statistics to where other threads read them. */
void ft_answer_publish(ft_verifier *v);
/* Publish, then call the function of serve/handle.h. ft_answer sends v->answer. */
void ft_answer(ft_verifier *v, ft_vsession *handle);
void ft_answer_gone(ft_verifier *v, ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms);

#endif
