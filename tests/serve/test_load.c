// SPDX-License-Identifier: Apache-2.0
// The gauges of load, of a real verifier: rounds that wait, texts, KV in use, and promises that
// could be made, which are as many as are then made.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/local_client.h"
#include "support/target.h"

#define BATCH      3
#define PROMPT_TOK 40
#define LENGTH     30
#define MANY       12

/* The engine thread has looked at all that was sent before: a tick is over before the look behind
 * it. */
static ft_verifier_stats looked(ft_verifier *v)
{
    ft_verifier_tick(v);
    return test_verifier_stats(v);
}

/* Static batching holds two drafts back until the third has come. */
static void test_waiting_and_running(void **state)
{
    _Atomic int64_t now_us = 1000000; /* stands still */
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.policy = &ft_sched_static,
                                                            .static_batch = BATCH,
                                                            .static_wait_us = 1000,
                                                            .slo_tokens_per_s = {1e-3f},
                                                            .n_slo = 1,
                                                            .clock = test_shared_clock(&now_us)});
    local_client *c = calloc(BATCH, sizeof *c);
    test_text *text = malloc(sizeof *text);
    (void)state;
    assert_true(looked(v).texts_running == 0 && looked(v).kv_used == 0);
    for (uint32_t i = 0; i < BATCH; i++) {
        test_text_random(text, PROMPT_TOK, i);
        ft_msg_open open = local_open_msg(text, 0.8f, i, LENGTH);
        open.slo_tokens_per_s = i == 0 ? 1e-3f : 0;
        local_open(&c[i], v, &open, "me");
        local_wait_opened(&c[i]);
    }
    while (looked(v).chunks.sum < BATCH * (PROMPT_TOK - 1)) {
    }
    assert_int_equal(looked(v).rounds_waiting, 0);
    for (uint32_t i = 0; i < BATCH; i++) {
        const ft_msg_draft draft = {.round = 1, .base = PROMPT_TOK};
        const ft_verifier_stats s = looked(v);
        assert_int_equal(s.rounds_waiting, i);
        assert_int_equal(s.class_waiting[0], i > 0); /* the first text has a promise */
        assert_int_equal(s.class_waiting[FT_SLO_NONE], i > 0 ? i - 1 : 0);
        assert_int_equal(s.texts_running, BATCH);
        assert_float_equal(s.kv_used, 1 - (double)s.kv_blocks_free / (double)s.kv_blocks, 1e-9);
        assert_true(s.kv_used > 0);
        local_send(c[i].session, &draft);
    }
    for (uint32_t i = 0; i < BATCH; i++)
        assert_true(local_wait_verdict(&c[i], 1));
    assert_int_equal(looked(v).rounds_waiting, 0);
    for (uint32_t i = 0; i < BATCH; i++)
        local_close(&c[i]);
    test_verifier_expect_empty(v);
    const ft_verifier_stats s = looked(v);
    assert_true(s.texts_running == 0 && s.kv_used == 0);
    ft_verifier_destroy(v);
    free(text);
    free(c);
}

/* A token of text takes 50 ms: 2 tokens/s are a tenth of the time, 8 are four. */
static void test_possible_promises_are_made(void **state)
{
    const ft_costs costs = {.us = {[FT_COST_ROW] = 50000}, .error = 0.05};
    _Atomic int64_t now_us = 1000000;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.slo_tokens_per_s = {2, 8},
                                                            .n_slo = 2,
                                                            .costs = &costs,
                                                            .clock = test_shared_clock(&now_us)});
    local_client *c = calloc(MANY, sizeof *c);
    test_text *text = malloc(sizeof *text);
    uint32_t n = 0;
    (void)state;
    test_text_random(text, PROMPT_TOK, 1);
    ft_msg_open open = local_open_msg(text, 0.8f, 5, LENGTH);
    open.slo_tokens_per_s = 2;
    for (uint64_t before = 0; n < MANY; n++) {
        const ft_verifier_stats s = looked(v);
        assert_true(s.class_possible[1] <= s.class_possible[0]);
        assert_true(n == 0 || s.class_possible[0] + 1 == before);
        before = s.class_possible[0];
        local_open(&c[n], v, &open, "me");
        if (before == 0)
            break;
        local_wait_opened(&c[n]);
    }
    assert_in_range(n, 3, MANY - 1);
    assert_int_equal(local_wait_gone(&c[n]), FT_EXHAUSTED);
    local_detach(&c[n]);
    while (n > 0)
        local_close(&c[--n]);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(text);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waiting_and_running),
                                       cmocka_unit_test(test_possible_promises_are_made)};
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
