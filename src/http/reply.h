/* SPDX-License-Identifier: Apache-2.0
 *
 * Responses with the headers that every one of ours carries. Internal to the room.
 */
#ifndef FT_HTTP_REPLY_H
#define FT_HTTP_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/buf.h"
#include "http/fail.h"

typedef struct ft_http_reply {
    unsigned status;
    const char *type;   /* Content-Type; NULL: no content */
    const char *origin; /* the allowed Origin that asked, or NULL */
    const char *allow;  /* Allow, or NULL */
    bool close;         /* the connection ends after it */
} ft_http_reply;

/* Queues a response with the bytes of body, which it takes (also on failure; NULL: none). */
enum MHD_Result ft_http_reply_send(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   ft_buf *body);

/* Queues the error; reply's status and type are not read. */
enum MHD_Result ft_http_reply_fail(struct MHD_Connection *connection, const ft_http_reply *reply,
                                   const ft_http_fail *fail);

/* Queues an answer to a preflight from reply->origin, which is allowed. */
enum MHD_Result ft_http_reply_preflight(struct MHD_Connection *connection,
                                        const ft_http_reply *reply);

/* Queues a stream of server-sent events that read(ctx) provides. */
enum MHD_Result ft_http_reply_stream(struct MHD_Connection *connection, const ft_http_reply *reply,
                                     MHD_ContentReaderCallback read, void *ctx);

#endif
