// SPDX-License-Identifier: Apache-2.0
// Responses. The headers of each one say to a browser: do not guess the type, execute nothing of
// it, store nothing, and (Vary) other origins get other answers. Only an allowed origin gets
// access, by its name; there is no wildcard. No state.
#include "http/reply.h"

#include <stdio.h>
#include <string.h>

typedef const char *header[2]; /* name and value; without a value it is left out */

static bool add_headers(struct MHD_Response *response, const header *headers, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        if (headers[i][1])
            ok = MHD_add_response_header(response, headers[i][0], headers[i][1]) == MHD_YES;
    return ok;
}

/* Takes the response, which may be NULL. `more`: headers beside those of every response. */
static enum MHD_Result queue(struct MHD_Connection *connection, const ft_http_reply *reply,
                             struct MHD_Response *response, const header *more, size_t n_more)
{
    const header common[] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy",
         reply->csp ? reply->csp : "default-src 'none'; frame-ancestors 'none'"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
        {"Vary", "Origin"},
        {"Content-Type", reply->type},
        {"Access-Control-Allow-Origin", reply->origin},
        {"Allow", reply->allow},
        {"Connection", reply->close ? "close" : NULL},
    };
    enum MHD_Result result = MHD_NO;
    if (response && add_headers(response, common, sizeof common / sizeof *common) &&
        add_headers(response, more, n_more))
        result = MHD_queue_response(connection, reply->status, response);
    if (response)
        MHD_destroy_response(response);
    return result;
}

/* Takes the bytes. */
static struct MHD_Response *from_buf(ft_buf *body)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_FREE);
    if (!response)
        ft_buf_deinit(body);
    *body = (ft_buf){0};
    return response;
}

enum MHD_Result ft_http_reply_send(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   ft_buf *body)
{
    return queue(connection, reply, from_buf(body), NULL, 0);
}

enum MHD_Result ft_http_reply_page(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   const ft_http_page *page)
{
    static const header more[] = {{"Referrer-Policy", "no-referrer"},
                                  {"Cross-Origin-Opener-Policy", "same-origin"}};
    ft_http_reply own = *reply;
    own.status = MHD_HTTP_OK;
    own.type = "text/html; charset=utf-8";
    own.csp = page->csp;
    return queue(
        connection, &own,
        MHD_create_response_from_buffer(page->n, (void *)page->html, MHD_RESPMEM_PERSISTENT), more,
        sizeof more / sizeof *more);
}

enum MHD_Result ft_http_reply_fail(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   const ft_http_fail *fail)
{
    ft_http_reply own = *reply;
    ft_buf body = {0};
    char seconds[16];
    own.status = (unsigned)fail->http;
    own.type = "application/json";
    snprintf(seconds, sizeof seconds, "%u", fail->retry_after_s > 0 ? fail->retry_after_s : 1);
    const header more[] = {
        {"WWW-Authenticate", fail->http == 401 ? "Bearer" : NULL},
        {"Retry-After", fail->http == 429 || fail->http == 503 ? seconds : NULL}};
    const bool made =
        (reply->fail_json ? reply->fail_json : ft_http_fail_json)(fail, &body) == FT_OK;
    enum MHD_Result result = queue(connection, &own, made ? from_buf(&body) : NULL, more, 2);
    ft_buf_deinit(&body);
    return result;
}

/* Names that a browser asks for are sent back only if they look like names of headers. */
static bool are_header_names(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_, ";
    size_t n = strlen(text);
    return n > 0 && n <= 1024 && strspn(text, allowed) == n;
}

enum MHD_Result ft_http_reply_preflight(struct MHD_Connection *connection,
                                        const ft_http_reply *reply)
{
    const char *names =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    const char *private_network = MHD_lookup_connection_value(
        connection, MHD_HEADER_KIND, "Access-Control-Request-Private-Network");
    if (!names || !are_header_names(names))
        names = "Authorization, Content-Type";
    if (private_network && strcmp(private_network, "true") != 0)
        private_network = NULL;
    const header more[] = {{"Access-Control-Allow-Methods", "GET, POST"},
                           {"Access-Control-Allow-Headers", names},
                           {"Access-Control-Max-Age", "600"},
                           {"Access-Control-Allow-Private-Network", private_network}};
    return queue(connection, reply, from_buf(&(ft_buf){0}), more, sizeof more / sizeof *more);
}

enum MHD_Result ft_http_reply_stream(struct MHD_Connection *connection, const ft_http_reply *reply,
                                     MHD_ContentReaderCallback read, void *ctx)
{
    static const header more[] = {{"X-Accel-Buffering", "no"}}; /* nginx would gather events */
    ft_http_reply own = *reply;
    own.status = MHD_HTTP_OK;
    own.type = "text/event-stream; charset=utf-8";
    return queue(connection, &own,
                 MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read, ctx, NULL),
                 more, 1);
}
