// SPDX-License-Identifier: Apache-2.0
// Generations against a verifier made of a few lines, whose text is a pure function of position and
// last token, and which fails on demand: cut streams before and after a verdict, restarts, full
// servers, stale and lying verdicts. Whatever happens, the text is the same or the error is clear.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "edge/edge.h"
#include "support/tiny_gguf.h"

#define FIRST_BYTE 3 /* token of byte 0 in the tiny vocabulary */
#define EOS        2

typedef enum fault {
    NONE,
    CUT,          /* the stream ends instead of an answer */
    CUT_ANSWERED, /* the round was answered, the answer is lost */
    RESTART,      /* the session is forgotten */
    CANCEL,       /* the link is cancelled from outside */
    STALE,        /* an older round's verdict comes first */
    AHEAD,        /* a verdict for a round to come */
    LONG,         /* a verdict with a wrong length */
    FOREIGN,      /* next is no token */
    OFF_PATH,     /* accepts a node that was not drafted */
    SILENT        /* never answers */
} fault;

typedef struct fake {
    uint64_t fingerprint;
    uint32_t end_at; /* length of the text at which EOS comes; 0: never */
    /* faults: at the n-th draft that is sent (from 1), over all streams */
    uint32_t fault_at;
    fault fault;
    bool again; /* from then on at every draft */
    uint32_t drafts;
    uint32_t refuse_opens; /* that many opens are refused ... */
    ft_status refuse_code; /* ... with this */
    uint32_t retry_after_ms;
    /* the one session */
    bool alive;
    uint32_t length, last_round, max_tokens, generated;
    int32_t last;
    ft_msg_verdict recorded;
    uint32_t opens, resumes, closes, cancels;
    char open_model[128];
} fake;

typedef struct fake_link {
    ft_link link;
    fake *f;
    ft_server_msg *queue[8];
    size_t n, at;
    ft_status over; /* FT_OK: alive */
    bool silent;
} fake_link;

static int32_t target(uint32_t length, int32_t last)
{
    return FIRST_BYTE + 'a' + (int32_t)((length * 7 + (uint32_t)last * 3) % 26);
}

static ft_server_msg *push(fake_link *l, ft_server_kind kind)
{
    ft_server_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    msg->kind = kind;
    if (l->at == l->n)
        l->at = l->n = 0;
    assert_true(l->n < 8);
    l->queue[l->n++] = msg;
    return msg;
}

static void open_session(fake_link *l, const ft_msg_open *open)
{
    fake *f = l->f;
    assert_int_equal(open->protocol, FT_PROTOCOL);
    assert_true(open->vocab_fingerprint == f->fingerprint);
    memcpy(f->open_model, open->model, sizeof f->open_model);
    f->resumes += open->resume;
    f->opens += !open->resume;
    if (f->refuse_opens > 0) {
        f->refuse_opens--;
        l->over = f->refuse_code;
        return;
    }
    if (open->resume &&
        (!f->alive || open->session.bytes[0] != 42 || open->secret.bytes[0] != 43)) {
        l->over = FT_NOT_FOUND;
        return;
    }
    if (!open->resume) {
        assert_true(open->n_prompt > 0);
        f->alive = true;
        f->length = open->n_prompt;
        f->last = open->prompt[open->n_prompt - 1];
        f->last_round = f->generated = 0;
        f->max_tokens = open->max_tokens;
    }
    ft_msg_opened *opened = &push(l, FT_SERVER_OPENED)->opened;
    opened->session.bytes[0] = 42;
    opened->secret.bytes[0] = 43;
    opened->length = f->length;
    opened->last_round = f->last_round;
    opened->limits = (ft_msg_limits){.max_tree = 8, .max_context = 256};
    strcpy(opened->model, "fake");
}

static void verify(fake *f, const ft_msg_draft *draft)
{
    if (draft->round == f->last_round)
        return; /* recorded */
    assert_int_equal(draft->round, f->last_round + 1);
    assert_int_equal(draft->base, f->length);
    bool end = f->end_at && f->length + 1 >= f->end_at;
    f->last = end ? EOS : target(f->length, f->last);
    f->length++;
    f->generated++;
    f->last_round = draft->round;
    f->recorded = (ft_msg_verdict){
        .round = draft->round, .n_next = 1, .next = {f->last}, .length = f->length};
    if (end)
        f->recorded.finish = FT_FINISH_STOP;
    else if (f->max_tokens && f->generated == f->max_tokens)
        f->recorded.finish = FT_FINISH_LENGTH;
}

static void answer(fake_link *l, const ft_msg_draft *draft, fault now)
{
    fake *f = l->f;
    if (now != CUT && now != RESTART && now != SILENT)
        verify(f, draft);
    if (now == RESTART)
        f->alive = false;
    if (now == CUT || now == CUT_ANSWERED || now == RESTART)
        l->over = FT_UNAVAILABLE;
    else if (now == CANCEL)
        l->over = FT_CANCELLED;
    else if (now == SILENT)
        l->silent = true;
    if (l->over != FT_OK || l->silent)
        return;
    if (now == STALE) {
        ft_msg_verdict *old = &push(l, FT_SERVER_VERDICT)->verdict;
        *old = f->recorded;
        old->round--;
    }
    ft_msg_verdict *v = &push(l, FT_SERVER_VERDICT)->verdict;
    *v = f->recorded;
    if (now == AHEAD)
        v->round++;
    else if (now == LONG)
        v->length++;
    else if (now == FOREIGN)
        v->next[0] = 1 << 20;
    else if (now == OFF_PATH)
        v->n_path = 1, v->path[0] = 3;
}

static ft_status fake_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    fake_link *l = (fake_link *)link;
    fake *f = l->f;
    if (l->over != FT_OK)
        return FT_OK; /* errors show in recv */
    if (msg->kind == FT_CLIENT_OPEN) {
        open_session(l, &msg->open);
    } else if (msg->kind == FT_CLIENT_DRAFT) {
        f->drafts++;
        bool hit = f->drafts == f->fault_at || (f->again && f->drafts > f->fault_at);
        answer(l, &msg->draft, hit ? f->fault : NONE);
    } else {
        f->closes += msg->kind == FT_CLIENT_CLOSE;
        f->cancels += msg->kind == FT_CLIENT_CANCEL;
        f->alive = false;
        l->over = FT_CANCELLED;
    }
    return FT_OK;
}

static ft_status fake_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    fake_link *l = (fake_link *)link;
    *out = NULL;
    if (l->at < l->n) {
        *out = l->queue[l->at++];
        return FT_OK;
    }
    if (l->silent && l->over == FT_OK)
        return ft_error_set(err, FT_TIMEOUT, "nothing yet");
    assert_int_not_equal(l->over, FT_OK); /* nothing is awaited that does not come */
    return ft_error_set(err, l->over, "fake: %s", ft_status_text(l->over));
}

static uint32_t fake_retry(ft_link *link)
{
    return ((fake_link *)link)->f->retry_after_ms;
}

static void fake_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    *sent = 10;
    *received = 20;
}

static void fake_cancel(ft_link *link)
{
    ((fake_link *)link)->over = FT_CANCELLED;
}

static void fake_destroy(ft_link *link)
{
    fake_link *l = (fake_link *)link;
    while (l->at < l->n)
        free(l->queue[l->at++]);
    free(l);
}

static const ft_link_vtable fake_vtable = {fake_send,  fake_recv,   fake_retry,
                                           fake_bytes, fake_cancel, fake_destroy};

static ft_status fake_open(void *ctx, ft_error *err, ft_link **out)
{
    fake_link *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->link.vt = &fake_vtable;
    l->f = ctx;
    *out = &l->link;
    return FT_OK;
}

static ft_status fake_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    const fake *f = ctx;
    *out = (ft_msg_info){.protocol = FT_PROTOCOL, .vocab_fingerprint = f->fingerprint};
    out->limits = (ft_msg_limits){.max_tree = 8, .max_context = 256};
    return f->refuse_code == FT_IO ? ft_error_set(err, FT_IO, "no info") : FT_OK;
}

/* ---- fixture ---- */

static ft_vocab *vocab;

static int setup(void **state)
{
    ft_error err = {0};
    tiny_quiet();
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){0});
    ft_status status = ft_vocab_load(path, &err, &vocab);
    unlink(path);
    free(path);
    return status;
}

static int teardown(void **state)
{
    ft_vocab_destroy(vocab);
    return 0;
}

typedef struct run {
    fake f;
    uint32_t reconnect_ms, max_tokens;
    const char *const *stops;
    size_t n_stops;
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

static void go(run *r)
{
    const int32_t prompt[] = {FIRST_BYTE + 'x', FIRST_BYTE + 'y'};
    r->f.fingerprint = ft_vocab_fingerprint(vocab);
    const ft_edge_opts opts = {
        .vocab = vocab,
        .source = {.ctx = &r->f, .open = fake_open, .info = fake_info},
        .clock = ft_clock_monotonic(),
        .reconnect_ms = r->reconnect_ms,
    };
    const ft_gen_sink sink = {.ctx = r, .on_text = on_text, .cancelled = is_cancelled};
    const ft_gen_request request = {.prompt = prompt,
                                    .n_prompt = 2,
                                    .sampling = ft_sampling_default(),
                                    .max_tokens = r->max_tokens,
                                    .stops = r->stops,
                                    .n_stops = r->n_stops};
    ft_edge *edge = NULL;
    r->status = ft_edge_create(&opts, &r->err, &edge);
    assert_int_equal(r->status, FT_OK);
    r->status = ft_edge_generate(edge, &request, &sink, &r->err, &r->stats);
    ft_edge_destroy(edge);
}

static void expected(char *text, uint32_t n)
{
    int32_t last = FIRST_BYTE + 'y';
    for (uint32_t i = 0; i < n; i++) {
        last = target(2 + i, last);
        text[i] = (char)(last - FIRST_BYTE);
    }
    text[n] = 0;
}

static void check_text(const run *r, uint32_t n, ft_finish finish)
{
    char text[64];
    expected(text, n);
    if (r->status != FT_OK)
        fail_msg("%s", r->err.message);
    assert_string_equal(r->text, text);
    assert_int_equal(r->stats.finish, finish);
    assert_int_equal(r->stats.tokens, n);
    assert_int_equal(r->tokens, n);
}

/* ---- tests ---- */

static void test_plain(void **state)
{
    run r = {.max_tokens = 20};
    go(&r);
    check_text(&r, 20, FT_FINISH_LENGTH);
    assert_int_equal(r.stats.rounds, 20);
    assert_int_equal(r.stats.reconnects, 0);
    assert_int_equal(r.f.closes, 1);
    assert_int_equal(r.stats.bytes_sent, 10);
    assert_int_equal(r.stats.bytes_received, 20);
    assert_true(r.stats.ttft_us <= r.stats.total_us);
}

static void test_end_token_is_no_text(void **state)
{
    run r = {.max_tokens = 20, .f.end_at = 2 + 6};
    go(&r);
    check_text(&r, 5, FT_FINISH_STOP);
    assert_int_equal(r.stats.rounds, 6);
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

static void resume_after(fault kind, uint32_t resumes, uint32_t opens)
{
    for (uint32_t at = 1; at <= 12; at += 11) {
        run r = {.max_tokens = 12, .f.fault = kind, .f.fault_at = at};
        go(&r);
        check_text(&r, 12, FT_FINISH_LENGTH);
        assert_int_equal(r.f.resumes, resumes);
        assert_int_equal(r.f.opens, opens);
        assert_int_equal(r.stats.reconnects, resumes + opens - 1);
        assert_int_equal(r.stats.rounds, 12);
        assert_int_equal(r.stats.bytes_sent, 10 * (resumes + opens));
    }
}

static void test_cut_stream_resumes(void **state)
{
    resume_after(CUT, 1, 1);
}

static void test_lost_verdict_is_repeated(void **state)
{
    resume_after(CUT_ANSWERED, 1, 1);
}

static void test_cancelled_link_resumes(void **state)
{
    resume_after(CANCEL, 1, 1);
}

static void test_restarted_server_goes_on(void **state)
{
    resume_after(RESTART, 1, 2);
}

static void test_reopen_names_the_model(void **state)
{
    run r = {.max_tokens = 6, .f.fault = RESTART, .f.fault_at = 3};
    go(&r);
    check_text(&r, 6, FT_FINISH_LENGTH);
    assert_string_equal(r.f.open_model, "fake");
}

static void test_every_round_cut(void **state)
{
    /* Each loss comes with a verdict before it, so the patience starts anew each time. */
    run r = {.max_tokens = 5, .f.fault = CUT_ANSWERED, .f.fault_at = 1, .reconnect_ms = 200};
    for (uint32_t at = 1; at < 10; at += 2) {
        r = (run){.max_tokens = 5, .f.fault = CUT_ANSWERED, .f.fault_at = at, .reconnect_ms = 200};
        go(&r);
        check_text(&r, 5, FT_FINISH_LENGTH);
    }
}

static void test_gives_up(void **state)
{
    run r = {.max_tokens = 5, .f.fault = CUT, .f.fault_at = 2, .f.again = true, .reconnect_ms = 60};
    go(&r);
    assert_int_equal(r.status, FT_UNAVAILABLE);
    assert_non_null(strstr(r.err.message, "tried again"));
    assert_int_equal(r.stats.tokens, 1);
    assert_true(r.stats.reconnects >= 1);
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
}

static void test_refusal_is_final(void **state)
{
    run r = {.max_tokens = 5, .f.refuse_opens = 1, .f.refuse_code = FT_UNAUTHENTICATED};
    go(&r);
    assert_int_equal(r.status, FT_UNAUTHENTICATED);
    assert_int_equal(r.f.opens, 1);
}

static void test_stale_verdict_is_skipped(void **state)
{
    run r = {.max_tokens = 5, .f.fault = STALE, .f.fault_at = 3};
    go(&r);
    check_text(&r, 5, FT_FINISH_LENGTH);
}

static void test_lying_server(void **state)
{
    static const fault lies[] = {AHEAD, LONG, FOREIGN, OFF_PATH};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        run r = {.max_tokens = 5, .f.fault = lies[i], .f.fault_at = 3};
        go(&r);
        assert_int_equal(r.status, FT_CORRUPT);
        assert_non_null(strstr(r.err.message, "round"));
    }
}

static void test_cancel_while_waiting(void **state)
{
    run r = {.max_tokens = 5, .f.fault = SILENT, .f.fault_at = 3, .cancel_after = 20};
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
    const ft_edge_opts opts = {.vocab = vocab,
                               .source = {.ctx = &f, .open = fake_open, .info = fake_info},
                               .clock = ft_clock_monotonic()};
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

static void test_handshake(void **state)
{
    fake f = {.fingerprint = 1234};
    ft_edge_opts opts = {.vocab = vocab,
                         .source = {.ctx = &f, .open = fake_open, .info = fake_info},
                         .clock = ft_clock_monotonic()};
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
    assert_int_equal(ft_edge_health(edge, &err), FT_IO); /* asked again in two seconds only */
    ft_edge_destroy(edge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_end_token_is_no_text),
        cmocka_unit_test(test_stop_string),
        cmocka_unit_test(test_sink_stops),
        cmocka_unit_test(test_cut_stream_resumes),
        cmocka_unit_test(test_lost_verdict_is_repeated),
        cmocka_unit_test(test_cancelled_link_resumes),
        cmocka_unit_test(test_restarted_server_goes_on),
        cmocka_unit_test(test_reopen_names_the_model),
        cmocka_unit_test(test_every_round_cut),
        cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_full_server_is_waited_for),
        cmocka_unit_test(test_full_server_in_the_end),
        cmocka_unit_test(test_refusal_is_final),
        cmocka_unit_test(test_stale_verdict_is_skipped),
        cmocka_unit_test(test_lying_server),
        cmocka_unit_test(test_cancel_while_waiting),
        cmocka_unit_test(test_cancel_while_reconnecting),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_handshake),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
