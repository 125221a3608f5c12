// SPDX-License-Identifier: Apache-2.0
// Who has room in the KV pool: sessions that do not fit together take turns instead of computing
// their texts anew for each other's every token; a resume needs room as an open does; one tenant
// leaves room for another.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

#define PROMPT_TOK 100
#define RUN_TOK    50
#define CONTEXT    160
#define MAX_TREE   8
#define POOL_TOK   (CONTEXT + MAX_TREE + 1 + 2 * FT_KV_BLOCK_TOK) /* one text */
#define MANY       64

static ft_verifier *start(ft_verifier_opts opts)
{
    opts.max_context = CONTEXT;
    opts.max_tree = MAX_TREE;
    opts.kv_tok = POOL_TOK;
    opts.no_prefix_cache = true;
    return test_verifier_start(opts);
}

/* A clear text that goes on for RUN_TOK tokens, made by a verifier of its own. */
static void make_text(test_text *text, uint64_t *seed)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    do {
        test_text_random(text, PROMPT_TOK, ++*seed);
        const ft_msg_open open = local_open_msg(text, 0.8f, *seed, RUN_TOK);
        test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
        if (test_prompt_clear(text, &open.sampling, RUN_TOK))
            local_generate(v, &open, &edge, text);
    } while (text->finish != FT_FINISH_LENGTH);
    ft_verifier_destroy(v);
}

/* Two runs in a pool for one, where time is work. */
static void test_runs_take_turns(void **state)
{
    static test_text text[2];
    static local_client c[2];
    test_work_clock clock = {.pass_us = 10, .row_us = 10};
    uint64_t seed = 0;
    test_gate gate;
    ft_verifier *v = start((ft_verifier_opts){.clock = test_work_clock_of(&clock)});
    (void)state;
    atomic_store(&clock.verifier, v);
    test_gate_shut(&gate, v);
    for (int i = 0; i < 2; i++) {
        make_text(&text[i], &seed);
        ft_msg_open open = local_open_msg(&text[i], 0.8f, seed, RUN_TOK);
        open.n_prompt = PROMPT_TOK;
        local_open(&c[i], v, &open, "me");
        const ft_msg_draft draft = {.round = 1, .base = PROMPT_TOK, .run = RUN_TOK};
        local_send(c[i].session, &draft);
    }
    test_gate_open(&gate);
    for (int i = 0; i < 2; i++) {
        assert_true(local_wait_over(&c[i], 1));
        assert_int_equal(c[i].n_heard, RUN_TOK);
        assert_memory_equal(c[i].heard, text[i].token + PROMPT_TOK, RUN_TOK * sizeof *c[i].heard);
        local_close(&c[i]);
    }
    /* A turn has time for two texts to be read: each is read once or twice. */
    assert_in_range(test_verifier_stats(v).kv_released, 0, 2);
    assert_in_range(test_verifier_stats(v).chunks.sum, 0, 4 * (PROMPT_TOK + RUN_TOK));
    atomic_store(&clock.verifier, NULL);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

enum { OF_A = 3, BOTH = OF_A + 1 };

/* At the end of b's text: how many tokens all of a's texts have had. On the engine thread. */
static void note_others(local_client *c, const ft_msg_verdict *verdict)
{
    local_client *a = c - OF_A;
    uint32_t *had = c->user;
    if (verdict->finish == FT_FINISH_NONE)
        return;
    for (int i = 0; i < OF_A; i++)
        *had += a[i].n_heard;
}

/* One tenant has three texts in a pool for one, another has one, which came last: it has the second
 * turn. A turn is long enough for a text. */
static void test_tenants_take_turns(void **state)
{
    static test_text text[BOTH];
    static local_client c[BOTH];
    test_work_clock clock = {.pass_us = 10, .row_us = 10};
    uint64_t seed = 0;
    uint32_t had = 0;
    test_gate gate;
    ft_verifier *v = start((ft_verifier_opts){.clock = test_work_clock_of(&clock)});
    (void)state;
    atomic_store(&clock.verifier, v);
    test_gate_shut(&gate, v);
    for (int i = 0; i < BOTH; i++) {
        make_text(&text[i], &seed);
        ft_msg_open open = local_open_msg(&text[i], 0.8f, seed, RUN_TOK);
        open.n_prompt = PROMPT_TOK;
        local_open(&c[i], v, &open, i < OF_A ? "a" : "b");
        const ft_msg_draft draft = {.round = 1, .base = PROMPT_TOK, .run = RUN_TOK};
        local_send(c[i].session, &draft);
    }
    c[OF_A].on_part = note_others;
    c[OF_A].user = &had;
    test_gate_open(&gate);
    for (int i = 0; i < BOTH; i++) {
        assert_true(local_wait_over(&c[i], 1));
        assert_memory_equal(c[i].heard, text[i].token + PROMPT_TOK, RUN_TOK * sizeof *c[i].heard);
        local_close(&c[i]);
    }
    assert_in_range(had, 1, 2 * RUN_TOK);
    atomic_store(&clock.verifier, NULL);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* The pool belongs to a session in its turn that has nothing to do. No message comes any more: the
 * engine thread comes back by itself when the turn is over. */
static void test_a_turn_ends_by_itself(void **state)
{
    static local_client idle, c;
    const ft_msg_draft draft = {.round = 1, .base = PROMPT_TOK};
    ft_verifier *v = start((ft_verifier_opts){0});
    test_text text;
    test_gate gate;
    (void)state;
    test_text_random(&text, PROMPT_TOK, 1);
    const ft_msg_open open = local_open_msg(&text, 0.8f, 1, RUN_TOK);
    test_gate_shut(&gate, v);
    local_open(&idle, v, &open, "me");
    local_open(&c, v, &open, "me");
    local_send(c.session, &draft);
    test_gate_open(&gate);
    assert_true(local_wait_verdict(&c, 1));
    local_close(&c);
    local_close(&idle);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* Opens texts of this tenant until there is no room. Returns how many got in. */
static uint32_t fill(ft_verifier *v, local_client c[MANY], const char *tenant)
{
    test_text text;
    test_text_random(&text, PROMPT_TOK, 1);
    const ft_msg_open open = local_open_msg(&text, 0, 1, RUN_TOK);
    for (uint32_t n = 0; n < MANY; n++) {
        local_open(&c[n], v, &open, tenant);
        ft_verifier_tick(v);
        if (c[n].n_gone == 0)
            continue;
        assert_int_equal(c[n].gone, FT_EXHAUSTED);
        assert_true(c[n].retry_after_ms > 0);
        local_detach(&c[n]);
        return n;
    }
    fail_msg("there is always room");
    return 0;
}

static void test_resume_needs_room(void **state)
{
    static local_client first, again, c[MANY];
    ft_verifier *v = start((ft_verifier_opts){.session_ttl_s = 600});
    test_text text;
    test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    (void)state;
    test_text_random(&text, PROMPT_TOK, 2);
    ft_msg_open open = local_open_msg(&text, 0, 1, RUN_TOK);
    local_open(&first, v, &open, "me");
    assert_true(local_round(&first, &edge, &text));
    open = local_resume_msg(&first, text.n);
    local_detach(&first);
    const uint32_t n = fill(v, c, "me");
    local_open(&again, v, &open, "me");
    assert_int_equal(local_wait_gone(&again), FT_EXHAUSTED);
    assert_true(again.retry_after_ms > 0);
    local_detach(&again);
    assert_int_equal(test_verifier_stats(v).sessions_detached, 1); /* it was not lost */
    for (uint32_t i = 0; i < n; i++)
        local_close(&c[i]);
    local_open(&again, v, &open, "me");
    local_wait_opened(&again);
    assert_true(local_round(&again, &edge, &text));
    local_close(&again);
    ft_verifier_destroy(v);
}

/* One tenant has taken all that may be opened: the other one still has its equal part. */
static void test_tenants_leave_room(void **state)
{
    static local_client a[MANY], b[MANY];
    ft_verifier *v = start((ft_verifier_opts){0});
    (void)state;
    const uint32_t of_a = fill(v, a, "a"), of_b = fill(v, b, "b");
    assert_in_range(of_b, of_a / 2, (of_a + 1) / 2);
    for (uint32_t i = 0; i < of_a; i++)
        local_close(&a[i]);
    for (uint32_t i = 0; i < of_b; i++)
        local_close(&b[i]);
    ft_verifier_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_take_turns),       cmocka_unit_test(test_tenants_take_turns),
        cmocka_unit_test(test_a_turn_ends_by_itself), cmocka_unit_test(test_resume_needs_room),
        cmocka_unit_test(test_tenants_leave_room),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
