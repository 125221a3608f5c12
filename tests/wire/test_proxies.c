// SPDX-License-Identifier: Apache-2.0
// What proxies read and do: the metadata foretoken-prefix, as any gRPC server sees it; that our
// server takes calls with a wrong one; that a client can tell a reset from a server's reason.
#include "http2.h"

#include <grpc/grpc_security.h>

#include "base/chat_prefix.h"
#include "base/secret.h"
#include "support/caught_log.h"

/* A server that reads the metadata of calls and answers nothing. */
typedef struct bare {
    grpc_completion_queue *cq;
    grpc_server *server;
    int port;
} bare;

static void bare_start(bare *b)
{
    grpc_init();
    b->cq = grpc_completion_queue_create_for_next(NULL);
    b->server = grpc_server_create(NULL, NULL);
    grpc_server_register_completion_queue(b->server, b->cq, NULL);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    b->port = grpc_server_add_http2_port(b->server, "127.0.0.1:0", plain);
    grpc_server_credentials_release(plain);
    assert_true(b->port > 0);
    grpc_server_start(b->server);
}

static void bare_stop(bare *b)
{
    grpc_server_shutdown_and_notify(b->server, b->cq, b);
    grpc_server_cancel_all_calls(b->server);
    while (grpc_completion_queue_next(b->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).tag != b) {
    }
    grpc_server_destroy(b->server);
    grpc_completion_queue_shutdown(b->cq);
    while (grpc_completion_queue_next(b->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
           GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(b->cq);
    grpc_shutdown();
}

/* The prefix of the next call, which is cancelled then; "" if it has none. */
static void bare_prefix(bare *b, char out[64])
{
    grpc_call *call = NULL;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    assert_int_equal(
        grpc_server_request_call(b->server, &call, &details, &metadata, b->cq, b->cq, &call),
        GRPC_CALL_OK);
    const grpc_event event =
        grpc_completion_queue_next(b->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    assert_true(event.success && event.tag == &call);
    out[0] = 0;
    for (size_t i = 0; i < metadata.count; i++)
        if (grpc_slice_str_cmp(metadata.metadata[i].key, FT_CHAT_PREFIX_HEADER) == 0)
            ft_rpc_printable(metadata.metadata[i].value, out, 64);
    grpc_call_cancel(call, NULL); /* resets the stream */
    grpc_call_unref(call);
    grpc_metadata_array_destroy(&metadata);
    grpc_call_details_destroy(&details);
}

/* What a client with this token sends for `prefix`. */
static void sent_prefix(bare *b, const char *token, bool set, uint64_t prefix, char out[64])
{
    ft_wire_client *client = dial(b->port, &(ft_wire_client_opts){.token = token});
    ft_call *call = open_call(client);
    if (set)
        ft_call_set_prefix(call, prefix);
    send_open(call, 3);
    bare_prefix(b, out);
    expect_end(call, FT_UNAVAILABLE, "the server cut the stream");
    assert_true(ft_call_was_reset(call));
    ft_call_destroy(call);
    ft_wire_client_destroy(client);
}

static void test_sent(void **state)
{
    bare b;
    char plain[64], again[64], other[64], token[64], tokens[64], none[64];
    (void)state;
    bare_start(&b);
    sent_prefix(&b, NULL, true, 5, plain);
    sent_prefix(&b, NULL, true, 5, again);
    sent_prefix(&b, NULL, true, 6, other);
    sent_prefix(&b, "one", true, 5, token);
    sent_prefix(&b, "two", true, 5, tokens);
    sent_prefix(&b, NULL, false, 0, none);
    bare_stop(&b);
    assert_true(ft_hex_is(plain, FT_CHAT_PREFIX_DIGITS) && ft_hex_is(token, FT_CHAT_PREFIX_DIGITS));
    assert_string_equal(again, plain);
    assert_string_not_equal(other, plain);
    assert_string_not_equal(token, plain);
    assert_string_not_equal(tokens, token);
    assert_string_equal(none, "");
}

/* Too short, too long, no digits, nothing: the calls go on, with one line of the log for each,
 * however many values it has. */
static void test_wrong(void **state)
{
    static const char *const wrong[] = {"", "0123456789abcde", "0123456789abcdef0",
                                        "0123456789ABCDEF", "0123456789abcdeg"};
    enum { N_WRONG = sizeof wrong / sizeof *wrong };
    (void)state;
    echo e;
    caught_log log;
    ft_wire_client *client = echo_open(&e);
    h2 c;
    ft_client_msg msg = {
        .kind = FT_CLIENT_OPEN,
        .open = {.protocol = FT_PROTOCOL, .prompt = (int32_t[]){1}, .n_prompt = 1}};
    uint8_t *data = NULL, framed[256] = {0};
    size_t n = 0;
    ft_error err = {0};
    assert_int_equal(ft_client_msg_encode(&msg, &err, &data, &n), FT_OK);
    framed[4] = (uint8_t)n;
    memcpy(framed + 5, data, n);
    h2_open(&c, "127.0.0.1", ft_wire_server_port(e.server));
    caught_log_begin(&log);
    for (size_t i = 0; i < N_WRONG; i++) {
        h2_call_with(&c, FT_RPC_SESSION, FT_CHAT_PREFIX_HEADER, wrong[i], 3);
        h2_frame(&c, 0, 0, c.next_id - 2, framed, n + 5);
        echo_wait(&e, &e.messages, (int)i + 1);
    }
    caught_log_end(&log);
    assert_int_equal(caught_log_count(&log, FT_CHAT_PREFIX_HEADER " ignored"), N_WRONG);
    assert_int_equal(c.ended, 0);
    h2_close(&c);
    free(data);
    echo_close(&e, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sent), cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
