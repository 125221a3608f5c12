/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that writes HTTP/2 by hand, from any address of the loopback network; in a header
 * because each test file that uses it is a program of its own. It counts the calls that the server
 * ends, and keeps what it received, in which trailers stand as text.
 */
#ifndef FT_TESTS_WIRE_HTTP2_H
#define FT_TESTS_WIRE_HTTP2_H

#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"

enum { H2_HEADERS = 1, H2_SETTINGS = 4, H2_PING = 6, H2_HEAD = 9 };
enum { H2_END_STREAM = 1, H2_ACK = 1, H2_END_HEADERS = 4 };

typedef struct h2 {
    int fd;
    uint32_t next_id;
    int ended;   /* calls whose trailers came */
    ft_buf text; /* all headers */
} h2;

static inline void h2_write(h2 *c, const void *data, size_t n)
{
    assert_int_equal(send(c->fd, data, n, MSG_NOSIGNAL), (ssize_t)n);
}

static inline void h2_frame(h2 *c, int type, int flags, uint32_t id, const void *data, size_t n)
{
    uint8_t frame[1024] = {0, (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type, (uint8_t)flags};
    const uint32_t wire_id = htonl(id);
    assert_true(n <= sizeof frame - H2_HEAD);
    memcpy(frame + 5, &wire_id, sizeof wire_id);
    if (n)
        memcpy(frame + H2_HEAD, data, n);
    h2_write(c, frame, H2_HEAD + n);
}

/* Connects a socket from this address, and says nothing yet. */
static inline void h2_use(h2 *c, int fd, const char *from, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    const struct timeval limit = {.tv_sec = LIMIT_S};
    *c = (h2){.fd = fd, .next_id = 1};
    assert_true(c->fd >= 0);
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(inet_pton(AF_INET, from, &a.sin_addr), 1);
    assert_int_equal(bind(c->fd, (struct sockaddr *)&a, sizeof a), 0);
    a.sin_port = htons((uint16_t)port);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &a.sin_addr), 1);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&a, sizeof a), 0);
}

static inline void h2_connect(h2 *c, const char *from, int port)
{
    h2_use(c, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), from, port);
}

/* All zeros are legal. */
static inline void h2_close(h2 *c)
{
    if (c->next_id)
        close(c->fd);
    c->next_id = 0;
    ft_buf_deinit(&c->text);
}

static inline void h2_hello(h2 *c)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    h2_write(c, preface, sizeof preface - 1);
    h2_frame(c, H2_SETTINGS, 0, 0, NULL, 0);
}

static inline void h2_open(h2 *c, const char *from, int port)
{
    h2_connect(c, from, port);
    h2_hello(c);
}

/* One header, spelled out. */
static inline size_t h2_header(uint8_t *at, const char *name, const char *value)
{
    const size_t n_name = strlen(name), n_value = strlen(value);
    assert_true(n_name < 127 && n_value < 127);
    at[0] = 0;
    at[1] = (uint8_t)n_name;
    memcpy(at + 2, name, n_name);
    at[2 + n_name] = (uint8_t)n_value;
    memcpy(at + 3 + n_name, value, n_value);
    return 3 + n_name + n_value;
}

/* Begins a call with a header that is there so many times, and sends no message. */
static inline void h2_call_with(h2 *c, const char *path, const char *name, const char *value,
                                unsigned times)
{
    uint8_t headers[512];
    size_t n = h2_header(headers, ":method", "POST");
    n += h2_header(headers + n, ":scheme", "http");
    n += h2_header(headers + n, ":path", path);
    n += h2_header(headers + n, ":authority", "test");
    n += h2_header(headers + n, "te", "trailers");
    n += h2_header(headers + n, "content-type", "application/grpc");
    for (unsigned i = 0; i < times; i++)
        n += h2_header(headers + n, name, value);
    h2_frame(c, H2_HEADERS, H2_END_HEADERS, c->next_id, headers, n);
    c->next_id += 2;
}

/* The same with the header once. name NULL: without it. */
static inline void h2_call(h2 *c, const char *path, const char *name, const char *value)
{
    h2_call_with(c, path, name, value, name ? 1 : 0);
}

static inline bool h2_read(h2 *c, uint8_t *out, size_t n)
{
    return n == 0 || recv(c->fd, out, n, MSG_WAITALL) == (ssize_t)n;
}

/* Reads one frame and answers pings. False: the connection is over. */
static inline bool h2_next(h2 *c)
{
    static uint8_t data[1 << 16];
    uint8_t head[H2_HEAD];
    if (!h2_read(c, head, sizeof head))
        return false;
    const size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    assert_true(n <= sizeof data);
    if (!h2_read(c, data, n))
        return false;
    if (head[3] == H2_PING && !(head[4] & H2_ACK))
        h2_frame(c, H2_PING, H2_ACK, 0, data, n);
    if (head[3] != H2_HEADERS)
        return true;
    c->ended += (head[4] & H2_END_STREAM) != 0;
    assert_int_equal(ft_buf_append(&c->text, data, n), FT_OK);
    return true;
}

/* Reads until the server has ended this many calls. */
static inline void h2_wait_ended(h2 *c, int n)
{
    while (c->ended < n)
        if (!h2_next(c))
            fail_msg("the connection ended after %d of %d calls", c->ended, n);
}

/* Reads until the server closes the connection. */
static inline void h2_wait_closed(h2 *c)
{
    while (h2_next(c)) {
    }
}

static inline void h2_expect(const h2 *c, const char *words)
{
    if (!c->text.data || !memmem(c->text.data, c->text.len, words, strlen(words)))
        fail_msg("'%s' was not said", words);
}

#endif
