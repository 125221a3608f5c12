// SPDX-License-Identifier: Apache-2.0
// Nobody locks others out: clients that take places and say nothing, beside clients that work. The
// addresses are 127.0.0.x, or what a trusted proxy says.
#include "base/clock.h"
#include "fixture.h"
#include "http2.h"

#include <fcntl.h>
#include <sys/resource.h>

#define SESSION "/foretoken.v1.Verifier/Session"
#define CHECK   "/grpc.health.v1.Health/Check"
#define WATCH   "/grpc.health.v1.Health/Watch"

enum { SHARE = 25 };

static void start(echo *e, const ft_wire_server_opts *opts)
{
    echo_init(e);
    ft_wire_server_opts filled = *opts;
    const ft_wire_server_opts ordinary = echo_opts(e);
    filled.host = ordinary.host;
    filled.limits = ordinary.limits;
    filled.handler = ordinary.handler;
    filled.client_share = SHARE;
    echo_start(e, &filled);
}

/* Opens, goes rounds, closes. */
static void chat(ft_wire_client *client)
{
    ft_call *call = open_call(client);
    send_open(call, 5);
    expect_opened(call, 5);
    for (uint32_t round = 1; round <= 20; round++) {
        send_draft(call, round, 3, 0);
        expect_verdict(call, round, 3);
    }
    send_kind(call, FT_CLIENT_CLOSE);
    ft_call_destroy(call);
}

static void expect_info(ft_wire_client *client)
{
    ft_msg_info info;
    ft_error err = {0};
    if (ft_wire_client_info(client, LIMIT_US, &err, &info) != FT_OK)
        fail_msg("Info: %s", err.message);
}

/* A health call with an empty request; its first answer must say SERVING. */
static ft_call *expect_serving(ft_wire_client *client, const char *method)
{
    static const uint8_t serving[] = {8, 1};
    ft_call *call = NULL;
    ft_error err = {0};
    uint8_t *data = NULL;
    size_t n = 0;
    assert_int_equal(ft_call_start(client, method, &err, &call), FT_OK);
    assert_int_equal(ft_call_send_bytes(call, malloc(1), 0, true, &err), FT_OK);
    if (ft_call_recv_bytes(call, LIMIT_US, &err, &data, &n) != FT_OK)
        fail_msg("%s: %s", method, err.message);
    assert_int_equal(n, sizeof serving);
    assert_memory_equal(data, serving, sizeof serving);
    free(data);
    return call;
}

static void probe(ft_wire_client *client)
{
    ft_call_destroy(expect_serving(client, CHECK));
    ft_call *watch = expect_serving(client, WATCH);
    ft_call_cancel(watch);
    ft_call_destroy(watch);
}

/* 1,100 streams that never send anything get a quarter of the places, and these only for a time.
 * The client hears of the others one after the other, because it would call again. */
static void test_silent_streams(void **state)
{
    enum { STREAMS = 1100, GET_IN = 256, SOME = 300, AT_ONCE = 20, EACH_US = 10000 };
    static h2 silent;
    echo e;
    (void)state;
    start(&e, &(ft_wire_server_opts){.max_streams = 1024});
    h2_open(&silent, "127.0.0.2", ft_wire_server_port(e.server));
    const int64_t from_us = ft_monotonic_us();
    for (int i = 0; i < STREAMS; i++)
        h2_call(&silent, SESSION, NULL, NULL);
    h2_wait_ended(&silent, SOME);
    assert_true(ft_monotonic_us() - from_us >= (SOME - AT_ONCE) * EACH_US);
    h2_wait_ended(&silent, STREAMS - GET_IN);
    h2_expect(&silent, "127.0.0.2 has 256 of the server's 1024 streams");
    h2_expect(&silent, "--per-client-share 25");
    ft_wire_client *client = dial(ft_wire_server_port(e.server), NULL);
    chat(client);
    expect_info(client);
    h2_wait_ended(&silent, STREAMS);
    h2_expect(&silent, "no Open came within 7 s"); /* 148 KiB at 64 KiB/s above 5 s */
    assert_int_equal(echo_count(&e, &e.messages), 22);
    for (int i = 0; i < GET_IN; i++) /* their places are free again */
        h2_call(&silent, SESSION, NULL, NULL);
    chat(client);
    assert_int_equal(silent.ended, STREAMS);
    h2_close(&silent);
    echo_close(&e, client);
}

/* A client that opens many sessions at once has a quarter of its share at once, and the others a
 * little later. Nothing is lost. */
static void test_many_opens(void **state)
{
    enum { OPENS = 100, AT_ONCE = 64, EACH_US = 2500000 / 256 };
    ft_call *calls[OPENS];
    echo e;
    (void)state;
    start(&e, &(ft_wire_server_opts){.max_streams = 1024});
    ft_wire_client *client = dial(ft_wire_server_port(e.server), NULL);
    const int64_t from_us = ft_monotonic_us();
    for (int i = 0; i < OPENS; i++) {
        calls[i] = open_call(client);
        send_open(calls[i], 5);
    }
    for (int i = 0; i < OPENS; i++)
        expect_opened(calls[i], 5);
    assert_true(ft_monotonic_us() - from_us >= (OPENS - AT_ONCE) * EACH_US);
    for (int i = 0; i < OPENS; i++) {
        send_draft(calls[i], 1, 3, 0);
        expect_verdict(calls[i], 1, 3);
        ft_call_destroy(calls[i]);
    }
    echo_close(&e, client);
}

/* A stream that is used has no deadline: its Open came. */
static void test_open_streams_stay(void **state)
{
    static h2 silent;
    echo e;
    (void)state;
    start(&e, &(ft_wire_server_opts){.max_streams = 8});
    ft_wire_client *client = dial(ft_wire_server_port(e.server), NULL);
    ft_call *call = open_call(client);
    send_open(call, 5);
    expect_opened(call, 5);
    h2_open(&silent, "127.0.0.2", ft_wire_server_port(e.server));
    h2_call(&silent, SESSION, NULL, NULL);
    h2_wait_ended(&silent, 1); /* it came later */
    send_draft(call, 1, 3, 0);
    expect_verdict(call, 1, 3);
    ft_call_destroy(call);
    h2_close(&silent);
    echo_close(&e, client);
}

/* Silent calls of Check and Watch shut out no probe. */
static void test_silent_probes(void **state)
{
    enum { CALLS = 300, GET_IN = 64 };
    static h2 silent;
    echo e;
    (void)state;
    start(&e, &(ft_wire_server_opts){0});
    const int port = ft_wire_server_port(e.server);
    h2_open(&silent, "127.0.0.2", port);
    for (int i = 0; i < CALLS; i++) {
        h2_call(&silent, CHECK, NULL, NULL);
        h2_call(&silent, WATCH, NULL, NULL);
    }
    h2_wait_ended(&silent, 2 * (CALLS - GET_IN));
    h2_expect(&silent, "256 calls of Watch");
    ft_wire_client *client = dial(port, NULL);
    probe(client);
    expect_info(client);
    h2_wait_ended(&silent, 2 * CALLS);
    h2_expect(&silent, "no request came within 5 s");
    h2_close(&silent);
    echo_close(&e, client);
}

/* Five strangers fill the places of those without a credential, but for the reserve. A client that
 * shows its token has other places. */
static void test_proven_callers(void **state)
{
    enum { STRANGERS = 5, CALLS = 65 };
    static const int refused[STRANGERS] = {1, 1, 1, 1 + 16, CALLS - 1}; /* 16 are the reserve */
    static h2 strangers[STRANGERS];
    echo e;
    (void)state;
    const ft_wire_client_opts mine = {.token = "a token of enough bytes"};
    start(&e, &(ft_wire_server_opts){.token = mine.token});
    const int port = ft_wire_server_port(e.server);
    for (int i = 0; i < STRANGERS; i++) {
        char from[16];
        snprintf(from, sizeof from, "127.0.0.%d", 2 + i);
        h2_open(&strangers[i], from, port);
        for (int k = 0; k < CALLS; k++)
            h2_call(&strangers[i], CHECK, NULL, NULL);
        h2_wait_ended(&strangers[i], refused[i]);
    }
    h2_expect(&strangers[4], "all 256 calls without a credential");
    ft_wire_client *client = dial(port, &mine), *prober = dial(port, NULL);
    expect_info(client);
    probe(client);
    probe(prober);
    ft_wire_client_destroy(prober);
    for (int i = 0; i < STRANGERS; i++)
        h2_close(&strangers[i]);
    echo_close(&e, client);
}

/* What a trusted proxy says counts; what anybody else says does not. */
static void test_trusted_proxy(void **state)
{
    enum { CONNECTIONS = 200 };
    static h2 proxy, liar, silent[CONNECTIONS];
    ft_networks proxies = {0};
    echo e;
    (void)state;
    assert_int_equal(ft_networks_parse("flag", "127.0.0.9/32", NULL, &proxies), FT_OK);
    start(&e, &(ft_wire_server_opts){.max_streams = 8, .proxies = &proxies});
    const int port = ft_wire_server_port(e.server);
    for (int i = 0; i < CONNECTIONS; i++) /* more than a share, 194 */
        h2_connect(&silent[i], "127.0.0.9", port);
    h2_open(&proxy, "127.0.0.9", port);
    for (int i = 0; i < 3; i++)
        h2_call(&proxy, SESSION, "x-forwarded-for", "10.0.0.7, 10.0.0.1");
    h2_wait_ended(&proxy, 1);
    h2_expect(&proxy, "10.0.0.1 has 2 of the server's 8 streams");
    h2_call(&proxy, SESSION, "x-forwarded-for", "2001:db8::1");
    h2_call(&proxy, SESSION, "x-forwarded-for", "2001:db8::2");
    h2_call(&proxy, SESSION, "x-forwarded-for", "2001:db8::3");
    h2_wait_ended(&proxy, 2);
    h2_expect(&proxy, "2001:db8::/64 has 2");
    h2_open(&liar, "127.0.0.8", port);
    for (int i = 0; i < 3; i++)
        h2_call(&liar, SESSION, "x-forwarded-for", i % 2 ? "10.0.0.3" : "10.0.0.4");
    h2_wait_ended(&liar, 1);
    h2_expect(&liar, "127.0.0.8 has 2");
    for (int i = 0; i < CONNECTIONS; i++)
        h2_close(&silent[i]);
    h2_close(&proxy);
    h2_close(&liar);
    echo_deinit(&e);
}

static void test_ipv6(void **state)
{
    echo e;
    char address[32];
    ft_error err = {0};
    ft_wire_client *client = NULL;
    ft_call *call[3];
    (void)state;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.host = "::1";
    opts.max_streams = 8;
    opts.client_share = SHARE;
    if (ft_wire_server_create(&opts, &err, &e.server) != FT_OK) {
        print_message("NO IPv6 HERE: %s\n", err.message);
        skip();
    }
    snprintf(address, sizeof address, "[::1]:%d", ft_wire_server_port(e.server));
    const ft_wire_client_opts dialed = {.address = address};
    assert_int_equal(ft_wire_client_create(&dialed, &err, &client), FT_OK);
    for (int i = 0; i < 3; i++) {
        call[i] = open_call(client);
        send_open(call[i], 3);
        if (i < 2)
            expect_opened(call[i], 3);
    }
    expect_end(call[2], FT_EXHAUSTED, "::/64 has 2 of the server's 8 streams");
    for (int i = 0; i < 3; i++)
        ft_call_destroy(call[i]);
    echo_close(&e, client);
}

/* ---- connections ---- */

/* 2,000 connections from one address: those above its share are closed. Others come in at any time.
 */
static void test_silent_connections(void **state)
{
    enum { CONNECTIONS = 2000, PLACES = 1024 + 3 * 256, GET_IN = PLACES / 4 };
    h2 *silent = calloc(CONNECTIONS, sizeof *silent);
    echo e;
    (void)state;
    start(&e, &(ft_wire_server_opts){.max_streams = 1024});
    const int port = ft_wire_server_port(e.server);
    for (int i = 0; i < CONNECTIONS; i++)
        h2_connect(&silent[i], "127.0.0.2", port);
    ft_wire_client *client = dial(port, NULL);
    chat(client);
    for (int i = GET_IN; i < CONNECTIONS; i++)
        h2_wait_closed(&silent[i]);
    for (int i = 0; i < GET_IN; i++) { /* these may still speak */
        h2_hello(&silent[i]);
        if (i % 2)
            h2_close(&silent[i]);
    }
    chat(client);
    for (int i = GET_IN; i < CONNECTIONS; i++)
        h2_close(&silent[i]);
    h2_call(&silent[0], CHECK, NULL, NULL);
    h2_wait_ended(&silent[0], 1); /* by the deadline of its request: it is served */
    for (int i = 0; i < GET_IN; i += 2)
        h2_close(&silent[i]);
    free(silent);
    echo_close(&e, client);
}

/* A connection that says nothing, or only half of what it must say first, ends. Its place is free
 * again, also that of one which gRPC had. */
static void test_places_of_connections(void **state)
{
    enum { PLACES = 8 + 3 * 256, GET_IN = PLACES / 4 };
    static h2 first[GET_IN], second[GET_IN], more;
    echo e;
    (void)state;
    start(&e, &(ft_wire_server_opts){.max_streams = 8});
    const int port = ft_wire_server_port(e.server);
    for (int i = 0; i < GET_IN; i++) {
        h2_connect(&first[i], "127.0.0.2", port);
        if (i % 2)
            h2_hello(&first[i]);
        else
            h2_write(&first[i], "PRI * HTTP/2.0\r\n", 16);
    }
    h2_connect(&more, "127.0.0.2", port);
    h2_wait_closed(&more);
    h2_close(&more);
    for (int i = 0; i < GET_IN; i += 2)
        h2_wait_closed(&first[i]); /* 10 s */
    for (int i = 0; i < GET_IN; i++)
        h2_close(&first[i]);
    for (int i = 0; i < GET_IN; i++) { /* when the server has seen that they are gone */
        do {
            h2_close(&second[i]);
            h2_open(&second[i], "127.0.0.2", port);
        } while (!h2_next(&second[i])); /* its first frame is the server's SETTINGS */
    }
    for (int i = 0; i < GET_IN; i++)
        h2_close(&second[i]);
    echo_deinit(&e);
}

/* Until the process has no free descriptor: the server has accepted as much as it can. */
static void wait_for_full_table(void)
{
    for (int fd = 0; fd >= 0;) {
        fd = dup(STDOUT_FILENO);
        if (fd >= 0)
            close(fd);
    }
    assert_int_equal(errno, EMFILE);
}

/* Without a free descriptor nobody comes in; with one again, everybody does. */
static void test_no_descriptors(void **state)
{
    enum { FREE = 24 };
    struct rlimit before, low;
    h2 *many = calloc(4 * FREE, sizeof *many);
    echo e;
    (void)state;
    start(&e, &(ft_wire_server_opts){.max_streams = 1024});
    const int port = ft_wire_server_port(e.server);
    ft_wire_client *client = dial(port, NULL);
    chat(client);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 4 * FREE; i++)
        many[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    low = before;
    low.rlim_cur = (rlim_t)many[4 * FREE - 1].fd + FREE;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < 4 * FREE; i++)
        h2_use(&many[i], many[i].fd, "127.0.0.2", port);
    wait_for_full_table();
    for (int i = 0; i < 4 * FREE; i++)
        h2_close(&many[i]);
    h2_open(&many[0], "127.0.0.3", port);
    assert_true(h2_next(&many[0]));
    h2_close(&many[0]);
    chat(client);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    free(many);
    echo_close(&e, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_streams),
        cmocka_unit_test(test_many_opens),
        cmocka_unit_test(test_open_streams_stay),
        cmocka_unit_test(test_silent_probes),
        cmocka_unit_test(test_proven_callers),
        cmocka_unit_test(test_trusted_proxy),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_silent_connections),
        cmocka_unit_test(test_places_of_connections),
        cmocka_unit_test(test_no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
