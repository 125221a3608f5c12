// SPDX-License-Identifier: Apache-2.0
// No allocation in the server's rounds, from the draft's arrival to the verdict's callback: queues,
// batches, judging on several threads, texts within their room, prompts in chunks; but for the
// calls that ggml makes for itself whenever it runs. And what an idle session holds.
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/count_allocs.h"
#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

#define IDLE       64   /* sessions */
#define IDLE_TOK   17   /* of their prompts: a block, and the root of the first round */
#define IDLE_BYTES 8192 /* a session at most, without its KV blocks */
#define SESSIONS   80   /* glibc's qsort would allocate for so many */

typedef struct member {
    local_client c;
    test_text text;
    test_edge edge;
    uint32_t n_verdicts;
} member;

/* Messages that were allocated before allocations are counted: the wire does that. The server frees
 * each of them, once. */
enum { COUNTED = 30 };
static ft_client_msg *spare[COUNTED * SESSIONS];
static uint32_t n_spare;

static void send_draft(member *m)
{
    if (n_spare == 0) {
        local_send(m->c.session, &m->c.draft);
        return;
    }
    ft_client_msg *msg = spare[--n_spare];
    msg->draft = m->c.draft;
    ft_vsession_draft(m->c.session, msg);
}

/* A round of the first n. */
static void step(member *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        test_draft(&all[i].c.draft, &all[i].edge, &all[i].text);
        send_draft(&all[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_true(local_wait_verdict(&all[i].c, ++all[i].n_verdicts));
        assert_true(test_apply(&all[i].text, &all[i].c.draft, &all[i].c.verdict));
    }
}

/* Opens until the text goes on for long: the model ends some by itself. */
static void open_member(member *m, ft_verifier *v, uint64_t seed, test_text *ref)
{
    do {
        test_text_random(ref, 20, seed);
        ft_msg_open open = local_open_msg(ref, 0, 1, 200);
        test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
        local_generate(v, &open, &edge, ref);
        seed += 1000;
    } while (ref->finish != FT_FINISH_LENGTH);
    test_text_init(&m->text, ref->token, 20);
    m->edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, seed);
    ft_msg_open open = local_open_msg(&m->text, 0, 1, 200);
    open.logprobs = seed % 2;
    open.top_logprobs = 3;
    local_open(&m->c, v, &open, "me");
    local_wait_opened(&m->c);
}

static void test_rounds(void **state)
{
    (void)state;
    if (!COUNTS_ALLOCS) {
        print_message("SKIPPED: allocations cannot be counted in this build\n");
        skip();
    }
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.n_threads = 1});
    member *all = calloc(SESSIONS, sizeof *all);
    test_text *ref = malloc(sizeof *ref);
    uint32_t own = count_allocs_of_ggml();
    for (uint32_t i = 0; i < SESSIONS; i++)
        open_member(&all[i], v, i, ref);
    /* Passes of more shapes than the engine keeps graphs of. */
    for (uint32_t n = 1; n <= SESSIONS; n++)
        step(all, n);
    for (int i = 0; i < 40; i++)
        step(all, SESSIONS);
    while (n_spare < COUNTED * SESSIONS)
        spare[n_spare++] = local_draft_msg(&all[0].c.draft);
    ft_verifier_stats before = test_verifier_stats(v);
    count_allocs(true);
    for (int i = 0; i < COUNTED; i++)
        step(all, SESSIONS);
    count_allocs(false);
    ft_verifier_stats after = test_verifier_stats(v);
    uint32_t passes = (uint32_t)(after.passes.n - before.passes.n);
    assert_int_equal(after.rounds - before.rounds, COUNTED * SESSIONS);
    uint32_t calls = count_allocs_taken();
    uint32_t runs = passes + (uint32_t)(after.heads - before.heads);
    if (calls != own * runs + COUNTED * SESSIONS)
        fail_msg(
            "%u calls in %u runs of ggml, %u a run are its own, and %u for messages; the first "
            "one for %zu bytes",
            calls, runs, own, COUNTED * SESSIONS, count_allocs_first_bytes());
    for (uint32_t i = 0; i < SESSIONS; i++)
        local_close(&all[i].c);
    ft_verifier_destroy(v);
    free(ref);
    free(all);
}

/* A run of n tokens in each session. They begin in one pass, so each pass has a row of all. */
static void run_all(ft_verifier *v, member *all, uint32_t n_sessions, uint32_t n)
{
    test_gate gate;
    test_gate_shut(&gate, v);
    for (uint32_t i = 0; i < n_sessions; i++) {
        member *m = &all[i];
        m->c.draft = (ft_msg_draft){.round = ++m->text.rounds, .base = m->text.n, .run = n};
        m->text.n += n;
        local_send(m->c.session, &m->c.draft);
    }
    test_gate_open(&gate);
    for (uint32_t i = 0; i < n_sessions; i++)
        assert_true(local_wait_over(&all[i].c, all[i].text.rounds));
}

/* What is counted between two verdicts of one run, in whose callbacks the engine thread stands
 * still. */
typedef struct window {
    uint32_t from, to; /* verdicts */
    ft_verifier_stats before, after;
    uint32_t calls;
} window;

static void look(local_client *c, const ft_msg_verdict *verdict)
{
    window *w = c->user;
    (void)verdict;
    if (c->n_verdicts == w->to) {
        count_allocs(false);
        w->calls = count_allocs_taken();
        ft_verifier_get_stats(c->verifier, &w->after);
    }
    if (c->n_verdicts == w->from) {
        ft_verifier_get_stats(c->verifier, &w->before);
        count_allocs(true);
    }
}

/* The same for runs, which go on by themselves from pass to pass. */
static void test_runs(void **state)
{
    enum { FEW = 8, RUN = 60 };
    window w = {0};
    (void)state;
    if (!COUNTS_ALLOCS) {
        print_message("SKIPPED: allocations cannot be counted in this build\n");
        skip();
    }
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.n_threads = 1});
    member *all = calloc(FEW, sizeof *all);
    test_text *ref = malloc(sizeof *ref);
    uint32_t own = count_allocs_of_ggml();
    for (uint32_t i = 0; i < FEW; i++)
        open_member(&all[i], v, i, ref);
    /* Passes of all shapes there will be. */
    for (uint32_t n = 1; n <= FEW; n++)
        run_all(v, all, n, 4);
    run_all(v, all, FEW, RUN);
    all[0].c.user = &w;
    all[0].c.on_part = look;
    w = (window){.from = all[0].c.n_verdicts + RUN / 3, .to = all[0].c.n_verdicts + RUN - 1};
    run_all(v, all, FEW, RUN);
    assert_int_equal(w.after.run_tokens - w.before.run_tokens, (RUN - 1 - RUN / 3) * FEW);
    uint32_t computed =
        (uint32_t)(w.after.passes.n + w.after.heads - w.before.passes.n - w.before.heads);
    if (w.calls != own * computed)
        fail_msg("%u calls in %u passes and heads, %u of each are ggml's; the first one for %zu "
                 "bytes",
                 w.calls, computed, own, count_allocs_first_bytes());
    all[0].c.on_part = NULL;
    for (uint32_t i = 0; i < FEW; i++)
        local_close(&all[i].c);
    ft_verifier_destroy(v);
    free(ref);
    free(all);
}

#if COUNTS_ALLOCS
static size_t bytes_in_use(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Waits until every prompt is in KV and the engine has nothing to do. */
static void wait_idle(ft_verifier *v, local_client *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        local_wait_opened(&c[i]);
    while (test_verifier_stats(v).chunks.sum < n * (IDLE_TOK - 1))
        ft_verifier_tick(v);
}

static void open_idle(ft_verifier *v, local_client *c, uint32_t from, uint32_t to)
{
    test_text *text = malloc(sizeof *text);
    for (uint32_t i = from; i < to; i++) {
        test_text_random(text, IDLE_TOK, i);
        const ft_msg_open open = local_open_msg(text, 0, i, 0);
        local_open(&c[i], v, &open, "me");
    }
    wait_idle(v, c, to);
    free(text);
}

/* What an idle session holds beside its KV blocks: handle, session, text, sequence. */
static void test_idle(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.n_threads = 1});
    local_client *c = calloc(2 * IDLE, sizeof *c);
    (void)state;
    open_idle(v, c, 0, IDLE);
    const size_t before = bytes_in_use();
    open_idle(v, c, IDLE, 2 * IDLE);
    const size_t bytes = (bytes_in_use() - before) / IDLE;
    print_message("%zu bytes an idle session\n", bytes);
    assert_true(bytes <= IDLE_BYTES);
    for (uint32_t i = 0; i < 2 * IDLE; i++)
        local_close(&c[i]);
    ft_verifier_destroy(v);
    free(c);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_runs),
#if COUNTS_ALLOCS
        cmocka_unit_test(test_idle)
#endif
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
