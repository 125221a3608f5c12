// SPDX-License-Identifier: Apache-2.0
// Generations against a verifier that fails on demand (support/fake_verifier.h): cut streams before
// and after a verdict, restarts, full servers, stale and lying verdicts. Whatever happens, the text
// is the same or the error is clear. Once with trees, once with runs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/exchange.h"
#include "edge/rounds.h"
#include "support/fake_verifier.h"
#include "support/tiny_model.h"

/* ---- fixture ---- */

static ft_vocab *vocab;

static int setup(void **state)
{
    (void)state;
    tiny_quiet();
    vocab = tiny_vocab();
    return 0;
}

static int teardown(void **state)
{
    ft_vocab_destroy(vocab);
    return 0;
}

typedef struct run {
    fake f;
    /* The edge's clock. Each look at it takes some time, pauses take none. */
    int64_t now_us;
    ft_rng looks;
    bool drafts;    /* speculate every round; else runs */
    bool automatic; /* whichever the controller wants */
    bool mends;     /* looks at the stream before each wait */
    uint32_t reconnect_ms, max_tokens;
    const char *const *stops;
    size_t n_stops;
    const ft_penalties *penalties;
    ft_constraint constraint;
    uint32_t cancel_after; /* asks of the sink; 0: never */
    size_t stop_after;     /* bytes of text after which on_text says no; 0: never */
    /* out */
    ft_status status;
    ft_error err;
    ft_gen_stats stats;
    char text[512];
    size_t n_text;
    uint32_t asks, tokens;
} run;

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    run *r = ctx;
    assert_true(r->n_text + n < sizeof r->text);
    memcpy(r->text + r->n_text, text, n);
    r->n_text += n;
    r->text[r->n_text] = 0;
    r->tokens += (uint32_t)n_tokens;
    return !r->stop_after || r->n_text < r->stop_after;
}

static bool is_cancelled(void *ctx)
{
    run *r = ctx;
    return ++r->asks > r->cancel_after && r->cancel_after;
}

/* A few looks take long, so that the controller measures rounds of all kinds. */
static int64_t look_us(void *ctx)
{
    run *r = ctx;
    return r->now_us += ft_rng_below(&r->looks, 8) ? 20 : 2000;
}

/* A generation as a batch takes it: sent, mended, answered. Between the last two nothing is lost,
 * so all that is opened again was opened by mending. */
static ft_status go_by_hand(run *r, ft_edge *edge, const ft_gen_request *request,
                            const ft_gen_sink *sink)
{
    ft_gen *gen;
    assert_int_equal(ft_gen_create(edge, request, sink, &r->stats, &r->err, &gen), FT_OK);
    ft_status status = ft_gen_open(gen, &r->err);
    if (r->drafts)
        ft_drafting_start(&gen->drafting);
    while (status == FT_OK && r->stats.finish == FT_FINISH_NONE) {
        if (gen->state == FT_GEN_READY) {
            ft_gens_prepare(&gen, 1);
            status = ft_gen_send(gen, &r->err);
        }
        for (int i = 0; i < 3 && status == FT_OK; i++)
            status = ft_gen_mend(gen, &r->err);
        const uint64_t reconnects = r->stats.reconnects;
        if (status == FT_OK)
            status = ft_gen_answer(gen, &r->err);
        assert_int_equal(r->stats.reconnects, reconnects);
    }
    ft_gen_end(gen, status);
    ft_gen_destroy(gen);
    return status;
}

static void go(run *r)
{
    const int32_t prompt[] = {FAKE_FIRST_BYTE + 'x', FAKE_FIRST_BYTE + 'y'};
    r->f.fingerprint = ft_vocab_fingerprint(vocab);
    ft_rng_init(&r->looks, 100 * r->f.fault + r->f.fault_at);
    const ft_edge_opts opts = {
        .vocab = vocab,
        .source = fake_source(&r->f),
        .drafts = r->drafts ? fake_drafts() : (ft_draft_source_factory){0},
        .draft = ft_draft_params_tree(6, 3, 2),
        .automatic = r->automatic,
        .proactive = true,
        .clock = {.now_us = look_us, .ctx = r},
        .reconnect_ms = r->reconnect_ms,
    };
    const ft_gen_sink sink = {.ctx = r, .on_text = on_text, .cancelled = is_cancelled};
    ft_sampling sampling = ft_sampling_default();
    sampling.penalties = r->penalties;
    sampling.answer_at = 2;
    const ft_gen_request request = {.prompt = prompt,
                                    .n_prompt = 2,
                                    .sampling = sampling,
                                    .constraint = r->constraint,
                                    .max_tokens = r->max_tokens,
                                    .stops = r->stops,
                                    .n_stops = r->n_stops};
    ft_edge *edge = NULL;
    r->status = ft_edge_create(&opts, &r->err, &edge);
    assert_int_equal(r->status, FT_OK);
    r->status = r->mends ? go_by_hand(r, edge, &request, &sink)
                         : ft_edge_generate(edge, &request, &sink, &r->err, &r->stats);
    ft_edge_destroy(edge);
}

static void expected(char *text, uint32_t n)
{
    int32_t last = FAKE_FIRST_BYTE + 'y';
    for (uint32_t i = 0; i < n; i++) {
        last = fake_token(2 + i, last);
        text[i] = (char)(last - FAKE_FIRST_BYTE);
    }
    text[n] = 0;
}

static void check_text(const run *r, uint32_t n, ft_finish finish)
{
    char text[256];
    expected(text, n);
    if (r->status != FT_OK)
        fail_msg("%s", r->err.message);
    assert_string_equal(r->text, text);
    assert_int_equal(r->stats.finish, finish);
    assert_int_equal(r->stats.tokens, n);
    assert_int_equal(r->tokens, n);
}

/* ---- tests ---- */

static void test_runs(void **state)
{
    run r = {.max_tokens = 150};
    go(&r);
    check_text(&r, 150, FT_FINISH_LENGTH);
    assert_int_equal(r.stats.rounds, 0);
    assert_int_equal(r.stats.run_tokens, 150);
    assert_in_range(r.stats.runs, 2, 20);
    assert_int_equal(r.f.runs_ahead, r.stats.runs - 1);
    assert_int_equal(r.stats.reconnects, 0);
    assert_int_equal(r.f.closes, 1);
    assert_int_equal(r.stats.bytes_sent, 10);
    assert_int_equal(r.stats.bytes_received, 20);
    assert_true(r.stats.ttft.sum_us <= r.stats.total_us);
}

static void test_trees(void **state)
{
    run r = {.max_tokens = 60, .drafts = true};
    go(&r);
    check_text(&r, 60, FT_FINISH_LENGTH);
    assert_in_range(r.stats.rounds, 20, 40);
    assert_true(r.stats.run_tokens <= 1); /* nothing is drafted for the last token */
    assert_int_equal(r.stats.accepted + r.stats.rounds + r.stats.run_tokens, 60);
    assert_true(r.stats.depth_sum >= r.stats.rounds);
    assert_true(r.stats.forwards > 0);
}

static void test_end_token_is_no_text(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        run r = {.max_tokens = 20, .f.end_at = 2 + 6, .drafts = drafts};
        go(&r);
        check_text(&r, 5, FT_FINISH_STOP);
    }
}

static void test_stop_string(void **state)
{
    char text[32], stop[3];
    expected(text, 20);
    memcpy(stop, text + 7, 2);
    stop[2] = 0;
    const char *stops[] = {"##", stop};
    run r = {.max_tokens = 20, .stops = stops, .n_stops = 2};
    go(&r);
    assert_int_equal(r.status, FT_OK);
    assert_int_equal(r.stats.finish, FT_FINISH_STOP);
    *strstr(text, stop) = 0;
    assert_string_equal(r.text, text);
    assert_int_equal(r.f.closes, 1);
}

static void test_sink_stops(void **state)
{
    run r = {.max_tokens = 20, .stop_after = 4};
    go(&r);
    check_text(&r, 4, FT_FINISH_STOP);
    assert_int_equal(r.f.closes, 1);
}

/* Each third verdict in turn is hit. A broken run of several tokens is resumed where the server has
 * gone no further, and else ended by that. */
static void resume_after(bool drafts, fake_fault kind, uint32_t resumes, uint32_t opens)
{
    run plain = {.max_tokens = 24, .drafts = drafts};
    go(&plain);
    const uint32_t most = drafts ? plain.stats.rounds : 24;
    for (uint32_t at = 1; at < most; at += 3) {
        run r = {.max_tokens = 24, .f.fault = kind, .f.fault_at = at, .drafts = drafts};
        go(&r);
        check_text(&r, 24, FT_FINISH_LENGTH);
        assert_int_equal(r.f.resumes, resumes);
        assert_int_equal(r.f.opens, opens);
        assert_int_equal(r.stats.reconnects, resumes + opens - 1);
        assert_int_equal(r.stats.accepted + r.stats.rounds + r.stats.run_tokens, 24);
        assert_int_equal(r.stats.bytes_sent, 10 * (resumes + opens));
    }
}

static void test_cut_stream(void **state)
{
    resume_after(true, FAKE_CUT, 1, 1);
    resume_after(false, FAKE_CUT, 1, 1);
}

static void test_lost_verdict(void **state)
{
    resume_after(true, FAKE_CUT_ANSWERED, 1, 1);
    resume_after(false, FAKE_CUT_ANSWERED, 1, 2);
}

/* What is found lost is opened again before anybody waits for it, and a message that was read
 * meanwhile is not lost. Behind the first verdict, as Opened hides what comes behind it. */
static void test_mended(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++)
        for (uint32_t at = 2; at <= 4; at++) {
            run r = {.drafts = drafts,
                     .mends = true,
                     .max_tokens = 24,
                     .f = {.fault = FAKE_CUT, .fault_at = at}};
            go(&r);
            check_text(&r, 24, FT_FINISH_LENGTH);
            assert_int_equal(r.f.resumes, 1);
            assert_int_equal(r.stats.reconnects, 1);
        }
}

static void test_cancelled_link(void **state)
{
    resume_after(true, FAKE_CANCEL, 1, 1);
    resume_after(false, FAKE_CANCEL, 1, 2);
}

static void test_restarted_server_goes_on(void **state)
{
    resume_after(true, FAKE_RESTART, 1, 2);
    resume_after(false, FAKE_RESTART, 1, 2);
}

/* The controller's own mixture of trees, runs and shadows. */
static void test_automatic_with_losses(void **state)
{
    static const fake_fault losses[] = {FAKE_NONE, FAKE_CUT, FAKE_CUT_ANSWERED, FAKE_RESTART,
                                        FAKE_CANCEL};
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        for (uint32_t at = 1; at < 12; at += 2) {
            run r = {.max_tokens = 60,
                     .drafts = true,
                     .automatic = true,
                     .f.fault = losses[i],
                     .f.fault_at = at};
            go(&r);
            check_text(&r, 60, FT_FINISH_LENGTH);
            assert_int_equal(r.stats.reconnects, r.f.resumes + r.f.opens - 1);
            assert_int_equal(r.stats.accepted + r.stats.rounds + r.stats.run_tokens, 60);
        }
    }
}

static void test_reopen_names_the_model(void **state)
{
    run r = {.max_tokens = 6, .f.fault = FAKE_RESTART, .f.fault_at = 3};
    go(&r);
    check_text(&r, 6, FT_FINISH_LENGTH);
    assert_string_equal(r.f.open_model, "fake");
    assert_int_equal(r.f.opens, 2);
    assert_int_equal(r.f.nonces, 1); /* of this text */
    assert_true(r.f.prefix != 0);
}

/* A proxy may reset a resume instead of passing NOT_FOUND on: asking again would never end. */
static void test_resume_is_reset(void **state)
{
    run r = {.max_tokens = 6,
             .f.fault = FAKE_CUT,
             .f.fault_at = 3,
             .f.refuse_resumes = 1,
             .f.refuse_code = FT_CANCELLED};
    go(&r);
    check_text(&r, 6, FT_FINISH_LENGTH);
    assert_int_equal(r.f.resumes, 1);
    assert_int_equal(r.f.opens, 2);
}

static void test_every_round_cut(void **state)
{
    /* Each loss comes with a verdict before it, so the patience starts anew each time. */
    run r = {.max_tokens = 5, .f.fault = FAKE_CUT_ANSWERED, .f.fault_at = 1, .reconnect_ms = 200};
    for (uint32_t at = 1; at < 10; at += 2) {
        r = (run){
            .max_tokens = 5, .f.fault = FAKE_CUT_ANSWERED, .f.fault_at = at, .reconnect_ms = 200};
        go(&r);
        check_text(&r, 5, FT_FINISH_LENGTH);
    }
}

static void test_gives_up(void **state)
{
    run r = {
        .max_tokens = 5, .f.fault = FAKE_CUT, .f.fault_at = 2, .f.again = true, .reconnect_ms = 60};
    go(&r);
    assert_int_equal(r.status, FT_UNAVAILABLE);
    assert_non_null(strstr(r.err.message, "tried again"));
    assert_int_equal(r.stats.tokens, 1);
    assert_true(r.stats.reconnects >= 1);
}

/* A server's defect costs a text nothing, unless the text meets it again and again. */
static void test_a_failed_session_is_opened_anew(void **state)
{
    static const fake_fault faults[] = {FAKE_FAIL, FAKE_STRANGE};
    for (int i = 0; i < 4; i++) {
        const fake_fault kind = faults[i / 2];
        run r = {.max_tokens = 5, .f.fault = kind, .f.fault_at = 2, .drafts = i % 2};
        go(&r);
        check_text(&r, 5, FT_FINISH_LENGTH);
        assert_int_equal(r.f.opens, 2);
        assert_int_equal(r.f.resumes, 0);
        r = (run){.max_tokens = 5, .f.fault = kind, .f.fault_at = 2, .f.again = true};
        r.drafts = i % 2;
        go(&r);
        assert_int_equal(r.status, kind == FAKE_FAIL ? FT_INTERNAL : FT_PRECONDITION);
        assert_int_equal(r.f.opens, 4);
    }
}

/* Two edges that take a session from each other would do so for ever. */
static void test_leaves_a_taken_session(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        run r = {.max_tokens = 5, .f.fault = FAKE_TAKEN, .f.fault_at = 2, .drafts = drafts};
        go(&r);
        assert_int_equal(r.status, FT_ABORTED);
        assert_int_equal(r.f.opens, 1);
        assert_int_equal(r.f.resumes, 0);
        assert_int_equal(r.stats.reconnects, 0);
    }
    /* It is taken while the stream is broken, and again while it is resumed. */
    run r = {.max_tokens = 5, .f.fault = FAKE_CUT, .f.fault_at = 2, .f.refuse_code = FT_ABORTED};
    r.f.refuse_resumes = 1;
    go(&r);
    assert_int_equal(r.status, FT_ABORTED);
    assert_int_equal(r.f.opens, 1);
    assert_int_equal(r.f.resumes, 1);
}

static void test_full_server_is_waited_for(void **state)
{
    run r = {
        .max_tokens = 5, .f.refuse_opens = 2, .f.refuse_code = FT_EXHAUSTED, .f.retry_after_ms = 1};
    go(&r);
    check_text(&r, 5, FT_FINISH_LENGTH);
    assert_int_equal(r.f.opens, 3);
}

static void test_full_server_in_the_end(void **state)
{
    run r = {.max_tokens = 5,
             .f.refuse_opens = 1,
             .f.refuse_code = FT_EXHAUSTED,
             .f.retry_after_ms = 5000,
             .reconnect_ms = 100};
    go(&r);
    assert_int_equal(r.status, FT_EXHAUSTED);
    assert_non_null(strstr(r.err.message, "fake: resource exhausted"));
    assert_true(r.stats.retry_after_ms > 0);
}

static void test_refusal_is_final(void **state)
{
    run r = {.max_tokens = 5, .f.refuse_opens = 1, .f.refuse_code = FT_UNAUTHENTICATED};
    go(&r);
    assert_int_equal(r.status, FT_UNAUTHENTICATED);
    assert_int_equal(r.f.opens, 1);
}

/* An older server would ignore penalties: the text is refused, and says what it needs. */
static void test_server_without_penalties(void **state)
{
    const ft_penalties penalties = {.presence = 1};
    run r = {.max_tokens = 5, .penalties = &penalties};
    go(&r);
    assert_int_equal(r.status, FT_UNSUPPORTED);
    assert_non_null(strstr(r.err.message, "foretoken 0.1.0 or later"));
    assert_int_equal(r.tokens, 0);
}

static void test_server_without_constraints(void **state)
{
    run r = {.max_tokens = 5, .constraint = {.kind = FT_CONSTRAINT_JSON_OBJECT}};
    go(&r);
    assert_int_equal(r.status, FT_UNSUPPORTED);
    assert_non_null(strstr(r.err.message, "foretoken 0.1.0 or later"));
    assert_int_equal(r.tokens, 0);
}

/* A constraint that the server has not compiled in time: the client tries again, if it wants to. */
static void test_late_constraint(void **state)
{
    run r = {.max_tokens = 5,
             .f.refuse_opens = 1,
             .f.refuse_code = FT_ABORTED,
             .f.retry_after_ms = 1000};
    go(&r);
    assert_int_equal(r.status, FT_ABORTED);
    assert_int_equal(r.f.opens, 1);
    assert_int_equal(r.stats.retry_after_ms, 1000);
}

static void test_stale_verdict_is_skipped(void **state)
{
    run r = {.max_tokens = 5, .f.fault = FAKE_STALE, .f.fault_at = 3};
    go(&r);
    check_text(&r, 5, FT_FINISH_LENGTH);
}

static void test_lying_server(void **state)
{
    static const fake_fault lies[] = {FAKE_AHEAD,   FAKE_LONG,    FAKE_FOREIGN, FAKE_OFF_PATH,
                                      FAKE_SURPLUS, FAKE_ENDLESS, FAKE_EARLY};
    for (int drafts = 0; drafts < 2; drafts++) {
        for (size_t i = 0; i < sizeof lies / sizeof lies[0] - (size_t)drafts; i++) {
            uint32_t at = lies[i] == FAKE_ENDLESS && !drafts ? 5 : 3; /* the run's last verdict */
            run r = {.max_tokens = drafts ? 12 : 5,
                     .drafts = drafts,
                     .f.fault = lies[i],
                     .f.fault_at = at};
            go(&r);
            assert_int_equal(r.status, FT_CORRUPT);
            assert_non_null(strstr(r.err.message, "round"));
        }
    }
}

static void test_cancel_while_waiting(void **state)
{
    run r = {.max_tokens = 5, .f.fault = FAKE_SILENT, .f.fault_at = 3, .cancel_after = 20};
    go(&r);
    assert_int_equal(r.status, FT_CANCELLED);
    assert_int_equal(r.f.cancels, 1);
    assert_int_equal(r.stats.tokens, 2);
}

static void test_cancel_while_reconnecting(void **state)
{
    run r = {.max_tokens = 5,
             .f.refuse_opens = 1000,
             .f.refuse_code = FT_UNAVAILABLE,
             .cancel_after = 5,
             .reconnect_ms = 1000000};
    go(&r);
    assert_int_equal(r.status, FT_CANCELLED);
}

static void test_bad_requests(void **state)
{
    int32_t prompt[300] = {0};
    fake f = {.fingerprint = ft_vocab_fingerprint(vocab)};
    const ft_edge_opts opts = {
        .vocab = vocab, .source = fake_source(&f), .clock = ft_clock_monotonic()};
    const char *empty[] = {""};
    const ft_gen_sink sink = {0};
    ft_gen_request request = {.prompt = prompt, .n_prompt = 256, .sampling = ft_sampling_default()};
    ft_gen_stats stats;
    ft_error err = {0};
    ft_edge *edge = NULL;
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_OK);
    assert_int_equal(ft_edge_generate(edge, &request, &sink, &err, &stats), FT_INVALID);
    assert_string_equal(err.message, "edge: the prompt has 256 tokens, the context holds 256");
    request.n_prompt = 0;
    assert_int_equal(ft_edge_generate(edge, &request, &sink, &err, &stats), FT_INVALID);
    request.n_prompt = 2;
    prompt[1] = ft_vocab_size(vocab);
    assert_int_equal(ft_edge_generate(edge, &request, &sink, &err, &stats), FT_INVALID);
    assert_non_null(strstr(err.message, "prompt token 1"));
    prompt[1] = 5;
    request.stops = empty;
    request.n_stops = 1;
    assert_int_equal(ft_edge_generate(edge, &request, &sink, &err, &stats), FT_INVALID);
    request.n_stops = 0;
    request.sampling.temperature = -1;
    assert_int_equal(ft_edge_generate(edge, &request, &sink, &err, &stats), FT_INVALID);
    assert_int_equal(f.opens, 0);
    ft_edge_destroy(edge);
}

static int64_t stopped_us(void *ctx)
{
    return *(const int64_t *)ctx;
}

static void test_handshake(void **state)
{
    fake f = {.fingerprint = 1234};
    int64_t now_us = 1000000;
    ft_edge_opts opts = {.vocab = vocab, .source = fake_source(&f), .clock = {stopped_us, &now_us}};
    ft_error err = {0};
    ft_edge *edge = (ft_edge *)&f;
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_PRECONDITION);
    assert_null(edge);
    assert_non_null(strstr(err.message, "-md"));
    f.fingerprint = ft_vocab_fingerprint(vocab);
    f.refuse_code = FT_IO;
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_IO);
    f.refuse_code = FT_OK;
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_OK);
    f.refuse_code = FT_IO;
    assert_int_equal(ft_edge_health(edge, &err), FT_IO);
    f.refuse_code = FT_OK;
    now_us += 1999999;
    assert_int_equal(ft_edge_health(edge, &err), FT_IO); /* asked again in two seconds only */
    now_us++;
    assert_int_equal(ft_edge_health(edge, &err), FT_OK);
    ft_edge_destroy(edge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_end_token_is_no_text),
        cmocka_unit_test(test_stop_string),
        cmocka_unit_test(test_sink_stops),
        cmocka_unit_test(test_cut_stream),
        cmocka_unit_test(test_mended),
        cmocka_unit_test(test_lost_verdict),
        cmocka_unit_test(test_cancelled_link),
        cmocka_unit_test(test_restarted_server_goes_on),
        cmocka_unit_test(test_automatic_with_losses),
        cmocka_unit_test(test_reopen_names_the_model),
        cmocka_unit_test(test_resume_is_reset),
        cmocka_unit_test(test_every_round_cut),
        cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_a_failed_session_is_opened_anew),
        cmocka_unit_test(test_leaves_a_taken_session),
        cmocka_unit_test(test_full_server_is_waited_for),
        cmocka_unit_test(test_full_server_in_the_end),
        cmocka_unit_test(test_refusal_is_final),
        cmocka_unit_test(test_server_without_penalties),
        cmocka_unit_test(test_server_without_constraints),
        cmocka_unit_test(test_late_constraint),
        cmocka_unit_test(test_stale_verdict_is_skipped),
        cmocka_unit_test(test_lying_server),
        cmocka_unit_test(test_cancel_while_waiting),
        cmocka_unit_test(test_cancel_while_reconnecting),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_handshake),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
