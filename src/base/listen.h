/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening sockets. Any thread.
 */
#ifndef FT_BASE_LISTEN_H
#define FT_BASE_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/status.h"

/* Listens on a TCP port; 0: any free one. host: a name or an address; "*": all addresses. The
 * caller closes *fd. FT_INVALID: no such host. FT_UNAVAILABLE: the port is taken or not allowed. On
 * failure *fd is -1. */
FT_WARN_UNUSED ft_status ft_listen(const char *host, int port, ft_error *err, int *fd);
/* Accepts a connection: its socket does not block and is closed on exec. < 0: none, and errno says
 * why. *starved: no descriptor or no memory is free, so the caller should wait a little; otherwise
 * the failure is about one connection, which is gone. */
int ft_listen_accept(int listener, struct sockaddr_storage *from, socklen_t *n, bool *starved);
#endif
