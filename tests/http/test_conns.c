// SPDX-License-Identifier: Apache-2.0
// The list of connections and the generations by themselves, over socket pairs: deadlines, the
// limits, a client that hangs up, a reader that is slower than the model.
#include <poll.h>
#include <pthread.h>
#include <sched.h>
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

#include "base/cond.h"
#include "http/conns.h"
#include "http/generation.h"
#include "support/http_backend.h"

#define PREFILL "{\"prompt\":\"prefill\"}"
#define HOUR_MS 3600000
#define FLOOD   "{\"prompt\":\"flood\",\"stream\":true}"

static const ft_client_id alice = {.address = "127.0.0.1"}, bob = {.address = "127.0.0.2"};

static void init(ft_http_conns *conns, uint32_t max, uint32_t share)
{
    ft_error err = {0};
    assert_int_equal(ft_http_conns_init(conns, max, share, HOUR_MS, &err), FT_OK);
}

/* NULL: there is no room. */
static ft_http_conn *add_for(ft_http_conns *conns, const ft_client_id *client, int fd,
                             uint32_t timeout_s)
{
    const bool added = ft_http_conns_add(conns, fd, client, timeout_s);
    return added ? ft_http_conns_start(conns, fd) : NULL;
}

/* pair[0] is the server's end. */
static ft_http_conn *add(ft_http_conns *conns, int pair[2], uint32_t timeout_s)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ft_http_conn *conn = add_for(conns, &alice, pair[0], timeout_s);
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
    init(&conns, 8, 0);
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

/* One address has a quarter of the places for connections without a request; others find more. */
static void test_strangers(void **state)
{
    enum { SHARE = FT_HTTP_STRANGERS * FT_HTTP_STRANGERS_SHARE / 100 };
    ft_http_conns conns;
    ft_http_conn *c[SHARE];
    init(&conns, 8, 0);
    for (int i = 0; i < SHARE; i++) {
        c[i] = add_for(&conns, &bob, 0, 0);
        assert_non_null(c[i]);
    }
    assert_null(add_for(&conns, &bob, 0, 0));
    ft_http_conn *a = add_for(&conns, &alice, 0, 0);
    assert_non_null(a);
    ft_http_conns_remove(&conns, a);
    ft_http_conns_remove(&conns, c[0]);
    c[0] = add_for(&conns, &bob, 0, 0);
    assert_non_null(c[0]);
    for (int i = 0; i < SHARE; i++)
        ft_http_conns_remove(&conns, c[i]);
    ft_http_conns_deinit(&conns);
}

/* An accepted connection that never gets a thread: its descriptor belongs to others later. */
static void test_never_started(void **state)
{
    ft_http_conns conns;
    ft_http_conn *conn;
    int pair[2], later[2];
    char byte;
    init(&conns, 8, 0);
    assert_true(ft_http_conns_add(&conns, 5, &alice, 0));
    assert_true(ft_http_conns_add(&conns, 5, &alice, 0)); /* the first one is over */
    assert_int_equal(conns.quota[FT_HTTP_STRANGER].n, 1);
    conn = ft_http_conns_start(&conns, 5);
    assert_non_null(conn);
    assert_null(ft_http_conns_start(&conns, 5));
    ft_http_conns_remove(&conns, conn);
    /* too late: it is forgotten, and the descriptor is left alone */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_true(ft_http_conns_add(&conns, pair[0], &alice, 1));
    conn = add(&conns, later, 1);
    assert_int_equal(read(later[1], &byte, 1), 0);
    assert_null(ft_http_conns_start(&conns, pair[0]));
    assert_false(at_end(pair[1]));
    drop(&conns, conn, later);
    close(pair[0]);
    close(pair[1]);
    assert_true(ft_http_conns_add(&conns, 5, &alice, 0)); /* the end frees it */
    ft_http_conns_deinit(&conns);
}

/* Who has shown a key is counted for it, and has a share of other places. */
static void test_known(void **state)
{
    const ft_client_id team = {.tenant = "team", .address = "127.0.0.1"};
    ft_http_conns conns;
    ft_http_conn *c[4];
    ft_error err = {0};
    bool share;
    init(&conns, 3, 50);
    for (int i = 0; i < 4; i++)
        c[i] = add_for(&conns, &alice, 0, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ft_http_conns_know(&conns, c[i], &team, &err, &share), FT_OK);
    assert_int_equal(c[1]->standing, FT_HTTP_KNOWN);
    assert_int_equal(ft_http_conns_know(&conns, c[2], &team, &err, &share), FT_EXHAUSTED);
    assert_true(share);
    assert_int_equal(c[2]->standing, FT_HTTP_STRANGER);
    assert_int_equal(ft_http_conns_know(&conns, c[2], &bob, &err, &share), FT_OK);
    assert_int_equal(ft_http_conns_know(&conns, c[3], &alice, &err, &share), FT_EXHAUSTED);
    assert_false(share); /* all are taken */
    /* the next request on a connection is another client's */
    assert_int_equal(ft_http_conns_know(&conns, c[0], &bob, &err, &share), FT_OK);
    assert_int_equal(ft_http_conns_know(&conns, c[2], &team, &err, &share), FT_OK);
    for (int i = 0; i < 4; i++)
        ft_http_conns_remove(&conns, c[i]);
    assert_int_equal(conns.quota[FT_HTTP_STRANGER].n + conns.quota[FT_HTTP_KNOWN].n, 0);
    ft_http_conns_deinit(&conns);
}

typedef struct refusal {
    ft_http_conns *conns;
    ft_http_conn *conn;
    pthread_t thread;
} refusal;

static void *be_refused(void *arg)
{
    refusal *r = arg;
    ft_http_conns_refused(r->conns, r->conn, &r->conn->client, 1);
    return NULL;
}

static uint32_t n_late(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    const uint32_t n = conns->n_late;
    pthread_mutex_unlock(&conns->lock);
    return n;
}

/* Whose requests are refused too often waits for an hour here, and has no deadline meanwhile. That
 * the client hangs up changes nothing; others do not wait; a drain ends it. */
static void test_late_refusals(void **state)
{
    enum { LATE = 3 };
    ft_http_conns conns;
    refusal late[LATE];
    int pairs[LATE][2];
    init(&conns, 8, 0);
    for (int i = 0; i < LATE; i++)
        late[i] = (refusal){.conns = &conns, .conn = add(&conns, pairs[i], 60)};
    ft_http_conn *other = add_for(&conns, &bob, 0, 60);
    for (int i = 0; i < FT_HTTP_REFUSALS; i++)
        ft_http_conns_refused(&conns, late[0].conn, &alice, 1);
    for (int i = 0; i < LATE; i++)
        assert_int_equal(pthread_create(&late[i].thread, NULL, be_refused, &late[i]), 0);
    while (n_late(&conns) < LATE)
        sched_yield();
    shutdown(pairs[0][1], SHUT_RDWR);
    for (int i = 0; i < FT_HTTP_REFUSALS; i++)
        ft_http_conns_refused(&conns, other, &bob, 1);
    assert_int_equal(n_late(&conns), LATE);
    assert_true(late[0].conn->deadline_us == FT_NO_DEADLINE);
    ft_http_conns_drain(&conns, 0);
    for (int i = 0; i < LATE; i++) {
        pthread_join(late[i].thread, NULL);
        drop(&conns, late[i].conn, pairs[i]);
    }
    assert_int_equal(n_late(&conns), 0);
    ft_http_conns_remove(&conns, other);
    ft_http_conns_deinit(&conns);
}

static ft_http_generation *generate(const ft_http_backend *b, const char *body)
{
    ft_http_generation *g;
    ft_http_fail fail;
    const ft_http_ask ask = {
        .body = body,
        .n = strlen(body),
        .model = {.id = HTTP_BACKEND_MODEL, .text_bytes = HTTP_BACKEND_TEXT_BYTES},
        .keep_alive_ms = 600000};
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
        cmocka_unit_test(test_deadline),      cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_known),         cmocka_unit_test(test_never_started),
        cmocka_unit_test(test_late_refusals), cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_slow_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
