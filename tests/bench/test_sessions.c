// SPDX-License-Identifier: Apache-2.0
// The parts of `bench sessions` that need no model: the arithmetic, and the bare gRPC
// server that it is compared with. tests/cmd/test_bench_sessions.c runs the whole of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "bench/bare_server.h"
#include "bench/sessions.h"
#include "wire/call.h"

static double number(const json_t *report, const char *key)
{
    const json_t *value = json_object_get(report, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void test_per_session(void **state)
{
    const ft_bench_sessions_point fewer = {100, 50e6, 30e6, 5e6}, all = {300, 150e6, 90e6, 8e6};
    json_t *report = ft_bench_sessions_per_session(&fewer, &all);
    assert_float_equal(number(report, "sessions"), 300, 0);
    assert_float_equal(number(report, "rss_bytes_per_session"), 500e3, 1e-6);
    assert_float_equal(number(report, "kv_bytes_per_session"), 300e3, 1e-6);
    assert_float_equal(number(report, "grpc_bytes_per_stream"), 15e3, 1e-6);
    assert_float_equal(number(report, "ours_bytes_per_session"), 185e3, 1e-6);
    json_decref(report);
}

/* Each message has an answer, streams stay, and one that is cut does not hurt the others. */
static void test_bare_server(void **state)
{
    ft_bench_bare_server server;
    ft_wire_client *client;
    ft_call *call[3];
    ft_error err = {0};
    const ft_client_msg open = {.kind = FT_CLIENT_OPEN, .open = {.protocol = FT_PROTOCOL}};
    assert_int_equal(ft_bench_bare_server_start(8, &err, &server), FT_OK);
    assert_int_equal(
        ft_wire_client_create(&(ft_wire_client_opts){.address = server.address}, &err, &client),
        FT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ft_call_create(client, &err, &call[i]), FT_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = round; i < 3; i++) {
            uint8_t *data = NULL;
            size_t n = 0;
            assert_int_equal(ft_call_send(call[i], &open, &err), FT_OK);
            assert_int_equal(ft_call_recv_bytes(call[i], 20000000, &err, &data, &n), FT_OK);
            assert_true(n > 0);
            free(data);
        }
        if (round == 0)
            ft_call_destroy(call[0]);
    }
    ft_call_destroy(call[1]);
    ft_call_destroy(call[2]);
    ft_wire_client_destroy(client);
    ft_bench_bare_server_stop(&server);
    ft_bench_bare_server_stop(&server); /* legal */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bare_server), /* first: it forks, and gRPC makes threads */
        cmocka_unit_test(test_per_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
