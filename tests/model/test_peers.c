// SPDX-License-Identifier: Apache-2.0
// The servers of ggml's RPC, played by sockets of this process: whose connection has ended, and
// that a machine which vanishes is noticed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// clang-format off
#include <cmocka.h>
// clang-format on

#include "ggml.h"
#include "model/peers.h"
#include "support/caught_log.h"

enum { N = 3 };
#define LIMIT_MS 10000 /* then something is wrong */

static struct sockaddr_in address[N];
static char name[N][32];
static int listener[N], client[N], server[N];

static void connect_to(int i)
{
    client[i] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client[i], (const struct sockaddr *)&address[i], sizeof *address), 0);
    server[i] = accept(listener[i], NULL, NULL);
    assert_true(server[i] >= 0);
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        socklen_t size = sizeof address[i];
        address[i] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        listener[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener[i], (const struct sockaddr *)&address[i], size) != 0 ||
            listen(listener[i], 1) != 0 ||
            getsockname(listener[i], (struct sockaddr *)&address[i], &size) != 0)
            return -1;
        snprintf(name[i], sizeof name[i], "here:%d", ntohs(address[i].sin_port));
        const struct addrinfo found = {.ai_addr = (struct sockaddr *)&address[i],
                                       .ai_addrlen = sizeof address[i]};
        ft_peers_add(name[i], &found);
        ft_peers_add(name[i], &found); /* again: nothing new */
    }
    return 0;
}

/* Each test begins with connections to the first two servers. */
static int begin(void **state)
{
    (void)state;
    connect_to(0);
    connect_to(1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        close(client[i]);
        close(server[i]);
    }
    return 0;
}

static void expect_lost(size_t n, const char *names)
{
    char lost[256];
    assert_int_equal(ft_peers_lost(lost, sizeof lost), n);
    assert_string_equal(lost, names);
}

/* The server's end of it is over, and the client's side knows. */
static void lose(int i, bool reset)
{
    const struct linger at_once = {.l_onoff = 1};
    struct pollfd wait = {.fd = client[i], .events = POLLIN | POLLRDHUP};
    if (reset)
        setsockopt(server[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(server[i]);
    assert_int_equal(poll(&wait, 1, LIMIT_MS), 1);
}

static void test_none_lost(void **state)
{
    char all[128];
    (void)state;
    snprintf(all, sizeof all, "one of %s,%s,%s", name[0], name[1], name[2]);
    expect_lost(0, all);
}

static void test_ended(void **state)
{
    (void)state;
    lose(1, false);
    expect_lost(1, name[1]);
}

/* A connection that was reset has no address any more. */
static void test_reset(void **state)
{
    (void)state;
    ft_peers_watch();
    lose(0, true);
    expect_lost(1, name[0]);
}

static void test_both(void **state)
{
    char both[64];
    (void)state;
    ft_peers_watch();
    lose(0, true);
    lose(1, false);
    snprintf(both, sizeof both, "%s,%s", name[0], name[1]);
    expect_lost(2, both);
}

static int option(int fd, int level, int which)
{
    int value = -1;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(fd, level, which, &value, &size), 0);
    return value;
}

static void test_silence_ends(void **state)
{
    (void)state;
    ft_peers_watch();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(option(client[i], SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option(client[i], IPPROTO_TCP, TCP_KEEPIDLE), 5);
        assert_int_equal(option(client[i], IPPROTO_TCP, TCP_KEEPINTVL), 5);
        assert_int_equal(option(client[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 30000);
        assert_int_equal(option(server[i], SOL_SOCKET, SO_KEEPALIVE), 0); /* nobody's */
    }
}

/* What ggml calls when it gives up. */
static void abort_with(const char *message, char *said, size_t size)
{
    caught_log log;
    ft_aborts_tame();
    const ggml_abort_callback_t callback = ggml_set_abort_callback(NULL);
    caught_log_begin(&log);
    callback(message);
    caught_log_end(&log);
    ggml_set_abort_callback(callback);
    snprintf(said, size, "%s", strstr(log.text, "error engine: "));
}

static void test_said(void **state)
{
    char said[512], expected[512];
    (void)state;
    abort_with("x.c:1: no", said, sizeof said);
    assert_string_equal(said, "error engine: ggml: x.c:1: no\n");
    lose(1, false);
    abort_with("ggml-rpc.cpp:9: gone", said, sizeof said);
    snprintf(expected, sizeof expected,
             "error engine: rpc server lost: this process ends server=\"%s\" "
             "reason=\"ggml-rpc.cpp:9: gone\"\n",
             name[1]);
    assert_string_equal(said, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_none_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_ended, begin, end),
        cmocka_unit_test_setup_teardown(test_reset, begin, end),
        cmocka_unit_test_setup_teardown(test_both, begin, end),
        cmocka_unit_test_setup_teardown(test_silence_ends, begin, end),
        cmocka_unit_test_setup_teardown(test_said, begin, end)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
