// SPDX-License-Identifier: Apache-2.0
// The baselines in a real verifier: static batching waits for its batch and no longer than it says,
// while prompts go on; a centralized server decodes by itself whatever drafts say.
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
#define WAIT_US    50000

/* The engine thread has looked at all that was sent before: a tick is over before the look behind
 * it. */
static ft_verifier_stats looked(ft_verifier *v)
{
    ft_verifier_tick(v);
    return test_verifier_stats(v);
}

static void send_draft(local_client *c, uint32_t round, uint32_t base)
{
    const ft_msg_draft draft = {.round = round, .base = base};
    local_send(c->session, &draft);
}

static void test_static_waits(void **state)
{
    _Atomic int64_t now_us = 1000000;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.policy = &ft_sched_static,
                                                            .static_batch = BATCH,
                                                            .static_wait_us = WAIT_US,
                                                            .clock = test_shared_clock(&now_us)});
    local_client *c = calloc(BATCH, sizeof *c);
    test_text *text = malloc(sizeof *text);
    (void)state;
    for (uint32_t i = 0; i < BATCH; i++) {
        test_text_random(text, PROMPT_TOK, i);
        const ft_msg_open open = local_open_msg(text, 0.8f, i, LENGTH);
        local_open(&c[i], v, &open, "me");
        local_wait_opened(&c[i]);
    }
    /* Prompts need no batch. */
    while (looked(v).chunks.sum < BATCH * (PROMPT_TOK - 1)) {
    }
    /* Two are no batch, */
    send_draft(&c[0], 1, PROMPT_TOK);
    send_draft(&c[1], 1, PROMPT_TOK);
    assert_int_equal(looked(v).rounds, 0);
    assert_int_equal(looked(v).rounds, 0);
    /* three are; */
    send_draft(&c[2], 1, PROMPT_TOK);
    for (uint32_t i = 0; i < BATCH; i++)
        assert_true(local_wait_verdict(&c[i], 1));
    uint64_t passes = looked(v).passes.n;
    /* and one that has waited long enough is. */
    send_draft(&c[1], 2, PROMPT_TOK + 1);
    assert_int_equal(looked(v).rounds, BATCH);
    now_us += WAIT_US - 1;
    assert_int_equal(looked(v).passes.n, passes);
    now_us += 1;
    ft_verifier_tick(v);
    assert_true(local_wait_verdict(&c[1], 2));
    assert_int_equal(looked(v).passes.n, passes + 1);
    for (uint32_t i = 0; i < BATCH; i++)
        local_close(&c[i]);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(text);
    free(c);
}

static atomic_uint n_picks;

static size_t count_pick(const ft_work *work, size_t n, const ft_sched_limits *limits,
                         int64_t now_us, ft_pick *picks)
{
    n_picks++;
    return ft_sched_static.pick(work, n, limits, now_us, picks);
}

/* A verification is held back and has the blocks that a prompt needs: the prompt waits without work
 * for the engine, nobody ends, and both go on when the batch starts. */
static void test_static_with_a_full_pool(void **state)
{
    enum { LONG_TOK = 200, POOL_TOK = 256 + 97, LOOKS = 20, HOLD_US = 60000000 };
    const ft_sched_policy counted = {
        .name = "static", .pick = count_pick, .start_us = ft_sched_static.start_us};
    _Atomic int64_t now_us = 1000000;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.policy = &counted,
                                                            .static_batch = BATCH,
                                                            .static_wait_us = HOLD_US,
                                                            .kv_tok = POOL_TOK,
                                                            .clock = test_shared_clock(&now_us)});
    local_client c[2];
    test_text text;
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        test_text_random(&text, LONG_TOK, i);
        const ft_msg_open open = local_open_msg(&text, 0.8f, i, LENGTH);
        local_open(&c[i], v, &open, "me");
        local_wait_opened(&c[i]);
        while (i == 0 && looked(v).chunks.sum < LONG_TOK - 1) {
        }
        send_draft(&c[i], 1, LONG_TOK);
    }
    const uint64_t passes = looked(v).passes.n;
    n_picks = 0;
    for (int i = 0; i < LOOKS; i++)
        assert_int_equal(looked(v).passes.n, passes);
    assert_in_range(n_picks, 0, 4 * LOOKS); /* it is not busy */
    for (uint32_t i = 0; i < 2; i++) {
        while (c[i].n_verdicts == 0 && c[i].n_gone == 0) {
            now_us += HOLD_US;
            (void)looked(v);
        }
        assert_true(local_wait_verdict(&c[i], 1));
        local_close(&c[i]);
    }
    assert_int_equal(test_verifier_stats(v).failures, 0);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* On the machine's clock the engine thread comes back by itself, in runs and with a lone
 * session. */
static void test_static_comes_back(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){
        .policy = &ft_sched_static, .static_batch = BATCH, .static_wait_us = 2000});
    test_edge edge = test_edge_make(TEST_DRAFT_RUN, NULL, target.n_vocab, 3);
    test_text *text = malloc(sizeof *text);
    (void)state;
    test_text_random(text, PROMPT_TOK, 9);
    const ft_msg_open open = local_open_msg(text, 0.8f, 9, LENGTH);
    local_generate(v, &open, &edge, text);
    assert_true(text->finish != FT_FINISH_NONE);
    ft_verifier_destroy(v);
    free(text);
}

static void test_centralized(void **state)
{
    ft_verifier *plain = test_verifier_start((ft_verifier_opts){0});
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.policy = &ft_sched_centralized});
    test_edge none = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1), edge;
    test_text *ref = malloc(sizeof *ref), *text = malloc(sizeof *text);
    local_client *c = malloc(sizeof *c);
    (void)state;
    test_text_random(ref, PROMPT_TOK, 4);
    *text = *ref;
    const ft_msg_open open = local_open_msg(text, 0.8f, 4, LENGTH);
    local_generate(plain, &open, &none, ref);
    edge = test_edge_make(TEST_DRAFT_PERFECT, ref, target.n_vocab, 2);
    local_open(c, v, &open, "me");
    while (text->finish == FT_FINISH_NONE) {
        assert_true(local_round(c, &edge, text));
        assert_int_equal(c->verdict.n_path, 0);
        assert_int_equal(c->verdict.n_next, 1);
        assert_true(c->verdict.hints.no_trees);
    }
    assert_true(test_text_equal(text, ref));
    ft_verifier_stats s = looked(v);
    assert_int_equal(s.drafted, 0);
    assert_int_equal(s.run_tokens, ref->n - PROMPT_TOK);
    local_close(c);
    ft_verifier_destroy(v);
    ft_verifier_destroy(plain);
    free(c);
    free(text);
    free(ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static_waits),
        cmocka_unit_test(test_static_with_a_full_pool),
        cmocka_unit_test(test_static_comes_back),
        cmocka_unit_test(test_centralized),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
