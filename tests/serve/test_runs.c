// SPDX-License-Identifier: Apache-2.0
// Runs: rounds in which the server decodes by itself. They give the texts that single rounds give,
// take one draft ahead, end with the text, the session or the stream, and take turns with others'
// rounds. What must happen while a run goes on is done inside its verdicts' callbacks, on the
// engine thread.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

#define PROMPT_TOK 20
#define LONG_TOK   100 /* generated at most by a reference text */

/* What single rounds say, token by token, with log-probabilities. */
typedef struct reference {
    test_text text;
    float logprob[TEST_TEXT_MAX];
    ft_msg_open open; /* borrows its prompt from text */
} reference;

/* False: its text is not clear. */
static bool reference_make(reference *ref, ft_verifier *v, uint64_t seed, uint32_t max_tokens)
{
    test_edge none = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    memset(ref, 0, sizeof *ref);
    test_text_random(&ref->text, PROMPT_TOK, seed);
    ref->open = local_open_msg(&ref->text, 0.8f, seed, max_tokens);
    ref->open.logprobs = true;
    if (!test_prompt_clear(&ref->text, &ref->open.sampling, max_tokens))
        return false;
    local_client *c = calloc(1, sizeof *c);
    local_open(c, v, &ref->open, "me");
    while (ref->text.finish == FT_FINISH_NONE) {
        assert_true(local_round(c, &none, &ref->text));
        assert_false(c->verdict.more);
        ref->logprob[ref->text.n - 1] = c->logprobs[0].logprob;
    }
    local_close(c);
    free(c);
    return true;
}

/* The first seed from `seed` on whose text is clear and ends as wanted, behind at least 10
 * tokens. */
static void reference_find(reference *ref, ft_verifier *v, uint64_t seed, ft_finish finish)
{
    while (!reference_make(ref, v, seed++, LONG_TOK) || ref->text.finish != finish ||
           ref->text.n < PROMPT_TOK + 10) {
    }
}

static void ask(local_client *c, uint32_t round, uint32_t base, uint32_t run)
{
    const ft_msg_draft draft = {.round = round, .base = base, .run = run};
    local_send(c->session, &draft);
}

/* All that was heard is the reference's text behind the prompt. */
static void expect_heard(const local_client *c, const reference *ref)
{
    assert_true(c->n_heard <= ref->text.n - PROMPT_TOK);
    assert_memory_equal(c->heard, ref->text.token + PROMPT_TOK, c->n_heard * sizeof *c->heard);
    for (uint32_t i = 0, at = PROMPT_TOK; i < c->n_verdicts; i++) {
        at += c->parts[i].n_next;
        assert_int_equal(c->parts[i].length, at);
        assert_true(fabsf(c->parts[i].logprob - ref->logprob[at - 1]) <= 2 * test_rounding());
    }
}

static void test_same_text(void **state)
{
    static const uint32_t sizes[] = {0, 1, 2, 7, 30, FT_WIRE_RUN_MAX};
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    reference *ref = malloc(sizeof *ref);
    local_client *c = malloc(sizeof *c);
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t at = PROMPT_TOK, run = sizes[i] ? sizes[i] : 1, round = 0;
        reference_find(ref, v, 10 * i, i % 2 ? FT_FINISH_STOP : FT_FINISH_LENGTH);
        uint64_t before = test_verifier_stats(v).run_tokens;
        local_open(c, v, &ref->open, "me");
        while (c->verdict.finish == FT_FINISH_NONE) {
            uint32_t first = c->n_verdicts;
            ask(c, ++round, at, sizes[i]);
            assert_true(local_wait_over(c, round));
            at += run;
            for (uint32_t part = first; part < c->n_verdicts; part++) {
                assert_int_equal(c->parts[part].round, round);
                assert_int_equal(c->parts[part].more, part + 1 < c->n_verdicts);
                assert_true(c->parts[part].token_us > 0);
            }
        }
        expect_heard(c, ref);
        assert_int_equal(c->n_heard, ref->text.n - PROMPT_TOK);
        assert_int_equal(c->verdict.finish, ref->text.finish);
        assert_int_equal(test_verifier_stats(v).run_tokens - before, c->n_heard);
        local_close(c);
    }
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(ref);
    free(c);
}

/* Each run is asked for when the one before it has begun. */
static void test_drafts_ahead(void **state)
{
    enum { RUN = 7 };
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    reference *ref = malloc(sizeof *ref);
    local_client *c = malloc(sizeof *c);
    (void)state;
    reference_find(ref, v, 100, FT_FINISH_LENGTH);
    local_open(c, v, &ref->open, "me");
    ask(c, 1, PROMPT_TOK, RUN);
    for (uint32_t round = 1; round * RUN < LONG_TOK; round++) {
        ask(c, round + 1, PROMPT_TOK + round * RUN, RUN);
        assert_true(local_wait_over(c, round));
    }
    assert_true(local_wait_over(c, (LONG_TOK + RUN - 1) / RUN));
    assert_int_equal(c->n_heard, LONG_TOK);
    expect_heard(c, ref);
    /* rounds with trees go on behind runs */
    local_close(c);
    ref->open.max_tokens = 0;
    local_open(c, v, &ref->open, "me");
    ask(c, 1, PROMPT_TOK, RUN);
    assert_true(local_wait_over(c, 1));
    ft_msg_draft tree = {.round = 2, .base = PROMPT_TOK + RUN, .n = 2};
    for (int32_t i = 0; i < 2; i++) {
        tree.token[i] = ref->text.token[PROMPT_TOK + RUN + i];
        tree.parent[i] = i - 1;
    }
    local_send(c->session, &tree);
    assert_true(local_wait_over(c, 2));
    assert_int_equal(c->verdict.n_path, 2);
    assert_int_equal(c->verdict.next[0], ref->text.token[PROMPT_TOK + RUN + 2]);
    local_close(c);
    ft_verifier_destroy(v);
    free(ref);
    free(c);
}

/* Behind a run in which the text ends, a draft that was sent ahead is no error, early or late; one
 * that hangs elsewhere is. */
static void test_end_in_a_run(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    reference *ref = malloc(sizeof *ref);
    local_client *c = malloc(sizeof *c);
    (void)state;
    for (int i = 0; i < 2; i++) {
        reference_find(ref, v, 200, i ? FT_FINISH_STOP : FT_FINISH_LENGTH);
        local_open(c, v, &ref->open, "me");
        uint32_t end = PROMPT_TOK + 2 * LONG_TOK;
        ask(c, 1, PROMPT_TOK, 2 * LONG_TOK);
        ask(c, 2, end, 5);
        assert_true(local_wait_over(c, 1));
        assert_int_equal(c->verdict.finish, ref->text.finish);
        expect_heard(c, ref);
        ask(c, 2, end, 5);
        ft_verifier_tick(v);
        assert_int_equal(c->n_gone, 0);
        assert_int_equal(c->n_over, 1);
        ask(c, 2, end - 1, 5);
        assert_int_equal(local_wait_gone(c), FT_PRECONDITION);
        assert_non_null(strstr(c->message, "the text has ended"));
        local_detach(c);
    }
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(ref);
    free(c);
}

/* ---- while a run goes on ---- */

#define AT_PART 3

/* Once AT_PART verdicts of the first round have come, `second` and, if it has a round, `third` are
 * sent. */
typedef struct meddler {
    ft_msg_draft second, third;
} meddler;

static void send_more(local_client *c, const ft_msg_verdict *verdict)
{
    const meddler *m = c->user;
    (void)verdict;
    if (c->n_verdicts != AT_PART)
        return;
    local_send(c->session, &m->second);
    if (m->third.round)
        local_send(c->session, &m->third);
}

static void test_wrong_drafts(void **state)
{
    enum { END = PROMPT_TOK + 50 };
    static const meddler wrong[] = {
        {.second = {.round = 2, .base = END + 1}},
        {.second = {.round = 2, .base = PROMPT_TOK + AT_PART}},
        {.second = {.round = 3, .base = END}},
        {.second = {.round = 1, .base = PROMPT_TOK, .run = 50}},
        {.second = {.round = 2, .base = END, .n = 1, .token = {7}, .parent = {-1}}},
        {.second = {.round = 2, .base = END, .run = FT_WIRE_RUN_MAX + 1}},
        {.second = {.round = 2, .base = END}, .third = {.round = 2, .base = END}},
        {.second = {.round = 2, .base = END}, .third = {.round = 3, .base = END + 1}},
    };
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    reference *ref = malloc(sizeof *ref);
    local_client *c = malloc(sizeof *c), *other = malloc(sizeof *other);
    (void)state;
    reference_find(ref, v, 300, FT_FINISH_LENGTH);
    local_open(other, v, &ref->open, "me");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        local_open(c, v, &ref->open, "me");
        c->user = (void *)&wrong[i];
        c->on_part = send_more;
        ask(c, 1, PROMPT_TOK, 50);
        assert_int_equal(local_wait_gone(c), FT_INVALID);
        if (!strstr(c->message, "a draft is under way"))
            fail_msg("%zu: '%s'", i, c->message);
        assert_int_equal(c->n_verdicts, AT_PART);
        expect_heard(c, ref);
        local_detach(c);
        ask(other, (uint32_t)i + 1, PROMPT_TOK + 3 * (uint32_t)i, 3);
        assert_true(local_wait_over(other, (uint32_t)i + 1));
    }
    expect_heard(other, ref);
    local_close(other);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(ref);
    free(c);
    free(other);
}

static void close_now(local_client *c, const ft_msg_verdict *verdict)
{
    (void)verdict;
    if (c->n_verdicts == AT_PART)
        ft_vsession_close(c->session);
}

static void detach_now(local_client *c, const ft_msg_verdict *verdict)
{
    (void)verdict;
    if (c->n_verdicts != AT_PART)
        return;
    ft_vsession_detach(c->session);
    c->session = NULL;
}

static void test_close(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    reference *ref = malloc(sizeof *ref);
    local_client *c = malloc(sizeof *c);
    (void)state;
    reference_find(ref, v, 400, FT_FINISH_LENGTH);
    local_open(c, v, &ref->open, "me");
    c->on_part = close_now;
    ask(c, 1, PROMPT_TOK, LONG_TOK);
    ask(c, 2, PROMPT_TOK + LONG_TOK, 5);
    assert_int_equal(local_wait_gone(c), FT_OK);
    assert_int_equal(c->n_verdicts, AT_PART);
    local_detach(c);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(ref);
    free(c);
}

/* Loses the stream in a run. Returns what resumes it where the server is. */
static ft_msg_open lose(local_client *c, ft_verifier *v, const reference *ref)
{
    local_open(c, v, &ref->open, "me");
    local_wait_opened(c);
    c->on_part = detach_now;
    ask(c, 1, PROMPT_TOK, 50);
    assert_true(local_wait_verdict(c, AT_PART));
    ft_verifier_tick(v);
    assert_int_equal(c->n_verdicts, AT_PART);
    expect_heard(c, ref);
    return local_resume_msg(c, PROMPT_TOK + AT_PART);
}

static void test_detach_and_resume(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.session_ttl_s = 60});
    reference *ref = malloc(sizeof *ref);
    local_client *c = malloc(sizeof *c);
    (void)state;
    reference_find(ref, v, 500, FT_FINISH_LENGTH);
    ft_msg_open resume;
    /* an edge that has not heard all of it opens anew, and the session is at its end */
    for (uint32_t missed = 1; missed <= AT_PART; missed++) {
        resume = lose(c, v, ref);
        assert_int_equal(test_verifier_stats(v).sessions, 1);
        resume.base = PROMPT_TOK + AT_PART - missed;
        local_open(c, v, &resume, "me");
        assert_int_equal(local_wait_gone(c), FT_PRECONDITION);
        assert_non_null(strstr(c->message, "open again with the text"));
        local_detach(c);
        test_verifier_expect_empty(v);
        local_open(c, v, &resume, "me");
        assert_int_equal(local_wait_gone(c), FT_NOT_FOUND);
        local_detach(c);
    }
    /* one that has sees where the server is, and may go on there */
    resume = lose(c, v, ref);
    local_open(c, v, &resume, "me");
    local_wait_opened(c);
    assert_int_equal(c->opened.length, PROMPT_TOK + AT_PART);
    assert_int_equal(c->opened.last_round, 1);
    ask(c, 2, PROMPT_TOK + AT_PART, 6);
    assert_true(local_wait_over(c, 1));
    assert_memory_equal(c->heard, ref->text.token + PROMPT_TOK + AT_PART, 6 * sizeof *c->heard);
    /* the run's round is not kept as a whole, one token's is */
    ask(c, 3, PROMPT_TOK + AT_PART + 6, 1);
    assert_true(local_wait_over(c, 2));
    ask(c, 3, PROMPT_TOK + AT_PART + 6, 1);
    assert_true(local_wait_over(c, 3));
    assert_int_equal(c->heard[6], c->heard[7]);
    ask(c, 4, PROMPT_TOK + AT_PART + 7, 2);
    assert_true(local_wait_over(c, 4));
    ask(c, 4, PROMPT_TOK + AT_PART + 7, 2);
    assert_int_equal(local_wait_gone(c), FT_PRECONDITION);
    assert_non_null(strstr(c->message, "round 4 was a run"));
    local_detach(c);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(ref);
    free(c);
}

/* Another stream takes the session over in the middle of a run. */
static void take_over(local_client *c, const ft_msg_verdict *verdict)
{
    if (c->n_verdicts != AT_PART)
        return;
    const ft_msg_open resume = local_resume_msg(c, verdict->length);
    local_open(c->user, c->verifier, &resume, "me");
}

static void test_takeover(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    reference *ref = malloc(sizeof *ref);
    local_client *c = malloc(sizeof *c), *second = malloc(sizeof *second);
    (void)state;
    reference_find(ref, v, 600, FT_FINISH_LENGTH);
    local_open(c, v, &ref->open, "me");
    local_wait_opened(c);
    c->user = second;
    c->on_part = take_over;
    ask(c, 1, PROMPT_TOK, 50);
    assert_int_equal(local_wait_gone(c), FT_ABORTED);
    assert_int_equal(c->n_verdicts, AT_PART);
    local_detach(c);
    local_wait_opened(second);
    assert_int_equal(second->opened.length, PROMPT_TOK + AT_PART);
    ask(second, 2, PROMPT_TOK + AT_PART, 4);
    assert_true(local_wait_over(second, 1));
    assert_memory_equal(second->heard, ref->text.token + PROMPT_TOK + AT_PART,
                        4 * sizeof *c->heard);
    local_close(second);
    ft_verifier_destroy(v);
    free(ref);
    free(c);
    free(second);
}

/* A pool too small for all: runs give way in their middle, and go on. */
static void test_pressure(void **state)
{
    enum { SESSIONS = 6, GENERATED = 110 };
    ft_verifier *wide = test_verifier_start((ft_verifier_opts){0});
    ft_verifier *v = test_verifier_start(
        (ft_verifier_opts){.max_context = 160, .kv_tok = 3 * 160, .no_prefix_cache = true});
    reference *ref = calloc(SESSIONS, sizeof *ref);
    local_client *c = calloc(SESSIONS, sizeof *c);
    uint64_t seed = 800;
    test_gate gate;
    (void)state;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        while (!reference_make(&ref[i], wide, seed++, GENERATED) ||
               ref[i].text.n < PROMPT_TOK + GENERATED) {
        }
    }
    test_gate_shut(&gate, v); /* else the first may have ended before the last begins */
    for (uint32_t i = 0; i < SESSIONS; i++) {
        local_open(&c[i], v, &ref[i].open, "me");
        ask(&c[i], 1, PROMPT_TOK, GENERATED);
    }
    test_gate_open(&gate);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        assert_true(local_wait_over(&c[i], 1));
        expect_heard(&c[i], &ref[i]);
        assert_int_equal(c[i].n_heard, GENERATED);
        local_close(&c[i]);
    }
    assert_true(test_verifier_stats(v).kv_released > 0);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    ft_verifier_destroy(wide);
    free(ref);
    free(c);
}

/* ---- fairness ---- */

#define TREES 3

/* A run beside sessions whose trees fill a pass each, and that draft again in the verdict's
 * callback. Engine thread's, but for reading after the run. */
typedef struct crowd {
    local_client run, tree[TREES];
    uint32_t since;         /* verdicts of trees since the run's last */
    uint32_t most;          /* the most of them */
    uint32_t waited[TREES]; /* verdicts of the run since a tree's last */
    uint32_t most_waited;
} crowd;

static void run_part(local_client *c, const ft_msg_verdict *verdict)
{
    crowd *all = c->user;
    (void)verdict;
    all->most = all->since > all->most ? all->since : all->most;
    all->since = 0;
    for (int i = 0; i < TREES; i++)
        all->waited[i] += all->tree[i].n_verdicts > 0;
}

static void tree_part(local_client *c, const ft_msg_verdict *verdict)
{
    crowd *all = c->user;
    size_t me = (size_t)(c - all->tree);
    all->since += all->run.n_verdicts > 0;
    all->most_waited = all->waited[me] > all->most_waited ? all->waited[me] : all->most_waited;
    all->waited[me] = 0;
    c->draft.round = verdict->round + 1;
    c->draft.base = verdict->length;
    if (verdict->finish == FT_FINISH_NONE)
        local_send(c->session, &c->draft);
}

static void test_fairness(void **state)
{
    enum { NODES = 7 };
    ft_verifier *v =
        test_verifier_start((ft_verifier_opts){.max_tree = NODES, .max_batch_tok = NODES + 1});
    reference *ref = malloc(sizeof *ref);
    crowd *all = calloc(1, sizeof *all);
    (void)state;
    reference_find(ref, v, 700, FT_FINISH_LENGTH);
    for (int i = 0; i < TREES; i++) {
        ft_msg_open open = ref->open;
        open.max_tokens = 0;
        open.sampling.temperature = 0;
        local_open(&all->tree[i], v, &open, "me");
        all->tree[i].user = all;
        all->tree[i].on_part = tree_part;
        all->tree[i].draft = (ft_msg_draft){.round = 1, .base = PROMPT_TOK, .n = NODES};
        for (int32_t k = 0; k < NODES; k++) {
            all->tree[i].draft.token[k] = 5 + k;
            all->tree[i].draft.parent[k] = -1;
        }
        local_send(all->tree[i].session, &all->tree[i].draft);
    }
    local_open(&all->run, v, &ref->open, "me");
    all->run.user = all;
    all->run.on_part = run_part;
    ask(&all->run, 1, PROMPT_TOK, LONG_TOK);
    assert_true(local_wait_over(&all->run, 1));
    expect_heard(&all->run, ref);
    for (int i = 0; i < TREES; i++) {
        all->tree[i].on_part = NULL;
        local_close(&all->tree[i]);
    }
    local_close(&all->run);
    /* in turns: one of each between two of any other, and one more that was already in the pass */
    assert_true(all->most <= 2 * TREES);
    assert_true(all->most_waited <= 2 * TREES);
    ft_verifier_destroy(v);
    free(ref);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),    cmocka_unit_test(test_drafts_ahead),
        cmocka_unit_test(test_end_in_a_run), cmocka_unit_test(test_wrong_drafts),
        cmocka_unit_test(test_close),        cmocka_unit_test(test_detach_and_resume),
        cmocka_unit_test(test_takeover),     cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_fairness),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
