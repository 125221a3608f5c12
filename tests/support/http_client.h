/* SPDX-License-Identifier: Apache-2.0
 *
 * A raw HTTP/1.1 client for tests: sends exactly the bytes it is given and parses what comes back
 * strictly. Blocking, with a time limit on reads so that a test fails instead of hanging.
 */
#ifndef FT_TEST_HTTP_CLIENT_H
#define FT_TEST_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

typedef struct http_client {
    int fd;
    int port;
    ft_buf in; /* received, not yet parsed */
} http_client;

typedef struct http_response {
    int status;
    ft_buf head; /* status line and headers */
    ft_buf body; /* after chunked decoding */
} http_response;

bool http_client_open(http_client *c, int port);
/* From 127.0.0.`host`, so that the server sees another client. */
bool http_client_open_from(http_client *c, int port, unsigned host);
void http_client_close(http_client *c);
bool http_client_send(http_client *c, const char *data, size_t n);
bool http_client_puts(http_client *c, const char *text);

/* Sends a request with our own Host. headers: further lines, each with its "\r\n", or "". body:
 * NULL for none, else sent with Content-Length and, unless headers has one, a JSON Content-Type. */
bool http_client_request(http_client *c, const char *method, const char *path, const char *headers,
                         const char *body);
/* Reads until `needle` was received, from the start of what is not parsed. */
bool http_client_read_until(http_client *c, const char *needle);
/* Reads one response; no_body for HEAD. False: the connection ended or the response is
 * malformed. */
bool http_client_response(http_client *c, bool no_body, http_response *r);
/* True if the server ends the connection (anything still received is kept in `in`). */
bool http_client_at_end(http_client *c);

/* The value of a header, copied to out[size]; false where there is none. */
bool http_response_header(const http_response *r, const char *name, char *out, size_t size);
void http_response_deinit(http_response *r);

/* One request on a connection of its own; returns the status, 0 where none came. */
int http_ask(int port, const char *method, const char *path, const char *headers, const char *body,
             http_response *r);

#endif
