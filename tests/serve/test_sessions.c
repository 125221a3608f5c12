// SPDX-License-Identifier: Apache-2.0
// The life of sessions (serve/lifecycle.c): handshake, resume, takeover, expiry, limits, cancel;
// and that whoever breaks the rules gets a clear error while others go on. Time is a manual clock.
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constraint.h"
#include "serve/record.h"
#include "support/gate.h"
#include "support/local_client.h"
#include "support/rule_toy.h"
#include "support/target.h"

typedef struct bench {
    ft_verifier *v;
    _Atomic int64_t now_us; /* the engine thread reads it at any time */
    test_text text;
    local_client c;
    test_edge edge, plain; /* drafts of all kinds; none at all */
} bench;

static bench *bench_create(ft_verifier_opts opts)
{
    bench *b = calloc(1, sizeof *b);
    b->now_us = 1000000;
    b->edge = test_edge_make(TEST_DRAFT_MIXED, NULL, target.n_vocab, 1);
    b->plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    opts.clock = test_shared_clock(&b->now_us);
    if (!opts.max_context)
        opts.max_context = 256;
    if (!opts.session_ttl_s)
        opts.session_ttl_s = 30;
    b->v = test_verifier_start(opts);
    test_text_random(&b->text, 20, 9);
    return b;
}

static void bench_destroy(bench *b)
{
    ft_verifier_destroy(b->v);
    free(b);
}

static ft_verifier_stats stats_of(bench *b)
{
    return test_verifier_stats(b->v);
}

static void open_first(bench *b)
{
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    local_open(&b->c, b->v, &open, "me");
    local_wait_opened(&b->c);
}

static bool go_round(bench *b)
{
    return local_round(&b->c, &b->edge, &b->text);
}

/* Opens with `open`, expects the refusal. */
static void expect_refused(bench *b, const ft_msg_open *open, const char *credential,
                           ft_status code, const char *words)
{
    local_client c;
    local_open(&c, b->v, open, credential);
    ft_status got = local_wait_gone(&c);
    assert_string_equal(ft_status_name(got), ft_status_name(code));
    if (!strstr(c.message, words))
        fail_msg("'%s' is not in '%s'", words, c.message);
    assert_int_equal(c.retry_after_ms > 0, code == FT_EXHAUSTED || code == FT_ABORTED);
    assert_int_equal(c.n_opened, 0);
    local_detach(&c);
}

/* What does not compile, and what the answer so far does not fit, is refused; the rest goes on. */
static void test_constraints(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    ft_msg_open o = local_open_msg(&b->text, 0, 1, 0);
    o.constraint = (ft_constraint){FT_CONSTRAINT_REGEX, "(", 1};
    if (!ft_constrain_available()) {
        expect_refused(b, &o, "me", FT_PRECONDITION, "without constraints");
    } else {
        expect_refused(b, &o, "me", FT_INVALID, "constraint: ");
        o.constraint = (ft_constraint){FT_CONSTRAINT_JSON_SCHEMA, "{\"not\":{}}", 10};
        expect_refused(b, &o, "me", FT_INVALID, "'not'");
        o.constraint = (ft_constraint){FT_CONSTRAINT_REGEX, "[ab]{3}", 7};
        const int32_t token = 0;
        o.prompt = &token;
        o.n_prompt = o.n_answer = 1;
        expect_refused(b, &o, "me", FT_INVALID, "the answer so far does not fit");
        o.n_answer = 0;
        local_client c;
        local_open(&c, b->v, &o, "me");
        local_wait_opened(&c);
        local_detach(&c);
    }
    bench_destroy(b);
}

/* A clock that goes on by 3 s each time that it is asked, so many times. */
typedef struct slow_clock {
    atomic_int left, looks;
} slow_clock;

static int64_t slow_now_us(void *ctx)
{
    slow_clock *c = ctx;
    int left = atomic_load(&c->left);
    while (left > 0 && !atomic_compare_exchange_weak(&c->left, &left, left - 1))
        ;
    const int n = left > 0 ? atomic_fetch_add(&c->looks, 1) : atomic_load(&c->looks);
    return 3000000 * (int64_t)n + ft_monotonic_us();
}

static int32_t letter_a(void)
{
    ft_tokens a = {0};
    assert_int_equal(ft_vocab_tokenize_text(target.vocab, "a", 1, NULL, NULL, &a), FT_OK);
    const int32_t token = a.id[0];
    ft_tokens_deinit(&a);
    return token;
}

static void test_late_constraint(void **state)
{
    slow_clock clock = {0};
    bench b = {.v = test_verifier_start((ft_verifier_opts){
                   .clock = {slow_now_us, &clock}, .max_context = 256, .session_ttl_s = 30})};
    test_text_random(&b.text, 20, 9);
    ft_msg_open o = local_open_msg(&b.text, 0, 1, 0);
    o.constraint = (ft_constraint){FT_CONSTRAINT_REGEX, "[ab]{3}", 7};
    if (ft_constrain_available()) {
        atomic_store(&clock.left, INT_MAX);
        expect_refused(&b, &o, "me", FT_ABORTED, "over 2 s to compile");
        const int32_t token = letter_a(); /* the text has begun: 15 s are not too much */
        local_client c;
        o.constraint.data = "[ab]{4}";
        o.prompt = &token;
        o.n_prompt = o.n_answer = 1;
        atomic_store(&clock.left, 5);
        local_open(&c, b.v, &o, "me");
        local_wait_opened(&c);
        local_detach(&c);
    }
    ft_verifier_destroy(b.v);
}

static void test_handshake(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    const ft_msg_open good = local_open_msg(&b->text, 0.8f, 1, 0);
    ft_msg_open o = good;
    int32_t ids[2] = {5, 320};
    (void)state;
    o.protocol = 2;
    expect_refused(b, &o, "me", FT_PRECONDITION, "protocol 2");
    o = good;
    o.vocab_fingerprint = ft_vocab_fingerprint(target.vocab) + 1;
    expect_refused(b, &o, "me", FT_PRECONDITION, "use a draft of the same family");
    o = good;
    strcpy(o.model, "another");
    expect_refused(b, &o, "me", FT_NOT_FOUND, "'another' is not served");
    o = good;
    o.rule = 1;
    expect_refused(b, &o, "me", FT_PRECONDITION, "rule 1 is not offered here: open with 0 (exact)");
    o = good;
    o.target = 1;
    expect_refused(b, &o, "me", FT_PRECONDITION, "must come from target 0000000000000001");
    o = good;
    o.sampling.temperature = -1;
    expect_refused(b, &o, "me", FT_INVALID, "temperature");
    o = good;
    o.sampling.top_k = UINT32_MAX;
    expect_refused(b, &o, "me", FT_INVALID, "top_k");
    o = good;
    o.n_prompt = 0;
    expect_refused(b, &o, "me", FT_INVALID, "prompt is empty");
    o.n_prompt = 2;
    o.prompt = ids;
    expect_refused(b, &o, "me", FT_INVALID, "prompt[1]");
    o = good;
    o.n_prompt = 256; /* as long as the context */
    expect_refused(b, &o, "me", FT_TOO_LARGE, "256 tokens");
    o.n_prompt = 1000000000; /* never read */
    expect_refused(b, &o, "me", FT_TOO_LARGE, "1000000000 tokens");
    o = good;
    o.top_logprobs = 21;
    expect_refused(b, &o, "me", FT_INVALID, "top_logprobs");
    o = good;
    o.slo_tokens_per_s = -1;
    expect_refused(b, &o, "me", FT_INVALID, "slo");
    o = good;
    o.vocab_fingerprint = ft_vocab_fingerprint(target.vocab);
    strcpy(o.model, ft_model_name(target.model));
    local_open(&b->c, b->v, &o, "me");
    local_wait_opened(&b->c);
    assert_int_equal(b->c.opened.length, 20);
    assert_int_equal(b->c.opened.limits.max_context, 256);
    assert_true(go_round(b));
    local_close(&b->c);
    assert_int_equal(stats_of(b).sessions, 0);
    bench_destroy(b);
}

/* One bad draft: how, with which answer. Another session lives on beside it. */
typedef struct bad_draft {
    void (*spoil)(ft_msg_draft *draft);
    ft_status code;
    const char *words;
} bad_draft;

static void future_round(ft_msg_draft *d)
{
    d->round += 1;
}

static void older_round(ft_msg_draft *d)
{
    d->round -= 2;
}

static void zero_round(ft_msg_draft *d)
{
    d->round = 0;
}

static void wrong_base(ft_msg_draft *d)
{
    d->base -= 1;
}

static void forward_parent(ft_msg_draft *d)
{
    d->n = 2;
    d->parent[0] = 1;
    d->parent[1] = -1;
}

static void own_parent(ft_msg_draft *d)
{
    d->n = 1;
    d->parent[0] = 0;
}

static void wild_parent(ft_msg_draft *d)
{
    d->n = 1;
    d->parent[0] = INT32_MIN;
}

static void foreign_id(ft_msg_draft *d)
{
    d->n = 1;
    d->token[0] = 320;
    d->parent[0] = -1;
}

static void negative_id(ft_msg_draft *d)
{
    d->n = 1;
    d->token[0] = -1;
    d->parent[0] = -1;
}

static void twins(ft_msg_draft *d)
{
    d->n = 2;
    d->token[0] = d->token[1] = 7;
    d->parent[0] = d->parent[1] = -1;
}

static void huge_tree(ft_msg_draft *d)
{
    d->n = 65;
    for (int i = 0; i < 65; i++) {
        d->token[i] = 7;
        d->parent[i] = i - 1;
    }
}

static void run_and_tree(ft_msg_draft *d)
{
    d->n = 1;
    d->token[0] = 7;
    d->parent[0] = -1;
    d->run = 2;
}

static void huge_run(ft_msg_draft *d)
{
    d->run = FT_WIRE_RUN_MAX + 1;
}

/* Opened says how long Open waited for the engine thread; that may be no time, which it calls 1. */
static void test_tells_the_wait(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    test_gate gate;
    open_first(b);
    assert_int_equal(b->c.opened.queue_us, 1);
    local_detach(&b->c);
    const ft_msg_open open = local_resume_msg(&b->c, b->text.n);
    test_gate_shut(&gate, b->v);
    local_open(&b->c, b->v, &open, "me");
    b->now_us += 7000;
    test_gate_open(&gate);
    local_wait_opened(&b->c);
    assert_int_equal(b->c.opened.queue_us, 7000);
    local_close(&b->c);
    bench_destroy(b);
}

static void test_bad_drafts(void **state)
{
    static const bad_draft all[] = {
        {future_round, FT_INVALID, "round 4 is not the next one (3)"},
        {older_round, FT_INVALID, "round 1 is not the next one (3)"},
        {zero_round, FT_INVALID, "round 0"},
        {wrong_base, FT_PRECONDITION, "extends"},
        {forward_parent, FT_INVALID, "parent of node 0"},
        {own_parent, FT_INVALID, "parent of node 0"},
        {wild_parent, FT_INVALID, "parent of node 0"},
        {foreign_id, FT_INVALID, "320"},
        {negative_id, FT_INVALID, "-1"},
        {twins, FT_INVALID, "equal siblings"},
        {huge_tree, FT_INVALID, "65 nodes"},
        {run_and_tree, FT_INVALID, "a run of 2 tokens with a tree of 1"},
        {huge_run, FT_INVALID, "a run of 1025 tokens"},
    };
    bench *b = bench_create((ft_verifier_opts){0});
    (void)state;
    open_first(b);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        test_text text;
        local_client c;
        test_text_random(&text, 30, i);
        ft_msg_open open = local_open_msg(&text, 0, 1, 0);
        local_open(&c, b->v, &open, "me");
        for (int round = 0; round < 2; round++)
            assert_true(local_round(&c, &b->plain, &text));
        test_draft(&c.draft, &b->plain, &text);
        all[i].spoil(&c.draft);
        local_send(c.session, &c.draft);
        assert_string_equal(ft_status_name(local_wait_gone(&c)), ft_status_name(all[i].code));
        if (!strstr(c.message, all[i].words))
            fail_msg("'%s' is not in '%s'", all[i].words, c.message);
        local_detach(&c);
        assert_int_equal(stats_of(b).sessions, 1);
        assert_true(go_round(b));
    }
    local_close(&b->c);
    ft_verifier_stats s = stats_of(b);
    assert_int_equal(s.kv_blocks_free, s.kv_blocks);
    bench_destroy(b);
}

/* A client that does not wait for verdicts loses its session; nothing queues up. */
static void test_flood(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    test_gate gate;
    (void)state;
    open_first(b);
    test_draft(&b->c.draft, &b->plain, &b->text);
    test_gate_shut(&gate, b->v);
    for (int i = 0; i < 1000; i++)
        local_send(b->c.session, &b->c.draft);
    test_gate_open(&gate);
    assert_int_equal(local_wait_gone(&b->c), FT_INVALID);
    local_detach(&b->c);
    assert_int_equal(stats_of(b).sessions, 0);
    bench_destroy(b);
}

static void test_repeated_round(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    (void)state;
    open_first(b);
    for (int i = 0; i < 5; i++) {
        assert_true(go_round(b));
        ft_msg_verdict first = b->c.verdict;
        uint64_t rounds = stats_of(b).rounds;
        uint32_t seen = b->c.n_verdicts;
        local_send(b->c.session, &b->c.draft);
        assert_true(local_wait_verdict(&b->c, seen + 1));
        assert_memory_equal(&first, &b->c.verdict, sizeof first);
        assert_int_equal(stats_of(b).rounds, rounds); /* not computed again */
    }
    local_close(&b->c);
    bench_destroy(b);
}

/* A stream gets a verdict again a few times, not for ever; that ends this session alone. */
static void test_repeats_end(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    local_client other;
    test_text text;
    (void)state;
    open_first(b);
    test_text_random(&text, 20, 7);
    const ft_msg_open open = local_open_msg(&text, 0, 7, 0);
    local_open(&other, b->v, &open, "me");
    assert_true(go_round(b));
    uint32_t n = 1;
    do
        local_send(b->c.session, &b->c.draft);
    while (n < 100 && local_wait_verdict(&b->c, ++n));
    assert_int_equal(n, 1 + FT_REPEATS_MAX + 1);
    assert_int_equal(b->c.gone, FT_INVALID);
    assert_non_null(strstr(b->c.message, "use its verdict"));
    local_detach(&b->c);
    assert_true(local_round(&other, &b->edge, &text));
    local_close(&other);
    bench_destroy(b);
}

/* Each new stream may ask again. */
static void test_repeats_of_a_resumed_session(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    (void)state;
    open_first(b);
    assert_true(go_round(b));
    const ft_msg_draft draft = b->c.draft;
    for (int i = 0; i < 3 * FT_REPEATS_MAX; i++) {
        const ft_msg_open resume = local_resume_msg(&b->c, draft.base);
        local_detach(&b->c);
        local_open(&b->c, b->v, &resume, "me");
        local_wait_opened(&b->c);
        local_send(b->c.session, &draft);
        assert_true(local_wait_verdict(&b->c, 1));
    }
    local_close(&b->c);
    bench_destroy(b);
}

static void test_ended_text_takes_no_round(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 1);
    (void)state;
    local_open(&b->c, b->v, &open, "me");
    assert_true(go_round(b));
    assert_int_equal(b->text.finish, FT_FINISH_LENGTH);
    ft_verifier_stats s = stats_of(b);
    assert_int_equal(s.kv_blocks_free, s.kv_blocks); /* its KV is free already */
    local_send(b->c.session, &b->c.draft);
    assert_true(local_wait_verdict(&b->c, 2)); /* the last verdict is still there */
    b->c.draft.round++;
    b->c.draft.base = b->text.n - 1;
    local_send(b->c.session, &b->c.draft);
    assert_int_equal(local_wait_gone(&b->c), FT_PRECONDITION);
    local_detach(&b->c);
    bench_destroy(b);
}

static void test_resume(void **state)
{
    bench *b = bench_create((ft_verifier_opts){.rules = rules_with_toy});
    (void)state;
    open_first(b);
    assert_true(go_round(b));
    ft_msg_opened was = b->c.opened;
    ft_msg_open resume = local_resume_msg(&b->c, b->text.n), wrong;
    local_detach(&b->c);
    assert_int_equal(stats_of(b).sessions_detached, 1);

    wrong = resume;
    wrong.secret.bytes[3] ^= 1;
    expect_refused(b, &wrong, "me", FT_NOT_FOUND, "open again with the text so far");
    wrong = resume;
    wrong.session.bytes[15] ^= 0x80;
    expect_refused(b, &wrong, "me", FT_NOT_FOUND, "session unknown");
    expect_refused(b, &resume, "you", FT_NOT_FOUND, "session unknown");
    expect_refused(b, &resume, "", FT_NOT_FOUND, "session unknown");
    wrong.base += 1;
    expect_refused(b, &wrong, "me", FT_NOT_FOUND, "session unknown");
    wrong = resume;
    wrong.rule = TOY_ID;
    expect_refused(b, &wrong, "me", FT_INVALID, "opened with rule 0 (exact), not with rule 900");
    assert_int_equal(stats_of(b).sessions_detached, 1); /* none of them took it, or ended it */

    local_open(&b->c, b->v, &resume, "me");
    local_wait_opened(&b->c);
    assert_memory_equal(&b->c.opened.session, &was.session, sizeof was.session);
    assert_int_equal(b->c.opened.length, b->text.n);
    assert_int_equal(b->c.opened.last_round, 1);
    assert_int_equal(stats_of(b).sessions_detached, 0);
    assert_true(go_round(b));
    local_close(&b->c);
    expect_refused(b, &resume, "me", FT_NOT_FOUND, "session unknown"); /* closed is closed */
    bench_destroy(b);
}

/* A text that is opened twice has one session, whether a stream still has the first one or not. */
static void test_opened_twice(void **state)
{
    (void)state;
    for (int attached = 0; attached < 2; attached++) {
        bench *b = bench_create((ft_verifier_opts){0});
        ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
        open.has_nonce = true;
        open.nonce.bytes[0] = 7;
        local_open(&b->c, b->v, &open, "me");
        local_wait_opened(&b->c);
        ft_msg_open resume = local_resume_msg(&b->c, b->text.n), other = open;
        local_client again, stranger, text;
        if (!attached)
            local_detach(&b->c);
        other.nonce.bytes[15] = 1;
        local_open(&text, b->v, &other, "me");
        local_open(&stranger, b->v, &open, "you");
        local_wait_opened(&text);
        local_wait_opened(&stranger);
        assert_int_equal(stats_of(b).sessions, 3);
        local_open(&again, b->v, &open, "me");
        local_wait_opened(&again);
        assert_int_equal(stats_of(b).sessions, 3);
        if (attached) {
            assert_int_equal(local_wait_gone(&b->c), FT_UNAVAILABLE);
            assert_non_null(strstr(b->c.message, "opened again"));
            local_detach(&b->c);
        }
        expect_refused(b, &resume, "me", FT_NOT_FOUND, "session unknown");
        assert_true(local_round(&again, &b->edge, &b->text));
        local_close(&again);
        local_close(&stranger);
        local_close(&text);
        bench_destroy(b);
    }
}

/* Texts without a nonce end no others. */
static void test_opened_without_nonce(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    local_client second;
    (void)state;
    local_open(&b->c, b->v, &open, "me");
    local_open(&second, b->v, &open, "me");
    local_wait_opened(&b->c);
    local_wait_opened(&second);
    assert_int_equal(stats_of(b).sessions, 2);
    local_close(&second);
    local_close(&b->c);
    bench_destroy(b);
}

/* Whose edge is at another length will be opened anew: the session ends, also under a stream that
 * it still has. */
static void test_resume_elsewhere(void **state)
{
    (void)state;
    for (int attached = 0; attached < 2; attached++) {
        bench *b = bench_create((ft_verifier_opts){0});
        open_first(b);
        assert_true(go_round(b));
        ft_msg_open resume = local_resume_msg(&b->c, b->text.n + 1);
        if (!attached)
            local_detach(&b->c);
        expect_refused(b, &resume, "me", FT_PRECONDITION, "open again with the text so far");
        assert_int_equal(stats_of(b).sessions, 0);
        if (attached) {
            assert_int_equal(local_wait_gone(&b->c), FT_ABORTED);
            local_detach(&b->c);
        }
        resume.base--;
        expect_refused(b, &resume, "me", FT_NOT_FOUND, "session unknown");
        bench_destroy(b);
    }
}

/* The verdict was made, but its stream was lost: the edge is one round behind. */
static void test_resume_behind(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    (void)state;
    open_first(b);
    assert_true(go_round(b));
    uint32_t behind = b->text.n;
    assert_true(go_round(b));
    ft_msg_draft draft = b->c.draft;
    ft_msg_verdict verdict = b->c.verdict;
    ft_msg_open resume = local_resume_msg(&b->c, behind);
    local_detach(&b->c);
    local_open(&b->c, b->v, &resume, "me");
    local_wait_opened(&b->c);
    assert_int_equal(b->c.opened.length, b->text.n);
    assert_int_equal(b->c.opened.last_round, 2);
    local_send(b->c.session, &draft);
    assert_true(local_wait_verdict(&b->c, 1));
    assert_int_equal(b->c.verdict.length, verdict.length);
    assert_memory_equal(b->c.verdict.path, verdict.path, sizeof verdict.path);
    assert_true(go_round(b));
    local_close(&b->c);
    bench_destroy(b);
}

static void test_takeover(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    local_client old;
    (void)state;
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    local_open(&old, b->v, &open, "me");
    local_wait_opened(&old);
    ft_msg_open resume = local_resume_msg(&old, b->text.n);
    expect_refused(b, &resume, "you", FT_NOT_FOUND, "session unknown");
    local_open(&b->c, b->v, &resume, "me");
    local_wait_opened(&b->c);
    assert_int_equal(local_wait_gone(&old), FT_ABORTED);
    test_draft(&old.draft, &b->plain, &b->text);
    local_send(old.session, &old.draft); /* too late, and without effect */
    local_detach(&old);
    assert_true(go_round(b));
    assert_int_equal(stats_of(b).sessions, 1);
    local_close(&b->c);
    assert_int_equal(stats_of(b).sessions, 0);
    bench_destroy(b);
}

static void test_ttl(void **state)
{
    bench *b = bench_create((ft_verifier_opts){.session_ttl_s = 30});
    (void)state;
    open_first(b);
    assert_true(go_round(b));
    ft_msg_open resume = local_resume_msg(&b->c, b->text.n);
    b->now_us += 1000000000; /* an attached session does not age without idle_s */
    assert_int_equal(stats_of(b).sessions, 1);
    local_detach(&b->c);
    assert_int_equal(stats_of(b).sessions_detached, 1);
    b->now_us += 29999999;
    assert_int_equal(stats_of(b).sessions, 1);
    assert_true(stats_of(b).kv_blocks_free < stats_of(b).kv_blocks);
    b->now_us += 1;
    ft_verifier_stats s = stats_of(b);
    assert_int_equal(s.sessions, 0);
    assert_int_equal(s.sessions_detached, 0);
    assert_int_equal(s.kv_blocks_free, s.kv_blocks);
    expect_refused(b, &resume, "me", FT_NOT_FOUND, "open again with the text so far");
    bench_destroy(b);
}

/* A client that sends nothing loses its stream, and resumes. One that waits for a verdict does not:
 * here the policy makes it wait. */
static void test_idle(void **state)
{
    enum { IDLE_S = 600, WAIT_S = 1000 };
    bench *b = bench_create((ft_verifier_opts){.idle_s = IDLE_S,
                                               .policy = &ft_sched_static,
                                               .static_batch = 8,
                                               .static_wait_us = WAIT_S * 1000000});
    local_client waits;
    (void)state;
    open_first(b);
    while (stats_of(b).chunks.sum < b->text.n - 1) { /* until its prompt is read */
    }
    b->now_us += IDLE_S * 1000000ll - 1;
    assert_int_equal(stats_of(b).sessions_detached, 0);
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    local_open(&waits, b->v, &open, "me");
    local_wait_opened(&waits);
    const ft_msg_draft draft = {.round = 1, .base = b->text.n};
    local_send(waits.session, &draft);
    ft_verifier_tick(b->v);
    b->now_us += 1;
    assert_int_equal(stats_of(b).sessions_detached, 1);
    assert_int_equal(local_wait_gone(&b->c), FT_UNAVAILABLE);
    assert_non_null(
        strstr(b->c.message, "no message came for 600 s: the session is kept for 30 s"));
    ft_msg_open resume = local_resume_msg(&b->c, b->text.n);
    local_detach(&b->c);
    local_open(&b->c, b->v, &resume, "me");
    local_wait_opened(&b->c);
    b->now_us += (WAIT_S - 1) * 1000000ll; /* the other one is idle again, and expires later */
    assert_int_equal(stats_of(b).sessions_detached, 1);
    assert_int_equal(waits.n_gone, 0);
    b->now_us += 1000000;
    ft_verifier_tick(b->v);
    assert_true(local_wait_verdict(&waits, 1));
    local_close(&waits);
    local_detach(&b->c);
    b->now_us += 30000000;
    assert_int_equal(stats_of(b).sessions, 0);
    bench_destroy(b);
}

static void test_session_limit(void **state)
{
    bench *b = bench_create((ft_verifier_opts){.max_sessions = 2});
    local_client second, third;
    (void)state;
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    open_first(b);
    local_open(&second, b->v, &open, "me");
    local_wait_opened(&second);
    expect_refused(b, &open, "me", FT_EXHAUSTED, "all 2 sessions of this server are in use");
    ft_msg_open resume = local_resume_msg(&second, b->text.n);
    local_detach(&second);
    local_open(&third, b->v, &open, "me"); /* a detached one gives way */
    local_wait_opened(&third);
    expect_refused(b, &resume, "me", FT_NOT_FOUND, "session unknown");
    assert_true(go_round(b));
    local_close(&third);
    local_close(&b->c);
    bench_destroy(b);
}

/* One client has a quarter of the places at most. Its own detached session gives way to its next
 * one. Only when all places are taken, those of others do. */
static void test_client_share(void **state)
{
    static const char *from[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"};
    bench *b = bench_create((ft_verifier_opts){.max_sessions = 8, .client_share = 25});
    local_client c[4][2], more;
    (void)state;
    const ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    for (int i = 0; i < 2; i++) {
        local_open_from(&c[0][i], b->v, &open, "me", from[0]);
        local_wait_opened(&c[0][i]);
    }
    local_open_from(&more, b->v, &open, "me", from[0]);
    assert_int_equal(local_wait_gone(&more), FT_EXHAUSTED);
    assert_non_null(strstr(more.message, "10.0.0.1 has 2 of the server's 8 sessions"));
    assert_true(more.retry_after_ms > 0);
    local_detach(&more);
    local_open_from(&c[1][0], b->v, &open, "me", from[1]); /* another is let in */
    local_wait_opened(&c[1][0]);
    ft_msg_open resume = local_resume_msg(&c[1][0], b->text.n);
    local_detach(&c[1][0]);
    ft_msg_open lost = local_resume_msg(&c[0][0], b->text.n);
    local_detach(&c[0][0]);
    local_open_from(&c[0][0], b->v, &open, "me", from[0]); /* in its own place, not the other's */
    local_wait_opened(&c[0][0]);
    expect_refused(b, &lost, "me", FT_NOT_FOUND, "session unknown");
    local_open_from(&c[1][0], b->v, &resume, "me", from[1]);
    local_wait_opened(&c[1][0]);
    for (int i = 1; i < 4; i++)
        for (int k = i == 1; k < 2; k++) {
            local_open_from(&c[i][k], b->v, &open, "me", from[i]);
            local_wait_opened(&c[i][k]);
        }
    expect_refused(b, &open, "me", FT_EXHAUSTED, "all 8 sessions of this server are in use");
    local_detach(&c[3][0]);
    local_open_from(&more, b->v, &open, "me", "10.0.0.5");
    local_wait_opened(&more);
    local_close(&more);
    assert_int_equal(stats_of(b).sessions, 7);
    for (int i = 0; i < 7; i++)
        local_close(i < 6 ? &c[i / 2][i % 2] : &c[3][1]);
    assert_int_equal(stats_of(b).sessions, 0);
    bench_destroy(b);
}

/* Far more text than the pool: refused with the time to come back, until some is closed. */
static void test_kv_admission(void **state)
{
    bench *b = bench_create((ft_verifier_opts){.kv_tok = 256 + 128});
    local_client c[64];
    uint32_t n = 0;
    (void)state;
    test_text_random(&b->text, 200, 1);
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    for (;; n++) {
        assert_true(n < 64);
        local_open(&c[n], b->v, &open, "me");
        (void)stats_of(b);
        if (c[n].n_gone)
            break;
    }
    assert_true(n >= 2); /* more than fit at once are let in */
    assert_int_equal(c[n].gone, FT_EXHAUSTED);
    assert_true(c[n].retry_after_ms > 0);
    local_detach(&c[n]);
    local_close(&c[0]);
    local_open(&c[0], b->v, &open, "me");
    local_wait_opened(&c[0]);
    for (uint32_t i = 0; i < n; i++)
        local_close(&c[i]);
    ft_verifier_stats s = stats_of(b);
    assert_int_equal(s.kv_blocks_free, s.kv_blocks);
    bench_destroy(b);
}

/* Cancel at any moment: amid the prompt, amid a round. */
static void test_cancel_frees(void **state)
{
    bench *b = bench_create((ft_verifier_opts){.max_batch_tok = 65});
    (void)state;
    test_text_random(&b->text, 250, 1);
    ft_msg_open open = local_open_msg(&b->text, 0, 1, 0);
    for (int i = 0; i < 40; i++) {
        local_open(&b->c, b->v, &open, "me");
        for (int tick = 0; tick < i % 5; tick++)
            ft_verifier_tick(b->v);
        test_draft(&b->c.draft, &b->edge, &b->text);
        b->c.draft.round = 1;
        local_send(b->c.session, &b->c.draft);
        for (int tick = 0; tick < i / 5; tick++)
            ft_verifier_tick(b->v);
        ft_vsession_close(b->c.session);
        assert_int_equal(local_wait_gone(&b->c), FT_OK);
        ft_verifier_stats s;
        ft_verifier_get_stats(b->v, &s); /* as of on_gone */
        assert_int_equal(s.sessions, 0);
        assert_int_equal(s.kv_blocks_free, s.kv_blocks);
        local_detach(&b->c);
    }
    bench_destroy(b);
}

/* A detached session's work is withdrawn. */
static void test_detach_withdraws(void **state)
{
    bench *b = bench_create((ft_verifier_opts){.max_batch_tok = 65});
    (void)state;
    test_text_random(&b->text, 250, 1);
    open_first(b);
    test_draft(&b->c.draft, &b->plain, &b->text);
    local_send(b->c.session, &b->c.draft);
    local_detach(&b->c);
    uint64_t rows = stats_of(b).passes.sum; /* of passes that were under way */
    for (int i = 0; i < 5; i++)
        assert_int_equal(stats_of(b).passes.sum, rows);
    bench_destroy(b); /* with a detached session in it */
}

static void test_destroy_tells_clients(void **state)
{
    bench *b = bench_create((ft_verifier_opts){0});
    (void)state;
    open_first(b);
    ft_verifier_destroy(b->v);
    assert_int_equal(b->c.n_gone, 1);
    assert_int_equal(b->c.gone, FT_UNAVAILABLE);
    pthread_cond_destroy(&b->c.changed);
    pthread_mutex_destroy(&b->c.lock);
    free(b);
}

static void test_bad_options(void **state)
{
    ft_verifier_opts opts = {.model = target.model, .vocab = target.vocab, .kv_tok = 64};
    ft_verifier *v = NULL;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_verifier_create(&opts, &err, &v), FT_INVALID);
    assert_null(v);
    opts.kv_tok = 0;
    opts.max_tree = FT_WIRE_TREE_MAX + 1;
    assert_int_equal(ft_verifier_create(&opts, &err, &v), FT_INVALID);
    opts.max_tree = 64;
    opts.max_batch_tok = 64;
    assert_int_equal(ft_verifier_create(&opts, &err, &v), FT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_late_constraint),
        cmocka_unit_test(test_tells_the_wait),
        cmocka_unit_test(test_bad_drafts),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_repeated_round),
        cmocka_unit_test(test_repeats_end),
        cmocka_unit_test(test_repeats_of_a_resumed_session),
        cmocka_unit_test(test_ended_text_takes_no_round),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_resume_elsewhere),
        cmocka_unit_test(test_opened_twice),
        cmocka_unit_test(test_opened_without_nonce),
        cmocka_unit_test(test_resume_behind),
        cmocka_unit_test(test_takeover),
        cmocka_unit_test(test_ttl),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_session_limit),
        cmocka_unit_test(test_client_share),
        cmocka_unit_test(test_kv_admission),
        cmocka_unit_test(test_cancel_frees),
        cmocka_unit_test(test_detach_withdraws),
        cmocka_unit_test(test_destroy_tells_clients),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
