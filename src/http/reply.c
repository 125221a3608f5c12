// SPDX-License-Identifier: Apache-2.0
// Responses. Each one says: do not guess my type, run nothing of mine, keep no copy, and (with
// Vary) that it depends on who asked. Access is granted to exactly the origin that asked and is
// allowed; there is no wildcard. No state.
#include "http/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool common_headers(struct MHD_Response *response, const ft_http_reply *reply)
{
    static const char *const fixed[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
        {"Vary", "Origin"},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        ok = ok && MHD_add_response_header(response, fixed[i][0], fixed[i][1]) == MHD_YES;
    if (reply->type)
        ok = ok && MHD_add_response_header(response, "Content-Type", reply->type) == MHD_YES;
    if (reply->origin)
        ok = ok && MHD_add_response_header(response, "Access-Control-Allow-Origin",
                                           reply->origin) == MHD_YES;
    if (reply->allow)
        ok = ok && MHD_add_response_header(response, "Allow", reply->allow) == MHD_YES;
    if (reply->close)
        ok = ok && MHD_add_response_header(response, "Connection", "close") == MHD_YES;
    return ok;
}

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status,
                             struct MHD_Response *response, bool ok)
{
    enum MHD_Result result = ok ? MHD_queue_response(connection, status, response) : MHD_NO;
    MHD_destroy_response(response);
    return result;
}

static struct MHD_Response *from_buf(ft_buf *body)
{
    size_t n = body ? body->len : 0;
    struct MHD_Response *response =
        n ? MHD_create_response_from_buffer(n, body->data, MHD_RESPMEM_MUST_FREE)
          : MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (body && !(response && n))
        ft_buf_deinit(body);
    if (body)
        *body = (ft_buf){0};
    return response;
}

enum MHD_Result ft_http_reply_send(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   ft_buf *body)
{
    struct MHD_Response *response = from_buf(body);
    if (!response)
        return MHD_NO;
    return queue(connection, reply->status, response, common_headers(response, reply));
}

enum MHD_Result ft_http_reply_fail(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   const ft_http_fail *fail)
{
    ft_http_reply own = *reply;
    ft_buf body = {0};
    own.status = (unsigned)fail->http;
    own.type = "application/json";
    struct MHD_Response *response =
        ft_http_fail_json(fail, &body) == FT_OK ? from_buf(&body) : NULL;
    if (!response) {
        ft_buf_deinit(&body);
        return MHD_NO;
    }
    bool ok = common_headers(response, &own);
    if (fail->http == 401)
        ok = ok && MHD_add_response_header(response, "WWW-Authenticate", "Bearer") == MHD_YES;
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%u", fail->retry_after_s > 0 ? fail->retry_after_s : 1);
    if (fail->http == 429 || fail->http == 503)
        ok = ok && MHD_add_response_header(response, "Retry-After", seconds) == MHD_YES;
    return queue(connection, own.status, response, ok);
}

/* The browser asks for these names; they are sent back only if they look like names. */
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
    struct MHD_Response *response = from_buf(NULL);
    if (!response)
        return MHD_NO;
    const char *names =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    const char *private_network = MHD_lookup_connection_value(
        connection, MHD_HEADER_KIND, "Access-Control-Request-Private-Network");
    if (!names || !are_header_names(names))
        names = "Authorization, Content-Type";
    const char *headers[][2] = {{"Access-Control-Allow-Methods", "GET, POST"},
                                {"Access-Control-Allow-Headers", names},
                                {"Access-Control-Max-Age", "600"}};
    bool ok = common_headers(response, reply);
    for (size_t i = 0; i < 3; i++)
        ok = ok && MHD_add_response_header(response, headers[i][0], headers[i][1]) == MHD_YES;
    if (private_network && strcmp(private_network, "true") == 0)
        ok = ok && MHD_add_response_header(response, "Access-Control-Allow-Private-Network",
                                           "true") == MHD_YES;
    return queue(connection, reply->status, response, ok);
}

enum MHD_Result ft_http_reply_stream(struct MHD_Connection *connection, const ft_http_reply *reply,
                                     MHD_ContentReaderCallback read, void *ctx)
{
    ft_http_reply own = *reply;
    own.type = "text/event-stream; charset=utf-8";
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read, ctx, NULL);
    if (!response)
        return MHD_NO;
    bool ok = common_headers(response, &own);
    /* nginx would gather the events otherwise */
    ok = ok && MHD_add_response_header(response, "X-Accel-Buffering", "no") == MHD_YES;
    return queue(connection, 200, response, ok);
}
