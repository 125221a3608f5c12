/* SPDX-License-Identifier: Apache-2.0
 *
 * One request and its answer: admission, routing, the pages. Internal to the room. Owned by the
 * connection's thread.
 *
 *   begin (headers there) --> body* --> end (answer queued) --> destroy (sent, or connection gone)
 *      \--refused while a body is still to come: answer queued, connection closes--/
 */
#ifndef FT_HTTP_EXCHANGE_H
#define FT_HTTP_EXCHANGE_H

#include <stdint.h>
#include <microhttpd.h>

#include "http/conns.h"
#include "http/fail.h"
#include "http/generation.h"
#include "http/guard.h"
#include "http/openai.h"

struct ft_http {
    ft_http_backend backend;
    ft_http_guard guard;
    ft_http_conns conns;
    struct MHD_Daemon *daemon;
    int port;
    size_t max_body_bytes;
    uint32_t request_timeout_s;
    uint32_t stall_timeout_s;
    int64_t started_s; /* since 1970 */
};

typedef struct ft_http_exchange ft_http_exchange;

/* The headers are there. NULL: out of memory. */
ft_http_exchange *ft_http_exchange_create(ft_http *http, ft_http_conn *conn,
                                          struct MHD_Connection *connection, const char *uri,
                                          const char *method);
/* Cancels what it generates and waits for it. */
void ft_http_exchange_destroy(ft_http_exchange *x);

/* Called once after create: answers early where the request is refused and has a body. */
enum MHD_Result ft_http_exchange_begin(ft_http_exchange *x);
/* MHD_NO: end the connection. */
enum MHD_Result ft_http_exchange_body(ft_http_exchange *x, const char *data, size_t n);
/* All is received: answers; a generation that is not streamed is waited for here. */
enum MHD_Result ft_http_exchange_end(ft_http_exchange *x);

#endif
