// SPDX-License-Identifier: Apache-2.0
// Prompts in chunks: a long prompt beside running sessions delays no round by more than the budget,
// ends all the same, and has the server to itself where nobody else is active. Time is the work
// done.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

#define RUNNING   8
#define PASS_US   2000
#define ROW_US    100
#define BUDGET_US 10000
#define PROMPT    1900

typedef struct runner {
    local_client c;
    test_text text;
    test_edge edge;
    uint32_t n_verdicts;
    uint64_t seed;
} runner;

typedef struct server {
    ft_verifier *v;
    test_work_clock clock;
    runner run[RUNNING];
    uint32_t n_run;
    local_client late; /* the one with the long prompt */
    test_text prompt;
} server;

/* A prompt so short that it rides with its first tree. */
static void runner_open(runner *r, ft_verifier *v)
{
    test_text_random(&r->text, 10, ++r->seed);
    ft_msg_open open = local_open_msg(&r->text, 1, r->seed, 0);
    local_open(&r->c, v, &open, "me");
    local_wait_opened(&r->c);
    r->n_verdicts = 0;
}

static server *server_create(uint32_t n_run, uint32_t budget_us, int64_t row_us)
{
    server *s = calloc(1, sizeof *s);
    s->clock = (test_work_clock){.pass_us = PASS_US, .row_us = row_us};
    s->v = test_verifier_start((ft_verifier_opts){.clock = test_work_clock_of(&s->clock),
                                                  .prefill_budget_us = budget_us,
                                                  .max_context = 2000});
    s->clock.verifier = s->v;
    s->n_run = n_run;
    for (uint32_t i = 0; i < n_run; i++) {
        s->run[i].seed = 1000 * i;
        s->run[i].edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, i);
        runner_open(&s->run[i], s->v);
    }
    return s;
}

static void server_destroy(server *s)
{
    for (uint32_t i = 0; i < s->n_run; i++)
        local_close(&s->run[i].c);
    local_close(&s->late);
    test_verifier_expect_empty(s->v);
    ft_verifier_destroy(s->v);
    free(s);
}

/* The long prompt, with its first draft. */
static void late_open(server *s)
{
    test_edge plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    test_text_random(&s->prompt, PROMPT, 77);
    ft_msg_open open = local_open_msg(&s->prompt, 0, 1, 0);
    local_open(&s->late, s->v, &open, "me");
    test_draft(&s->late.draft, &plain, &s->prompt);
    local_send(s->late.session, &s->late.draft);
}

static bool late_done(server *s)
{
    pthread_mutex_lock(&s->late.lock);
    bool done = s->late.n_verdicts > 0;
    assert_int_equal(s->late.n_gone, 0);
    pthread_mutex_unlock(&s->late.lock);
    return done;
}

/* One round of all that run; with_late: their drafts reach the server together with the long
 * prompt. Returns by how much the longest took longer than two passes of all their rows, which is
 * what they can do to each other. */
static int64_t all_round(server *s, bool with_late)
{
    uint32_t rows = 0;
    int64_t longest_us = 0;
    test_gate gate;
    for (uint32_t i = 0; i < s->n_run; i++) {
        runner *r = &s->run[i];
        if (r->text.finish != FT_FINISH_NONE) {
            local_close(&r->c);
            runner_open(r, s->v);
        }
    }
    test_gate_shut(&gate, s->v);
    if (with_late)
        late_open(s);
    for (uint32_t i = 0; i < s->n_run; i++) {
        runner *r = &s->run[i];
        test_draft(&r->c.draft, &r->edge, &r->text);
        rows += r->text.n_prompt + r->c.draft.n;
        local_send(r->c.session, &r->c.draft);
    }
    test_gate_open(&gate);
    for (uint32_t i = 0; i < s->n_run; i++) {
        runner *r = &s->run[i];
        if (!local_wait_verdict(&r->c, ++r->n_verdicts))
            fail_msg("gone: %s", r->c.message);
        assert_true(test_apply(&r->text, &r->c.draft, &r->c.verdict));
        int64_t us = (int64_t)r->c.verdict.queue_us + r->c.verdict.verify_us;
        longest_us = us > longest_us ? us : longest_us;
    }
    return longest_us - 2 * PASS_US - s->clock.row_us * rows;
}

/* The most by which the long prompt delays a round, and the passes that it takes. */
static int64_t delay_of(uint32_t budget_us, uint64_t *passes)
{
    server *s = server_create(RUNNING, budget_us, ROW_US);
    int64_t most_us = INT64_MIN;
    for (int i = 0; i < 20; i++)
        assert_true(all_round(s, false) <= 0); /* else the measure is wrong */
    uint64_t before = test_verifier_stats(s->v).passes.n;
    bool first = true;
    do {
        int64_t us = all_round(s, first);
        most_us = us > most_us ? us : most_us;
        first = false;
    } while (!late_done(s));
    *passes = test_verifier_stats(s->v).passes.n - before;
    server_destroy(s);
    return most_us;
}

static void test_long_prompt_keeps_to_the_budget(void **state)
{
    uint64_t passes;
    (void)state;
    assert_true(delay_of(BUDGET_US, &passes) <= BUDGET_US);
    /* 4.5 ms a pass are 25 rows or so; and it had to share passes at all */
    assert_in_range(passes, PROMPT / 50, PROMPT / 20);
    assert_true(delay_of(1000000, &passes) > 2 * BUDGET_US); /* without it: full batches */
    assert_true(passes < 40);
}

/* Passes that the prompt takes beside n_run sessions that are idle. */
static uint64_t passes_beside(uint32_t n_run, int64_t row_us)
{
    server *s = server_create(n_run, BUDGET_US, row_us);
    for (int i = 0; i < 5; i++)
        (void)all_round(s, false);
    uint64_t before = test_verifier_stats(s->v).passes.n;
    late_open(s);
    assert_true(local_wait_verdict(&s->late, 1));
    uint64_t passes = test_verifier_stats(s->v).passes.n - before;
    server_destroy(s);
    return passes;
}

static void test_lone_prompt_has_the_server(void **state)
{
    (void)state;
    assert_in_range(passes_beside(0, ROW_US), PROMPT / 512, PROMPT / 512 + 2);
}

/* The verdict tells how much of the text was read, and for how long: a row's time for each token,
 * and a share of what each pass takes by itself. */
static void check_reading(uint32_t n_run)
{
    server *s = server_create(n_run, BUDGET_US, ROW_US);
    bool first = true;
    for (int i = 0; i < 5; i++)
        (void)all_round(s, false);
    const uint64_t before = test_verifier_stats(s->v).passes.n;
    do {
        (void)all_round(s, first);
        first = false;
    } while (!late_done(s));
    const int64_t passes = (int64_t)(test_verifier_stats(s->v).passes.n - before);
    const ft_msg_verdict *told = &s->late.verdict;
    assert_int_equal(told->read_tok, PROMPT - 1);
    assert_true(told->read_us >= (PROMPT - 1) * ROW_US - passes); /* shares are rounded down */
    assert_true(told->read_us <= (PROMPT - 1) * ROW_US + passes * PASS_US);
    server_destroy(s);
}

static void test_reading_is_told(void **state)
{
    test_text text;
    local_client c = {0};
    test_edge plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    (void)state;
    check_reading(1);
    check_reading(RUNNING);
    test_text_random(&text, 10, 5);
    const ft_msg_open open = local_open_msg(&text, 0, 5, 0);
    local_open(&c, v, &open, "me");
    assert_true(local_round(&c, &plain, &text));
    assert_int_equal(c.verdict.read_tok, 9);
    assert_int_equal(text.finish, FT_FINISH_NONE);
    assert_true(local_round(&c, &plain, &text));
    assert_int_equal(c.verdict.read_tok, 0);
    assert_int_equal(c.verdict.read_us, 0);
    local_close(&c);
    ft_verifier_destroy(v);
}

/* An idle session may send its next draft any time; one that has sent none for seconds does not
 * count. */
static void test_idle_sessions_count_for_a_while(void **state)
{
    (void)state;
    assert_in_range(passes_beside(1, ROW_US), PROMPT / 50, PROMPT / 20);
    assert_in_range(passes_beside(1, 100 * ROW_US), 50, 300);
}

/* Opens with a prompt of so many tokens. Says how many passes ran before the first draft, and
 * checks that the first round then takes one more. */
static uint64_t passes_before_draft(ft_verifier *v, uint32_t n_tok)
{
    static test_text text;
    static local_client c;
    test_edge plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    test_text_random(&text, n_tok, n_tok);
    const ft_msg_open open = local_open_msg(&text, 0, 1, 0);
    const uint64_t before = test_verifier_stats(v).passes.n;
    c = (local_client){0};
    local_open(&c, v, &open, "me");
    local_wait_opened(&c);
    while (n_tok > FT_KV_BLOCK_TOK && test_verifier_stats(v).passes.n == before)
        ft_verifier_tick(v);
    ft_verifier_tick(v);
    ft_verifier_tick(v);
    const uint64_t passes = test_verifier_stats(v).passes.n - before;
    assert_true(local_round(&c, &plain, &text));
    assert_int_equal(test_verifier_stats(v).passes.n - before, passes + 1);
    local_close(&c);
    return passes;
}

/* Less than a block is computed with the first round. So who opens a session and sends nothing
 * takes no time of the others. */
static void test_short_prompt_waits_for_its_round(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    (void)state;
    assert_int_equal(passes_before_draft(v, 3), 0);
    assert_int_equal(passes_before_draft(v, FT_KV_BLOCK_TOK), 0);
    assert_int_equal(passes_before_draft(v, FT_KV_BLOCK_TOK + 1), 1);
    ft_verifier_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_prompt_keeps_to_the_budget),
        cmocka_unit_test(test_lone_prompt_has_the_server),
        cmocka_unit_test(test_idle_sessions_count_for_a_while),
        cmocka_unit_test(test_reading_is_told),
        cmocka_unit_test(test_short_prompt_waits_for_its_round),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
