// SPDX-License-Identifier: Apache-2.0
// The state machines of a generation, of its stream and of its drafting: every event in every
// state, legal or refused. Then one generation step by step (edge/rounds.c, edge/exchange.c) over a
// link whose messages the test writes: its state behind each verdict and each loss, and what it
// sends.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "edge/exchange.h"
#include "edge/generation.h"
#include "edge/rounds.h"
#include "support/tiny_model.h"

/* ---- tables ---- */

typedef struct edge {
    int from, event, to;
} edge;

static int target_of(const edge *edges, size_t n, int state, int event, int illegal)
{
    for (size_t i = 0; i < n; i++)
        if (edges[i].from == state && edges[i].event == event)
            return edges[i].to;
    return illegal;
}

/* All but `edges` are illegal. */
static void check_table(const edge *edges, size_t n, int n_states, int n_events, int illegal,
                        int (*next)(int state, int event))
{
    for (int state = 0; state < n_states; state++)
        for (int event = 0; event < n_events; event++)
            if (next(state, event) != target_of(edges, n, state, event, illegal))
                fail_msg("state %d, event %d", state, event);
}

#define CHECK_TABLE(edges, n_states, n_events, illegal, next) \
    check_table(edges, sizeof(edges) / sizeof(edges)[0], n_states, n_events, illegal, next)

static int gen_next(int state, int event)
{
    return (int)ft_gen_next((ft_gen_state)state, (ft_gen_event)event);
}

static int stream_next(int state, int event)
{
    return (int)ft_stream_next((ft_stream_state)state, (ft_stream_event)event);
}

static int drafting_next(int state, int event)
{
    return (int)ft_drafting_next((ft_drafting_state)state, (ft_drafting_event)event);
}

static void test_generation_table(void **state)
{
    static const edge legal[] = {
        {FT_GEN_READY, FT_GEN_ASK_TREE, FT_GEN_TREE},
        {FT_GEN_READY, FT_GEN_ASK_RUN, FT_GEN_RUN},
        {FT_GEN_READY, FT_GEN_LOST, FT_GEN_READY},
        {FT_GEN_READY, FT_GEN_END, FT_GEN_ENDED},
        {FT_GEN_TREE, FT_GEN_OVER, FT_GEN_READY},
        {FT_GEN_TREE, FT_GEN_EARLY_TAKEN, FT_GEN_TREE_EARLY},
        {FT_GEN_TREE, FT_GEN_LOST, FT_GEN_TREE},
        {FT_GEN_TREE, FT_GEN_END, FT_GEN_ENDED},
        {FT_GEN_TREE_EARLY, FT_GEN_OVER, FT_GEN_READY},
        {FT_GEN_TREE_EARLY, FT_GEN_EARLY_TAKEN, FT_GEN_TREE_EARLY},
        {FT_GEN_TREE_EARLY, FT_GEN_LOST, FT_GEN_TREE_EARLY},
        {FT_GEN_TREE_EARLY, FT_GEN_END, FT_GEN_ENDED},
        {FT_GEN_RUN, FT_GEN_ASK_NEXT, FT_GEN_RUN_NEXT},
        {FT_GEN_RUN, FT_GEN_MORE, FT_GEN_RUN},
        {FT_GEN_RUN, FT_GEN_OVER, FT_GEN_READY},
        {FT_GEN_RUN, FT_GEN_LOST, FT_GEN_RUN},
        {FT_GEN_RUN, FT_GEN_END, FT_GEN_ENDED},
        {FT_GEN_RUN_NEXT, FT_GEN_MORE, FT_GEN_RUN_NEXT},
        {FT_GEN_RUN_NEXT, FT_GEN_OVER, FT_GEN_RUN},
        {FT_GEN_RUN_NEXT, FT_GEN_LOST, FT_GEN_RUN},
        {FT_GEN_RUN_NEXT, FT_GEN_END, FT_GEN_ENDED},
    };
    CHECK_TABLE(legal, FT_GEN_N_STATES, FT_GEN_N_EVENTS, FT_GEN_ILLEGAL, gen_next);
}

static void test_stream_table(void **state)
{
    static const edge legal[] = {
        {FT_STREAM_NONE, FT_STREAM_OPEN, FT_STREAM_READY},
        {FT_STREAM_NONE, FT_STREAM_MEET, FT_STREAM_OPENING},
        {FT_STREAM_NONE, FT_STREAM_FORGET, FT_STREAM_NONE},
        {FT_STREAM_NONE, FT_STREAM_CLOSE, FT_STREAM_CLOSED},
        {FT_STREAM_READY, FT_STREAM_ASK, FT_STREAM_WAITING},
        {FT_STREAM_READY, FT_STREAM_LOSE, FT_STREAM_DOWN},
        {FT_STREAM_READY, FT_STREAM_FORGET, FT_STREAM_NONE},
        {FT_STREAM_READY, FT_STREAM_CLOSE, FT_STREAM_CLOSED},
        {FT_STREAM_WAITING, FT_STREAM_ACCEPT, FT_STREAM_WAITING},
        {FT_STREAM_WAITING, FT_STREAM_ANSWER, FT_STREAM_READY},
        {FT_STREAM_WAITING, FT_STREAM_LOSE, FT_STREAM_DOWN},
        {FT_STREAM_WAITING, FT_STREAM_FORGET, FT_STREAM_NONE},
        {FT_STREAM_WAITING, FT_STREAM_CLOSE, FT_STREAM_CLOSED},
        {FT_STREAM_RESUMING, FT_STREAM_ACCEPT, FT_STREAM_READY},
        {FT_STREAM_RESUMING, FT_STREAM_LOSE, FT_STREAM_DOWN},
        {FT_STREAM_RESUMING, FT_STREAM_FORGET, FT_STREAM_NONE},
        {FT_STREAM_RESUMING, FT_STREAM_CLOSE, FT_STREAM_CLOSED},
        {FT_STREAM_OPENING, FT_STREAM_ACCEPT, FT_STREAM_READY},
        {FT_STREAM_OPENING, FT_STREAM_LOSE, FT_STREAM_DOWN},
        {FT_STREAM_OPENING, FT_STREAM_FORGET, FT_STREAM_NONE},
        {FT_STREAM_OPENING, FT_STREAM_CLOSE, FT_STREAM_CLOSED},
        {FT_STREAM_DOWN, FT_STREAM_MEET, FT_STREAM_OPENING},
        {FT_STREAM_DOWN, FT_STREAM_RESUME, FT_STREAM_RESUMING},
        {FT_STREAM_DOWN, FT_STREAM_LOSE, FT_STREAM_DOWN},
        {FT_STREAM_DOWN, FT_STREAM_CLOSE, FT_STREAM_CLOSED},
        {FT_STREAM_CLOSED, FT_STREAM_CLOSE, FT_STREAM_CLOSED},
    };
    CHECK_TABLE(legal, FT_STREAM_N_STATES, FT_STREAM_N_EVENTS, FT_STREAM_ILLEGAL, stream_next);
}

static void test_drafting_table(void **state)
{
    static const edge legal[] = {
        {FT_DRAFTING_OFF, FT_DRAFTING_BEGIN, FT_DRAFTING_READING},
        {FT_DRAFTING_OFF, FT_DRAFTING_FULL, FT_DRAFTING_LATER},
        {FT_DRAFTING_OFF, FT_DRAFTING_STOP, FT_DRAFTING_OFF},
        {FT_DRAFTING_READING, FT_DRAFTING_READ, FT_DRAFTING_ON},
        {FT_DRAFTING_READING, FT_DRAFTING_FULL, FT_DRAFTING_LATER},
        {FT_DRAFTING_READING, FT_DRAFTING_STOP, FT_DRAFTING_OFF},
        {FT_DRAFTING_ON, FT_DRAFTING_READ, FT_DRAFTING_ON},
        {FT_DRAFTING_ON, FT_DRAFTING_FULL, FT_DRAFTING_LATER},
        {FT_DRAFTING_ON, FT_DRAFTING_STOP, FT_DRAFTING_OFF},
        {FT_DRAFTING_LATER, FT_DRAFTING_BEGIN, FT_DRAFTING_READING},
        {FT_DRAFTING_LATER, FT_DRAFTING_FULL, FT_DRAFTING_LATER},
        {FT_DRAFTING_LATER, FT_DRAFTING_STOP, FT_DRAFTING_OFF},
    };
    CHECK_TABLE(legal, FT_DRAFTING_N_STATES, FT_DRAFTING_N_EVENTS, FT_DRAFTING_ILLEGAL,
                drafting_next);
}

/* ---- step by step ---- */

enum { N_PROMPT = 3, SENT_MAX = 16, TO_COME_MAX = 8 };

/* A link whose other end is the test. */
typedef struct far_end {
    ft_link link;
    uint64_t fingerprint;
    ft_server_msg *to_come[TO_COME_MAX]; /* then the stream is lost */
    uint32_t n_to_come, at;
    ft_client_msg sent[SENT_MAX];
    uint32_t n_sent;
    ft_status refuses; /* to send, with this; FT_OK: it does not */
    int64_t now_us;
} far_end;

static far_end far;

static ft_status far_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    if (far.refuses != FT_OK)
        return ft_error_set(err, far.refuses, "refused");
    assert_true(far.n_sent < SENT_MAX);
    far.sent[far.n_sent++] = *msg;
    return FT_OK;
}

static ft_status far_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    far.now_us += 1000;
    *out = NULL;
    if (far.at == far.n_to_come)
        return ft_error_set(err, FT_UNAVAILABLE, "lost");
    *out = far.to_come[far.at++];
    return FT_OK;
}

static uint32_t far_retry(ft_link *link)
{
    return 0;
}

static void far_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    *sent = *received = 1;
}

static void far_destroy(ft_link *link)
{
    far.n_to_come = far.at = 0;
}

static const ft_link_vtable far_vtable = {.send = far_send,
                                          .recv = far_recv,
                                          .retry_after_ms = far_retry,
                                          .bytes = far_bytes,
                                          .destroy = far_destroy};

/* Each link brings what the next one is to bring; so a loss goes on with it. */
static void (*on_open)(void);

static ft_status far_open(void *ctx, ft_error *err, ft_link **out)
{
    far.link.vt = &far_vtable;
    *out = &far.link;
    if (on_open)
        on_open();
    return FT_OK;
}

static ft_status far_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    *out = (ft_msg_info){.protocol = FT_PROTOCOL, .vocab_fingerprint = far.fingerprint};
    out->limits = (ft_msg_limits){.max_tree = 8, .max_context = 256};
    return FT_OK;
}

static int64_t far_now(void *ctx)
{
    return far.now_us;
}

static ft_server_msg *will_come(ft_server_kind kind)
{
    ft_server_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    msg->kind = kind;
    assert_true(far.n_to_come < TO_COME_MAX);
    return far.to_come[far.n_to_come++] = msg;
}

static void opened_comes(uint32_t last_round, uint32_t length)
{
    ft_msg_opened *o = &will_come(FT_SERVER_OPENED)->opened;
    o->last_round = last_round;
    o->length = length;
    o->limits = (ft_msg_limits){.max_tree = 8, .max_context = 256};
}

static ft_msg_verdict *verdict_comes(uint32_t round, uint32_t n, uint32_t length, bool more)
{
    ft_msg_verdict *v = &will_come(FT_SERVER_VERDICT)->verdict;
    v->round = round;
    v->n_next = n;
    for (uint32_t i = 0; i < n; i++)
        v->next[i] = 100;
    v->length = length;
    v->more = more;
    return v;
}

static ft_vocab *vocab;
static ft_edge *edge_of_test;
static ft_gen_stats stats;
static const int32_t prompt[N_PROMPT] = {50, 51, 52};
static const ft_gen_sink sink;

static int setup(void **state)
{
    ft_error err = {0};
    tiny_quiet();
    vocab = tiny_vocab();
    far.fingerprint = ft_vocab_fingerprint(vocab);
    const ft_edge_opts opts = {.vocab = vocab,
                               .source = {.open = far_open, .info = far_info},
                               .clock = {.now_us = far_now},
                               .max_generations = 1};
    return ft_edge_create(&opts, &err, &edge_of_test);
}

static int teardown(void **state)
{
    ft_edge_destroy(edge_of_test);
    ft_vocab_destroy(vocab);
    return 0;
}

static ft_gen *begin(const ft_gen_request *request)
{
    ft_error err = {0};
    ft_gen *gen = NULL;
    far.n_sent = 0;
    on_open = NULL;
    stats = (ft_gen_stats){0};
    assert_int_equal(ft_gen_create(edge_of_test, request, &sink, &stats, &err, &gen), FT_OK);
    assert_int_equal(gen->state, FT_GEN_READY);
    assert_int_equal(gen->stream.state, FT_STREAM_NONE);
    assert_int_equal(ft_gen_open(gen, &err), FT_OK);
    assert_int_equal(gen->stream.state, FT_STREAM_READY);
    return gen;
}

static ft_finish step(ft_gen *gen, ft_gen_state behind)
{
    ft_error err = {0};
    if (ft_gen_step(gen, &err) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(gen->state, behind);
    ft_gen_check(gen);
    return gen->stats->finish;
}

static void end(ft_gen *gen)
{
    ft_gen_end(gen, FT_OK);
    assert_int_equal(gen->state, FT_GEN_ENDED);
    ft_gen_check(gen);
    ft_gen_destroy(gen);
}

static const ft_msg_draft *draft_sent(uint32_t at)
{
    assert_true(at < far.n_sent);
    assert_int_equal(far.sent[at].kind, FT_CLIENT_DRAFT);
    return &far.sent[at].draft;
}

static const ft_gen_request request = {.prompt = prompt, .n_prompt = N_PROMPT};

static void test_a_run_and_the_next(void **state)
{
    ft_gen *gen = begin(&request);
    opened_comes(0, N_PROMPT);
    verdict_comes(1, 1, N_PROMPT + 1, true);
    step(gen, FT_GEN_RUN);
    const uint32_t run = draft_sent(1)->run;
    assert_int_equal(draft_sent(1)->round, 1);
    assert_true(run > 3);
    verdict_comes(1, run - 2, N_PROMPT + run - 1, true);
    step(gen, FT_GEN_RUN_NEXT); /* one token is left */
    assert_int_equal(draft_sent(2)->round, 2);
    assert_int_equal(draft_sent(2)->base, N_PROMPT + run);
    verdict_comes(1, 1, N_PROMPT + run, false);
    step(gen, FT_GEN_RUN);
    assert_int_equal(gen->out.run_left, draft_sent(2)->run);
    verdict_comes(2, 1, N_PROMPT + run + 1, false)->finish = FT_FINISH_LENGTH;
    assert_int_equal(step(gen, FT_GEN_RUN), FT_FINISH_LENGTH);
    end(gen);
    assert_int_equal(far.sent[3].kind, FT_CLIENT_CLOSE);
    assert_int_equal(far.n_sent, 4);
}

/* What Opened says of rows is known before the first round is chosen, if it came by then. Later
 * messages are left to the exchange. */
static void test_hints_before_the_first_round(void **state)
{
    ft_error err = {0};
    ft_gen *gen = begin(&request);
    opened_comes(0, N_PROMPT);
    far.to_come[far.n_to_come - 1]->opened.hints.row_price = 300;
    assert_int_equal(ft_gen_look(gen, &err), FT_OK);
    assert_float_equal(gen->steer.control.price, 0.3, 1e-9);
    ft_msg_verdict *v = verdict_comes(1, 1, N_PROMPT + 1, true);
    v->hints.row_price = 200;
    step(gen, FT_GEN_RUN);
    assert_float_equal(gen->steer.control.price, 0.2, 1e-9);
    verdict_comes(1, 1, N_PROMPT + 2, false)->finish = FT_FINISH_LENGTH;
    assert_int_equal(ft_gen_look(gen, &err), FT_OK);
    assert_null(gen->held);
    assert_int_equal(step(gen, FT_GEN_RUN), FT_FINISH_LENGTH);
    end(gen);
}

static void resumed(void)
{
    opened_comes(1, N_PROMPT + 1); /* a run ends where its stream is lost */
    verdict_comes(2, 1, N_PROMPT + 2, true);
}

static void test_a_lost_run_is_resumed(void **state)
{
    ft_gen *gen = begin(&request);
    opened_comes(0, N_PROMPT);
    verdict_comes(1, 1, N_PROMPT + 1, true);
    step(gen, FT_GEN_RUN);
    const uint32_t run = draft_sent(1)->run;
    on_open = resumed;
    step(gen, FT_GEN_RUN);
    assert_int_equal(far.sent[2].kind, FT_CLIENT_OPEN);
    assert_true(far.sent[2].open.resume);
    assert_int_equal(far.sent[2].open.base, N_PROMPT + 1);
    assert_int_equal(draft_sent(3)->round, 2);
    assert_int_equal(draft_sent(3)->run, run - 1); /* what was left of it */
    assert_int_equal(gen->stream.state, FT_STREAM_WAITING);
    end(gen);
    assert_int_equal(stats.reconnects, 1);
    assert_int_equal(stats.bytes_sent, 2);
}

static uint32_t opens;

/* The server's session has gone on where nobody can follow: the text is opened anew. */
static void refused(void)
{
    if (opens++ == 0) {
        opened_comes(1, N_PROMPT + 3);
    } else {
        opened_comes(0, N_PROMPT + 1);
        verdict_comes(1, 1, N_PROMPT + 2, true);
    }
}

static void test_a_refused_resume_opens_anew(void **state)
{
    ft_gen *gen = begin(&request);
    opened_comes(0, N_PROMPT);
    verdict_comes(1, 1, N_PROMPT + 1, true);
    step(gen, FT_GEN_RUN);
    opens = 0;
    on_open = refused;
    step(gen, FT_GEN_RUN);
    assert_true(far.sent[2].open.resume);
    assert_int_equal(far.sent[3].kind, FT_CLIENT_CLOSE);
    assert_int_equal(far.sent[4].kind, FT_CLIENT_OPEN);
    assert_false(far.sent[4].open.resume);
    assert_int_equal(far.sent[4].open.n_prompt, N_PROMPT + 1);
    assert_int_equal(draft_sent(5)->round, 1);
    end(gen);
}

static void before_opened(void)
{
    verdict_comes(1, 1, N_PROMPT + 2, true);
}

/* No draft is out over a stream whose resume has not been answered: nothing to give a verdict
 * on. */
static void test_a_verdict_before_opened(void **state)
{
    ft_error err = {0};
    ft_gen *gen = begin(&request);
    opened_comes(0, N_PROMPT);
    verdict_comes(1, 1, N_PROMPT + 1, true);
    step(gen, FT_GEN_RUN);
    opens = 0;
    on_open = before_opened;
    gen->stream.how.reconnect_us = 0;
    assert_int_not_equal(ft_gen_step(gen, &err), FT_OK);
    end(gen);
}

/* An Open that the link itself refuses ends the text, where a retry cannot help. */
static void test_open_cannot_be_sent(void **state)
{
    ft_error err = {0};
    ft_gen *gen = NULL;
    stats = (ft_gen_stats){0};
    far.n_sent = 0;
    on_open = NULL;
    assert_int_equal(ft_gen_create(edge_of_test, &request, &sink, &stats, &err, &gen), FT_OK);
    far.refuses = FT_UNAUTHENTICATED;
    assert_int_equal(ft_gen_open(gen, &err), FT_UNAUTHENTICATED);
    assert_string_equal(err.message, "refused");
    far.refuses = FT_UNAVAILABLE;
    assert_int_equal(ft_gen_open(gen, &err), FT_OK); /* behind a pause */
    assert_int_equal(gen->stream.state, FT_STREAM_NONE);
    far.refuses = FT_OK;
    end(gen);
}

static void test_generations_at_once(void **state)
{
    ft_error err = {0};
    ft_gen *gen = begin(&request), *second = NULL;
    ft_gen_stats other = {0};
    assert_int_equal(ft_gen_create(edge_of_test, &request, &sink, &other, &err, &second),
                     FT_EXHAUSTED);
    assert_null(second);
    end(gen);
    end(begin(&request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_table),
        cmocka_unit_test(test_stream_table),
        cmocka_unit_test(test_drafting_table),
        cmocka_unit_test(test_a_run_and_the_next),
        cmocka_unit_test(test_hints_before_the_first_round),
        cmocka_unit_test(test_a_lost_run_is_resumed),
        cmocka_unit_test(test_a_refused_resume_opens_anew),
        cmocka_unit_test(test_a_verdict_before_opened),
        cmocka_unit_test(test_open_cannot_be_sent),
        cmocka_unit_test(test_generations_at_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
