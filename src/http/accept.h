/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop that accepts connections, in a thread of its own. libmicrohttpd's own loop asks again at
 * once, without a pause, while the process has no free descriptor, and refuses connections without
 * a word. Internal to the room.
 */
#ifndef FT_HTTP_ACCEPT_H
#define FT_HTTP_ACCEPT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/refused.h"
#include "base/status.h"

typedef struct ft_http_accept {
    int listener, wake; /* wake: an eventfd, written by stop */
    /* Takes a new connection's socket, in the loop's thread. False: the connection is refused. Then
     * the loop closes the socket, a little later. */
    bool (*take)(void *ctx, int fd, const struct sockaddr *from, socklen_t n);
    void *ctx;
    ft_refused refused;
    pthread_t thread;
    bool running;
} ft_http_accept;

/* Starts the loop; `take` and `ctx` are set, all else is zero. Takes the listening socket. FT_IO,
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_accept_start(ft_http_accept *accept, int listener, ft_error *err);
/* Ends the loop and closes the listening socket. Legal if it was never started. */
void ft_http_accept_stop(ft_http_accept *accept);

#endif
