/* SPDX-License-Identifier: Apache-2.0
 *
 * One request and its answer: checks, routes, pages. Internal to the room. Owned by the
 * connection's thread.
 *
 *   create -> begin -> body ... -> end: answers -> destroy
 *               \--refused, and a body is still to come: answers, closes--/
 */
#ifndef FT_HTTP_EXCHANGE_H
#define FT_HTTP_EXCHANGE_H

#include <stdint.h>
#include <microhttpd.h>

#include "base/address.h"
#include "http/accept.h"
#include "http/conns.h"
#include "http/fail.h"
#include "http/generation.h"
#include "http/guard.h"
#include "http/openai.h"
#include "tls/cert.h"

struct ft_http {
    ft_http_backend backend;
    ft_http_guard guard;
    ft_networks proxies;
    ft_http_conns conns;
    ft_http_accept accept;
    struct MHD_Daemon *daemon;
    ft_tls_cert *tls; /* NULL: no TLS */
    ft_buf no_room;   /* what a refused connection is told */
    int port;
    size_t max_body_bytes;
    uint32_t request_timeout_s;
    uint32_t stall_timeout_s;
    uint32_t keep_alive_ms;
    int64_t started_s; /* since 1970 */
    ft_http_reasoning reasoning;
    bool no_page;
};

typedef struct ft_http_exchange ft_http_exchange;

/* The headers have come. NULL: out of memory. */
ft_http_exchange *ft_http_exchange_create(ft_http *http, ft_http_conn *conn,
                                          struct MHD_Connection *connection, const char *uri,
                                          const char *method);
/* The answer was sent, or the connection is closed. Cancels the generation and waits for it. */
void ft_http_exchange_destroy(ft_http_exchange *x);

/* Call it once after create. A request that is refused and has a body is answered at once. */
enum MHD_Result ft_http_exchange_begin(ft_http_exchange *x);
/* MHD_NO: end the connection. */
enum MHD_Result ft_http_exchange_body(ft_http_exchange *x, const char *data, size_t n);
/* The whole request has come: answers it. Waits for a generation that is not streamed. */
enum MHD_Result ft_http_exchange_end(ft_http_exchange *x);

#endif
