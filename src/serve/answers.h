/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends answers to clients. Each function publishes the statistics before it sends an answer. So a
 * client that reads the statistics after an answer finds this answer counted. The functions are
 * called on the engine thread.
 */
#ifndef FT_SERVE_ANSWERS_H
#define FT_SERVE_ANSWERS_H

#include "serve/state.h"

/* Copies the statistics to where other threads read them. */
void ft_answer_publish(ft_verifier *v);
/* Both functions publish the statistics first. Then ft_answer sends v->answer with
 * ft_handle_answer, and ft_answer_gone calls ft_handle_gone (serve/handle.h). */
void ft_answer(ft_verifier *v, ft_vsession *handle);
void ft_answer_gone(ft_verifier *v, ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms);

#endif
