// SPDX-License-Identifier: Apache-2.0
// Passes that fail. Only the session that makes them fail loses its stream. The texts of all others
// are what they would have been. Whoever was cut goes on after a resume. An engine that fails
// altogether, or hangs, says so until it works again.
//
// The linker sends the calls of three engine functions here (tests/CMakeLists.txt), where
// the test decides which of them fail. A call that fails computes nothing: tests/engine has tests
// that a failed pass has no effect.
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

#define MEMBERS 7
#define GUILTY  2 /* the member whose drafts have the bad token */
#define MAX_TOK 24

/* ---- what fails ---- */

typedef enum fault {
    FAULT_NONE,
    FAULT_BAD,   /* passes with the bad token; the self-test succeeds */
    FAULT_LARGE, /* passes of more than two sessions */
    FAULT_HEAD,  /* one run of the output head */
    FAULT_DRAFT, /* passes of the server's draft model */
    FAULT_STAND, /* a pass stands until there is no fault any more */
    FAULT_ALL
} fault;

static _Atomic fault present;
static _Atomic ft_status fails_with;
static atomic_uint n_failed;
static _Atomic int32_t bad_token;

static bool has_bad(const ft_segment *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->tokens[i] == bad_token)
            return true;
    return false;
}

static bool pass_fails(const ft_segment *segments, size_t n)
{
    bool bad = false;
    for (size_t i = 0; i < n; i++)
        bad = bad || has_bad(&segments[i]);
    return present == FAULT_ALL || (present == FAULT_BAD && bad) ||
           (present == FAULT_LARGE && n > 2);
}

static ft_status give(ft_error *err)
{
    n_failed++;
    return ft_error_set(err, fails_with, "injected");
}

ft_status __real_ft_engine_forward_rows(ft_engine *engine, ft_segment *segments, size_t n,
                                        ft_error *err);
ft_status __wrap_ft_engine_forward_rows(ft_engine *engine, ft_segment *segments, size_t n,
                                        ft_error *err);
ft_status __real_ft_engine_head(ft_engine *engine, const uint32_t *rows, size_t n, ft_error *err);
ft_status __wrap_ft_engine_head(ft_engine *engine, const uint32_t *rows, size_t n, ft_error *err);

ft_status __wrap_ft_engine_forward_rows(ft_engine *engine, ft_segment *segments, size_t n,
                                        ft_error *err)
{
    while (present == FAULT_STAND) {
        n_failed = 1;
        sched_yield();
    }
    return pass_fails(segments, n) ? give(err)
                                   : __real_ft_engine_forward_rows(engine, segments, n, err);
}

ft_status __wrap_ft_engine_head(ft_engine *engine, const uint32_t *rows, size_t n, ft_error *err)
{
    if (present == FAULT_HEAD && n > 1) { /* the self-test asks for one row */
        present = FAULT_NONE;
        return give(err);
    }
    return __real_ft_engine_head(engine, rows, n, err);
}

ft_status __real_ft_engine_forward(ft_engine *engine, ft_segment *segments, size_t n,
                                   ft_error *err);
ft_status __wrap_ft_engine_forward(ft_engine *engine, ft_segment *segments, size_t n,
                                   ft_error *err);
ft_status __wrap_ft_engine_forward(ft_engine *engine, ft_segment *segments, size_t n, ft_error *err)
{
    return present == FAULT_DRAFT ? give(err) : __real_ft_engine_forward(engine, segments, n, err);
}

static void inject(fault what, ft_status code)
{
    n_failed = 0;
    fails_with = code;
    present = what;
}

/* ---- sessions ---- */

typedef struct member {
    local_client c;
    test_text ref, text;
    test_edge edge;
    uint64_t seed;
    uint32_t n_verdicts;
    bool gone;
} member;

static ft_msg_open open_of(const member *m)
{
    ft_msg_open open = local_open_msg(&m->text, 0.8f, m->seed, MAX_TOK);
    open.logprobs = true;
    return open;
}

static bool has_token(const test_text *text, int32_t token)
{
    for (uint32_t i = 0; i < text->n; i++)
        if (text->token[i] == token)
            return true;
    return false;
}

/* Clear texts that go on for MAX_TOK tokens, made by a verifier of their own, and a token that is
 * in none of them. */
static member *make_members(void)
{
    member *all = calloc(MEMBERS, sizeof *all);
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    inject(FAULT_NONE, FT_OK);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &all[i];
        m->seed = i;
        do {
            m->seed += 100;
            test_text_random(&m->ref, 5 + 9 * i, m->seed);
            m->text = m->ref;
            const ft_msg_open open = open_of(m);
            test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
            if (test_prompt_clear(&m->ref, &open.sampling, MAX_TOK))
                local_generate(v, &open, &edge, &m->ref);
        } while (m->ref.finish != FT_FINISH_LENGTH);
        m->edge = test_edge_make(TEST_DRAFT_PERFECT, &m->ref, target.n_vocab, i);
        m->edge.max_tree = 3;
    }
    ft_verifier_destroy(v);
    bad_token = (int32_t)target.n_vocab - 1;
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (has_token(&all[i].ref, bad_token)) {
            bad_token = bad_token - 1;
            i = UINT32_MAX;
        }
    return all;
}

static void open_all(member *all, ft_verifier *v)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const ft_msg_open open = open_of(&all[i]);
        local_open(&all[i].c, v, &open, "me");
        local_wait_opened(&all[i].c);
    }
}

/* A round of all that are not gone, in one pass. guilty: one draft has the bad token. Members whose
 * streams end are gone. */
static void round_of_all(member *all, ft_verifier *v, bool guilty)
{
    test_gate gate;
    test_gate_shut(&gate, v);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &all[i];
        if (m->gone || m->text.finish != FT_FINISH_NONE)
            continue;
        test_draft(&m->c.draft, &m->edge, &m->text);
        if (guilty && i == GUILTY) {
            m->c.draft.n = 1;
            m->c.draft.run = 0;
            m->c.draft.parent[0] = -1;
            m->c.draft.token[0] = bad_token;
        }
        local_send(m->c.session, &m->c.draft);
    }
    test_gate_open(&gate);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &all[i];
        if (m->gone || m->text.finish != FT_FINISH_NONE)
            continue;
        m->gone = !local_wait_verdict(&m->c, ++m->n_verdicts);
        if (!m->gone)
            assert_true(test_apply(&m->text, &m->c.draft, &m->c.verdict));
    }
}

static void resume(member *m, ft_verifier *v)
{
    const ft_msg_open open = local_resume_msg(&m->c, m->text.n);
    const ft_msg_opened opened = m->c.opened;
    local_detach(&m->c);
    local_open(&m->c, v, &open, "me");
    local_wait_opened(&m->c);
    assert_memory_equal(&m->c.opened.session, &opened.session, sizeof opened.session);
    assert_int_equal(m->c.opened.length, m->text.n);
    m->gone = false;
    m->n_verdicts = 0;
}

static bool some_go_on(const member *all)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (!all[i].gone && all[i].text.finish == FT_FINISH_NONE)
            return true;
    return false;
}

/* Rounds until all texts have ended; they are what they would have been. Ends the verifier. */
static void finish(member *all, ft_verifier *v)
{
    while (some_go_on(all))
        round_of_all(all, v, false);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (!all[i].gone)
            assert_true(test_text_equal(&all[i].text, &all[i].ref));
        local_close(&all[i].c);
    }
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(all);
}

/* ---- tests ---- */

static void test_only_the_cause_ends(void **state)
{
    member *all = make_members();
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    (void)state;
    open_all(all, v);
    round_of_all(all, v, false);
    inject(FAULT_BAD, FT_INTERNAL);
    round_of_all(all, v, true);
    assert_int_equal(test_verifier_stats(v).failures, n_failed);
    assert_true(n_failed >= 2);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(all[i].gone, i == GUILTY);
    assert_int_equal(all[GUILTY].c.gone, FT_INTERNAL);
    assert_int_equal(ft_verifier_health(v, NULL), FT_OK);
    finish(all, v);
}

/* The same, but memory is short for one session alone: it keeps its text and comes back. */
static void test_short_memory_is_no_end(void **state)
{
    static const ft_status codes[] = {FT_NOMEM, FT_EXHAUSTED};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        member *all = make_members();
        ft_verifier *v = test_verifier_start((ft_verifier_opts){.session_ttl_s = 600});
        open_all(all, v);
        round_of_all(all, v, false);
        inject(FAULT_BAD, codes[k]);
        round_of_all(all, v, true);
        for (uint32_t i = 0; i < MEMBERS; i++)
            assert_int_equal(all[i].gone, i == GUILTY);
        assert_int_equal(all[GUILTY].c.gone, FT_UNAVAILABLE);
        assert_true(all[GUILTY].c.retry_after_ms > 0);
        inject(FAULT_NONE, FT_OK);
        resume(&all[GUILTY], v);
        finish(all, v);
    }
}

/* Memory for two sessions at a time: nobody notices. */
static void test_smaller_passes(void **state)
{
    member *all = make_members();
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    (void)state;
    open_all(all, v);
    inject(FAULT_LARGE, FT_NOMEM);
    while (some_go_on(all))
        round_of_all(all, v, false);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_false(all[i].gone);
    assert_true(n_failed > 0);
    finish(all, v);
}

static ft_verifier *start_with_own_drafts(ft_clock clock)
{
    return test_verifier_start((ft_verifier_opts){.draft_model = target.model,
                                                  .draft_vocab = target.vocab,
                                                  .draft = ft_draft_params_tree(6, 3, 2),
                                                  .draft_always = true,
                                                  .clock = clock});
}

/* The same in runs, for which the server drafts trees: a tree whose pass failed is verified in the
 * next one. */
static void test_own_drafts(void **state)
{
    member *all = make_members();
    ft_verifier *v = start_with_own_drafts((ft_clock){0});
    test_gate gate;
    (void)state;
    open_all(all, v);
    test_gate_shut(&gate, v);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const ft_msg_draft run = {.round = 1, .base = all[i].text.n, .run = MAX_TOK};
        local_send(all[i].c.session, &run);
    }
    inject(FAULT_LARGE, FT_NOMEM);
    test_gate_open(&gate);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &all[i];
        assert_true(local_wait_over(&m->c, 1));
        assert_int_equal(m->c.n_heard, MAX_TOK);
        assert_memory_equal(m->c.heard, m->ref.token + m->ref.n_prompt,
                            MAX_TOK * sizeof *m->c.heard);
        m->text = m->ref;
    }
    const ft_verifier_stats s = test_verifier_stats(v);
    assert_true(s.own_accepted > 0 && s.failures > 0);
    finish(all, v);
}

/* A run of n tokens of one text. */
static void run_of(member *m, uint32_t n)
{
    const uint32_t before = m->c.n_heard;
    const ft_msg_draft run = {.round = ++m->n_verdicts, .base = m->text.n, .run = n};
    local_send(m->c.session, &run);
    assert_true(local_wait_over(&m->c, m->n_verdicts));
    assert_int_equal(m->c.n_heard - before, n);
    assert_memory_equal(m->c.heard + before, m->ref.token + m->text.n, n * sizeof *m->c.heard);
    memcpy(m->text.token + m->text.n, m->c.heard + before, n * sizeof *m->c.heard);
    m->text.n += n;
}

/* The server's draft model fails: the text goes on without drafts, which come back when the time of
 * a pause is over and it works again. Each pause is longer than the one before. */
static void test_own_drafts_come_back(void **state)
{
    static const struct {
        fault what;
        int64_t later_us;
        bool fails, drafts;
    } steps[] = {
        {FAULT_NONE, 0, false, true},        {FAULT_DRAFT, 0, true, false},
        {FAULT_NONE, 900000, false, false}, /* it rests */
        {FAULT_DRAFT, 100000, true, false}, /* tries, and fails */
        {FAULT_NONE, 1900000, false, false}, {FAULT_NONE, 100000, false, true},
        {FAULT_DRAFT, 0, true, false},       {FAULT_NONE, 1000000, false, true},
    };
    _Atomic int64_t now_us = 1000000;
    member *all = make_members();
    member *m = &all[0];
    ft_verifier *v = start_with_own_drafts(test_shared_clock(&now_us));
    (void)state;
    open_all(all, v);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const ft_verifier_stats before = test_verifier_stats(v);
        inject(steps[i].what, FT_NOMEM);
        now_us += steps[i].later_us;
        run_of(m, 3);
        const ft_verifier_stats after = test_verifier_stats(v);
        assert_int_equal(after.own_failures - before.own_failures, steps[i].fails);
        assert_int_equal(n_failed, steps[i].fails);
        assert_int_equal(after.own_drafted > before.own_drafted, steps[i].drafts);
    }
    m->text = m->ref;
    finish(all, v);
}

/* The pass is computed, the output head fails once: the pass has no effect and is done again. */
static void test_head(void **state)
{
    static const ft_status codes[] = {FT_NOMEM, FT_INTERNAL};
    member *all = make_members();
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    (void)state;
    open_all(all, v);
    for (size_t k = 0; k < 2; k++) {
        round_of_all(all, v, false);
        inject(FAULT_HEAD, codes[k]);
        round_of_all(all, v, false);
        assert_int_equal(n_failed, 1);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_false(all[i].gone);
    finish(all, v);
}

/* All passes fail: streams end, nobody gets in, health says it; once a pass works again, all go on
 * where they were. */
static void test_engine_fails(void **state)
{
    _Atomic int64_t now_us = 1000000;
    ft_error err = {0};
    local_client late;
    member *all = make_members();
    ft_verifier *v = test_verifier_start(
        (ft_verifier_opts){.session_ttl_s = 600, .clock = test_shared_clock(&now_us)});
    (void)state;
    open_all(all, v);
    round_of_all(all, v, false);
    inject(FAULT_ALL, FT_INTERNAL);
    round_of_all(all, v, false);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_true(all[i].gone);
        assert_int_equal(all[i].c.gone, FT_UNAVAILABLE);
        assert_true(all[i].c.retry_after_ms > 0);
    }
    assert_int_equal(ft_verifier_health(v, &err), FT_UNAVAILABLE);
    assert_non_null(strstr(err.message, "injected"));
    const ft_msg_open open = open_of(&all[0]);
    local_open(&late, v, &open, "me");
    assert_int_equal(local_wait_gone(&late), FT_UNAVAILABLE);
    assert_true(late.retry_after_ms > 0);
    local_detach(&late);
    for (int i = 0; i < 3; i++) { /* still */
        now_us += 1000000;
        ft_verifier_tick(v);
    }
    ft_verifier_tick(v);
    assert_int_equal(ft_verifier_health(v, NULL), FT_UNAVAILABLE);
    inject(FAULT_NONE, FT_OK);
    now_us += 1000000;
    ft_verifier_tick(v);
    ft_verifier_tick(v); /* the pass behind the first tick is over */
    assert_int_equal(ft_verifier_health(v, NULL), FT_OK);
    for (uint32_t i = 0; i < MEMBERS; i++)
        resume(&all[i], v);
    finish(all, v);
}

/* The engine thread does not come back for half a minute. */
static void test_engine_hangs(void **state)
{
    _Atomic int64_t now_us = 1000000;
    ft_error err = {0};
    test_gate gate;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.clock = test_shared_clock(&now_us)});
    (void)state;
    test_gate_shut(&gate, v);
    now_us += 30000000;
    assert_int_equal(ft_verifier_health(v, NULL), FT_OK);
    now_us += 1;
    assert_int_equal(ft_verifier_health(v, &err), FT_UNAVAILABLE);
    assert_non_null(strstr(err.message, "hangs"));
    test_gate_open(&gate);
    ft_verifier_tick(v);
    assert_int_equal(ft_verifier_health(v, NULL), FT_OK);
    /* It is known to work for half a minute now. */
    test_gate_shut(&gate, v);
    now_us += 10 * 30000000;
    assert_int_equal(ft_verifier_health(v, NULL), FT_OK);
    now_us += 10 * 30000000 + 100;
    assert_int_equal(ft_verifier_health(v, NULL), FT_UNAVAILABLE);
    test_gate_open(&gate);
    ft_verifier_destroy(v);
}

/* A pass that is expected to take long is no hang until it takes much longer. */
static void test_long_passes(void **state)
{
    enum { ROW_S = 5, ROWS = 17 }; /* a pass of the prompt takes 80 s or more */
    _Atomic int64_t now_us = 1000000;
    const ft_costs costs = {.us = {[FT_COST_ROW] = ROW_S * 1e6}};
    local_client c;
    test_text text;
    ft_verifier *v = test_verifier_start(
        (ft_verifier_opts){.clock = test_shared_clock(&now_us), .costs = &costs});
    (void)state;
    inject(FAULT_STAND, FT_OK);
    test_text_random(&text, ROWS, 1);
    const ft_msg_open open = local_open_msg(&text, 0, 1, 4);
    local_open(&c, v, &open, "me");
    while (n_failed == 0)
        sched_yield();
    now_us += 80000000;
    assert_int_equal(ft_verifier_health(v, NULL), FT_OK);
    now_us += 21 * ROWS * ROW_S * (int64_t)1000000;
    assert_int_equal(ft_verifier_health(v, NULL), FT_UNAVAILABLE);
    inject(FAULT_NONE, FT_OK);
    local_close(&c);
    assert_int_equal(ft_verifier_health(v, NULL), FT_OK);
    ft_verifier_destroy(v);
}

/* An engine thread that waits for work does not hang, however long it waits. */
static void test_idle_is_healthy(void **state)
{
    enum { LONG_US = 1000000000 };
    _Atomic int64_t now_us = 1000000;
    ft_status status;
    uint64_t before, waited_us;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.clock = test_shared_clock(&now_us)});
    (void)state;
    do { /* until the time passes while it waits */
        before = test_verifier_stats(v).vacant_us;
        now_us += LONG_US;
        status = ft_verifier_health(v, NULL);
        waited_us = test_verifier_stats(v).vacant_us - before;
    } while (waited_us < LONG_US);
    assert_int_equal(status, FT_OK);
    ft_verifier_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_cause_ends),  cmocka_unit_test(test_short_memory_is_no_end),
        cmocka_unit_test(test_smaller_passes),       cmocka_unit_test(test_own_drafts),
        cmocka_unit_test(test_own_drafts_come_back), cmocka_unit_test(test_head),
        cmocka_unit_test(test_engine_fails),         cmocka_unit_test(test_engine_hangs),
        cmocka_unit_test(test_long_passes),          cmocka_unit_test(test_idle_is_healthy),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
