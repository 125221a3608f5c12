// SPDX-License-Identifier: Apache-2.0
// The gate: on_gone waits on the engine thread, and gives the handle up there, so that nothing is
// freed later, beside what a test measures.
#include "support/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void stand(void *ctx, ft_status code, const char *message, uint32_t retry_after_ms)
{
    test_gate *g = ctx;
    pthread_mutex_lock(&g->lock);
    g->reached = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    ft_vsession_detach(g->client);
    g->over = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void test_gate_shut(test_gate *gate, ft_verifier *v)
{
    const ft_msg_open refused = {.protocol = FT_PROTOCOL + 1};
    const ft_vclient client = {.ctx = gate, .on_gone = stand};
    *gate = (test_gate){0};
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    gate->client = ft_verifier_open(v, &refused, "", NULL, &client);
    assert_non_null(gate->client);
    pthread_mutex_lock(&gate->lock);
    while (!gate->reached)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

void test_gate_open(test_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->over)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
}
