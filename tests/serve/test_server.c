// SPDX-License-Identifier: Apache-2.0
// The server over loopback gRPC: many sessions at once, hostile messages beside well-behaved
// sessions, what refusals count as, resume and cancel over streams, thousands of sessions without
// growth.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/throttle.h"
#include "constrain/budget.h"
#include "constrain/constraint.h"
#include "serve/server.h"
#include "support/local_client.h"
#include "support/target.h"
#include "wire/client.h"

#define WAIT_US 120000000 /* a hang is a failure, not a slow machine */

/* The linker sends the server's encoding of answers here: one verdict finds no memory. */
static atomic_bool fail_answer;

ft_status __real_ft_server_msg_encode(const ft_server_msg *msg, ft_error *err, uint8_t **out,
                                      size_t *n);
ft_status __wrap_ft_server_msg_encode(const ft_server_msg *msg, ft_error *err, uint8_t **out,
                                      size_t *n);
ft_status __wrap_ft_server_msg_encode(const ft_server_msg *msg, ft_error *err, uint8_t **out,
                                      size_t *n)
{
    if (msg->kind == FT_SERVER_VERDICT && atomic_exchange(&fail_answer, false))
        return ft_error_set(err, FT_NOMEM, "injected");
    return __real_ft_server_msg_encode(msg, err, out, n);
}

/* And what counts as more than one stream, if it ends here. */
static atomic_uint counted;

int64_t __real_ft_throttle_take_many(ft_throttle *throttle, const ft_client_id *client, uint32_t n,
                                     int64_t now_us);
int64_t __wrap_ft_throttle_take_many(ft_throttle *throttle, const ft_client_id *client, uint32_t n,
                                     int64_t now_us);
int64_t __wrap_ft_throttle_take_many(ft_throttle *throttle, const ft_client_id *client, uint32_t n,
                                     int64_t now_us)
{
    const bool budget =
        throttle->burst == FT_BUDGET_AT_ONCE_US; /* of constraints: its own matter */
    atomic_fetch_add(&counted, budget ? 0 : n);
    return __real_ft_throttle_take_many(throttle, client, n, now_us);
}

typedef struct net {
    ft_server *server;
    ft_wire_client *client;
    char address[64];
} net;

static void connect_client(net *n, const char *token, ft_wire_client **out)
{
    ft_error err = {0};
    const ft_wire_client_opts opts = {.address = n->address, .token = token};
    if (ft_wire_client_create(&opts, &err, out) != FT_OK)
        fail_msg("%s", err.message);
}

static net net_start(ft_verifier_opts verifier, const char *token)
{
    net n = {0};
    ft_error err = {0};
    if (!verifier.max_context)
        verifier.max_context = 256;
    if (!verifier.session_ttl_s)
        verifier.session_ttl_s = 600;
    const ft_server_opts opts = {
        .verifier = test_verifier_opts(verifier), .host = "127.0.0.1", .token = token};
    if (ft_server_create(&opts, &err, &n.server) != FT_OK)
        fail_msg("%s", err.message);
    snprintf(n.address, sizeof n.address, "127.0.0.1:%d", ft_server_port(n.server));
    connect_client(&n, token, &n.client);
    return n;
}

static void net_stop(net *n)
{
    ft_wire_client_destroy(n->client);
    ft_server_destroy(n->server, 0);
}

static ft_verifier_stats stats_of(net *n)
{
    return test_verifier_stats(ft_server_verifier(n->server));
}

/* ---- one session over the wire ---- */

typedef struct remote {
    ft_call *call;
    ft_msg_opened opened;
    ft_msg_draft draft;
    ft_error end; /* why the stream is over */
} remote;

/* False, and r->end set: the client's own codec refuses it. */
static bool remote_send(remote *r, const ft_client_msg *msg)
{
    return ft_call_send(r->call, msg, &r->end) == FT_OK;
}

static bool remote_send_draft(remote *r)
{
    ft_client_msg msg = {.kind = FT_CLIENT_DRAFT, .draft = r->draft};
    return remote_send(r, &msg);
}

/* The next message, or NULL with r->end set. */
static ft_server_msg *remote_recv(remote *r)
{
    ft_server_msg *msg = NULL;
    ft_status status = ft_call_recv(r->call, WAIT_US, &r->end, &msg);
    assert_int_not_equal(status, FT_TIMEOUT);
    return status == FT_OK ? msg : NULL;
}

static void remote_start(remote *r, ft_wire_client *client, const ft_msg_open *open)
{
    ft_error err = {0};
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN, .open = *open};
    memset(r, 0, sizeof *r);
    if (ft_call_create(client, &err, &r->call) != FT_OK)
        fail_msg("%s", err.message);
    remote_send(r, &msg);
}

static bool remote_wait_opened(remote *r)
{
    ft_server_msg *msg = remote_recv(r);
    if (!msg)
        return false;
    assert_int_equal(msg->kind, FT_SERVER_OPENED);
    r->opened = msg->opened;
    ft_server_msg_free(msg);
    return true;
}

static void remote_open(remote *r, net *n, const ft_msg_open *open)
{
    remote_start(r, n->client, open);
    if (!remote_wait_opened(r))
        fail_msg("not opened: %s", r->end.message);
}

static bool remote_wait_verdict(remote *r, test_text *text)
{
    ft_server_msg *msg = remote_recv(r);
    if (!msg)
        return false;
    assert_int_equal(msg->kind, FT_SERVER_VERDICT);
    assert_true(test_apply(text, &r->draft, &msg->verdict));
    ft_server_msg_free(msg);
    return true;
}

static bool remote_round(remote *r, test_edge *edge, test_text *text)
{
    test_draft(&r->draft, edge, text);
    remote_send_draft(r);
    return remote_wait_verdict(r, text);
}

/* The stream's end: after Close or Cancel, or by a mistake of ours. */
static ft_status remote_wait_end(remote *r)
{
    for (ft_server_msg *msg; (msg = remote_recv(r));)
        ft_server_msg_free(msg);
    ft_call_destroy(r->call);
    r->call = NULL;
    return r->end.code;
}

static void remote_close(remote *r, ft_client_kind kind)
{
    ft_client_msg msg = {.kind = kind};
    remote_send(r, &msg);
    (void)remote_wait_end(r);
}

/* The whole text, in one session without an interruption and without drafts. */
static void remote_whole(net *n, const ft_msg_open *open, test_text *text)
{
    test_edge plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    remote r;
    remote_open(&r, n, open);
    while (text->finish == FT_FINISH_NONE)
        if (!remote_round(&r, &plain, text))
            fail_msg("%s", r.end.message);
    remote_close(&r, FT_CLIENT_CLOSE);
}

/* ---- many sessions ---- */

typedef struct member {
    test_text ref, text;
    test_edge edge;
    remote r;
    float temperature;
} member;

#define MEMBERS 64
#define NEW_TOK 24

/* A clear text, alone in a session without drafts, and its prompt. open: as long, as hot and with
 * the seed of this message. */
static void make_reference(net *n, ft_msg_open open, test_text *ref, test_text *prompt)
{
    uint64_t which = open.sampling.seed;
    do {
        test_text_random(ref, open.n_prompt, which);
        test_text_init(prompt, ref->token, ref->n);
        which += 1000;
    } while (!test_prompt_clear(prompt, &open.sampling, open.max_tokens));
    open.prompt = prompt->token;
    remote_whole(n, &open, ref);
}

/* One after the other. */
static void make_references(member *all, net *n)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &all[i];
        m->temperature = i % 2 ? 0.8f : 0;
        m->text.n = 1 + (i * 29) % 120;
        make_reference(n, local_open_msg(&m->text, m->temperature, i, NEW_TOK), &m->ref, &m->text);
        m->edge = test_edge_make(TEST_DRAFT_MIXED, &m->ref, target.n_vocab, i);
    }
}

static void test_64_sessions(void **state)
{
    net n = net_start((ft_verifier_opts){.max_sessions = MEMBERS}, NULL);
    member *all = calloc(MEMBERS, sizeof *all);
    uint32_t open = MEMBERS;
    (void)state;
    make_references(all, &n);
    ft_verifier_stats before = stats_of(&n);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        ft_msg_open o = local_open_msg(&all[i].text, all[i].temperature, i, NEW_TOK);
        remote_start(&all[i].r, n.client, &o);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (!remote_wait_opened(&all[i].r))
            fail_msg("%s", all[i].r.end.message);
    while (open > 0) {
        bool waits[MEMBERS] = {false};
        for (uint32_t i = 0; i < MEMBERS; i++) {
            if (all[i].text.finish != FT_FINISH_NONE)
                continue;
            test_draft(&all[i].r.draft, &all[i].edge, &all[i].text);
            remote_send_draft(&all[i].r);
            waits[i] = true;
        }
        for (uint32_t i = 0; i < MEMBERS; i++) {
            if (waits[i] && !remote_wait_verdict(&all[i].r, &all[i].text))
                fail_msg("%s", all[i].r.end.message);
            open -= waits[i] && all[i].text.finish != FT_FINISH_NONE;
        }
    }
    ft_verifier_stats after = stats_of(&n);
    assert_true(after.passes.n - before.passes.n < (after.rounds - before.rounds) / 2);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_true(test_text_equal(&all[i].text, &all[i].ref));
        remote_close(&all[i].r, FT_CLIENT_CLOSE);
    }
    free(all);
    net_stop(&n);
}

/* ---- hostile and mistaken clients ---- */

static void spoil_parent(ft_msg_draft *d)
{
    d->n = 2;
    d->token[0] = d->token[1] = 5;
    d->parent[0] = 1;
    d->parent[1] = -1;
}

static void spoil_id(ft_msg_draft *d)
{
    d->n = 1;
    d->token[0] = 1000000;
    d->parent[0] = -1;
}

static void spoil_round(ft_msg_draft *d)
{
    d->round += 5;
}

static void spoil_base(ft_msg_draft *d)
{
    d->base += 1;
}

static void test_bad_input(void **state)
{
    static void (*const spoil[])(ft_msg_draft *) = {spoil_parent, spoil_id, spoil_round,
                                                    spoil_base};
    net n = net_start((ft_verifier_opts){0}, NULL);
    test_text good, text;
    remote r, bad;
    test_edge edge = test_edge_make(TEST_DRAFT_MIXED, NULL, target.n_vocab, 1);
    test_edge plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    (void)state;
    test_text_random(&good, 20, 1);
    ft_msg_open open = local_open_msg(&good, 0.8f, 1, 0);
    remote_open(&r, &n, &open);
    for (size_t i = 0; i < sizeof spoil / sizeof spoil[0]; i++) {
        test_text_random(&text, 20, 2 + i);
        open = local_open_msg(&text, 0, 1, 0);
        remote_open(&bad, &n, &open);
        assert_true(remote_round(&bad, &plain, &text));
        test_draft(&bad.draft, &plain, &text);
        spoil[i](&bad.draft);
        if (remote_send_draft(&bad))
            (void)remote_wait_end(&bad);
        else /* only raw bytes could carry it: tests/wire sends those */
            ft_call_destroy(bad.call);
        assert_true(bad.end.code == FT_INVALID || bad.end.code == FT_PRECONDITION);
        assert_true(strlen(bad.end.message) > 10);
        if (good.finish == FT_FINISH_NONE)
            assert_true(remote_round(&r, &edge, &good));
    }
    open.vocab_fingerprint = 12345;
    remote_start(&bad, n.client, &open);
    assert_int_equal(remote_wait_end(&bad), FT_PRECONDITION);
    assert_non_null(strstr(bad.end.message, "draft of the same family"));
    open = local_open_msg(&text, 0, 1, 0);
    const ft_client_msg again = {.kind = FT_CLIENT_OPEN, .open = open};
    for (int i = 0; i < 20; i++) { /* Open twice; whichever thread is the faster */
        remote_open(&bad, &n, &open);
        remote_send(&bad, &again);
        assert_int_equal(remote_wait_end(&bad), FT_INVALID);
        assert_non_null(strstr(bad.end.message, "already opened a session"));
    }
    ft_error err = {0};
    memset(&bad, 0, sizeof bad); /* a Draft without Open */
    assert_int_equal(ft_call_create(n.client, &err, &bad.call), FT_OK);
    remote_send_draft(&bad);
    assert_int_equal(remote_wait_end(&bad), FT_INVALID);
    if (good.finish == FT_FINISH_NONE)
        assert_true(remote_round(&r, &edge, &good));
    remote_close(&r, FT_CLIENT_CANCEL);
    net_stop(&n);
}

/* So many streams more are counted, over those that were opened, for an Open with a constraint of
 * so many bytes. end: how it ends; FT_OK: the text is opened, and its stream ended by a mistake. */
static unsigned counts_as(net *n, ft_msg_open open, size_t bytes, ft_status end)
{
    static char spaces[FT_CONSTRAINT_MAX_BYTES];
    remote r;
    test_text text;
    test_text_random(&text, 20, 1);
    memset(spaces, ' ', sizeof spaces);
    spaces[0] = '{'; /* no JSON */
    if (bytes > 0)
        open.constraint = (ft_constraint){FT_CONSTRAINT_JSON_SCHEMA, spaces, bytes};
    open.n_prompt = text.n;
    open.prompt = text.token;
    atomic_store(&counted, 0);
    remote_start(&r, n->client, &open);
    if (end == FT_OK) {
        const ft_client_msg again = {.kind = FT_CLIENT_OPEN, .open = open};
        assert_true(remote_wait_opened(&r));
        remote_send(&r, &again);
        end = FT_INVALID;
    }
    assert_int_equal(remote_wait_end(&r), end);
    return atomic_load(&counted);
}

/* As over HTTP: 8 KiB are one more. What the server lacks is not the client's fault. */
static void test_refusals_count_by_size(void **state)
{
    net n = net_start((ft_verifier_opts){0}, NULL);
    const ft_msg_open open = {.protocol = FT_PROTOCOL, .sampling.top_p = 1};
    ft_msg_open other = open;
    const ft_status refused = ft_constrain_available() ? FT_INVALID : FT_PRECONDITION;
    (void)state;
    assert_int_equal(counts_as(&n, open, 0, FT_OK), 0);
    assert_int_equal(counts_as(&n, open, 8191, refused), 0);
    assert_int_equal(counts_as(&n, open, 8192, refused), 1);
    assert_int_equal(counts_as(&n, open, FT_CONSTRAINT_MAX_BYTES, refused), 8);
    other.vocab_fingerprint = 12345;
    assert_int_equal(counts_as(&n, other, 0, FT_PRECONDITION), 0);
    assert_int_equal(counts_as(&n, other, 40000, FT_PRECONDITION), 4);
    ft_server_drain(n.server);
    assert_int_equal(counts_as(&n, open, FT_CONSTRAINT_MAX_BYTES, FT_UNAVAILABLE), 0);
    net_stop(&n);
}

static void test_wrong_token(void **state)
{
    net n = net_start((ft_verifier_opts){0}, "right");
    ft_wire_client *client;
    test_text text;
    remote r;
    (void)state;
    connect_client(&n, "wrong", &client);
    test_text_random(&text, 5, 1);
    ft_msg_open open = local_open_msg(&text, 0, 1, 0);
    remote_start(&r, client, &open);
    assert_int_equal(remote_wait_end(&r), FT_UNAUTHENTICATED);
    remote_open(&r, &n, &open);
    remote_close(&r, FT_CLIENT_CLOSE);
    ft_wire_client_destroy(client);
    net_stop(&n);
}

/* More text than the pool should take: the refusal says when to come back, and then there is
 * room. */
static void test_no_room_says_when_to_retry(void **state)
{
    net n = net_start((ft_verifier_opts){.kv_tok = 256 + 128}, NULL);
    remote r[16];
    uint32_t open = 0, retry_ms = 0;
    test_text text;
    (void)state;
    test_text_random(&text, 200, 1);
    ft_msg_open msg = local_open_msg(&text, 0, 1, 0);
    for (; open < 16 && retry_ms == 0; open++) {
        remote_start(&r[open], n.client, &msg);
        if (!remote_wait_opened(&r[open])) {
            assert_int_equal(r[open].end.code, FT_EXHAUSTED);
            retry_ms = ft_call_retry_after_ms(r[open].call);
            assert_true(retry_ms > 0);
            ft_call_destroy(r[open--].call);
        }
    }
    assert_true(open > 1 && retry_ms > 0);
    remote_close(&r[--open], FT_CLIENT_CLOSE);
    remote_open(&r[open], &n, &msg);
    do
        remote_close(&r[open], FT_CLIENT_CLOSE);
    while (open-- > 0);
    assert_int_equal(stats_of(&n).sessions_refused, 1);
    net_stop(&n);
}

/* ---- streams that break ---- */

static void wait_detached(net *n, uint32_t count)
{
    while (stats_of(n).sessions_detached != count) { /* the cut has to reach the server */
    }
}

static void test_resume_over_the_wire(void **state)
{
    net n = net_start((ft_verifier_opts){0}, NULL);
    test_text ref, text;
    remote r;
    test_edge plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    (void)state;
    text.n = 30;
    ft_msg_open open = local_open_msg(&text, 0.8f, 4, 12);
    make_reference(&n, open, &ref, &text);

    open = local_open_msg(&text, 0.8f, 4, 12);
    remote_open(&r, &n, &open);
    while (text.finish == FT_FINISH_NONE) { /* every round on a new stream, each sent twice */
        ft_msg_open resume = {.protocol = FT_PROTOCOL,
                              .resume = true,
                              .session = r.opened.session,
                              .secret = r.opened.secret,
                              .base = text.n};
        test_draft(&r.draft, &plain, &text);
        ft_msg_draft draft = r.draft;
        remote_send_draft(&r);
        ft_call_destroy(r.call);
        wait_detached(&n, 1);
        remote_open(&r, &n, &resume);
        r.draft = draft;
        remote_send_draft(&r);
        assert_true(remote_wait_verdict(&r, &text));
    }
    assert_true(test_text_equal(&text, &ref));
    remote_close(&r, FT_CLIENT_CLOSE);
    assert_int_equal(stats_of(&n).sessions, 0);
    net_stop(&n);
}

/* There is no memory for an answer: the stream ends as if it was lost, and the edge that comes back
 * gets the answer. */
static void test_answer_without_memory(void **state)
{
    net n = net_start((ft_verifier_opts){0}, NULL);
    test_text text;
    test_edge edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, 3);
    remote r;
    (void)state;
    test_text_random(&text, 20, 3);
    const ft_msg_open open = local_open_msg(&text, 0, 3, 0);
    remote_open(&r, &n, &open);
    const ft_msg_opened opened = r.opened;
    test_draft(&r.draft, &edge, &text);
    const ft_msg_draft draft = r.draft;
    fail_answer = true;
    remote_send_draft(&r);
    assert_int_equal(remote_wait_end(&r), FT_UNAVAILABLE);
    const ft_msg_open resume = {.protocol = FT_PROTOCOL,
                                .resume = true,
                                .session = opened.session,
                                .secret = opened.secret,
                                .base = text.n};
    remote_open(&r, &n, &resume);
    assert_int_equal(r.opened.last_round, 1);
    r.draft = draft;
    remote_send_draft(&r);
    assert_true(remote_wait_verdict(&r, &text));
    remote_close(&r, FT_CLIENT_CLOSE);
    net_stop(&n);
}

#define FOR_EVER_US 1000000000000 /* the test's own time is over long before */

static void *destroy_with_grace(void *server)
{
    ft_server_destroy(server, FOR_EVER_US);
    return NULL;
}

/* A server that goes down opens nothing, but takes its own session back and waits until its text
 * has ended, as a text without an interruption ends. */
static void test_drain(void **state)
{
    net n = net_start((ft_verifier_opts){0}, NULL);
    test_text ref, text;
    remote r, late, other; /* one that stays keeps the server, however slow this test is */
    pthread_t thread;
    ft_msg_info info;
    ft_error err = {0};
    test_edge plain = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    (void)state;
    text.n = 30;
    ft_msg_open open = local_open_msg(&text, 0.8f, 4, 12);
    make_reference(&n, open, &ref, &text);
    open = local_open_msg(&text, 0.8f, 4, 12);
    remote_open(&r, &n, &open);
    assert_true(remote_round(&r, &plain, &text));
    ft_call_destroy(r.call);
    wait_detached(&n, 1);
    remote_open(&other, &n, &open);

    ft_server_drain(n.server);
    assert_int_equal(pthread_create(&thread, NULL, destroy_with_grace, n.server), 0);
    assert_int_equal(ft_wire_client_info(n.client, WAIT_US, &err, &info), FT_UNAVAILABLE);
    remote_start(&late, n.client, &open);
    assert_false(remote_wait_opened(&late));
    assert_int_equal(late.end.code, FT_UNAVAILABLE);
    assert_true(ft_call_retry_after_ms(late.call) > 0);
    ft_call_destroy(late.call);
    ft_msg_open resume = {.protocol = FT_PROTOCOL,
                          .resume = true,
                          .session = r.opened.session,
                          .secret = r.opened.secret,
                          .base = text.n};
    resume.secret.bytes[0] ^= 1;
    remote_start(&late, n.client, &resume);
    assert_int_equal(remote_wait_end(&late), FT_NOT_FOUND);
    resume.secret.bytes[0] ^= 1;
    remote_open(&r, &n, &resume);
    while (text.finish == FT_FINISH_NONE)
        assert_true(remote_round(&r, &plain, &text));
    assert_true(test_text_equal(&text, &ref));
    remote_close(&r, FT_CLIENT_CLOSE);
    remote_close(&other, FT_CLIENT_CLOSE);
    pthread_join(thread, NULL);
    ft_wire_client_destroy(n.client);
}

/* The edges of these sessions are gone: a server that goes down does not wait for them for as long
 * as for others. */
static void test_drain_without_edges(void **state)
{
    net n = net_start((ft_verifier_opts){0}, NULL);
    test_text text;
    remote r;
    (void)state;
    test_text_random(&text, 30, 4);
    const ft_msg_open open = local_open_msg(&text, 0.8f, 4, 12);
    for (uint32_t i = 1; i < 4; i++) {
        remote_open(&r, &n, &open);
        ft_call_destroy(r.call);
        wait_detached(&n, i);
    }
    ft_wire_client_destroy(n.client);
    ft_server_destroy(n.server, FOR_EVER_US);
}

static void test_info(void **state)
{
    net n = net_start((ft_verifier_opts){.max_tree = 40}, NULL);
    ft_msg_info info;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_wire_client_info(n.client, WAIT_US, &err, &info), FT_OK);
    assert_int_equal(info.protocol, FT_PROTOCOL);
    assert_int_equal(info.limits.max_tree, 40);
    assert_int_equal(info.limits.max_context, 256);
    assert_true(info.vocab_fingerprint == ft_vocab_fingerprint(target.vocab));
    assert_true(info.kv_blocks > 0 && info.kv_blocks == info.kv_blocks_free);
    net_stop(&n);
}

/* ---- many sessions, one after the other ---- */

static size_t rss_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long size = 0, resident = 0;
    if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_1000_sessions_leave_nothing(void **state)
{
    net n = net_start((ft_verifier_opts){0}, NULL);
    test_edge edge = test_edge_make(TEST_DRAFT_TREE, NULL, target.n_vocab, 1);
    size_t at_200 = 0;
    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        test_text text;
        remote r;
        if (i == 200)
            at_200 = rss_bytes();
        test_text_random(&text, 10 + i % 50, i);
        ft_msg_open open = local_open_msg(&text, 0, i, 0);
        remote_open(&r, &n, &open);
        if (i % 3 == 0)
            assert_true(remote_round(&r, &edge, &text));
        remote_close(&r, i % 2 ? FT_CLIENT_CLOSE : FT_CLIENT_CANCEL);
    }
    ft_verifier_stats s = stats_of(&n);
    assert_int_equal(s.sessions_opened, 1000);
    assert_int_equal(s.sessions_gone, 1000);
    assert_int_equal(s.sessions, 0);
    assert_int_equal(s.kv_blocks_free, s.kv_blocks);
    /* 800 sessions that left 10 KB each would show. The sanitizers hold freed memory back, and
     * AddressSanitizer finds leaks by itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)at_200;
#else
    assert_true(rss_bytes() < at_200 + 8 * 1000 * 1000);
#endif
    net_stop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_64_sessions),
        cmocka_unit_test(test_no_room_says_when_to_retry),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_refusals_count_by_size),
        cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_resume_over_the_wire),
        cmocka_unit_test(test_answer_without_memory),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_without_edges),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_1000_sessions_leave_nothing),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
