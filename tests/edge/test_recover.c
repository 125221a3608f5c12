// SPDX-License-Identifier: Apache-2.0
// Generations against a verifier made of a few lines, whose text is a pure function of position and
// last token, and which fails on demand: cut streams before and after a verdict, restarts, full
// servers, stale and lying verdicts. Whatever happens, the text is the same or the error is clear.
// Once with trees, from a draft source that guesses two tokens of three, once with runs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/edge.h"
#include "support/tiny_model.h"

#define FIRST_BYTE 3 /* token of byte 0 in the tiny vocabulary */
#define EOS        2

typedef enum fault {
    NONE,
    CUT,          /* the stream ends instead of an answer */
    CUT_ANSWERED, /* the round was answered, the answer is lost */
    RESTART,      /* the session is forgotten */
    FAIL,         /* the server fails at this session */
    TAKEN,        /* another stream resumed the session */
    CANCEL,       /* the link is cancelled from outside */
    STALE,        /* an older round's verdict comes first */
    AHEAD,        /* a verdict for a round to come */
    LONG,         /* a verdict with a wrong length */
    FOREIGN,      /* next is no token */
    EARLY,        /* a run that says it is over before it is */
    ENDLESS,      /* a run that says it goes on when it is over */
    SURPLUS,      /* more tokens than were asked for */
    OFF_PATH,     /* accepts a node that was not drafted */
    SILENT        /* never answers */
} fault;

typedef struct fake {
    uint64_t fingerprint;
    uint32_t end_at; /* length of the text at which EOS comes; 0: never */
    /* faults: at the n-th verdict that is made (from 1), over all streams */
    uint32_t fault_at;
    fault fault;
    bool again; /* from then on at every verdict */
    uint32_t verdicts;
    uint32_t runs_ahead;   /* runs that were asked for before the one before was read to its end */
    uint32_t refuse_opens; /* that many opens are refused, resumes too ... */
    uint32_t refuse_resumes; /* ... or that many resumes alone ... */
    ft_status refuse_code;   /* ... with this */
    uint32_t retry_after_ms;
    /* the one session */
    bool alive;
    uint32_t length, last_round, max_tokens, generated;
    bool ended, whole; /* the text; the recorded verdict is all of its round */
    int32_t last;
    ft_msg_verdict recorded;
    uint32_t opens, resumes, closes, cancels;
    char open_model[128];
} fake;

typedef struct fake_link {
    ft_link link;
    fake *f;
    ft_server_msg *queue[256];
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
    assert_true(l->n < 256);
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
    uint32_t *refuse = open->resume && f->refuse_resumes ? &f->refuse_resumes : &f->refuse_opens;
    if (*refuse > 0) {
        (*refuse)--;
        l->over = f->refuse_code;
        return;
    }
    if (open->resume &&
        (!f->alive || open->session.bytes[0] != 42 || open->secret.bytes[0] != 43)) {
        l->over = FT_NOT_FOUND;
        return;
    }
    if (open->resume && open->base != f->length && !f->whole) { /* as a run leaves it behind */
        f->alive = false;
        l->over = FT_PRECONDITION;
        return;
    }
    if (!open->resume) {
        assert_true(open->n_prompt > 0);
        f->alive = true;
        f->length = open->n_prompt;
        f->last = open->prompt[open->n_prompt - 1];
        f->last_round = f->generated = 0;
        f->ended = false;
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

/* One more token; false: the text has ended with it. */
static bool grow(fake *f)
{
    bool eos = f->end_at && f->length + 1 >= f->end_at;
    f->last = eos ? EOS : target(f->length, f->last);
    f->length++;
    f->generated++;
    f->recorded.length = f->length;
    if (eos)
        f->recorded.finish = FT_FINISH_STOP;
    else if (f->max_tokens && f->generated == f->max_tokens)
        f->recorded.finish = FT_FINISH_LENGTH;
    f->ended = f->recorded.finish != FT_FINISH_NONE;
    return !f->ended;
}

/* Makes the next verdict of the round: all of a tree's, one token of a run. */
static void verify(fake *f, const ft_msg_draft *draft, uint32_t run_left)
{
    int32_t at = -1;
    ft_msg_verdict *v = &f->recorded;
    *v = (ft_msg_verdict){.round = draft->round};
    f->last_round = draft->round;
    f->whole = true;
    bool on = grow(f);
    for (uint32_t i = 0; i < draft->n; i++)
        if (draft->parent[i] == at && draft->token[i] == f->last && on) {
            v->path[v->n_path++] = (uint32_t)(at = (int32_t)i);
            on = grow(f);
        } else if (draft->parent[i] == at && draft->token[i] == f->last) {
            v->path[v->n_path++] = i;
            return; /* ended inside the path */
        }
    v->next[v->n_next++] = f->last;
    v->more = run_left > 1 && on;
    f->whole = !v->more && run_left == (draft->run ? draft->run : 1);
}

/* false: the stream says nothing more. */
static bool answer(fake_link *l, const ft_msg_draft *draft, uint32_t run_left, fault now)
{
    fake *f = l->f;
    if (now != CUT && now != RESTART && now != SILENT && now != TAKEN && now != FAIL)
        verify(f, draft, run_left);
    if (now == RESTART)
        f->alive = false;
    if (now == CUT || now == CUT_ANSWERED || now == RESTART)
        l->over = FT_UNAVAILABLE;
    else if (now == FAIL)
        l->over = FT_INTERNAL, f->alive = false;
    else if (now == TAKEN)
        l->over = FT_ABORTED;
    else if (now == CANCEL)
        l->over = FT_CANCELLED;
    else if (now == SILENT)
        l->silent = true;
    if (l->over != FT_OK || l->silent)
        return false;
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
        v->n_path = 1, v->path[0] = 7;
    else if (now == EARLY)
        v->more = false;
    else if (now == ENDLESS)
        v->more = true;
    else if (now == SURPLUS)
        v->n_next += draft->n + draft->run + 1, v->length += draft->n + draft->run + 1;
    return true;
}

static void take_draft(fake_link *l, const ft_msg_draft *draft)
{
    fake *f = l->f;
    uint32_t run = draft->run ? draft->run : 1;
    assert_true(draft->n == 0 || draft->run == 0);
    if (f->ended && draft->n == 0 && draft->round == f->last_round + 1)
        return; /* sent ahead of the end */
    if (f->last_round > 0 && draft->round == f->last_round && f->whole) {
        push(l, FT_SERVER_VERDICT)->verdict = f->recorded;
        return;
    }
    assert_int_equal(draft->round, f->last_round + 1);
    assert_int_equal(draft->base, f->length);
    if (l->at < l->n && l->queue[l->n - 1]->kind == FT_SERVER_VERDICT) {
        assert_int_equal(draft->n, 0);
        f->runs_ahead++;
    }
    for (uint32_t left = draft->n ? 1 : run; left > 0; left--) {
        f->verdicts++;
        bool hit = f->verdicts == f->fault_at || (f->again && f->verdicts > f->fault_at);
        if (!answer(l, draft, left, hit ? f->fault : NONE) || f->ended)
            return;
    }
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
        take_draft(l, &msg->draft);
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

static const ft_link_vtable fake_vtable = {.send = fake_send,
                                           .recv = fake_recv,
                                           .retry_after_ms = fake_retry,
                                           .bytes = fake_bytes,
                                           .cancel = fake_cancel,
                                           .destroy = fake_destroy};

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

/* ---- drafts: the text's own tokens, but for every third, and besides each a wrong one ---- */

static void candidates(uint32_t length, int32_t last, ft_draft_children *out)
{
    int32_t right = target(length, last);
    out->n = 0;
    if (length % 3)
        out->at[out->n++] = (ft_draft_child){.token = right, .logp = -0.1f};
    out->at[out->n++] = (ft_draft_child){.token = FIRST_BYTE + 'A', .logp = -3};
}

static ft_status source_forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    for (size_t r = 0; r < n; r++) {
        ft_draft_request *q = &requests[r];
        ft_draft_source *s = q->source;
        q->status = FT_OK;
        if (q->parents) {
            for (uint32_t i = 0; i < q->n; i++)
                candidates(s->n_past + q->depths[i] + 1, q->tokens[i], &q->children[i]);
            s->n_pending += q->n;
        } else {
            s->n_past += q->n;
            if (q->children)
                candidates(s->n_past, q->tokens[q->n - 1], q->children);
        }
    }
    return FT_OK;
}

static ft_status source_commit(ft_draft_source *s, const uint32_t *path, uint32_t n_path,
                               const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    s->n_past += n_path;
    s->n_pending = n_keep;
    return FT_OK;
}

static void source_truncate(ft_draft_source *s, uint32_t n_past)
{
    s->n_past = n_past;
    s->n_pending = 0;
}

static uint32_t source_room(const ft_draft_source *s)
{
    return 4096 - s->n_past - s->n_pending;
}

static void source_destroy(ft_draft_source *s)
{
    free(s);
}

static const ft_draft_source_ops source_ops = {.destroy = source_destroy,
                                               .forward = source_forward,
                                               .commit = source_commit,
                                               .truncate = source_truncate,
                                               .room_tok = source_room};

static ft_status make_source(void *ctx, const ft_rule *rule, const ft_sampling *sampling,
                             ft_error *err, ft_draft_source **out)
{
    ft_draft_source *s = calloc(1, sizeof *s);
    assert_non_null(s);
    *s = (ft_draft_source){.ops = &source_ops,
                           .group = ctx,
                           .n_ctx = 256,
                           .max_text = 64,
                           .max_leaves = 64,
                           .total_tok = 4096};
    *out = s;
    return FT_OK;
}

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

/* A few looks take long, so that the controller measures rounds of all kinds. */
static int64_t look_us(void *ctx)
{
    run *r = ctx;
    return r->now_us += ft_rng_below(&r->looks, 8) ? 20 : 2000;
}

static void go(run *r)
{
    const int32_t prompt[] = {FIRST_BYTE + 'x', FIRST_BYTE + 'y'};
    r->f.fingerprint = ft_vocab_fingerprint(vocab);
    ft_rng_init(&r->looks, 100 * r->f.fault + r->f.fault_at);
    const ft_edge_opts opts = {
        .vocab = vocab,
        .source = {.ctx = &r->f, .open = fake_open, .info = fake_info},
        .drafts = {.ctx = r, .create = r->drafts ? make_source : NULL, .n_ctx = 256},
        .draft = ft_draft_params_tree(6, 3, 2),
        .automatic = r->automatic,
        .proactive = true,
        .clock = {.now_us = look_us, .ctx = r},
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
static void resume_after(bool drafts, fault kind, uint32_t resumes, uint32_t opens)
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
    resume_after(true, CUT, 1, 1);
    resume_after(false, CUT, 1, 1);
}

static void test_lost_verdict(void **state)
{
    resume_after(true, CUT_ANSWERED, 1, 1);
    resume_after(false, CUT_ANSWERED, 1, 2);
}

static void test_cancelled_link(void **state)
{
    resume_after(true, CANCEL, 1, 1);
    resume_after(false, CANCEL, 1, 2);
}

static void test_restarted_server_goes_on(void **state)
{
    resume_after(true, RESTART, 1, 2);
    resume_after(false, RESTART, 1, 2);
}

/* The controller's own mixture of trees, runs and shadows. */
static void test_automatic_with_losses(void **state)
{
    static const fault losses[] = {NONE, CUT, CUT_ANSWERED, RESTART, CANCEL};
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

/* A server's defect costs a text nothing, unless the text meets it again and again. */
static void test_a_failed_session_is_opened_anew(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        run r = {.max_tokens = 5, .f.fault = FAIL, .f.fault_at = 2, .drafts = drafts};
        go(&r);
        check_text(&r, 5, FT_FINISH_LENGTH);
        assert_int_equal(r.f.opens, 2);
        assert_int_equal(r.f.resumes, 0);
        r = (run){.max_tokens = 5, .f.fault = FAIL, .f.fault_at = 2, .f.again = true};
        r.drafts = drafts;
        go(&r);
        assert_int_equal(r.status, FT_INTERNAL);
        assert_int_equal(r.f.opens, 4);
    }
}

/* Two edges that take a session from each other would do so for ever. */
static void test_leaves_a_taken_session(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        run r = {.max_tokens = 5, .f.fault = TAKEN, .f.fault_at = 2, .drafts = drafts};
        go(&r);
        assert_int_equal(r.status, FT_ABORTED);
        assert_int_equal(r.f.opens, 1);
        assert_int_equal(r.f.resumes, 0);
        assert_int_equal(r.stats.reconnects, 0);
    }
    /* It is taken while the stream is broken, and again while it is resumed. */
    run r = {.max_tokens = 5, .f.fault = CUT, .f.fault_at = 2, .f.refuse_code = FT_ABORTED};
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

static void test_stale_verdict_is_skipped(void **state)
{
    run r = {.max_tokens = 5, .f.fault = STALE, .f.fault_at = 3};
    go(&r);
    check_text(&r, 5, FT_FINISH_LENGTH);
}

static void test_lying_server(void **state)
{
    static const fault lies[] = {AHEAD, LONG, FOREIGN, OFF_PATH, SURPLUS, ENDLESS, EARLY};
    for (int drafts = 0; drafts < 2; drafts++) {
        for (size_t i = 0; i < sizeof lies / sizeof lies[0] - (size_t)drafts; i++) {
            uint32_t at = lies[i] == ENDLESS && !drafts ? 5 : 3; /* the run's last verdict */
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

static int64_t stopped_us(void *ctx)
{
    return *(const int64_t *)ctx;
}

static void test_handshake(void **state)
{
    fake f = {.fingerprint = 1234};
    int64_t now_us = 1000000;
    ft_edge_opts opts = {.vocab = vocab,
                         .source = {.ctx = &f, .open = fake_open, .info = fake_info},
                         .clock = {stopped_us, &now_us}};
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
        cmocka_unit_test(test_lost_verdict),
        cmocka_unit_test(test_cancelled_link),
        cmocka_unit_test(test_restarted_server_goes_on),
        cmocka_unit_test(test_automatic_with_losses),
        cmocka_unit_test(test_reopen_names_the_model),
        cmocka_unit_test(test_every_round_cut),
        cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_a_failed_session_is_opened_anew),
        cmocka_unit_test(test_leaves_a_taken_session),
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
