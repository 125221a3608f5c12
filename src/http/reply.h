/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP responses, each with the headers that all of ours have. Internal to the room.
 */
#ifndef FT_HTTP_REPLY_H
#define FT_HTTP_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/buf.h"
#include "http/fail.h"
#include "http/page.h"

typedef struct ft_http_reply {
    unsigned status;
    const char *type;   /* Content-Type; NULL: no content */
    const char *origin; /* the request's Origin, if it is allowed; else NULL */
    const char *allow;  /* the value of Allow, or NULL */
    const char *csp;    /* Content-Security-Policy; NULL: nothing is allowed */
    bool close;         /* the connection is closed after it */
    /* How an error is written; NULL: as OpenAI. */
    ft_status (*fail_json)(const ft_http_fail *fail, ft_buf *out);
} ft_http_reply;

/* Queues a response. Takes the bytes of body, also on failure. */
enum MHD_Result ft_http_reply_send(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   ft_buf *body);

/* Queues a page, with status 200. */
enum MHD_Result ft_http_reply_page(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   const ft_http_page *page);

/* Queues the error. The status and type of `reply` are not used. */
enum MHD_Result ft_http_reply_fail(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   const ft_http_fail *fail);

/* Queues an answer to a preflight request of a browser from reply->origin. */
enum MHD_Result ft_http_reply_preflight(struct MHD_Connection *connection,
                                        const ft_http_reply *reply);

/* Queues a stream of server-sent events, whose bytes come from read(ctx). */
enum MHD_Result ft_http_reply_stream(struct MHD_Connection *connection, const ft_http_reply *reply,
                                     MHD_ContentReaderCallback read, void *ctx);

#endif
