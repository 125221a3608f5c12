/* SPDX-License-Identifier: Apache-2.0
 *
 * One generation: a worker thread runs the backend and writes the answer. The connection's thread
 * waits for the bytes of a stream and reads them, or for a whole answer. Internal to the room.
 */
#ifndef FT_HTTP_GENERATION_H
#define FT_HTTP_GENERATION_H

#include <stddef.h>

#include "http/dialect.h"
#include "http/fail.h"
#include "http/openai.h"

/* Bytes that were written and not read, at most, with the kernel's own records of them. When the
 * client reads more slowly than the model writes, the model waits. */
#define FT_HTTP_QUEUE_BYTES ((size_t)64 << 10)

typedef struct ft_http_generation ft_http_generation;

typedef enum ft_http_wait {
    FT_HTTP_WAIT_DATA,   /* there are bytes to read */
    FT_HTTP_WAIT_END,    /* all bytes were read; a whole answer can be taken */
    FT_HTTP_WAIT_FAILED, /* there is no answer, for the reason in ft_http_generation_fail */
    FT_HTTP_WAIT_GONE    /* the client has closed its connection: the generation is cancelled */
} ft_http_wait;

/* A request as it came. */
typedef struct ft_http_ask {
    const char *body; /* [n], borrowed during create */
    size_t n;
    bool chat;
    const ft_http_dialect *dialect; /* NULL: none, the body is as `chat` says */
    ft_http_model model;
    bool parts;                 /* ft_http_answer_init */
    bool reasoning_apart;       /* ft_chat */
    const ft_client_id *client; /* borrowed as long as the generation; may be NULL */
    uint32_t keep_alive_ms;     /* of silence in a stream, until it says a comment */
} ft_http_ask;

/* Parses the request and starts. The backend is borrowed and must outlive the generation. A failure
 * is in *fail. */
FT_WARN_UNUSED ft_status ft_http_generation_create(const ft_http_backend *backend,
                                                   const ft_http_ask *ask, ft_http_fail *fail,
                                                   ft_http_generation **out);
/* Whether the request asks for a stream. */
bool ft_http_generation_streams(const ft_http_generation *g);
/* Cancels, waits for the backend to return, frees. The connection's thread calls this and what
 * follows. */
void ft_http_generation_destroy(ft_http_generation *g);

/* Waits for bytes, for the end, or until the client closes socket_fd. A stream has bytes, a
 * comment, when nothing else came for keep_alive_ms; then an error is an event. */
ft_http_wait ft_http_generation_wait(ft_http_generation *g, int socket_fd);
/* After FT_HTTP_WAIT_DATA: moves up to max bytes into out; returns how many. */
size_t ft_http_generation_read(ft_http_generation *g, char *out, size_t max);
/* After FT_HTTP_WAIT_END of an answer that is no stream: moves it into *out, which was empty. */
void ft_http_generation_take(ft_http_generation *g, ft_buf *out);
/* After FT_HTTP_WAIT_FAILED. */
const ft_http_fail *ft_http_generation_fail(const ft_http_generation *g);

#endif
