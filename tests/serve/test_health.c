// SPDX-License-Identifier: Apache-2.0
// What a server tells others about its engine: the gRPC health service, to those who watch it, and
// /health, while the engine thread hangs and when it works again.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/server.h"
#include "support/gate.h"
#include "support/http_client.h"
#include "support/target.h"
#include "wire/call.h"

#define WAIT_US 120000000 /* a hang is a failure, not a slow machine */

enum { SERVING = 1, NOT_SERVING = 2 };

static ft_call *watch(ft_wire_client *client)
{
    ft_error err = {0};
    ft_call *call;
    assert_int_equal(ft_call_start(client, "/grpc.health.v1.Health/Watch", &err, &call), FT_OK);
    assert_int_equal(ft_call_send_bytes(call, malloc(1), 0, true, &err), FT_OK);
    return call;
}

/* The next HealthCheckResponse of the watch says this: field 1, a varint. */
static void expect(ft_call *call, int status)
{
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err = {0};
    if (ft_call_recv_bytes(call, WAIT_US, &err, &data, &n) != FT_OK)
        fail_msg("health: %s", err.message);
    assert_int_equal(n, 2);
    assert_int_equal(data[0], 1 << 3);
    assert_int_equal(data[1], status);
    free(data);
}

static void expect_page(int port, int status, const char *text)
{
    http_response r = {0};
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), status);
    assert_non_null(strstr(ft_buf_str(&r.body), text));
    http_response_deinit(&r);
}

static ft_call *open_session(ft_wire_client *client)
{
    const int32_t prompt[] = {1, 2};
    const ft_client_msg open = {.kind = FT_CLIENT_OPEN,
                                .open = {.protocol = FT_PROTOCOL, .prompt = prompt, .n_prompt = 2}};
    ft_error err = {0};
    ft_call *call;
    assert_int_equal(ft_call_create(client, &err, &call), FT_OK);
    assert_int_equal(ft_call_send(call, &open, &err), FT_OK);
    return call;
}

/* What a client learns from Info, and with a new session. */
static void expect_calls(ft_wire_client *client, ft_status code)
{
    ft_error err = {0};
    ft_msg_info info;
    ft_server_msg *msg = NULL;
    assert_int_equal(ft_wire_client_info(client, WAIT_US, &err, &info), code);
    ft_call *call = open_session(client);
    assert_int_equal(ft_call_recv(call, WAIT_US, &err, &msg), code);
    if (code != FT_OK) {
        assert_non_null(strstr(err.message, "the engine hangs"));
        assert_true(ft_call_retry_after_ms(call) > 0);
    }
    ft_server_msg_free(msg);
    ft_call_destroy(call);
}

static void test_a_hang_is_told(void **state)
{
    _Atomic int64_t now_us = 1000000;
    ft_error err = {0};
    ft_server *server;
    ft_wire_client *client;
    test_gate gate;
    char address[64];
    const ft_server_opts opts = {
        .verifier = test_verifier_opts((ft_verifier_opts){.clock = test_shared_clock(&now_us)}),
        .host = "127.0.0.1",
        .metrics_host = "127.0.0.1"};
    (void)state;
    if (ft_server_create(&opts, &err, &server) != FT_OK)
        fail_msg("%s", err.message);
    const int port = ft_server_metrics_port(server);
    snprintf(address, sizeof address, "127.0.0.1:%d", ft_server_port(server));
    const ft_wire_client_opts dial = {.address = address};
    assert_int_equal(ft_wire_client_create(&dial, &err, &client), FT_OK);
    ft_call *call = watch(client);
    expect(call, SERVING);
    expect_page(port, 200, "ok");
    test_gate_shut(&gate, ft_server_verifier(server));
    now_us += 31000000;
    expect(call, NOT_SERVING);
    expect_page(port, 503, "the engine hangs");
    expect_calls(client, FT_UNAVAILABLE);
    test_gate_open(&gate);
    expect(call, SERVING);
    expect_page(port, 200, "ok");
    expect_calls(client, FT_OK);
    ft_call_cancel(call);
    ft_call_destroy(call);
    ft_wire_client_destroy(client);
    ft_server_destroy(server, 0);
}

/* A server whose engine hangs stops all the same, but for the engine. */
static void test_a_hang_is_left_behind(void **state)
{
    ft_error err = {0};
    ft_server *server;
    ft_wire_client *client;
    test_gate gate;
    char address[64];
    const ft_server_opts opts = {.verifier = test_verifier_opts((ft_verifier_opts){0}),
                                 .host = "127.0.0.1"};
    (void)state;
    if (ft_server_create(&opts, &err, &server) != FT_OK)
        fail_msg("%s", err.message);
    snprintf(address, sizeof address, "127.0.0.1:%d", ft_server_port(server));
    const ft_wire_client_opts dial = {.address = address};
    assert_int_equal(ft_wire_client_create(&dial, &err, &client), FT_OK);
    test_gate_shut(&gate, ft_server_verifier(server));
    ft_call *call = open_session(client);
    assert_int_equal(ft_server_stop(server, 1000, 1000, &err), FT_TIMEOUT);
    ft_server_msg *msg = NULL;
    assert_int_equal(ft_call_recv(call, WAIT_US, &err, &msg), FT_UNAVAILABLE);
    ft_call_destroy(call);
    ft_wire_client_destroy(client);
    test_gate_open(&gate);
    ft_server_destroy(server, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_hang_is_told),
                                       cmocka_unit_test(test_a_hang_is_left_behind)};
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
