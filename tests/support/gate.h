/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops a verifier's engine thread, so that all that is sent meanwhile reaches it at once, however
 * slow the sender is. A client whose Open is refused keeps the engine thread in its callback: no
 * session, no pass and no KV come of it.
 *
 *   test_gate_shut -> send what belongs together -> test_gate_open -> wait for the answers
 */
#ifndef FT_TEST_GATE_H
#define FT_TEST_GATE_H

#include <pthread.h>
#include <stdbool.h>

#include "serve/verifier.h"

typedef struct test_gate {
    ft_vsession *client;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reached, open, over; /* guarded by lock */
} test_gate;

/* Returns when the engine thread stands. Wait for no answer of it before test_gate_open. */
void test_gate_shut(test_gate *gate, ft_verifier *v);
/* Lets it go on. */
void test_gate_open(test_gate *gate);

#endif
