/* SPDX-License-Identifier: Apache-2.0
 *
 * One generation: a thread that runs the backend, and a bounded queue of response bytes between it
 * and the connection's thread. Internal to the room.
 *
 *   created --start--> running --backend returns--> finished --all bytes read--> drained
 *                         |
 *                         +--cancel--> running, cancelled --backend returns--> finished
 */
#ifndef FT_HTTP_GENERATION_H
#define FT_HTTP_GENERATION_H

#include <stddef.h>

#include "http/fail.h"
#include "http/openai.h"
#include "http/request.h"

/* A client that reads slower than the model writes holds at most about this much; then the model
 * waits. */
#define FT_HTTP_QUEUE_BYTES ((size_t)64 << 10)

typedef struct ft_http_generation ft_http_generation;

typedef enum ft_http_wait {
    FT_HTTP_WAIT_DATA,   /* bytes to read */
    FT_HTTP_WAIT_END,    /* all has been read */
    FT_HTTP_WAIT_FAILED, /* it failed and nothing was written: see ft_http_generation_fail */
    FT_HTTP_WAIT_GONE    /* cancelled, or the client hung up: it is cancelled now */
} ft_http_wait;

/* Takes parsed (heap, with its contents; also on failure). backend is borrowed and must outlive the
 * generation. FT_NOMEM, FT_IO. */
FT_WARN_UNUSED ft_status ft_http_generation_create(const ft_http_backend *backend,
                                                   ft_http_parsed *parsed,
                                                   ft_http_generation **out);
/* Cancels, waits for the backend to return, frees. Not while another thread uses it. */
void ft_http_generation_destroy(ft_http_generation *g);

/* Waits for bytes, the end, or the client's hang-up on socket_fd. One thread. */
ft_http_wait ft_http_generation_wait(ft_http_generation *g, int socket_fd);
/* Moves up to max bytes into out; returns how many. */
size_t ft_http_generation_read(ft_http_generation *g, char *out, size_t max);
/* Moves all bytes into out, which must be empty. */
void ft_http_generation_take(ft_http_generation *g, ft_buf *out);
/* After FT_HTTP_WAIT_FAILED. */
const ft_http_fail *ft_http_generation_fail(const ft_http_generation *g);
/* Any thread. */
void ft_http_generation_cancel(ft_http_generation *g);

#endif
