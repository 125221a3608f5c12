// SPDX-License-Identifier: Apache-2.0
// A raw HTTP client for tests. Owned by one thread.
#include "support/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/device.h"

bool http_client_open(http_client *c, int port)
{
    return http_client_open_from(c, port, 1);
}

bool http_client_open_from(http_client *c, int port, unsigned host)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct timeval limit = {.tv_sec = test_patience_s(60)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    *c = (http_client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .port = port};
    if (c->fd < 0)
        return false;
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return bind(c->fd, (struct sockaddr *)&from, sizeof from) == 0 &&
           connect(c->fd, (struct sockaddr *)&a, sizeof a) == 0;
}

void http_client_close(http_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    ft_buf_deinit(&c->in);
    c->fd = -1;
}

bool http_client_send(http_client *c, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(c->fd, data, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool http_client_puts(http_client *c, const char *text)
{
    return http_client_send(c, text, strlen(text));
}

bool http_client_request(http_client *c, const char *method, const char *path, const char *headers,
                         const char *body)
{
    ft_buf text = {0};
    ft_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s", method, path, c->port,
                  headers);
    if (body && !strcasestr(headers, "content-type:"))
        ft_buf_puts(&text, "Content-Type: application/json\r\n");
    if (body)
        ft_buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    ft_buf_puts(&text, "\r\n");
    if (body)
        ft_buf_puts(&text, body);
    bool ok = !text.failed && http_client_send(c, text.data, text.len);
    ft_buf_deinit(&text);
    return ok;
}

static bool receive(http_client *c)
{
    char block[16384];
    ssize_t n = recv(c->fd, block, sizeof block, 0);
    return n > 0 && ft_buf_append(&c->in, block, (size_t)n) == FT_OK;
}

bool http_client_read_until(http_client *c, const char *needle)
{
    size_t n = strlen(needle);
    while (!c->in.data || !memmem(c->in.data, c->in.len, needle, n))
        if (!receive(c))
            return false;
    return true;
}

bool http_client_at_end(http_client *c)
{
    char block[4096];
    ssize_t n;
    while ((n = recv(c->fd, block, sizeof block, 0)) > 0)
        if (ft_buf_append(&c->in, block, (size_t)n) != FT_OK)
            return false;
    return n == 0 || errno == ECONNRESET; /* it may have ended before it read all that was sent */
}

/* Moves n bytes of what is received, reading as needed, to the end of out. */
static bool move_bytes(http_client *c, size_t n, ft_buf *out)
{
    while (c->in.len < n)
        if (!receive(c))
            return false;
    if (out && ft_buf_append(out, c->in.data, n) != FT_OK)
        return false;
    ft_buf_shift(&c->in, n);
    return true;
}

static bool read_chunks(http_client *c, ft_buf *body)
{
    for (;;) {
        char *end;
        if (!http_client_read_until(c, "\r\n"))
            return false;
        size_t n = strtoul(c->in.data, &end, 16);
        if (end == c->in.data || end[0] != '\r')
            return false;
        size_t line = (size_t)(end - c->in.data) + 2;
        if (!move_bytes(c, line, NULL) || !move_bytes(c, n, body) || c->in.len > (size_t)1 << 30)
            return false;
        while (c->in.len < 2)
            if (!receive(c))
                return false;
        if (memcmp(c->in.data, "\r\n", 2) != 0 || !move_bytes(c, 2, NULL))
            return false;
        if (n == 0)
            return true;
    }
}

bool http_client_response(http_client *c, bool no_body, http_response *r)
{
    char value[64];
    *r = (http_response){0};
    if (!http_client_read_until(c, "\r\n\r\n"))
        return false;
    size_t head = (size_t)((char *)memmem(c->in.data, c->in.len, "\r\n\r\n", 4) - c->in.data) + 4;
    if (!move_bytes(c, head, &r->head) || sscanf(r->head.data, "HTTP/1.1 %d ", &r->status) != 1)
        return false;
    if (no_body || r->status == 204)
        return true;
    if (http_response_header(r, "Transfer-Encoding", value, sizeof value))
        return strcmp(value, "chunked") == 0 && read_chunks(c, &r->body);
    if (!http_response_header(r, "Content-Length", value, sizeof value))
        return false;
    return move_bytes(c, strtoul(value, NULL, 10), &r->body);
}

bool http_response_header(const http_response *r, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    for (const char *line = strstr(ft_buf_str(&r->head), "\r\n"); line && line[2];
         line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, n) != 0 || line[2 + n] != ':')
            continue;
        const char *value = line + 3 + n;
        value += strspn(value, " ");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\r"), value);
        return true;
    }
    return false;
}

void http_response_deinit(http_response *r)
{
    ft_buf_deinit(&r->head);
    ft_buf_deinit(&r->body);
}

int http_ask(int port, const char *method, const char *path, const char *headers, const char *body,
             http_response *r)
{
    http_client c;
    *r = (http_response){0};
    bool ok = http_client_open(&c, port) && http_client_request(&c, method, path, headers, body) &&
              http_client_response(&c, strcmp(method, "HEAD") == 0, r);
    http_client_close(&c);
    return ok ? r->status : 0;
}
