/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP port before a server that keeps what the first client sends. Its thread serves one
 * connection, to its end. */
#ifndef FT_TEST_TAP_H
#define FT_TEST_TAP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"

typedef struct tap {
    pthread_t thread;
    int listener, port, to_port;
    ft_buf sent; /* by the client */
} tap;

static inline struct sockaddr_in tap_address(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* Passes on what fd `from` has; false at its end. */
static inline bool tap_pass(int from, int to, ft_buf *keep)
{
    char data[4096];
    const ssize_t n = recv(from, data, sizeof data, 0);
    if (n <= 0 || send(to, data, (size_t)n, MSG_NOSIGNAL) != n)
        return false;
    return !keep || ft_buf_append(keep, data, (size_t)n) == FT_OK;
}

static inline void *tap_run(void *arg)
{
    tap *t = arg;
    const struct sockaddr_in to = tap_address(t->to_port);
    struct pollfd ends[2] = {{.fd = accept(t->listener, NULL, NULL), .events = POLLIN},
                             {.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN}};
    bool goes_on = connect(ends[1].fd, (const struct sockaddr *)&to, sizeof to) == 0;
    while (goes_on && poll(ends, 2, -1) > 0) {
        if (ends[0].revents)
            goes_on = tap_pass(ends[0].fd, ends[1].fd, &t->sent);
        if (goes_on && ends[1].revents)
            goes_on = tap_pass(ends[1].fd, ends[0].fd, NULL);
    }
    close(ends[0].fd);
    close(ends[1].fd);
    return NULL;
}

/* Listens on t->port. */
static inline void tap_start(tap *t, int to_port)
{
    struct sockaddr_in at = tap_address(0);
    socklen_t size = sizeof at;
    *t = (tap){.listener = socket(AF_INET, SOCK_STREAM, 0), .to_port = to_port};
    assert_int_equal(bind(t->listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(t->listener, 1), 0);
    assert_int_equal(getsockname(t->listener, (struct sockaddr *)&at, &size), 0);
    t->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&t->thread, NULL, tap_run, t), 0);
}

/* After the client has ended its connection. The caller frees t->sent. */
static inline void tap_wait(tap *t)
{
    pthread_join(t->thread, NULL);
    close(t->listener);
}

#endif
