// SPDX-License-Identifier: Apache-2.0
// The list of connections and the generations by themselves, over socket pairs: deadlines, the
// limit, a client that hangs up, a reader that is slower than the model.
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "http/conns.h"
#include "http/generation.h"
#include "support/http_backend.h"

#define PREFILL "{\"prompt\":\"prefill\"}"
#define FLOOD   "{\"prompt\":\"flood\",\"stream\":true}"

/* pair[0] is the server's end. */
static ft_http_conn *add(ft_http_conns *conns, int pair[2], uint32_t timeout_s)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ft_http_conn *conn = ft_http_conns_add(conns, pair[0], timeout_s);
    assert_non_null(conn);
    return conn;
}

static void drop(ft_http_conns *conns, ft_http_conn *conn, int pair[2])
{
    ft_http_conns_remove(conns, conn);
    close(pair[0]);
    close(pair[1]);
}

static bool at_end(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_deadline(void **state)
{
    ft_http_conns conns;
    int kept[2], late[2], lifted[2];
    char byte;
    assert_int_equal(ft_http_conns_init(&conns, 8), FT_OK);
    ft_http_conn *k = add(&conns, kept, 0);
    ft_http_conn *l = add(&conns, late, 60);
    ft_http_conn *f = add(&conns, lifted, 1);
    ft_http_conns_limit(&conns, f, 0);
    while (at_end(lifted[1])) { /* it took the machine a second to come so far: again */
        drop(&conns, f, lifted);
        f = add(&conns, lifted, 1);
        ft_http_conns_limit(&conns, f, 0);
    }
    ft_http_conns_limit(&conns, l, 1); /* earlier than what the thread sleeps for */
    assert_int_equal(read(late[1], &byte, 1), 0);
    assert_false(at_end(kept[1]));
    assert_false(at_end(lifted[1]));
    drop(&conns, l, late);
    drop(&conns, k, kept);
    drop(&conns, f, lifted);
    ft_http_conns_remove(&conns, NULL);
    ft_http_conns_deinit(&conns);
}

static void test_surplus(void **state)
{
    ft_http_conns conns;
    int pairs[4][2];
    assert_int_equal(ft_http_conns_init(&conns, 2), FT_OK);
    ft_http_conn *c[4];
    for (int i = 0; i < 3; i++) {
        c[i] = add(&conns, pairs[i], 60);
        assert_int_equal(c[i]->surplus, i == 2);
    }
    drop(&conns, c[1], pairs[1]);
    drop(&conns, c[2], pairs[2]);
    c[3] = add(&conns, pairs[3], 60);
    assert_false(c[3]->surplus);
    drop(&conns, c[3], pairs[3]);
    drop(&conns, c[0], pairs[0]);
    ft_http_conns_deinit(&conns);
}

static ft_http_generation *generate(const ft_http_backend *b, const char *body)
{
    ft_http_generation *g;
    ft_http_fail fail;
    const ft_http_ask ask = {
        .body = body, .n = strlen(body), .model = {HTTP_BACKEND_MODEL, HTTP_BACKEND_TEXT_BYTES}};
    assert_int_equal(ft_http_generation_create(b, &ask, &fail, &g), FT_OK);
    return g;
}

/* A client that has hung up is seen at once, before the generation began or while it runs. */
static void test_hang_up(void **state)
{
    http_backend backend;
    int pairs[2][2];
    http_backend_init(&backend);
    ft_http_backend b = http_backend_of(&backend);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]), 0);
        if (i == 1)
            close(pairs[i][1]);
        ft_http_generation *g = generate(&b, PREFILL);
        if (i == 0)
            close(pairs[i][1]);
        assert_int_equal(ft_http_generation_wait(g, pairs[i][0]), FT_HTTP_WAIT_GONE);
        ft_http_generation_destroy(g);
        close(pairs[i][0]);
    }
    assert_int_equal(backend.cancelled, 2);
    http_backend_deinit(&backend);
}

/* Of two equal generations one is read to its end; meanwhile the other, which nobody reads, must
 * stop after what the queue holds. */
static void test_slow_reader(void **state)
{
    enum { MIN_EVENT_BYTES = 150 };
    http_backend read, unread;
    int pair[2];
    char block[4096];
    size_t total = 0;
    http_backend_init(&read);
    http_backend_init(&unread);
    ft_http_backend b = http_backend_of(&read), u = http_backend_of(&unread);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ft_http_generation *g = generate(&u, FLOOD), *h = generate(&b, FLOOD);
    while (ft_http_generation_wait(h, pair[0]) == FT_HTTP_WAIT_DATA)
        total += ft_http_generation_read(h, block, sizeof block);
    assert_int_equal(ft_http_generation_wait(h, pair[0]), FT_HTTP_WAIT_END);
    assert_int_equal(http_backend_count(&read, &read.ticks), 20000);
    assert_true(total > (size_t)20000 * MIN_EVENT_BYTES);
    assert_true(http_backend_count(&unread, &unread.ticks) <=
                FT_HTTP_QUEUE_BYTES / MIN_EVENT_BYTES + 1);
    ft_http_generation_destroy(g);
    ft_http_generation_destroy(h);
    assert_int_equal(unread.cancelled, 1);
    assert_int_equal(read.cancelled, 0);
    close(pair[0]);
    close(pair[1]);
    http_backend_deinit(&read);
    http_backend_deinit(&unread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_surplus),
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_slow_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
