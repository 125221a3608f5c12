// SPDX-License-Identifier: Apache-2.0
// Joint drafts in a real verifier: they are verified in one pass; the first waits for the rest and
// no longer than 50 ms; another tenant's drafts, and those that were sent alone, do not wait with
// them.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/together.h"
#include "support/local_client.h"
#include "support/target.h"

#define BATCH      3
#define PROMPT_TOK 40
#define LENGTH     30

static _Atomic int64_t now_us;

/* The engine thread has looked at all that was sent before: a tick is over before the look behind
 * it. */
static ft_verifier_stats looked(ft_verifier *v)
{
    ft_verifier_tick(v);
    return test_verifier_stats(v);
}

static void send_joint(local_client *c, uint32_t round, uint32_t together, uint32_t batch)
{
    const ft_msg_draft draft = {
        .round = round, .base = PROMPT_TOK + round - 1, .together = together, .batch = batch};
    local_send(c->session, &draft);
}

/* Opens n sessions, and waits until their prompts are read. */
static void open_all(local_client *c, uint32_t n, ft_verifier *v, const char *const *who)
{
    test_text *text = malloc(sizeof *text);
    const uint64_t before = looked(v).chunks.sum;
    for (uint32_t i = 0; i < n; i++) {
        test_text_random(text, PROMPT_TOK, i);
        const ft_msg_open open = local_open_msg(text, 0.8f, i, LENGTH);
        local_open(&c[i], v, &open, who[i]);
        local_wait_opened(&c[i]);
    }
    while (looked(v).chunks.sum < before + n * (PROMPT_TOK - 1)) {
    }
    free(text);
}

static ft_verifier *start(void)
{
    now_us = 1000000;
    return test_verifier_start(
        (ft_verifier_opts){.clock = test_shared_clock(&now_us), .session_ttl_s = 60});
}

static void end(ft_verifier *v, local_client *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        local_close(&c[i]);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(c);
}

static void test_one_pass(void **state)
{
    static const char *const who[BATCH] = {"me", "me", "me"};
    ft_verifier *v = start();
    local_client *c = calloc(BATCH, sizeof *c);
    (void)state;
    open_all(c, BATCH, v, who);
    for (uint32_t round = 1; round <= 5; round++) {
        const uint64_t passes = looked(v).passes.n;
        for (uint32_t i = 0; i < BATCH - 1; i++)
            send_joint(&c[i], round, BATCH, 100 + round);
        assert_int_equal(looked(v).passes.n, passes); /* they wait for the third, */
        now_us += FT_TOGETHER_HOLD_US - 1;
        assert_int_equal(looked(v).passes.n, passes);
        send_joint(&c[BATCH - 1], round, BATCH, 100 + round);
        for (uint32_t i = 0; i < BATCH; i++) {
            assert_true(local_wait_verdict(&c[i], round));
            assert_int_equal(c[i].verdict.together, BATCH);
        }
        assert_int_equal(looked(v).passes.n, passes + 1); /* and go with it */
    }
    end(v, c, BATCH);
}

static void test_not_for_ever(void **state)
{
    static const char *const who[BATCH] = {"me", "me", "me"};
    ft_verifier *v = start();
    local_client *c = calloc(BATCH, sizeof *c);
    (void)state;
    open_all(c, BATCH, v, who);
    const uint64_t passes = looked(v).passes.n;
    send_joint(&c[0], 1, BATCH, 7);
    send_joint(&c[1], 1, BATCH, 7);
    assert_int_equal(looked(v).passes.n, passes);
    now_us += FT_TOGETHER_HOLD_US;
    ft_verifier_tick(v);
    assert_true(local_wait_verdict(&c[0], 1) && local_wait_verdict(&c[1], 1));
    assert_int_equal(c[0].verdict.together, 2);
    assert_int_equal(c[1].verdict.together, 2);
    assert_int_equal(looked(v).passes.n, passes + 1);
    send_joint(&c[2], 1, BATCH, 7); /* late: nobody else will come */
    assert_true(local_wait_verdict(&c[2], 1));
    assert_int_equal(c[2].verdict.together, 1);
    assert_int_equal(looked(v).passes.n, passes + 2);
    end(v, c, BATCH);
}

/* A stranger's draft of the same number, and one that was sent alone, are verified at once. */
static void test_others(void **state)
{
    static const char *const who[4] = {"me", "me", "stranger", "me"};
    ft_verifier *v = start();
    local_client *c = calloc(4, sizeof *c);
    (void)state;
    open_all(c, 4, v, who);
    send_joint(&c[0], 1, 2, 7);
    assert_int_equal(looked(v).rounds, 0);
    send_joint(&c[2], 1, 1, 7);
    send_joint(&c[3], 1, 0, 0);
    assert_true(local_wait_verdict(&c[2], 1) && local_wait_verdict(&c[3], 1));
    assert_int_equal(c[2].verdict.together, 1);
    assert_int_equal(c[3].verdict.together, 0);
    assert_int_equal(looked(v).rounds, 2);
    send_joint(&c[1], 1, 2, 7);
    assert_true(local_wait_verdict(&c[0], 1) && local_wait_verdict(&c[1], 1));
    assert_int_equal(c[0].verdict.together, 2);
    end(v, c, 4);
}

/* A session that is gone is not waited for longer than 50 ms, and one that comes back later has its
 * place in the next batch. */
static void test_lost(void **state)
{
    static const char *const who[2] = {"me", "me"};
    ft_verifier *v = start();
    local_client *c = calloc(2, sizeof *c);
    (void)state;
    open_all(c, 2, v, who);
    send_joint(&c[0], 1, 2, 7);
    assert_int_equal(looked(v).rounds, 0);
    const ft_msg_open again = local_resume_msg(&c[0], PROMPT_TOK);
    local_detach(&c[0]);
    send_joint(&c[1], 1, 2, 7);
    assert_int_equal(looked(v).rounds, 0);
    now_us += FT_TOGETHER_HOLD_US;
    ft_verifier_tick(v);
    assert_true(local_wait_verdict(&c[1], 1));
    assert_int_equal(c[1].verdict.together, 1);
    local_open(&c[0], v, &again, "me");
    local_wait_opened(&c[0]);
    send_joint(&c[0], 1, 2, 8);
    assert_int_equal(looked(v).rounds, 1);
    send_joint(&c[1], 2, 2, 8);
    assert_true(local_wait_verdict(&c[0], 1) && local_wait_verdict(&c[1], 2));
    assert_int_equal(c[0].verdict.together, 2);
    end(v, c, 2);
}

/* Runs can be joint, too: their first tokens come of one pass. */
static void test_runs(void **state)
{
    static const char *const who[2] = {"me", "me"};
    ft_verifier *v = start();
    local_client *c = calloc(2, sizeof *c);
    const ft_msg_draft run = {.round = 1, .base = PROMPT_TOK, .run = 3, .together = 2, .batch = 7};
    (void)state;
    open_all(c, 2, v, who);
    const uint64_t passes = looked(v).passes.n;
    local_send(c[0].session, &run);
    assert_int_equal(looked(v).rounds, 0);
    local_send(c[1].session, &run);
    assert_true(local_wait_over(&c[0], 1) && local_wait_over(&c[1], 1));
    assert_int_equal(looked(v).passes.n, passes + 3);
    end(v, c, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_pass), cmocka_unit_test(test_not_for_ever),
        cmocka_unit_test(test_others),   cmocka_unit_test(test_lost),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
