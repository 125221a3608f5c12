// SPDX-License-Identifier: Apache-2.0
// Hints to edges: under load Opened has the price of a row before the first verdict does, a server
// without texts forgets it, and only a policy that prices rows tells it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/local_client.h"
#include "support/target.h"

#define PROMPT_TOK 10 /* so short that it is read with the first round */
#define LENGTH     30
#define CROWD      2

static _Atomic int64_t now_us = 1000000; /* stands still: nothing is learnt from passes */

/* A row is all that a pass takes. */
static ft_verifier *start(const ft_sched_policy *policy)
{
    static const ft_costs costs = {.us = {[FT_COST_ROW] = 50000}, .error = 0.05};
    return test_verifier_start(
        (ft_verifier_opts){.clock = test_shared_clock(&now_us), .policy = policy, .costs = &costs});
}

static const ft_msg_hints *open_text(local_client *c, ft_verifier *v, uint64_t seed)
{
    test_text *text = malloc(sizeof *text);
    test_text_random(text, PROMPT_TOK, seed);
    const ft_msg_open open = local_open_msg(text, 0.8f, seed, LENGTH);
    local_open(c, v, &open, "me");
    local_wait_opened(c);
    free(text);
    return &c->opened.hints;
}

/* The rounds of all these texts, which are verified in one pass. */
static void joint_round(local_client *c)
{
    const ft_msg_draft draft = {.round = 1, .base = PROMPT_TOK, .together = CROWD, .batch = 1};
    for (uint32_t i = 0; i < CROWD; i++)
        local_send(c[i].session, &draft);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_true(local_wait_verdict(&c[i], 1));
        assert_int_equal(c[i].verdict.together, CROWD);
    }
}

/* What Opened says to a text that comes when two are written, and to one that comes later. */
static void prices(const ft_sched_policy *policy, uint32_t expected)
{
    ft_verifier *v = start(policy);
    local_client *c = calloc(CROWD + 1, sizeof *c);
    assert_int_equal(open_text(&c[0], v, 0)->row_price, 0);
    assert_int_equal(open_text(&c[1], v, 1)->row_price, 0);
    joint_round(c);
    assert_int_equal(c[0].verdict.hints.row_price, expected);
    assert_int_equal(open_text(&c[CROWD], v, 2)->row_price, expected);
    for (uint32_t i = 0; i <= CROWD; i++)
        local_close(&c[i]);
    test_verifier_expect_empty(v);
    ft_verifier_tick(v); /* the engine has waited since */
    assert_int_equal(open_text(&c[0], v, 3)->row_price, 0);
    local_close(&c[0]);
    ft_verifier_destroy(v);
    free(c);
}

/* A row more makes a pass of two rows longer by half: the other text loses half a token. */
static void test_price(void **state)
{
    (void)state;
    prices(&ft_sched_wisp, 500);
    prices(&ft_sched_fcfs, 0);
}

static void test_no_trees(void **state)
{
    const ft_sched_policy *const policies[] = {&ft_sched_wisp, &ft_sched_centralized};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ft_verifier *v = start(policies[i]);
        local_client *c = calloc(1, sizeof *c);
        assert_int_equal(open_text(c, v, 1)->no_trees, policies[i]->no_drafts);
        local_close(c);
        ft_verifier_destroy(v);
        free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_price),
        cmocka_unit_test(test_no_trees),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
