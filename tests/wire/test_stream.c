// SPDX-License-Identifier: Apache-2.0
// Server and client over loopback, in one process: rounds, ends of every kind, bad bytes, limits.
#include "fixture.h"

#include <arpa/inet.h>
#include <grpc/grpc_security.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "foretoken.pb-c.h"
#include "health.pb-c.h"

static void test_rounds(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    send_open(call, 100);
    expect_opened(call, 100);
    for (uint32_t round = 1; round <= 200; round++) {
        send_draft(call, round, round % 33, 0);
        expect_verdict(call, round, round % 33);
    }
    for (uint32_t round = 1; round <= 200; round++) /* many under way */
        send_draft(call, round, 8, 0);
    for (uint32_t round = 1; round <= 200; round++)
        expect_verdict(call, round, 8);

    ft_server_msg *none = NULL;
    ft_error err;
    assert_int_equal(ft_call_recv(call, 0, &err, &none), FT_TIMEOUT);
    assert_int_equal(ft_call_recv(call, 1000, &err, &none), FT_TIMEOUT);
    uint64_t sent = 0, received = 0;
    ft_call_bytes(call, &sent, &received);
    /* a message takes 14 bytes of framing and at least a few of its own */
    assert_true(sent > 400 * (14 + 10) && sent < 400 * 150);
    assert_true(received > 400 * (14 + 8) && received < 400 * 150);

    send_kind(call, FT_CLIENT_CLOSE);
    assert_int_equal(ft_call_send(call, &(ft_client_msg){.kind = FT_CLIENT_CLOSE}, &err),
                     FT_PRECONDITION);
    echo_wait(&e, &e.ended, 1);
    assert_int_equal(echo_count(&e, &e.ended_done), 1);
    assert_int_equal(e.last_user, 402); /* Open, 400 drafts, Close, all before on_end */
    expect_end(call, FT_UNAVAILABLE, "the server ended the stream");
    ft_call_destroy(call);
    echo_close(&e, client);
    assert_int_equal(e.ended, 1);
}

static uint64_t received_bytes(const ft_call *call)
{
    uint64_t sent, received;
    ft_call_bytes(call, &sent, &received);
    return received;
}

/* A message tells for how long it has waited for its reader. */
static void test_waiting_message(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    const ft_clock clock = ft_clock_monotonic();
    ft_server_msg *msg = NULL;
    ft_error err = {0};
    send_open(call, 100);
    expect_opened(call, 100);
    const uint64_t before = received_bytes(call);
    const int64_t sent_us = ft_clock_now_us(&clock);
    send_draft(call, 1, 8, 0);
    while (received_bytes(call) == before)
        sched_yield();
    const int64_t there_us = ft_clock_now_us(&clock);
    while (ft_clock_now_us(&clock) < there_us + 2000)
        sched_yield();
    const int64_t asked_us = ft_clock_now_us(&clock);
    assert_int_equal(ft_call_recv(call, LIMIT_US, &err, &msg), FT_OK);
    assert_true(msg->waited_us >= asked_us - there_us);
    assert_true(msg->waited_us <= ft_clock_now_us(&clock) - sent_us);
    ft_server_msg_free(msg);
    ft_call_destroy(call);
    echo_close(&e, client);
}

static void test_many_streams(void **state)
{
    enum { N = 64, ROUNDS = 20 };
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *calls[N];
    for (uint32_t i = 0; i < N; i++) {
        calls[i] = open_call(client);
        send_open(calls[i], i + 1);
    }
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = 0; i < N; i++)
            send_draft(calls[i], round, i % 30, 0);
        for (uint32_t i = 0; i < N; i++) {
            if (round == 1)
                expect_opened(calls[i], i + 1);
            expect_verdict(calls[i], round, i % 30);
        }
    }
    for (uint32_t i = 0; i < N; i++) {
        if (i % 2)
            send_kind(calls[i], FT_CLIENT_CLOSE);
        ft_call_destroy(calls[i]);
    }
    echo_wait(&e, &e.ended, N);
    assert_int_equal(echo_count(&e, &e.ended_done), N / 2);
    assert_int_equal(echo_count(&e, &e.ended_cut), N / 2);
    echo_close(&e, client);
}

static void test_finish_with_status_and_trailer(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    send_draft(call, 1, 3, FINISH);
    expect_verdict(call, 1, 3); /* queued before the end: still comes */
    expect_end(call, FT_EXHAUSTED, "come back later");
    expect_end(call, FT_EXHAUSTED, "come back later");
    assert_int_equal(ft_call_retry_after_ms(call), 250);
    echo_wait(&e, &e.ended, 1);
    assert_int_equal(echo_count(&e, &e.ended_cut), 1);
    ft_call_destroy(call);

    call = open_call(client);
    send_kind(call, FT_CLIENT_CANCEL);
    expect_end(call, FT_UNAVAILABLE, "as you asked");
    assert_int_equal(ft_call_retry_after_ms(call), 0);
    ft_call_destroy(call);
    echo_close(&e, client);
}

typedef struct waiter {
    ft_call *call;
    ft_status status;
} waiter;

static void *wait_for_message(void *arg)
{
    waiter *w = arg;
    ft_server_msg *msg = NULL;
    ft_error err;
    w->status = ft_call_recv(w->call, -1, &err, &msg);
    ft_server_msg_free(msg);
    return NULL;
}

static void test_cancel_from_another_thread(void **state)
{
    echo e;
    pthread_t thread;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    send_open(call, 1);
    expect_opened(call, 1);
    waiter w = {.call = call};
    assert_int_equal(pthread_create(&thread, NULL, wait_for_message, &w), 0);
    ft_call_cancel(call);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, FT_CANCELLED);
    echo_wait(&e, &e.ended, 1);
    assert_int_equal(echo_count(&e, &e.ended_cut), 1);
    ft_call_destroy(call);
    echo_close(&e, client);
}

static void test_client_goes_away(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    send_draft(call, 1, 3, KEEP);
    expect_verdict(call, 1, 3);
    ft_call_destroy(call); /* mid-stream */
    echo_wait(&e, &e.ended, 1);
    assert_int_equal(echo_count(&e, &e.ended_cut), 1);
    /* a thread that still holds the stream may go on sending into the void */
    ft_server_msg late = {.kind = FT_SERVER_VERDICT};
    ft_stream *kept = echo_kept(&e);
    ft_stream_send(kept, &late);
    ft_stream_finish(kept, FT_OK, "", 0);
    echo_close(&e, client);
    ft_stream_send(kept, &late);
    ft_stream_unref(kept);
}

static void *send_many(void *arg)
{
    for (uint32_t i = 0; i < 500; i++) {
        ft_server_msg msg = {.kind = FT_SERVER_VERDICT};
        msg.verdict.n_next = 1;
        msg.verdict.next[0] = 1;
        msg.verdict.round = 5;
        msg.verdict.length = 50;
        ft_stream_send(arg, &msg);
    }
    return NULL;
}

static void test_send_from_other_threads(void **state)
{
    enum { THREADS = 3 };
    echo e;
    pthread_t threads[THREADS];
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    send_draft(call, 1, 0, KEEP);
    expect_verdict(call, 1, 0);
    ft_stream *kept = echo_kept(&e);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, kept), 0);
    for (int i = 0; i < THREADS * 500; i++)
        expect_verdict(call, 5, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ft_stream_finish(kept, FT_OK, "", 0);
    expect_end(call, FT_UNAVAILABLE, "ended the stream");
    ft_stream_unref(kept);
    ft_call_destroy(call);
    echo_close(&e, client);
}

static void send_raw(ft_call *call, const void *bytes, size_t n)
{
    ft_error err;
    uint8_t *data = malloc(n + 1);
    memcpy(data, bytes, n);
    assert_int_equal(ft_call_send_bytes(call, data, n, false, &err), FT_OK);
}

static void send_forward_parents(ft_call *call)
{
    uint8_t tree = 0xf2, bytes[64]; /* tokens 1, 0, 1 of a bit; the last one's parent is 3 */
    Foretoken__V1__Draft draft = FORETOKEN__V1__DRAFT__INIT;
    draft.round = 1;
    draft.nodes = 3;
    draft.token_bits = 1;
    draft.tree = (ProtobufCBinaryData){1, &tree};
    Foretoken__V1__ClientMessage message = FORETOKEN__V1__CLIENT_MESSAGE__INIT;
    message.kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_DRAFT;
    message.draft = &draft;
    send_raw(call, bytes, foretoken__v1__client_message__pack(&message, bytes));
}

static void test_bad_bytes_end_one_stream_only(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *good = open_call(client);
    send_open(good, 5);
    expect_opened(good, 5);

    ft_call *bad = open_call(client);
    send_raw(bad, "\xde\xad\xbe\xef garbage", 12);
    expect_end(bad, FT_INVALID, "ClientMessage");
    ft_call_destroy(bad);
    bad = open_call(client);
    send_raw(bad, "", 0);
    expect_end(bad, FT_INVALID, "empty message");
    ft_call_destroy(bad);
    bad = open_call(client);
    send_forward_parents(bad);
    expect_end(bad, FT_INVALID, "Draft.tree: parent 3 of node 2 points forward");
    ft_call_destroy(bad);
    bad = open_call(client);
    send_open(bad, 5000); /* more than the context, less than the largest message */
    expect_end(bad, FT_TOO_LARGE, "5000 tokens, the server's context holds 4096");
    ft_call_destroy(bad);
    char *huge = calloc(1, 1 << 20);
    bad = open_call(client);
    send_raw(bad, huge, 1 << 20);
    expect_end(bad, FT_TOO_LARGE, "larger than max");
    ft_call_destroy(bad);
    free(huge);

    send_draft(good, 1, 4, 0);
    expect_verdict(good, 1, 4);
    echo_wait(&e, &e.ended, 5);
    assert_int_equal(echo_count(&e, &e.ended_cut), 5);
    echo_wait(&e, &e.messages, 2);
    assert_int_equal(echo_count(&e, &e.messages), 2); /* none of the bad ones reached the handler */
    ft_call_destroy(good);
    echo_close(&e, client);
}

/* A client that compresses: a megabyte of zeros travels as a kilobyte. */
static void test_compressed_messages_are_refused(void **state)
{
    echo e;
    char address[32];
    ft_wire_client *client = echo_open(&e);
    snprintf(address, sizeof address, "127.0.0.1:%d", ft_wire_server_port(e.server));
    grpc_arg arg = ft_rpc_int(GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM, GRPC_COMPRESS_GZIP);
    grpc_channel_args args = {.num_args = 1, .args = &arg};
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_channel_destroy(client->channel);
    client->channel = grpc_channel_create(address, creds, &args);
    grpc_channel_credentials_release(creds);
    char *zeros = calloc(1, 1 << 20);
    ft_call *call = open_call(client);
    send_raw(call, zeros, 1 << 20);
    expect_end(call, FT_UNSUPPORTED, "gzip");
    free(zeros);
    ft_call_destroy(call);
    echo_close(&e, client);
    assert_int_equal(e.messages, 0);
}

/* Bytes that are not HTTP/2 at all, on connections of their own. */
static void test_noise_on_the_port(void **state)
{
    static const char *noise[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01 hello",
                                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff"};
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    send_open(call, 5);
    expect_opened(call, 5);
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET};
        struct timeval limit = {.tv_sec = LIMIT_S};
        char reply[512];
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        to.sin_port = htons((uint16_t)ft_wire_server_port(e.server));
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        assert_true(send(fd, noise[i], strlen(noise[i]), MSG_NOSIGNAL) > 0);
        ssize_t n;
        do
            n = recv(fd, reply, sizeof reply, 0);
        while (n > 0);
        assert_true(n == 0 || errno == ECONNRESET); /* closed by the server, not by the limit */
        close(fd);
    }
    send_draft(call, 1, 4, 0);
    expect_verdict(call, 1, 4);
    ft_call_destroy(call);
    echo_close(&e, client);
}

static void test_client_that_never_reads_is_cut(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_wire_client *other = dial(ft_wire_server_port(e.server), NULL);
    ft_call *good = open_call(other), *lazy = open_call(client);
    send_open(good, 5);
    expect_opened(good, 5);
    send_draft(lazy, 1, 0, FLOOD);
    echo_wait(&e, &e.ended, 1);
    assert_int_equal(echo_count(&e, &e.ended_cut), 1);
    send_draft(good, 1, 4, 0);
    expect_verdict(good, 1, 4);
    ft_call_destroy(lazy);
    ft_call_destroy(good);
    ft_wire_client_destroy(client);
    ft_wire_client_destroy(other);
    echo_deinit(&e);
}

static void test_max_streams(void **state)
{
    echo e;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.max_streams = 2;
    echo_start(&e, &opts);
    ft_wire_client *client = dial(ft_wire_server_port(e.server), NULL);
    ft_call *one = open_call(client), *two = open_call(client);
    send_open(one, 1);
    send_open(two, 1);
    expect_opened(one, 1);
    expect_opened(two, 1);
    ft_call *three = open_call(client);
    send_open(three, 1);
    expect_end(three, FT_EXHAUSTED, "all 2 streams");
    assert_true(ft_call_retry_after_ms(three) > 0);
    ft_call_destroy(three);
    assert_int_equal(echo_count(&e, &e.ended), 0); /* the refused one never was a stream */

    send_kind(one, FT_CLIENT_CLOSE);
    ft_call_destroy(one);
    echo_wait(&e, &e.ended, 1);
    /* the place is free once the server has let go of the call, which follows on_end */
    ft_status status = FT_EXHAUSTED;
    for (int i = 0; i < 10000 && status == FT_EXHAUSTED; i++) {
        ft_server_msg *msg = NULL;
        ft_error err;
        three = open_call(client);
        send_open(three, 1);
        status = ft_call_recv(three, LIMIT_US, &err, &msg);
        ft_server_msg_free(msg);
        ft_call_destroy(three);
    }
    assert_int_equal(status, FT_OK);
    ft_call_destroy(two);
    echo_close(&e, client);
}

static ft_call *start(ft_wire_client *client, const char *method, const void *bytes, size_t n)
{
    ft_call *call = NULL;
    ft_error err;
    uint8_t *data = malloc(n + 1);
    memcpy(data, bytes, n);
    assert_int_equal(ft_call_start(client, method, &err, &call), FT_OK);
    assert_int_equal(ft_call_send_bytes(call, data, n, true, &err), FT_OK);
    return call;
}

/* The next HealthCheckResponse must say this. */
static void expect_health(ft_call *call, int wanted)
{
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err = {0};
    if (ft_call_recv_bytes(call, LIMIT_US, &err, &data, &n) != FT_OK)
        fail_msg("health: %s", err.message);
    Grpc__Health__V1__HealthCheckResponse *pb =
        grpc__health__v1__health_check_response__unpack(NULL, n, data);
    assert_non_null(pb);
    assert_int_equal(pb->status, wanted);
    grpc__health__v1__health_check_response__free_unpacked(pb, NULL);
    free(data);
}

static void test_health_and_drain(void **state)
{
    static const char check[] = "/grpc.health.v1.Health/Check";
    static const char watch[] = "/grpc.health.v1.Health/Watch";
    static const char ours[] = "\x0a\x15"
                               "foretoken.v1.Verifier";
    echo e;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.token = "health needs none";
    echo_start(&e, &opts);
    ft_wire_client *client = dial(ft_wire_server_port(e.server), NULL);
    ft_wire_client *known =
        dial(ft_wire_server_port(e.server), &(ft_wire_client_opts){.token = opts.token});
    ft_call *session = open_call(known);
    send_open(session, 1);
    expect_opened(session, 1);

    ft_call *call = start(client, check, "", 0);
    expect_health(call, 1);
    ft_call_destroy(call);
    call = start(client, check, ours, sizeof ours - 1);
    expect_health(call, 1);
    ft_call_destroy(call);
    call = start(client, check, "\x0a\x01x", 3);
    expect_end(call, FT_NOT_FOUND, "unknown service");
    ft_call_destroy(call);
    call = start(client, check, "\xff\xff", 2);
    expect_end(call, FT_INVALID, "HealthCheckRequest");
    ft_call_destroy(call);

    ft_error why = {0};
    assert_int_equal(ft_wire_client_health(client, LIMIT_US, &why), FT_OK);
    ft_call *watcher = start(client, watch, "", 0), *lost = start(client, watch, "\x0a\x01x", 3);
    expect_health(watcher, 1);
    expect_health(lost, 3);
    ft_wire_server_drain(e.server);
    expect_health(watcher, 2);
    ft_wire_server_set_serving(e.server, false);
    ft_wire_server_set_serving(e.server, true); /* it still drains */
    call = start(client, check, "", 0);
    expect_health(call, 2);
    assert_int_equal(ft_wire_client_health(client, LIMIT_US, &why), FT_UNAVAILABLE);
    assert_non_null(strstr(why.message, "not serving"));
    ft_call_destroy(call);
    ft_call *late = open_call(known);
    send_open(late, 1); /* it may resume a session: the handler knows */
    expect_opened(late, 1);
    ft_call_destroy(late);
    send_draft(session, 1, 2, 0); /* present ones go on */
    expect_verdict(session, 1, 2);
    ft_call_cancel(watcher); /* they are half-closed: destroy would wait for their end */
    ft_call_cancel(lost);
    ft_call_destroy(watcher);
    ft_call_destroy(lost);
    ft_call_destroy(session);
    ft_wire_client_destroy(client);
    ft_wire_client_destroy(known);
    echo_deinit(&e);
}

/* The server says both ways whether it serves; who watches hears changes only. */
static void test_health_changes(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *watcher = start(client, "/grpc.health.v1.Health/Watch", "", 0);
    expect_health(watcher, 1);
    for (int i = 0; i < 2; i++) {
        ft_wire_server_set_serving(e.server, true);
        ft_wire_server_set_serving(e.server, false);
        expect_health(watcher, 2);
        ft_call *call = start(client, "/grpc.health.v1.Health/Check", "", 0);
        expect_health(call, 2);
        ft_call_destroy(call);
        ft_wire_server_set_serving(e.server, true);
        expect_health(watcher, 1);
    }
    ft_call_cancel(watcher);
    ft_call_destroy(watcher);
    echo_close(&e, client);
}

static void test_destroy_ends_streams(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client);
    send_open(call, 1);
    expect_opened(call, 1);
    echo_deinit(&e);
    assert_int_equal(e.ended, 1);
    assert_int_equal(e.ended_cut, 1);
    expect_end(call, FT_UNAVAILABLE, "the server is shutting down");
    ft_call_destroy(call);
    ft_wire_client_destroy(client);
}

static void test_info_and_unknown_methods(void **state)
{
    echo e;
    ft_msg_info info;
    ft_error err = {0};
    ft_wire_client *client = echo_open(&e);
    assert_int_equal(ft_wire_client_info(client, LIMIT_US, &err, &info), FT_OK);
    assert_string_equal(info.model, "echo");
    assert_int_equal(info.vocab_fingerprint, 42);
    ft_call *call = start(client, "/foretoken.v1.Verifier/Nothing", "", 0);
    expect_end(call, FT_UNSUPPORTED, "unknown method");
    ft_call_destroy(call);
    echo_close(&e, client);
}

static void test_nobody_there(void **state)
{
    echo e;
    ft_msg_info info;
    ft_error err = {0};
    echo_init(&e);
    echo_start(&e, NULL);
    int port = ft_wire_server_port(e.server);
    echo_deinit(&e);
    ft_wire_client *client = dial(port, NULL);
    assert_int_equal(ft_wire_client_info(client, LIMIT_US, &err, &info), FT_UNAVAILABLE);
    assert_non_null(strstr(err.message, "cannot reach 127.0.0.1:"));
    assert_non_null(strstr(err.message, "Connection refused"));
    ft_call *call = open_call(client);
    send_open(call, 1);
    expect_end(call, FT_UNAVAILABLE, "cannot reach 127.0.0.1:");
    ft_call_destroy(call);
    ft_wire_client_destroy(client);

    ft_wire_client_opts opts = {.address = "no-such-host.invalid:50"};
    assert_int_equal(ft_wire_client_create(&opts, &err, &client), FT_OK);
    assert_int_equal(ft_wire_client_info(client, LIMIT_US, &err, &info), FT_UNAVAILABLE);
    print_message("    %s\n", err.message);
    assert_non_null(strstr(err.message, "cannot reach no-such-host.invalid:50"));
    ft_wire_client_destroy(client);
}

static int looks;

static bool stopped_at_third_look(void)
{
    return ++looks == 3;
}

/* A peer that takes connections and says nothing: Info ends by its time, or when it is stopped. */
static void test_info_without_an_answer(void **state)
{
    ft_msg_info info;
    ft_error err = {0};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(listen(fd, 4), 0);
    ft_wire_client *client = dial(ntohs(a.sin_port), NULL);
    assert_int_equal(ft_wire_client_info(client, 1000, &err, &info), FT_TIMEOUT);
    assert_non_null(strstr(err.message, "did not answer within 1 ms"));
    ft_wire_client_destroy(client);
    client = dial(ntohs(a.sin_port), &(ft_wire_client_opts){.stopped = stopped_at_third_look});
    assert_int_equal(ft_wire_client_info(client, LIMIT_US, &err, &info), FT_CANCELLED);
    assert_int_equal(looks, 3);
    ft_wire_client_destroy(client);
    close(fd);
}

static void test_port_taken(void **state)
{
    echo e;
    ft_error err = {0};
    ft_wire_server *second = NULL;
    echo_init(&e);
    echo_start(&e, NULL);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.port = ft_wire_server_port(e.server);
    assert_int_equal(ft_wire_server_create(&opts, &err, &second), FT_UNAVAILABLE);
    assert_null(second);
    assert_non_null(strstr(err.message, "Address already in use"));
    opts.host = "no-such-host.invalid";
    assert_int_equal(ft_wire_server_create(&opts, &err, &second), FT_INVALID);
    echo_deinit(&e);
}

static void test_bad_addresses(void **state)
{
    static const char *bad[] = {"", "localhost", ":50", "host:", "host:http", NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ft_wire_client *client = NULL;
        ft_error err;
        ft_wire_client_opts opts = {.address = bad[i]};
        assert_int_equal(ft_wire_client_create(&opts, &err, &client), FT_INVALID);
        assert_null(client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_waiting_message),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_finish_with_status_and_trailer),
        cmocka_unit_test(test_cancel_from_another_thread),
        cmocka_unit_test(test_client_goes_away),
        cmocka_unit_test(test_send_from_other_threads),
        cmocka_unit_test(test_bad_bytes_end_one_stream_only),
        cmocka_unit_test(test_compressed_messages_are_refused),
        cmocka_unit_test(test_noise_on_the_port),
        cmocka_unit_test(test_client_that_never_reads_is_cut),
        cmocka_unit_test(test_max_streams),
        cmocka_unit_test(test_health_and_drain),
        cmocka_unit_test(test_health_changes),
        cmocka_unit_test(test_destroy_ends_streams),
        cmocka_unit_test(test_info_and_unknown_methods),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_info_without_an_answer),
        cmocka_unit_test(test_port_taken),
        cmocka_unit_test(test_bad_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
