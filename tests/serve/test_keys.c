// SPDX-License-Identifier: Apache-2.0
// Keys on a real server: who is let in, which promises a key may ask for, how many sessions it may
// have, that another key notices nothing of it, and what the metrics say.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/server.h"
#include "support/local_client.h"
#include "support/target.h"
#include "wire/client.h"

#define WAIT_US 120000000 /* a hang is a failure, not a slow machine */
#define TOKEN_A "token-of-team-a!"
#define TOKEN_B "token-of-team-b!"
#define TOKEN_C "token-of-team-c!"

static const char file[] =
    "{\"keys\": [{\"token\": \"" TOKEN_A "\", \"name\": \"a\", \"slo_tokens_per_s\": 4, "
    "\"sessions\": 2}, {\"token\": \"" TOKEN_B "\", \"name\": \"b\"}, "
    "{\"token\": \"" TOKEN_C "\", \"name\": \"c\", \"slo_tokens_per_s\": 0}]}";

static _Atomic int64_t now_us = 1000000; /* stands still: there is time for every promise */

typedef struct net {
    ft_keyring *keys;
    ft_server *server;
    ft_wire_client *a, *b, *c;
} net;

static ft_wire_client *dial(const net *n, const char *token)
{
    char address[64];
    ft_error err = {0};
    ft_wire_client *client = NULL;
    snprintf(address, sizeof address, "127.0.0.1:%d", ft_server_port(n->server));
    const ft_wire_client_opts opts = {.address = address, .token = token};
    if (ft_wire_client_create(&opts, &err, &client) != FT_OK)
        fail_msg("%s", err.message);
    return client;
}

static net net_start(void)
{
    net n = {0};
    ft_error err = {0};
    ft_keys *keys;
    if (ft_keys_read(file, strlen(file), &err, &keys) != FT_OK ||
        ft_keyring_create(keys, &err, &n.keys) != FT_OK)
        fail_msg("%s", err.message);
    const ft_verifier_opts verifier = {.max_context = 256,
                                       .session_ttl_s = 600,
                                       .clock = test_shared_clock(&now_us),
                                       .keys = n.keys,
                                       .slo_tokens_per_s = {2, 4, 8},
                                       .n_slo = 3};
    const ft_server_opts opts = {.verifier = test_verifier_opts(verifier), .host = "127.0.0.1"};
    if (ft_server_create(&opts, &err, &n.server) != FT_OK)
        fail_msg("%s", err.message);
    n.a = dial(&n, TOKEN_A);
    n.b = dial(&n, TOKEN_B);
    n.c = dial(&n, TOKEN_C);
    return n;
}

static void net_stop(net *n)
{
    ft_wire_client_destroy(n->a);
    ft_wire_client_destroy(n->b);
    ft_wire_client_destroy(n->c);
    ft_server_destroy(n->server, 0);
    ft_keyring_destroy(n->keys);
}

static ft_msg_open open_at(float tokens_per_s)
{
    static test_text text;
    test_text_random(&text, 20, 1);
    ft_msg_open open = local_open_msg(&text, 0, 1, 20);
    open.slo_tokens_per_s = tokens_per_s;
    return open;
}

/* A stream whose session is open, or NULL and *end set. */
static ft_call *try_open(ft_wire_client *client, const ft_msg_open *open, ft_msg_opened *opened,
                         ft_error *end, uint32_t *retry_after_ms)
{
    ft_call *call = NULL;
    ft_server_msg *msg = NULL;
    const ft_client_msg first = {.kind = FT_CLIENT_OPEN, .open = *open};
    if (ft_call_create(client, end, &call) != FT_OK || ft_call_send(call, &first, end) != FT_OK)
        fail_msg("%s", end->message);
    if (ft_call_recv(call, WAIT_US, end, &msg) != FT_OK) {
        *retry_after_ms = ft_call_retry_after_ms(call);
        ft_call_destroy(call);
        return NULL;
    }
    assert_int_equal(msg->kind, FT_SERVER_OPENED);
    *opened = msg->opened;
    ft_server_msg_free(msg);
    return call;
}

static ft_call *expect_open(ft_wire_client *client, float tokens_per_s, ft_msg_opened *opened)
{
    ft_error end = {0};
    ft_msg_opened mine;
    uint32_t retry_after_ms = 0;
    const ft_msg_open open = open_at(tokens_per_s);
    ft_call *call = try_open(client, &open, opened ? opened : &mine, &end, &retry_after_ms);
    if (!call)
        fail_msg("%s", end.message);
    return call;
}

static void expect_refused(ft_wire_client *client, const ft_msg_open *open, ft_status code,
                           const char *says)
{
    ft_error end = {0};
    ft_msg_opened opened;
    uint32_t retry_after_ms = 0;
    assert_null(try_open(client, open, &opened, &end, &retry_after_ms));
    if (end.code != code || !strstr(end.message, says))
        fail_msg("%s: %s", ft_status_name(end.code), end.message);
    assert_int_equal(retry_after_ms > 0, code == FT_EXHAUSTED);
}

/* Waits until the server has ended the session. */
static void close_call(ft_call *call)
{
    ft_error err = {0};
    ft_server_msg *msg = NULL;
    const ft_client_msg last = {.kind = FT_CLIENT_CLOSE};
    assert_int_equal(ft_call_send(call, &last, &err), FT_OK);
    while (ft_call_recv(call, WAIT_US, &err, &msg) == FT_OK)
        ft_server_msg_free(msg);
    assert_int_not_equal(err.code, FT_TIMEOUT);
    ft_call_destroy(call);
}

/* Of all that reached the server by now: a stream may end before its session has. */
static local_key_count count_of(const net *n, const char *key)
{
    ft_verifier_tick(ft_server_verifier(n->server));
    return local_count_key(ft_server_verifier(n->server), key);
}

static void test_who(void **state)
{
    net n = net_start();
    ft_wire_client *wrong = dial(&n, "token-of-nobody-"), *none = dial(&n, NULL);
    const ft_msg_open open = open_at(0);
    ft_msg_info info;
    ft_error err = {0};
    (void)state;
    expect_refused(wrong, &open, FT_UNAUTHENTICATED, "wrong bearer token");
    expect_refused(none, &open, FT_UNAUTHENTICATED, "none was sent");
    assert_int_equal(ft_wire_client_info(wrong, WAIT_US, &err, &info), FT_UNAUTHENTICATED);
    assert_int_equal(ft_wire_client_info(n.c, WAIT_US, &err, &info), FT_OK);
    close_call(expect_open(n.c, 0, NULL));
    assert_int_equal(count_of(&n, "c").opened, 1);
    ft_wire_client_destroy(wrong);
    ft_wire_client_destroy(none);
    net_stop(&n);
}

static void test_speed(void **state)
{
    net n = net_start();
    const ft_msg_open fast = open_at(4.5f), slow = open_at(0.5f), too_fast = open_at(9);
    (void)state;
    /* what counts is the class that one gets: 8 for 4.5 */
    expect_refused(n.a, &fast, FT_FORBIDDEN,
                   "'a' allows a promise of at most 4 tokens/s, and the class for 4.5 is 8");
    expect_refused(n.c, &slow, FT_FORBIDDEN, "'c' allows no promised token speed");
    close_call(expect_open(n.a, 4, NULL));
    close_call(expect_open(n.a, 2.5f, NULL));
    close_call(expect_open(n.a, 0, NULL));
    close_call(expect_open(n.c, 0, NULL));
    close_call(expect_open(n.b, 8, NULL));
    expect_refused(n.b, &too_fast, FT_INVALID, "ask for 8 at most");
    assert_int_equal(count_of(&n, "a").forbidden, 1);
    assert_int_equal(count_of(&n, "b").forbidden, 0);
    assert_int_equal(count_of(&n, "c").forbidden, 1);
    net_stop(&n);
}

static void test_sessions(void **state)
{
    net n = net_start();
    const ft_msg_open open = open_at(0);
    ft_call *a[2], *b[3];
    (void)state;
    a[0] = expect_open(n.a, 0, NULL);
    a[1] = expect_open(n.a, 0, NULL);
    expect_refused(n.a, &open, FT_EXHAUSTED, "all 2 sessions of key 'a' are in use");
    for (int i = 0; i < 3; i++)
        b[i] = expect_open(n.b, 0, NULL);
    assert_int_equal(count_of(&n, "a").sessions, 2);
    assert_int_equal(count_of(&n, "a").exhausted, 1);
    assert_int_equal(count_of(&n, "b").sessions, 3);
    close_call(a[1]);
    a[1] = expect_open(n.a, 0, NULL);
    close_call(a[0]);
    close_call(a[1]);
    for (int i = 0; i < 3; i++)
        close_call(b[i]);
    assert_int_equal(count_of(&n, "a").sessions, 0);
    assert_int_equal(count_of(&n, "a").opened, 3);
    net_stop(&n);
}

/* A lost session counts until somebody needs its place, and then only its own key's gives way. */
static void test_lost_sessions(void **state)
{
    net n = net_start();
    ft_msg_opened lost_a, lost_b;
    uint32_t retry_after_ms = 0;
    ft_error end = {0};
    (void)state;
    ft_call_destroy(expect_open(n.b, 0, &lost_b)); /* the oldest of all */
    ft_call_destroy(expect_open(n.a, 0, &lost_a));
    while (test_verifier_stats(ft_server_verifier(n.server)).sessions_detached != 2) {
        /* the cuts have to reach the server */
    }
    ft_call *first = expect_open(n.a, 0, NULL);
    assert_int_equal(count_of(&n, "a").sessions, 2);
    ft_call *second = expect_open(n.a, 0, NULL);
    assert_int_equal(count_of(&n, "a").sessions, 2);
    const ft_msg_open again_a = {.protocol = FT_PROTOCOL,
                                 .resume = true,
                                 .session = lost_a.session,
                                 .secret = lost_a.secret,
                                 .base = lost_a.length};
    const ft_msg_open again_b = {.protocol = FT_PROTOCOL,
                                 .resume = true,
                                 .session = lost_b.session,
                                 .secret = lost_b.secret,
                                 .base = lost_b.length};
    expect_refused(n.a, &again_a, FT_NOT_FOUND, "session unknown"); /* it gave way */
    expect_refused(n.a, &again_b, FT_NOT_FOUND, "session unknown"); /* it is b's */
    ft_call *back = try_open(n.b, &again_b, &lost_b, &end, &retry_after_ms);
    assert_non_null(back);
    close_call(back);
    close_call(first);
    close_call(second);
    net_stop(&n);
}

/* Key a gets another token and one session less, b goes, d comes: open sessions go on, a's is
 * resumed by the new token, and counts go on. */
static void test_reload(void **state)
{
    static const char later[] =
        "{\"keys\": [{\"token\": \"new-token-of-team-a\", \"name\": \"a\", \"sessions\": 1}, "
        "{\"token\": \"token-of-team-d!\", \"name\": \"d\"}]}";
    net n = net_start();
    ft_keys *keys = NULL;
    ft_error err = {0};
    ft_msg_opened a, d;
    uint32_t retry_after_ms = 0;
    ft_buf page = {0};
    const ft_msg_open open = open_at(0);
    (void)state;
    ft_call *first = expect_open(n.a, 0, &a), *of_b = expect_open(n.b, 0, NULL);
    assert_int_equal(ft_keys_read(later, strlen(later), &err, &keys), FT_OK);
    ft_keyring_replace(n.keys, keys);
    ft_wire_client *new_a = dial(&n, "new-token-of-team-a"), *new_d = dial(&n, "token-of-team-d!");
    expect_refused(n.a, &open, FT_UNAUTHENTICATED, "wrong bearer token");
    expect_refused(n.b, &open, FT_UNAUTHENTICATED, "wrong bearer token");
    expect_refused(new_a, &open, FT_EXHAUSTED, "all 1 sessions of key 'a' are in use");
    close_call(expect_open(new_d, 8, &d));
    assert_int_equal(ft_keys_append(ft_server_verifier(n.server), &page), FT_OK);
    static const char *const lines[] = {"\nforetoken_key_sessions{key=\"a\"} 1\n",
                                        "\nforetoken_key_sessions{key=\"b\"} 1\n",
                                        "\nforetoken_key_sessions_opened_total{key=\"d\"} 1\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(page.data, lines[i]))
            fail_msg("no %s in %s", lines[i], page.data);
    assert_null(strstr(page.data, "key=\"c\""));
    ft_buf_deinit(&page);
    const ft_msg_open again = {.protocol = FT_PROTOCOL,
                               .resume = true,
                               .session = a.session,
                               .secret = a.secret,
                               .base = a.length};
    ft_call *back = try_open(new_a, &again, &a, &err, &retry_after_ms);
    assert_non_null(back);
    close_call(back);
    close_call(of_b);
    ft_call_destroy(first);
    assert_int_equal(count_of(&n, "a").opened, 1);
    assert_int_equal(count_of(&n, "b").sessions, 0);
    ft_wire_client_destroy(new_a);
    ft_wire_client_destroy(new_d);
    net_stop(&n);
}

static void test_metrics(void **state)
{
    net n = net_start();
    ft_buf page = {0};
    const ft_msg_open fast = open_at(6);
    (void)state;
    expect_refused(n.a, &fast, FT_FORBIDDEN, "");
    ft_call *call = expect_open(n.a, 0, NULL);
    assert_int_equal(ft_keys_append(ft_server_verifier(n.server), &page), FT_OK);
    static const char *const lines[] = {
        "\nforetoken_key_sessions{key=\"a\"} 1\n",
        "\nforetoken_key_sessions{key=\"b\"} 0\n",
        "\nforetoken_key_sessions_opened_total{key=\"a\"} 1\n",
        "\nforetoken_key_opens_refused_total{key=\"a\",status=\"forbidden\"} 1\n",
        "\nforetoken_key_opens_refused_total{key=\"a\",status=\"exhausted\"} 0\n",
        "\nforetoken_key_opens_refused_total{key=\"c\",status=\"forbidden\"} 0\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(page.data, lines[i]))
            fail_msg("no %s in %s", lines[i], page.data);
    assert_null(strstr(page.data, "token-of"));
    ft_buf_deinit(&page);
    close_call(call);
    net_stop(&n);
}

static void test_one_or_the_other(void **state)
{
    net n = net_start();
    ft_error err = {0};
    ft_server *server = NULL;
    (void)state;
    const ft_server_opts opts = {
        .verifier = test_verifier_opts((ft_verifier_opts){.max_context = 256, .keys = n.keys}),
        .host = "127.0.0.1",
        .token = "one-for-everybody"};
    assert_int_equal(ft_server_create(&opts, &err, &server), FT_INVALID);
    assert_non_null(strstr(err.message, "not both"));
    assert_null(server);
    net_stop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who),
        cmocka_unit_test(test_speed),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_lost_sessions),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_one_or_the_other),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
