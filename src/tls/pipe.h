/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes bytes between TLS connections and local sockets, on one thread for all: so a library that
 * knows only plain sockets serves TLS. A pipe ends when either side does. What the local side wrote
 * before it ended still goes out, for at most five seconds.
 */
#ifndef FT_TLS_PIPE_H
#define FT_TLS_PIPE_H

#include "base/status.h"
#include "tls/conn.h"

typedef struct ft_tls_pipes ft_tls_pipes;

/* Starts the thread. FT_IO, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_tls_pipes_create(ft_error *err, ft_tls_pipes **out);
/* Waits for what is still to go out, as far as local sides have ended; ends all others. NULL is
 * legal. */
void ft_tls_pipes_destroy(ft_tls_pipes *pipes);
/* conn, whose handshake is over, on socket fd; local: a socket that does not block. On success the
 * pipe owns all three. Any thread. FT_NOMEM, FT_IO. */
FT_WARN_UNUSED ft_status ft_tls_pipes_add(ft_tls_pipes *pipes, ft_tls_conn *conn, int fd, int local,
                                          ft_error *err);

#endif
