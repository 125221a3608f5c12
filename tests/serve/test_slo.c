// SPDX-License-Identifier: Apache-2.0
// Promised token speeds: who may ask for which, when no more can be promised, what counts as kept,
// and that no policy changes a text.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/local_client.h"
#include "support/target.h"

#define PROMPT_TOK 20
#define LENGTH     40
#define SESSIONS   8

static ft_verifier_opts with_classes(ft_verifier_opts opts)
{
    opts.slo_tokens_per_s[0] = 2;
    opts.slo_tokens_per_s[1] = 8;
    opts.n_slo = 2;
    return opts;
}

static ft_msg_open open_at(const test_text *text, float tokens_per_s)
{
    ft_msg_open open = local_open_msg(text, 0.8f, 5, LENGTH);
    open.slo_tokens_per_s = tokens_per_s;
    return open;
}

static void test_speeds(void **state)
{
    static const struct {
        float asked;
        ft_status status;
    } cases[] = {{0, FT_OK}, {1, FT_OK}, {2, FT_OK}, {5, FT_OK}, {8, FT_OK}, {8.1f, FT_INVALID}};
    _Atomic int64_t now_us = 1000000; /* stands still: whoever asks, there is time for it */
    ft_verifier *v =
        test_verifier_start(with_classes((ft_verifier_opts){.clock = test_shared_clock(&now_us)}));
    local_client *c = malloc(sizeof *c);
    test_text *text = malloc(sizeof *text);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_text_random(text, PROMPT_TOK, i);
        const ft_msg_open open = open_at(text, cases[i].asked);
        local_open(c, v, &open, "me");
        if (cases[i].status == FT_OK) {
            local_wait_opened(c);
            local_close(c);
        } else {
            assert_int_equal(local_wait_gone(c), cases[i].status);
            assert_non_null(strstr(c->message, "ask for 8 at most"));
            local_detach(c);
        }
    }
    ft_verifier_destroy(v);
    free(text);
    free(c);
}

/* A machine that takes 50 ms a row, as a file of costs says. Before any round, a token counts as a
 * row, so that 8 tokens/s are 40 % of its time. Whoever wants no promise is let in. */
static void test_no_more_than_it_can(void **state)
{
    const ft_costs costs = {.us = {[FT_COST_ROW] = 50000}, .error = 0.05};
    _Atomic int64_t now_us = 1000000; /* stands still: nothing is learnt from passes */
    ft_verifier *v = test_verifier_start(
        with_classes((ft_verifier_opts){.costs = &costs, .clock = test_shared_clock(&now_us)}));
    local_client *first = malloc(sizeof *first), *second = malloc(sizeof *second);
    test_text *text = malloc(sizeof *text);
    (void)state;
    test_text_random(text, PROMPT_TOK, 1);
    const ft_msg_open fast = open_at(text, 8), slow = open_at(text, 1), any = open_at(text, 0);
    local_open(first, v, &fast, "me");
    local_wait_opened(first);
    local_open(second, v, &fast, "you");
    assert_int_equal(local_wait_gone(second), FT_EXHAUSTED);
    assert_true(second->retry_after_ms > 0);
    local_detach(second);
    local_open(second, v, &any, "you");
    local_wait_opened(second);
    local_close(second);
    local_open(second, v, &slow, "you"); /* 10 % */
    local_wait_opened(second);
    local_close(second);
    local_close(first);
    local_open(second, v, &fast, "you");
    local_wait_opened(second);
    local_close(second);
    ft_verifier_destroy(v);
    free(text);
    free(second);
    free(first);
}

/* After a run, a row for a token, 8 tokens/s are 24 % of the time of a machine that takes 30 ms a
 * row. After a tree that was rejected they are more than all of it. */
static void test_promises_go_by_what_rounds_are(void **state)
{
    const ft_costs costs = {.us = {[FT_COST_ROW] = 30000}, .error = 0.05};
    _Atomic int64_t now_us = 1000000;
    ft_verifier *v = test_verifier_start(
        with_classes((ft_verifier_opts){.costs = &costs, .clock = test_shared_clock(&now_us)}));
    local_client *first = malloc(sizeof *first), *second = malloc(sizeof *second),
                 *third = malloc(sizeof *third);
    test_edge edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, 3);
    test_text *text = malloc(sizeof *text);
    (void)state;
    test_text_random(text, PROMPT_TOK, 1);
    const ft_msg_open fast = open_at(text, 8);
    const ft_msg_draft run = {.round = 1, .base = PROMPT_TOK, .run = LENGTH - 1};
    local_open(first, v, &fast, "me");
    local_wait_opened(first);
    local_send(first->session, &run);
    local_wait_over(first, 1);
    local_open(second, v, &fast, "you");
    local_wait_opened(second);
    assert_true(local_round(second, &edge, text));
    local_open(third, v, &fast, "you");
    assert_int_equal(local_wait_gone(third), FT_EXHAUSTED);
    local_detach(third);
    local_close(second);
    local_close(first);
    ft_verifier_destroy(v);
    free(third);
    free(text);
    free(second);
    free(first);
}

/* Every verdict on a text of 8 tokens/s that was late is so for this cause. Returns how many. */
static uint64_t late_rounds(const ft_verifier_stats *s, ft_late only)
{
    const uint64_t *by_cause = &s->slo_rounds_late[1 * FT_LATE_CAUSES];
    for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
        assert_true(cause == (int)only || by_cause[cause] == 0);
    assert_int_equal(by_cause[FT_LATE_NONE], s->slo_rounds_met[1]);
    assert_int_equal(by_cause[FT_LATE_NONE] + by_cause[only], s->slo_rounds[1]);
    return by_cause[only];
}

/* Rounds that one text has before no more promises are given. 12: more are given even then. What a
 * pass takes is known, and rows take next to nothing: by the estimates there is time for many. */
static uint32_t rounds_until_refused(int64_t pass_us)
{
    const ft_costs costs = {.us = {[FT_COST_PASS] = (double)pass_us, [FT_COST_ROW] = 100},
                            .error = 0.05};
    test_work_clock clock = {.pass_us = pass_us, .row_us = 100};
    ft_verifier *v = test_verifier_start(
        with_classes((ft_verifier_opts){.costs = &costs, .clock = test_work_clock_of(&clock)}));
    local_client *first = malloc(sizeof *first), *second = malloc(sizeof *second);
    test_text *text = malloc(sizeof *text);
    test_edge edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, 3);
    ft_status asked = FT_OK;
    uint32_t rounds = 0;
    clock.verifier = v;
    test_text_random(text, PROMPT_TOK, 7);
    const ft_msg_open open = open_at(text, 8);
    local_open(first, v, &open, "me");
    local_wait_opened(first);
    while (asked == FT_OK && rounds < 12) {
        assert_true(local_round(first, &edge, text));
        assert_int_equal(text->finish, FT_FINISH_NONE);
        rounds++;
        local_open(second, v, &open, "you");
        ft_verifier_tick(v); /* it was answered */
        pthread_mutex_lock(&second->lock);
        asked = second->n_gone ? second->gone : FT_OK;
        pthread_mutex_unlock(&second->lock);
        if (asked == FT_OK)
            local_close(second);
        else
            local_detach(second);
    }
    assert_true(asked == FT_OK || asked == FT_EXHAUSTED);
    /* a round should bring two tokens in 250 ms: where a pass takes a second, no wait is needed */
    const ft_verifier_stats s = test_verifier_stats(v);
    assert_int_equal(late_rounds(&s, FT_LATE_LONG_PASS), pass_us > 250000 ? rounds : 0);
    local_close(first);
    clock.verifier = NULL;
    ft_verifier_destroy(v);
    free(text);
    free(second);
    free(first);
    return rounds;
}

/* From its second verdict on, the text is behind; the fifth such round in a row is one too many. */
static void test_no_promise_while_texts_are_behind(void **state)
{
    (void)state;
    assert_int_equal(rounds_until_refused(1000000), 6);
    assert_int_equal(rounds_until_refused(10000), 12); /* there is time for that speed */
}

/* A text of 8 tokens/s whose first draft comes so late, on a clock that stands still otherwise:
 * every verdict is in time, unless drafting alone took too long. */
static void attain(int64_t first_after_us, bool from_request)
{
    _Atomic int64_t now_us = 1000000;
    ft_verifier *v =
        test_verifier_start(with_classes((ft_verifier_opts){.clock = test_shared_clock(&now_us)}));
    local_client *c = malloc(sizeof *c);
    test_text *text = malloc(sizeof *text);
    test_edge edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, 3);
    uint32_t rounds = 0, late = 0;
    test_text_random(text, PROMPT_TOK, 7);
    const ft_msg_open open = open_at(text, 8);
    local_open(c, v, &open, "me");
    now_us += first_after_us;
    for (; text->finish == FT_FINISH_NONE; rounds++) {
        test_draft(&c->draft, &edge, text);
        c->draft.draft_us = rounds % 2 ? 10000000 : 1000; /* 10 s for a round of 8 tokens/s */
        late += rounds % 2;
        now_us += 1000;
        local_send(c->session, &c->draft);
        assert_true(local_wait_verdict(c, rounds + 1));
        now_us += 5; /* the budget that is over is a microsecond */
        assert_true(test_apply(text, &c->draft, &c->verdict));
    }
    ft_verifier_stats s = test_verifier_stats(v);
    assert_int_equal(s.slo_rounds[1], rounds);
    assert_int_equal(s.slo_rounds[0], 0);
    assert_int_equal(s.slo_texts[1], 1);
    assert_int_equal(s.slo_texts_met[1], from_request);
    assert_int_equal(s.slo_texts_met_from_first[1], 1); /* 40 tokens within as many milliseconds */
    assert_true(s.slo_rounds_met[1] >= rounds - late);
    (void)late_rounds(&s, FT_LATE_NETWORK);
    s.slo_rounds_late[1 * FT_LATE_CAUSES + FT_LATE_SPIKE] = 3;
    ft_buf page = {0};
    assert_int_equal(ft_stats_append(&ft_verifier_stat_list, &s, &page), FT_OK);
    assert_non_null(
        strstr(page.data, "foretoken_slo_texts_met_from_first_total{tokens_per_s=\"8\"} 1\n"));
    assert_non_null(strstr(page.data, "foretoken_slo_texts_met_total{tokens_per_s=\"2\"} 0\n"));
    assert_non_null(strstr(
        page.data, "foretoken_slo_rounds_late_total{tokens_per_s=\"8\",cause=\"spike\"} 3\n"));
    assert_null(strstr(page.data, "cause=\"none\""));
    assert_non_null(strstr(page.data, "# TYPE foretoken_class_sessions gauge\n"));
    assert_non_null(strstr(page.data, "foretoken_class_sessions{tokens_per_s=\"8\"} 1\n"));
    assert_non_null(strstr(page.data, "foretoken_class_sessions{tokens_per_s=\"0\"} 0\n"));
    ft_buf_deinit(&page);
    local_close(c);
    test_verifier_expect_empty(v);
    assert_int_equal(test_verifier_stats(v).class_sessions[1], 0);
    ft_verifier_destroy(v);
    free(text);
    free(c);
}

/* A promise is judged from the request on, and as a second figure from the first verdict on. */
static void test_attainment(void **state)
{
    (void)state;
    attain(0, true);
    attain(60000000, false); /* 40 tokens at 8 tokens/s are 5 s */
}

/* All sessions at once, of two credentials and all speeds, with trees, chains and nothing. */
static void run_all(const ft_sched_policy *policy, test_text *texts)
{
    test_work_clock clock = {.pass_us = 100, .row_us = 10, .look_us = 20};
    ft_verifier *v =
        test_verifier_start(with_classes((ft_verifier_opts){.clock = test_work_clock_of(&clock),
                                                            .policy = policy,
                                                            .max_batch_tok = 96,
                                                            .guard_us = 2000}));
    local_client *c = calloc(SESSIONS, sizeof *c);
    test_edge edges[SESSIONS];
    bool open = true;
    clock.verifier = v;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        test_text_random(&texts[i], PROMPT_TOK + 30 * i, i);
        edges[i] = test_edge_make(TEST_DRAFT_MIXED, NULL, target.n_vocab, i);
        const ft_msg_open msg = open_at(&texts[i], (float)(i % 3 * 4));
        local_open(&c[i], v, &msg, i % 2 ? "me" : "you");
    }
    for (uint32_t round = 1; open; round++) {
        open = false;
        for (uint32_t i = 0; i < SESSIONS; i++) {
            if (texts[i].finish != FT_FINISH_NONE)
                continue;
            test_draft(&c[i].draft, &edges[i], &texts[i]);
            local_send(c[i].session, &c[i].draft);
        }
        for (uint32_t i = 0; i < SESSIONS; i++) {
            if (texts[i].finish != FT_FINISH_NONE)
                continue;
            assert_true(local_wait_verdict(&c[i], round));
            assert_true(test_apply(&texts[i], &c[i].draft, &c[i].verdict));
            open |= texts[i].finish == FT_FINISH_NONE;
        }
    }
    for (uint32_t i = 0; i < SESSIONS; i++)
        local_close(&c[i]);
    test_verifier_expect_empty(v);
    clock.verifier = NULL;
    ft_verifier_destroy(v);
    free(c);
}

static void test_policies_change_no_text(void **state)
{
    static const char *const others[] = {"edf", "wisp"};
    test_text *expected = calloc(SESSIONS, sizeof *expected);
    test_text *texts = calloc(SESSIONS, sizeof *texts);
    (void)state;
    run_all(&ft_sched_fcfs, expected);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_non_null(ft_sched_find(others[i]));
        run_all(ft_sched_find(others[i]), texts);
        for (uint32_t j = 0; j < SESSIONS; j++)
            assert_true(test_text_equal(&texts[j], &expected[j]));
    }
    free(texts);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_no_more_than_it_can),
        cmocka_unit_test(test_promises_go_by_what_rounds_are),
        cmocka_unit_test(test_no_promise_while_texts_are_behind),
        cmocka_unit_test(test_attainment),
        cmocka_unit_test(test_policies_change_no_text),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
