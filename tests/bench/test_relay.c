// SPDX-License-Identifier: Apache-2.0
// bench/load_relay: bytes come out as they went in, on several connections and of any size, not
// before their time; ends pass through; the relay stops with connections open.
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/bench.h"
#include "bench/load_relay.h"

#define DELAY_US 3000
#define LARGE    3000000 /* more than sockets hold */

static int listener;
static uint16_t port;
static pthread_t far_thread;

/* Sends back what comes, until the other end has said all. */
static void *echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char bytes[4096];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        for (ssize_t at = 0, m; at < n; at += m)
            if ((m = send(fd, bytes + at, (size_t)(n - at), MSG_NOSIGNAL)) <= 0)
                goto out;
out:
    close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, echo, (void *)(intptr_t)fd), 0);
        pthread_detach(thread);
    }
    return NULL;
}

static int set_up(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    return bind(listener, (struct sockaddr *)&at, size) != 0 || listen(listener, 8) != 0 ||
           getsockname(listener, (struct sockaddr *)&at, &size) != 0 ||
           !(port = ntohs(at.sin_port)) || pthread_create(&far_thread, NULL, accept_all, NULL) != 0;
}

static int tear_down(void **state)
{
    shutdown(listener, SHUT_RDWR);
    pthread_join(far_thread, NULL);
    close(listener);
    return 0;
}

static ft_bench_load_relay *relay_new(uint16_t *at)
{
    ft_bench_load_relay *relay;
    ft_error err;
    assert_int_equal(ft_bench_load_relay_start(port, &err, &relay, at), FT_OK);
    return relay;
}

static int connect_to(uint16_t to)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(to), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void get(int fd, uint8_t *out, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t got = recv(fd, out + at, n - at, 0);
        assert_true(got > 0);
        at += (size_t)got;
    }
}

/* One message there and back takes two delays and is one answer. */
static void test_delay(void **state)
{
    const ft_line_rate none = {0};
    uint16_t at;
    uint8_t back[6];
    ft_bench_load_relay *relay = relay_new(&at);
    int fd = connect_to(at);
    ft_bench_load_relay_slow_down(relay, DELAY_US, &none, &none);
    for (int i = 0; i < 3; i++) {
        const int64_t began = ft_bench_now_us();
        assert_int_equal(send(fd, "hello", 6, 0), 6);
        get(fd, back, 6);
        assert_string_equal((char *)back, "hello");
        assert_true(ft_bench_now_us() - began >= 2 * DELAY_US);
    }
    const ft_bench_load_relay_stats stats = ft_bench_load_relay_count(relay);
    assert_true(stats.answers == 3 && stats.to_bytes == 18 && stats.back_bytes == 18);
    close(fd);
    ft_bench_load_relay_stop(relay);
}

/* 1000 bytes over 1 Mbit/s take 8 ms. */
static void test_rate(void **state)
{
    const ft_line_rate slow = {.bits_per_s = {1e6}}, none = {0};
    uint8_t bytes[1000] = {1}, back[1000];
    uint16_t at;
    ft_bench_load_relay *relay = relay_new(&at);
    int fd = connect_to(at);
    ft_bench_load_relay_slow_down(relay, 0, &slow, &none);
    const int64_t began = ft_bench_now_us();
    assert_int_equal(send(fd, bytes, sizeof bytes, 0), sizeof bytes);
    get(fd, back, sizeof back);
    assert_true(ft_bench_now_us() - began >= 8000);
    assert_memory_equal(bytes, back, sizeof bytes);
    close(fd);
    ft_bench_load_relay_stop(relay);
}

typedef struct sender {
    int fd;
    const uint8_t *bytes;
} sender;

static void *send_all(void *arg)
{
    const sender *s = arg;
    for (size_t at = 0; at < LARGE;) {
        const ssize_t n = send(s->fd, s->bytes + at, LARGE - at, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    shutdown(s->fd, SHUT_WR);
    return NULL;
}

/* Large streams on two connections at once; the end of what is said comes through. */
static void test_bytes(void **state)
{
    const ft_line_rate none = {0};
    uint8_t *bytes = malloc(LARGE), *back = malloc(LARGE), one;
    uint16_t at;
    assert_true(bytes && back);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    ft_bench_load_relay *relay = relay_new(&at);
    ft_bench_load_relay_slow_down(relay, DELAY_US / 10, &none, &none);
    sender senders[2] = {{connect_to(at), bytes}, {connect_to(at), bytes}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    for (int i = 0; i < 2; i++) {
        get(senders[i].fd, back, LARGE);
        assert_memory_equal(bytes, back, LARGE);
        assert_int_equal(recv(senders[i].fd, &one, 1, 0), 0);
        pthread_join(threads[i], NULL);
        close(senders[i].fd);
    }
    ft_bench_load_relay_stop(relay);
    free(bytes);
    free(back);
}

/* It stops while a connection is open and bytes are under way; and one whose far end is gone. */
static void test_stop(void **state)
{
    const ft_line_rate none = {0};
    ft_error err;
    ft_bench_load_relay *relay;
    uint8_t byte = 1;
    uint16_t at, nowhere;
    relay = relay_new(&at);
    ft_bench_load_relay_slow_down(relay, DELAY_US, &none, &none);
    int fd = connect_to(at);
    assert_int_equal(send(fd, &byte, 1, 0), 1);
    ft_bench_load_relay_stop(relay);
    assert_true(recv(fd, &byte, 1, 0) <= 1); /* what was under way, or the end */
    close(fd);
    relay = relay_new(&nowhere);
    ft_bench_load_relay_stop(relay); /* nobody listens there now */
    assert_int_equal(ft_bench_load_relay_start(nowhere, &err, &relay, &at), FT_OK);
    fd = connect_to(at);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
    ft_bench_load_relay_stop(relay);
    ft_bench_load_relay_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
